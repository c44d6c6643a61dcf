//! One transaction whose end is always known: done, not done, or openly unknown.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor, Postgres};
use thiserror::Error;

use super::{Database, DatabaseError};

/// Why a call to the database gave no result.
#[derive(Debug, Error)]
pub enum CallError {
    /// Nothing was changed; the call may be made again as it was.
    #[error(transparent)]
    Failed(#[from] DatabaseError),
    /// The answer to COMMIT never came: it may have been carried out or not.
    #[error("whether the transaction was committed is unknown: {0}")]
    Unknown(DatabaseError),
}

impl CallError {
    /// The fault behind it.
    #[must_use]
    pub fn fault(&self) -> &DatabaseError {
        match self {
            Self::Failed(fault) | Self::Unknown(fault) => fault,
        }
    }
}

/// For calls that do no harm when they are made twice.
impl From<CallError> for DatabaseError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed(fault) | CallError::Unknown(fault) => fault,
        }
    }
}

/// A row whose column is not what was expected.
impl From<sqlx::Error> for CallError {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// An open transaction. Dropped before [`Call::commit`], it closes its connection, which rolls
/// back; so it may be abandoned at any point.
///
/// Every step has a time limit, since a connection to a server that vanished without a word gives
/// no error for many minutes. Statements are not kept prepared: another connection of a pooler in
/// transaction mode would not know them.
pub(crate) struct Call {
    connection: Option<PoolConnection<Postgres>>,
    limit: Duration,
}

impl Database {
    /// Opens a transaction each step of which may take up to `limit`.
    pub(crate) async fn call(&self, limit: Duration) -> Result<Call, CallError> {
        let connection = within(limit, self.pool.acquire()).await?;
        let mut call = Call {
            connection: Some(connection),
            limit,
        };
        call.simple("BEGIN").await?;
        Ok(call)
    }

    /// One statement in a transaction of its own, of which it does not matter whether it is made
    /// twice.
    pub(crate) async fn ask(
        &self,
        limit: Duration,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, DatabaseError> {
        let mut call = self.call(limit).await?;
        let rows = call.rows(query).await?;
        call.commit().await?;
        Ok(rows)
    }

    /// As [`Database::ask`], for a statement that returns one row.
    pub(crate) async fn ask_one(
        &self,
        limit: Duration,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<PgRow, DatabaseError> {
        let rows = self.ask(limit, query).await?;
        rows.into_iter()
            .next()
            .ok_or_else(|| DatabaseError::Protocol("no row".into()))
    }
}

impl Call {
    /// Runs a statement and returns its rows.
    pub(crate) async fn rows(&mut self, query: Query<'_, Postgres, PgArguments>) -> Result<Vec<PgRow>, CallError> {
        let limit = self.limit;
        let result = match self.connection.as_mut() {
            Some(connection) => within(limit, query.persistent(false).fetch_all(&mut **connection)).await,
            None => Err(ended()),
        };
        match result {
            Ok(rows) => Ok(rows),
            Err(fault) => Err(self.fail(fault).await),
        }
    }

    /// Runs a statement that returns one row.
    pub(crate) async fn row(&mut self, query: Query<'_, Postgres, PgArguments>) -> Result<PgRow, CallError> {
        match self.rows(query).await?.pop() {
            Some(row) => Ok(row),
            None => Err(CallError::Failed(DatabaseError::Protocol("no row".into()))),
        }
    }

    /// Commits and gives the connection back.
    pub(crate) async fn commit(mut self) -> Result<(), CallError> {
        match self.simple("COMMIT").await {
            Ok(()) => {
                self.connection = None;
                Ok(())
            }
            // The server itself says that it rolled back.
            Err(fault @ (DatabaseError::Locked | DatabaseError::Retry(_) | DatabaseError::Other(_))) => {
                Err(CallError::Failed(fault))
            }
            Err(fault) => Err(CallError::Unknown(fault)),
        }
    }

    async fn simple(&mut self, statement: &'static str) -> Result<(), DatabaseError> {
        match self.connection.as_mut() {
            Some(connection) => {
                let run = connection.execute(sqlx::raw_sql(AssertSqlSafe(statement)));
                within(self.limit, run).await.map(|_| ())
            }
            None => Err(ended()),
        }
    }

    /// Keeps the connection where only the statement was at fault. A server that has become
    /// read-only is left: the primary is elsewhere now.
    async fn fail(&mut self, fault: DatabaseError) -> CallError {
        let healthy = matches!(
            fault,
            DatabaseError::Fenced | DatabaseError::Locked | DatabaseError::Retry(_) | DatabaseError::Other(_)
        );
        if healthy && self.simple("ROLLBACK").await.is_ok() {
            self.connection = None;
        }
        CallError::Failed(fault)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

fn ended() -> DatabaseError {
    DatabaseError::Protocol("the transaction has ended".into())
}

/// `work`, or [`DatabaseError::Unreachable`] after `limit`.
async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, DatabaseError> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(DatabaseError::Unreachable("no answer within the time limit".into())),
    }
}
