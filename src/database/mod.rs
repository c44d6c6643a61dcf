//! The only room with SQL.
//!
//! What needs several statements on one snapshot, or more rights than the caller has, is a
//! function in `migrations/`; here are the calls, in Rust's types. Every call runs in a transaction
//! of its own, so that all of it works behind a pooler in transaction mode too.

pub mod connection;
mod error;
pub mod groups;
pub mod identifier;
mod ids;
pub mod migrate;
pub mod ownership;
mod schema;
pub mod statistics;
pub mod streams;

pub use error::DatabaseError;
pub use ids::{ClaimId, GroupId, MessageId, StreamId};
pub use schema::Schema;

use sqlx::{PgPool, Postgres, Transaction};

/// One installation: a schema, and connections to the database that holds it.
#[derive(Clone, Debug)]
pub struct Database {
    /// Connections to the database.
    pub pool: PgPool,
    /// The schema that holds the installation.
    pub schema: Schema,
}

impl Database {
    /// Opens a transaction.
    ///
    /// # Errors
    /// When no connection is to be had.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>, DatabaseError> {
        Ok(self.pool.begin().await?)
    }
}
