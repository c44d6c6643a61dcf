//! Numbers: from the database to status, events and metrics.
//!
//! [`watch`] looks after one database. What is read goes into a [`model::Model`]; what the
//! resources should show is computed from that by [`status`], without a client, and written by one
//! bounded writer, which keeps quiet where nothing has changed.

mod agenda;
pub mod catalog;
pub mod metrics;
pub mod model;
mod pace;
mod poller;
pub mod status;
mod writer;

pub use agenda::{Action, Agenda};
pub use metrics::Metrics;
pub use pace::{Change, Pace};
pub use poller::{Watched, watch};
