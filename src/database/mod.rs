//! The only room with SQL.
//!
//! What needs several statements on one snapshot, or more rights than the caller has, is a
//! function in `migrations/`; here are the calls, in Rust's types. Every call runs in a transaction
//! of its own, so that all of it works behind a pooler in transaction mode too.

mod call;
pub mod claims;
pub mod connection;
mod error;
pub mod exceptions;
pub mod groups;
pub mod identifier;
mod ids;
pub mod instances;
pub mod login;
pub mod message_log;
pub mod migrate;
pub mod ownership;
pub mod partitions;
pub mod publish;
pub mod retention;
mod schema;
pub mod statistics;
pub mod streams;

pub use call::CallError;
pub use error::DatabaseError;
pub use ids::{ClaimId, GroupId, MessageId, StreamId};
pub use schema::Schema;

use sqlx::PgPool;

/// One installation: a schema, and connections to the database that holds it.
#[derive(Clone, Debug)]
pub struct Database {
    /// Connections to the database.
    pub pool: PgPool,
    /// The schema that holds the installation.
    pub schema: Schema,
}
