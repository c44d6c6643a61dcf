//! The only room with SQL.
//!
//! What needs several statements on one snapshot, or more rights than the caller has, is a
//! function in `migrations/`; here are the calls, in Rust's types. Every call runs in a transaction
//! of its own, so that all of it works behind a pooler in transaction mode too.

pub mod connection;
mod error;
pub mod identifier;
mod ids;
pub mod migrate;
mod schema;

pub use error::DatabaseError;
pub use ids::{ClaimId, GroupId, MessageId, StreamId};
pub use schema::Schema;
