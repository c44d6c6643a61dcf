//! Retention: drops whole partitions of a log, and with them what belongs to their messages.
//!
//! [`run`] is one run of the job. Each of its steps is a short transaction that proves ownership
//! anew and gives up rather than make producers wait.

mod report;
mod run;

pub use report::{Behind, DroppedPartition, Report};
pub use run::{Request, preview, run};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Database, DatabaseError, StreamId};

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
        let mut transaction = self.database.begin().await?;
        let (id, report, at): (StreamId, Option<Json<serde_json::Value>>, i64) = sqlx::query_as(sql)
            .bind(name)
            .bind(self.owner)
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(RetainedStream {
            id,
            // A report in another form, perhaps of another release, counts as none.
            report: report.and_then(|report| serde_json::from_value(report.0).ok()),
            at: Timestamp::from_microsecond(at)
                .map_err(|_| DatabaseError::Protocol("its clock is out of range".into()))?,
        })
    }

    async fn ensure_partitions(&self, stream: StreamId) -> Result<i32, DatabaseError> {
        let sql = self.database.schema.sql("SELECT {schema}.ensure_partitions($1, 0)");
        let mut transaction = self.database.begin().await?;
        let made = sqlx::query_scalar(sql)
            .bind(stream)
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(made)
    }

    async fn close_current(&self, stream: StreamId) -> Result<bool, DatabaseError> {
        let sql = self
            .database
            .schema
            .sql("SELECT {schema}.close_current_partition($1, $2)");
        let mut transaction = self.database.begin().await?;
        let closed = sqlx::query_scalar(sql)
            .bind(stream)
            .bind(self.owner)
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(closed)
    }

    async fn drop_oldest(&self, stream: StreamId) -> Result<Attempt, DatabaseError> {
        type Row = (
            Option<String>,
            Option<i64>,
            Option<i64>,
            Option<i64>,
            Option<Json<Vec<Blocker>>>,
        );
        let sql = self
            .database
            .schema
            .sql("SELECT dropped, low, high, size_bytes, behind FROM {schema}.drop_oldest_partition($1, $2)");
        let mut transaction = self.database.begin().await?;
        let (name, low, high, size, behind): Row = sqlx::query_as(sql)
            .bind(stream)
            .bind(self.owner)
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(match (name, behind) {
            (Some(name), _) => Attempt::Dropped(DroppedPartition {
                name,
                low: low.unwrap_or_default(),
                high: high.unwrap_or_default(),
                size_bytes: size.unwrap_or_default(),
            }),
            (None, Some(Json(behind))) => Attempt::Blocked(behind),
            (None, None) => Attempt::NothingExpired,
        })
    }

    async fn expired(&self, stream: StreamId, limit: i64) -> Result<Vec<ExpiredPartition>, DatabaseError> {
        type Row = (String, i64, i64, i64, Option<Json<Vec<Blocker>>>);
        let sql = self
            .database
            .schema
            .sql("SELECT name, low, high, size_bytes, behind FROM {schema}.expired_partitions($1, $2, $3)");
        let mut transaction = self.database.begin().await?;
        let rows: Vec<Row> = sqlx::query_as(sql)
            .bind(stream)
            .bind(self.owner)
            .bind(limit)
            .fetch_all(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(rows
            .into_iter()
            .map(|(name, low, high, size_bytes, behind)| ExpiredPartition {
                partition: DroppedPartition {
                    name,
                    low,
                    high,
                    size_bytes,
                },
                behind: behind.map(|behind| behind.0).unwrap_or_default(),
            })
            .collect())
    }

    async fn sweep(&self, stream: StreamId, limit: i64) -> Result<i64, DatabaseError> {
        let sql = self.database.schema.sql("SELECT {schema}.sweep_dropped($1, $2, $3)");
        let mut transaction = self.database.begin().await?;
        let rows = sqlx::query_scalar(sql)
            .bind(stream)
            .bind(self.owner)
            .bind(limit)
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(rows)
    }

    async fn store(&self, stream: StreamId, report: &Report) -> Result<(), DatabaseError> {
        let sql = self
            .database
            .schema
            .sql("SELECT {schema}.store_retention_report($1, $2, $3)");
        let mut transaction = self.database.begin().await?;
        sqlx::query(sql)
            .bind(stream)
            .bind(self.owner)
            .bind(Json(report))
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(())
    }
}
