//! Retention: drops whole partitions of a log, and with them what belongs to their messages.
//!
//! [`run`] is one run of the job. Each of its steps is a short transaction that proves ownership
//! anew and gives up rather than make producers wait.

mod report;
mod run;

pub use report::{Behind, DroppedPartition, Report};
pub use run::{Request, preview, run};

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Database, DatabaseError, StreamId};

/// How long each step of a call may take; dropping a large partition is quick, sweeping has a limit.
const LIMIT: Duration = Duration::from_secs(60);

/// A group that has not finished what is expired, as the database says it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Blocker {
    /// Name of the group.
    pub group: String,
    /// What it has not finished.
    pub reason: String,
}

/// A partition whose time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredPartition {
    /// The partition.
    pub partition: DroppedPartition,
    /// The groups that keep it from being dropped.
    pub behind: Vec<Blocker>,
}

/// What a try to drop the oldest partition came to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attempt {
    Dropped(DroppedPartition),
    Blocked(Vec<Blocker>),
    NothingExpired,
}

/// The stream that a job looks after.
struct RetainedStream {
    id: StreamId,
    report: Option<Report>,
    at: Timestamp,
}

/// The calls for one stream on behalf of one owner.
struct Calls<'a> {
    database: &'a Database,
    owner: Uuid,
}

impl Calls<'_> {
    async fn stream(&self, name: &str) -> Result<RetainedStream, DatabaseError> {
        let sql = self.database.schema.sql(
            "SELECT id, report, (extract(epoch from at) * 1000000)::bigint FROM {schema}.retention_stream($1, $2)",
        );
        let query = sqlx::query(sql).bind(name).bind(self.owner);
        let row = self.database.ask_one(LIMIT, query).await?;
        let report: Option<Json<serde_json::Value>> = row.try_get(1)?;
        Ok(RetainedStream {
            id: row.try_get(0)?,
            // A report in another form, perhaps of another release, counts as none.
            report: report.and_then(|report| serde_json::from_value(report.0).ok()),
            at: Timestamp::from_microsecond(row.try_get(2)?)
                .map_err(|_| DatabaseError::Protocol("its clock is out of range".into()))?,
        })
    }

    async fn close_current(&self, stream: StreamId) -> Result<bool, DatabaseError> {
        let sql = self
            .database
            .schema
            .sql("SELECT {schema}.close_current_partition($1, $2)");
        let query = sqlx::query(sql).bind(stream).bind(self.owner);
        Ok(self.database.ask_one(LIMIT, query).await?.try_get(0)?)
    }

    async fn drop_oldest(&self, stream: StreamId) -> Result<Attempt, DatabaseError> {
        let sql = self
            .database
            .schema
            .sql("SELECT dropped, low, high, size_bytes, behind FROM {schema}.drop_oldest_partition($1, $2)");
        let query = sqlx::query(sql).bind(stream).bind(self.owner);
        let row = self.database.ask_one(LIMIT, query).await?;
        let behind: Option<Json<Vec<Blocker>>> = row.try_get(4)?;
        Ok(match (row.try_get::<Option<String>, _>(0)?, behind) {
            (Some(_), _) => Attempt::Dropped(partition(&row)?),
            (None, Some(Json(behind))) => Attempt::Blocked(behind),
            (None, None) => Attempt::NothingExpired,
        })
    }

    async fn expired(&self, stream: StreamId, limit: i64) -> Result<Vec<ExpiredPartition>, DatabaseError> {
        let sql = self
            .database
            .schema
            .sql("SELECT name, low, high, size_bytes, behind FROM {schema}.expired_partitions($1, $2, $3)");
        let query = sqlx::query(sql).bind(stream).bind(self.owner).bind(limit);
        let rows = self.database.ask(LIMIT, query).await?;
        rows.iter()
            .map(|row| {
                let behind: Option<Json<Vec<Blocker>>> = row.try_get(4)?;
                Ok(ExpiredPartition {
                    partition: partition(row)?,
                    behind: behind.map(|behind| behind.0).unwrap_or_default(),
                })
            })
            .collect()
    }

    async fn sweep(&self, stream: StreamId, limit: i64) -> Result<i64, DatabaseError> {
        let sql = self.database.schema.sql("SELECT {schema}.sweep_dropped($1, $2, $3)");
        let query = sqlx::query(sql).bind(stream).bind(self.owner).bind(limit);
        Ok(self.database.ask_one(LIMIT, query).await?.try_get(0)?)
    }

    async fn store(&self, stream: StreamId, report: &Report) -> Result<(), DatabaseError> {
        let sql = self
            .database
            .schema
            .sql("SELECT {schema}.store_retention_report($1, $2, $3)");
        let query = sqlx::query(sql).bind(stream).bind(self.owner).bind(Json(report));
        self.database.ask(LIMIT, query).await?;
        Ok(())
    }
}

/// From the columns name, low, high and size.
fn partition(row: &PgRow) -> Result<DroppedPartition, sqlx::Error> {
    Ok(DroppedPartition {
        name: row.try_get(0)?,
        low: row.try_get(1)?,
        high: row.try_get(2)?,
        size_bytes: row.try_get(3)?,
    })
}
