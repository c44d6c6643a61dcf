//! Consumer groups as rows: provisioned, released, dropped.

use std::time::Duration;

use sqlx::{FromRow, Row};
use uuid::Uuid;

use super::call::Call;
use super::ownership::{Owner, OwnerColumns, may_own};
use super::streams::{LIMIT, ProvisionError};
use super::{Database, DatabaseError, GroupId, MessageId, StreamId};
use crate::api::Adoption;

/// How often, and after which pause, to look whether transactions that publish have ended.
const PUBLISHERS_LOOKS: u32 = 50;
const PUBLISHERS_PAUSE: Duration = Duration::from_millis(50);

/// The first message that a new group is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartPosition {
    /// The oldest that is kept.
    Beginning,
    /// The first that is published after the group was created.
    Latest,
    /// The one with this id, or the next.
    Message(MessageId),
    /// The first that was published at or after this time, in microseconds since 1970.
    Time(i64),
}

/// What a ConsumerGroup resource asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupRequest {
    /// Stream of the group.
    pub stream: StreamId,
    /// Name of the group, unique in its stream.
    pub name: String,
    /// The resource that asks.
    pub owner: Owner,
    /// What to do when the group is there without an owner.
    pub adoption: Adoption,
    /// A lost owner from whom the group may be taken.
    pub take_over_from: Option<Uuid>,
    /// Where a new group starts; of no account for one that exists.
    pub start: StartPosition,
    /// What people at psql may want to know of the group; nothing acts on it.
    pub settings: serde_json::Value,
}

#[derive(FromRow)]
struct GroupRow {
    id: GroupId,
    #[sqlx(flatten)]
    owner: OwnerColumns,
}

impl Database {
    /// Makes the group as asked, after proof of ownership in the same transaction.
    ///
    /// # Errors
    /// See [`ProvisionError`]; nothing is changed then.
    pub async fn provision_group(&self, request: &GroupRequest) -> Result<GroupId, ProvisionError> {
        let mut call = self.call(LIMIT).await?;
        let row = match self.lock_group(&mut call, request.stream, &request.name).await? {
            Some(row) => row,
            None => self.insert_group(&mut call, request).await?,
        };
        may_own(
            row.owner.owner().as_ref(),
            &request.owner,
            request.adoption,
            request.take_over_from,
        )?;
        call.rows(
            sqlx::query(self.schema.sql(
                "UPDATE {schema}.consumer_group_config \
             SET owner_uid = $2, owner_ref = $3, cluster_id = $4, settings = $5 \
             WHERE id = $1 AND (owner_uid, owner_ref, cluster_id, settings) IS DISTINCT FROM ($2, $3, $4, $5)",
            ))
            .bind(row.id)
            .bind(request.owner.uid)
            .bind(&request.owner.reference)
            .bind(&request.owner.cluster_id)
            .bind(&request.settings),
        )
        .await?;
        call.commit().await?;
        Ok(row.id)
    }

