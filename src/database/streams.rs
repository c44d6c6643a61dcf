//! Streams as rows and tables: provisioned, released, dropped.

use std::time::Duration;

use sqlx::{FromRow, Row};
use thiserror::Error;
use uuid::Uuid;

use super::call::{Call, CallError};
use super::ownership::{NotOwned, Owner, OwnerColumns, may_own};
use super::retention::Report;
use super::{Database, DatabaseError, StreamId};
use crate::api::Adoption;

/// How long one step of provisioning may take.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// What a Stream resource asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRequest {
    /// Name of the stream, unique in the installation.
    pub name: String,
    /// The resource that asks.
    pub owner: Owner,
    /// What to do when the stream is there without an owner.
    pub adoption: Adoption,
    /// A lost owner from whom the stream may be taken.
    pub take_over_from: Option<Uuid>,
    /// Ids in a partition.
    pub partition_size: i64,
    /// Age in seconds at which messages may be dropped; `None` keeps them for ever.
    pub retention_ttl_seconds: Option<i64>,
    /// Whether messages are dropped that a group has not finished.
    pub drop_unconsumed: bool,
    /// How many seconds an idempotency key is remembered.
    pub idempotency_key_ttl_seconds: i64,
}

/// A stream as Postgres knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProvisionedStream {
    /// The number in the names of its tables.
    pub id: StreamId,
    /// New whenever a stream is created, also under an old name.
    pub uid: Uuid,
    /// What the last retention run reported.
    pub retention_report: Option<Report>,
}

/// Why a stream or a group is not provisioned.
#[derive(Debug, Error)]
pub enum ProvisionError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// It belongs to somebody else.
    #[error(transparent)]
    NotOwned(#[from] NotOwned),
    /// A group that starts with what is published from now on cannot tell yet what that is.
    #[error(
        "startFrom Latest waits for the transactions that are publishing to the stream right now; one of them is open for long: \
         see pg_stat_activity, or start from a message or a time"
    )]
    PublishersOpen,
    /// An adopted stream is cut otherwise.
    #[error("the stream exists with partitionSize {found}; a resource that adopts it must ask for the same")]
    PartitionSize {
        /// The size that it was created with.
        found: i64,
    },
}

impl From<CallError> for ProvisionError {
    fn from(error: CallError) -> Self {
        Self::Database(error.into())
    }
}

#[derive(FromRow)]
struct StreamRow {
    id: StreamId,
    uid: Uuid,
    partition_size: i64,
    #[sqlx(json(nullable))]
    retention_report: Option<Report>,
    #[sqlx(flatten)]
    owner: OwnerColumns,
}

impl Database {
    /// Makes the stream as asked, or as much of it as is missing, after proof of ownership in the
    /// same transaction.
    ///
    /// # Errors
    /// See [`ProvisionError`]; nothing is changed then.
    pub async fn provision_stream(&self, request: &StreamRequest) -> Result<ProvisionedStream, ProvisionError> {
        let mut call = self.call(LIMIT).await?;
        let row = match self.lock_stream(&mut call, &request.name).await? {
            Some(row) => row,
            None => self.insert_stream(&mut call, request).await?,
        };
        may_own(
            row.owner.owner().as_ref(),
            &request.owner,
            request.adoption,
            request.take_over_from,
        )?;
        if row.partition_size != request.partition_size {
            return Err(ProvisionError::PartitionSize {
                found: row.partition_size,
            });
        }
        call.rows(
            sqlx::query(self.schema.sql(
                "UPDATE {schema}.stream_config \
             SET owner_uid = $2, owner_ref = $3, cluster_id = $4, \
                 retention_ttl_seconds = $5, drop_unconsumed = $6, idempotency_key_ttl_seconds = $7 \
             WHERE id = $1 AND (owner_uid, owner_ref, cluster_id, retention_ttl_seconds, drop_unconsumed, \
                 idempotency_key_ttl_seconds) IS DISTINCT FROM ($2, $3, $4, $5, $6, $7)",
            ))
            .bind(row.id)
            .bind(request.owner.uid)
            .bind(&request.owner.reference)
            .bind(&request.owner.cluster_id)
            .bind(request.retention_ttl_seconds)
            .bind(request.drop_unconsumed)
            .bind(request.idempotency_key_ttl_seconds),
        )
        .await?;
        call.rows(sqlx::query(self.schema.sql("SELECT {schema}.create_stream_tables($1)")).bind(row.id))
            .await?;
        call.commit().await?;
        Ok(ProvisionedStream {
            id: row.id,
            uid: row.uid,
            retention_report: row.retention_report,
        })
    }

