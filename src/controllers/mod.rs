//! From a resource to what it asks for, in named steps:
//! dereference -> validate -> desired -> apply -> observe -> status.
//!
//! Only `dereference`, `apply`, `observe` and `status` hold a client or a pool; `validate` and
//! `desired` are pure. Status is written when a step fails too.

mod apply;
mod consumer_group;
mod context;
mod databases;
mod error;
mod manager;
mod metrics;
mod names;
mod pods;
mod reconcile;
mod requeue;
mod status;
mod stream;
mod stream_database;

pub use context::Image;
pub use manager::{Manager, ManagerError, cluster_id};