    /// Gives the group up without touching its data. Nothing happens where `owner` does not own it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn release_group(&self, stream: &str, name: &str, owner: &Owner) -> Result<(), DatabaseError> {
        let mut call = self.call(LIMIT).await?;
        call.rows(
            sqlx::query(self.schema.sql(
                "UPDATE {schema}.consumer_group_config g SET owner_uid = NULL, owner_ref = NULL, cluster_id = NULL \
             FROM {schema}.stream_config s \
             WHERE s.id = g.stream_id AND s.name = $1 AND g.name = $2 AND g.owner_uid = $3 AND g.cluster_id = $4",
            ))
            .bind(stream)
            .bind(name)
            .bind(owner.uid)
            .bind(&owner.cluster_id),
        )
        .await?;
        call.commit().await?;
        Ok(())
    }

    /// Forgets the group: its position, its exceptions and its dead letters. Nothing happens where
    /// `owner` does not own it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn drop_group(&self, stream: &str, name: &str, owner: &Owner) -> Result<(), DatabaseError> {
        let mut call = self.call(LIMIT).await?;
        call.rows(
            sqlx::query(self.schema.sql(
                "SELECT {schema}.drop_group_rows(g.id) FROM ( \
                 SELECT g.id FROM {schema}.consumer_group_config g JOIN {schema}.stream_config s ON s.id = g.stream_id \
                 WHERE s.name = $1 AND g.name = $2 AND g.owner_uid = $3 AND g.cluster_id = $4 FOR UPDATE OF g) AS g",
            ))
            .bind(stream)
            .bind(name)
            .bind(owner.uid)
            .bind(&owner.cluster_id),
        )
        .await?;
        call.commit().await?;
        Ok(())
    }

    async fn lock_group(
        &self,
        call: &mut Call,
        stream: StreamId,
        name: &str,
    ) -> Result<Option<GroupRow>, DatabaseError> {
        let rows = call
            .rows(
                sqlx::query(self.schema.sql(
                    "SELECT id, owner_uid, owner_ref, cluster_id \
             FROM {schema}.consumer_group_config WHERE stream_id = $1 AND name = $2 FOR NO KEY UPDATE",
                ))
                .bind(stream)
                .bind(name),
            )
            .await?;
        Ok(rows.first().map(FromRow::from_row).transpose()?)
    }

    async fn insert_group(&self, call: &mut Call, request: &GroupRequest) -> Result<GroupRow, ProvisionError> {
        let position = self.start_position(call, request.stream, request.start).await?;
        call.rows(sqlx::query(self.schema.sql(
            "INSERT INTO {schema}.consumer_group_config (stream_id, name, owner_uid, owner_ref, cluster_id, start_position) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (stream_id, name) DO NOTHING",
        ))
        .bind(request.stream)
        .bind(&request.name)
        .bind(request.owner.uid)
        .bind(&request.owner.reference)
        .bind(&request.owner.cluster_id)
        .bind(position)).await?;
        let row = self.lock_group(call, request.stream, &request.name).await?;
        Ok(row.ok_or_else(|| DatabaseError::Retry("the group was dropped meanwhile".into()))?)
    }

    /// The id after which a new group starts. Ids grow with the time of publishing, but a message
    /// can become visible later than one with a greater id; none that the group is to be given may
    /// be left out for that.
    async fn start_position(
        &self,
        call: &mut Call,
        stream: StreamId,
        start: StartPosition,
    ) -> Result<i64, ProvisionError> {
        match start {
            StartPosition::Beginning => Ok(0),
            StartPosition::Message(id) => Ok((id.0 - 1).max(0)),
            StartPosition::Time(micros) => {
                let sql = self.schema.stream_sql(
                    stream,
                    "SELECT coalesce((SELECT id FROM {schema}.message_log_{stream} \
                     WHERE created_at < to_timestamp($1::float8 / 1000000) ORDER BY id DESC LIMIT 1), 0)",
                );
                Ok(call
                    .row(sqlx::query(sql).bind(micros))
                    .await?
                    .try_get(0)
                    .map_err(DatabaseError::from)?)
            }
            StartPosition::Latest => self.final_position(call, stream).await,
        }
    }

    /// The id up to which the log is final, once all that publish now have ended.
    async fn final_position(&self, call: &mut Call, stream: StreamId) -> Result<i64, ProvisionError> {
        let mut known: (i64, Option<i64>, Option<Vec<String>>) = (0, None, None);
        for _ in 0..PUBLISHERS_LOOKS {
            let sql = self
                .schema
                .sql("SELECT final, candidate, names FROM {schema}.fence($1, $2, $3, $4)");
            let row = call
                .row(sqlx::query(sql).bind(stream).bind(known.0).bind(known.1).bind(known.2))
                .await?;
            known = <(i64, Option<i64>, Option<Vec<String>>)>::from_row(&row).map_err(DatabaseError::from)?;
            // What came after the first look is published after the group was asked for.
            if known.1.is_none() || known.0 > 0 {
                return Ok(known.0);
            }
            tokio::time::sleep(PUBLISHERS_PAUSE).await;
        }
        Err(ProvisionError::PublishersOpen)
    }
}
