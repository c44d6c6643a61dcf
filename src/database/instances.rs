//! Worker instances: each has one lease, under which it holds claims and exceptions.

use std::fmt;
use std::time::Duration;

use sqlx::{FromRow, Row};
use uuid::Uuid;

use super::call::CallError;
use super::{ClaimId, Database, GroupId, StreamId};

/// How long one step of a call may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What a worker is started for: the rows that its names stand for.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct Assignment {
    /// The stream.
    pub stream: StreamId,
    /// Its uid, new whenever a stream of this name is created.
    pub stream_uid: Uuid,
    /// The group.
    pub group: GroupId,
}

/// What the names that a worker was given lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Both are there.
    Found(Assignment),
    /// There is no such stream yet.
    NoStream,
    /// The stream has no such group yet.
    NoGroup,
}

/// A registered worker process. Everything it does ends with [`super::DatabaseError::Fenced`] once
/// another worker has found its lease expired.
#[derive(Clone, Debug)]
pub struct Instance {
    pub(crate) database: Database,
    pub(crate) stream: StreamId,
    pub(crate) stream_uid: Uuid,
    pub(crate) group: GroupId,
    pub(crate) id: Uuid,
}

/// A range of ids that an instance has claimed and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub struct Claim {
    /// Its number.
    pub id: ClaimId,
    /// The first id.
    pub low: i64,
    /// The last id, which may be beyond the last message.
    pub high: i64,
    /// 0 for the first claim of these ids, greater for each further one.
    pub takeover: i32,
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl Database {
    /// Looks up a stream and one of its groups by name.
    ///
    /// # Errors
    /// When the database does not answer as it should.
    pub async fn look_up(&self, stream: &str, group: &str) -> Result<Lookup, CallError> {
        let mut call = self.call(LIMIT).await?;
        let query = self.schema.sql(
            "SELECT s.id AS stream, s.uid AS stream_uid, g.id AS \"group\" \
             FROM {schema}.stream_config s \
             LEFT JOIN {schema}.consumer_group_config g ON g.stream_id = s.id AND g.name = $2 \
             WHERE s.name = $1",
        );
        let rows = call.rows(sqlx::query(query).bind(stream).bind(group)).await?;
        call.commit().await?;
        match rows.first() {
            None => Ok(Lookup::NoStream),
            Some(row) if row.try_get::<Option<GroupId>, _>("group")?.is_none() => Ok(Lookup::NoGroup),
            Some(row) => Ok(Lookup::Found(Assignment::from_row(row)?)),
        }
    }

    /// Registers a worker process under `name`, with a lease that begins now.
    ///
    /// # Errors
    /// When the database does not answer as it should.
    pub async fn register(&self, assignment: &Assignment, name: &str, lease: Duration) -> Result<Instance, CallError> {
        let mut call = self.call(LIMIT).await?;
        let query = self.schema.sql("SELECT {schema}.register_instance($1, $2, $3, $4)");
        let query = sqlx::query(query)
            .bind(assignment.stream)
            .bind(assignment.group)
            .bind(name)
            .bind(lease.as_secs_f64());
        let id = call.row(query).await?.try_get(0)?;
        call.commit().await?;
        Ok(Instance {
            database: self.clone(),
            stream: assignment.stream,
            stream_uid: assignment.stream_uid,
            group: assignment.group,
            id,
        })
    }
}

impl Instance {
    pub(crate) const LIMIT: Duration = LIMIT;

    /// Uid of the stream that it reads.
    #[must_use]
    pub fn stream_uid(&self) -> Uuid {
        self.stream_uid
    }

    /// Lets the lease begin anew; false where the instance was fenced.
    ///
    /// # Errors
    /// When the database does not answer, within `limit`, as it should.
    pub async fn renew(&self, limit: Duration) -> Result<bool, CallError> {
        let mut call = self.database.call(limit).await?;
        let query = self.database.schema.sql("SELECT {schema}.renew_lease($1)");
        let renewed = call.row(sqlx::query(query).bind(self.id)).await?.try_get(0)?;
        call.commit().await?;
        Ok(renewed)
    }

    /// Ends the lease at once, so that others take over what is still held.
    ///
    /// # Errors
    /// When the database does not answer as it should.
    pub async fn end(&self) -> Result<(), CallError> {
        let mut call = self.database.call(LIMIT).await?;
        let query = self.database.schema.sql("SELECT {schema}.end_lease($1)");
        call.rows(sqlx::query(query).bind(self.id)).await?;
        call.commit().await
    }

    /// Takes over what instances of the group hold whose lease has expired. Their claims become
    /// this instance's and are returned; their exceptions become due.
    ///
    /// # Errors
    /// [`super::DatabaseError::Fenced`], or when the database does not answer as it should.
    pub async fn take_over(&self) -> Result<Vec<Claim>, CallError> {
        let mut call = self.database.call(LIMIT).await?;
        let query = self
            .database
            .schema
            .sql("SELECT claim_id AS id, low, high, takeover FROM {schema}.take_over($1, $2, $3)");
        let query = sqlx::query(query).bind(self.stream).bind(self.group).bind(self.id);
        let rows = call.rows(query).await?;
        call.commit().await?;
        Ok(rows.iter().map(Claim::from_row).collect::<Result<_, _>>()?)
    }

    /// Hands open claims that are not begun to the other instances of the group.
    ///
    /// # Errors
    /// [`super::DatabaseError::Fenced`], or when the database does not answer as it should.
    pub async fn give_back(&self, claims: &[ClaimId]) -> Result<(), CallError> {
        let mut call = self.database.call(LIMIT).await?;
        let query = self.database.schema.sql("SELECT {schema}.give_back($1, $2, $3, $4)");
        let query = sqlx::query(query)
            .bind(self.stream)
            .bind(self.group)
            .bind(self.id)
            .bind(claims.iter().map(|claim| claim.0).collect::<Vec<_>>());
        call.rows(query).await?;
        call.commit().await
    }

    /// Creates the partitions of the log that the next `ahead` messages need.
    ///
    /// # Errors
    /// When the database does not answer as it should.
    pub async fn ensure_partitions(&self, ahead: i64) -> Result<i32, CallError> {
        let mut call = self.database.call(LIMIT).await?;
        let query = self.database.schema.sql("SELECT {schema}.ensure_partitions($1, $2)");
        let query = sqlx::query(query).bind(self.stream).bind(ahead);
        let made = call.row(query).await?.try_get(0)?;
        call.commit().await?;
        Ok(made)
    }

    /// The greatest id that was drawn for a message of the stream.
    ///
    /// # Errors
    /// When the database does not answer as it should.
    pub async fn last_drawn_id(&self) -> Result<i64, CallError> {
        let mut call = self.database.call(LIMIT).await?;
        let query = self.database.schema.sql("SELECT {schema}.last_drawn_id($1)");
        let id = call.row(sqlx::query(query).bind(self.stream)).await?.try_get(0)?;
        call.commit().await?;
        Ok(id)
    }

    /// Empties the ledger of claims of what is resolved, once it has `threshold` claims.
    ///
    /// # Errors
    /// [`super::DatabaseError::Locked`] where somebody else, such as a dump, holds a lock.
    pub async fn rotate_claims(&self, threshold: i64) -> Result<bool, CallError> {
        let mut call = self.database.call(LIMIT).await?;
        let query = self.database.schema.sql("SELECT {schema}.rotate_claims($1, $2)");
        let query = sqlx::query(query).bind(self.stream).bind(threshold);
        let rotated = call.row(query).await?.try_get(0)?;
        call.commit().await?;
        Ok(rotated)
    }
}