    /// The number of the stream if it belongs to the resource with this UID.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn owned_stream(&self, name: &str, owner_uid: Uuid) -> Result<Option<StreamId>, DatabaseError> {
        let mut call = self.call(LIMIT).await?;
        let rows = call
            .rows(
                sqlx::query(
                    self.schema
                        .sql("SELECT id FROM {schema}.stream_config WHERE name = $1 AND owner_uid = $2"),
                )
                .bind(name)
                .bind(owner_uid),
            )
            .await?;
        let id = rows.first().map(|row| row.try_get(0)).transpose()?;
        call.commit().await?;
        Ok(id)
    }

    /// Gives the stream up without touching its data. Nothing happens where `owner` does not own it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn release_stream(&self, name: &str, owner: &Owner) -> Result<(), DatabaseError> {
        let mut call = self.call(LIMIT).await?;
        call.rows(
            sqlx::query(self.schema.sql(
                "UPDATE {schema}.stream_config SET owner_uid = NULL, owner_ref = NULL, cluster_id = NULL \
             WHERE name = $1 AND owner_uid = $2 AND cluster_id = $3",
            ))
            .bind(name)
            .bind(owner.uid)
            .bind(&owner.cluster_id),
        )
        .await?;
        call.commit().await?;
        Ok(())
    }

    /// Drops the stream with all its groups and messages. Nothing happens where `owner` does not
    /// own it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn drop_stream(&self, name: &str, owner: &Owner) -> Result<(), DatabaseError> {
        let mut call = self.call(LIMIT).await?;
        if let Some(row) = self.lock_stream(&mut call, name).await? {
            let id = row.id;
            if row
                .owner
                .owner()
                .is_some_and(|current| current.uid == owner.uid && current.cluster_id == owner.cluster_id)
            {
                call.rows(sqlx::query(self.schema.sql("SELECT {schema}.drop_stream_tables($1)")).bind(id))
                    .await?;
            }
        }
        call.commit().await?;
        Ok(())
    }

    /// How many streams the installation has, those without an owner included.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn count_streams(&self) -> Result<i64, DatabaseError> {
        let query = sqlx::query(self.schema.sql("SELECT count(*) FROM {schema}.stream_config"));
        Ok(self.ask_one(LIMIT, query).await?.try_get(0)?)
    }

    async fn lock_stream(&self, call: &mut Call, name: &str) -> Result<Option<StreamRow>, DatabaseError> {
        let rows = call
            .rows(
                sqlx::query(self.schema.sql(
                    "SELECT id, uid, partition_size, retention_report, owner_uid, owner_ref, cluster_id \
             FROM {schema}.stream_config WHERE name = $1 FOR NO KEY UPDATE",
                ))
                .bind(name),
            )
            .await?;
        Ok(rows.first().map(FromRow::from_row).transpose()?)
    }

    /// Inserts the row, owned by the request; where another was faster, the row of that one.
    async fn insert_stream(&self, call: &mut Call, request: &StreamRequest) -> Result<StreamRow, DatabaseError> {
        call.rows(
            sqlx::query(self.schema.sql(
                "INSERT INTO {schema}.stream_config (name, owner_uid, owner_ref, cluster_id, partition_size) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING",
            ))
            .bind(&request.name)
            .bind(request.owner.uid)
            .bind(&request.owner.reference)
            .bind(&request.owner.cluster_id)
            .bind(request.partition_size),
        )
        .await?;
        let row = self.lock_stream(call, &request.name).await?;
        row.ok_or_else(|| DatabaseError::Retry("the stream was dropped meanwhile".into()))
    }
}
