//! Numbers about streams and groups.
//!
//! The exception counters are cheap and exact however many rows the queues hold: one query for all
//! groups of an installation. What must look into the tables of a stream goes through a few streams
//! a transaction, so that the locks of one transaction stay few.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::ownership::Owner;
use super::{Database, DatabaseError, GroupId, StreamId};

/// Groups or streams whose tables one transaction looks into.
const CHUNK: usize = 20;
/// How long each step of a call may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A stream as its control table knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamIdentity {
    /// Number of the stream.
    pub id: StreamId,
    /// Name of the stream.
    pub name: String,
    /// Who owns it, if anyone does.
    pub owner: Option<Owner>,
}

/// A group as its control table knows it, with its exception counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCounters {
    /// Number of the group.
    pub id: GroupId,
    /// Number of its stream.
    pub stream: StreamId,
    /// Name of the group.
    pub name: String,
    /// Who owns it, if anyone does.
    pub owner: Option<Owner>,
    /// Messages in its exception queue.
    pub exceptions: Exceptions,
}

/// Messages in the exception queue of a group, by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exceptions {
    /// May be tried at once: given back, or redriven.
    pub ready: i64,
    /// Being tried again.
    pub inflight: i64,
    /// Wait for the time of their next attempt.
    pub deferred: i64,
    /// Automatic retries have stopped.
    pub dead: i64,
}

impl Exceptions {
    /// Messages that failed and will be tried again.
    #[must_use]
    pub fn retrying(&self) -> i64 {
        self.ready + self.inflight + self.deferred
    }
}

/// The counters of an installation at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Every stream, by number.
    pub streams: Vec<StreamIdentity>,
    /// Every group, by number of the stream, then of the group.
    pub groups: Vec<GroupCounters>,
    /// Rows from which the counters were summed; see [`compact`].
    pub changes: i64,
    /// The database's clock.
    pub at: Option<Timestamp>,
}

impl Counters {
    /// Whether the counters are worth folding: many more rows than there are counters.
    #[must_use]
    pub fn wants_compaction(&self) -> bool {
        let groups = i64::try_from(self.groups.len()).unwrap_or(i64::MAX / 8);
        self.changes > 1000 + 8 * groups
    }
}

/// How far a group has come. Positions are ids of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The newest message of the stream.
    pub head: i64,
    /// Up to where messages were given to workers.
    pub claimed: i64,
    /// Up to where all messages are acknowledged or in the exception queue.
    pub committed: i64,
    /// Messages that no worker has claimed, counted up to 10,000 and estimated by ids beyond.
    pub backlog: i64,
    /// Messages that workers have claimed and not acknowledged.
    pub inflight: i64,
    /// When the next message is due to be tried again.
    pub next_attempt_at: Option<Timestamp>,
    /// When the oldest of the retried messages failed first.
    pub oldest_unresolved_at: Option<Timestamp>,
}

impl Progress {
    /// Messages that wait for the group or are being handled for the first time.
    #[must_use]
    pub fn lag(&self) -> i64 {
        self.backlog + self.inflight
    }
}

/// What a stream takes and keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFacts {
    /// Bytes on disk of all its tables.
    pub size_bytes: i64,
    /// When the oldest message kept was published; `None` where there is none.
    pub oldest_message_at: Option<Timestamp>,
}

/// The exception counters of every group of the installation, in one query.
///
/// # Errors
/// When the database does not answer.
pub async fn counters(database: &Database) -> Result<Counters, DatabaseError> {
    let sql = database.schema.sql(
        "WITH counted AS MATERIALIZED (
             SELECT consumer_group_id AS id, count(*) AS changes,
                    sum(delta) FILTER (WHERE counter = 'ready') AS ready,
                    sum(delta) FILTER (WHERE counter = 'inflight') AS inflight,
                    sum(delta) FILTER (WHERE counter = 'deferred') AS deferred,
                    sum(delta) FILTER (WHERE counter = 'dead') AS dead
             FROM {schema}.statistics_delta GROUP BY 1)
         SELECT s.id, s.name, s.owner_uid, s.owner_ref, s.cluster_id,
                g.id, g.name, g.owner_uid, g.owner_ref, g.cluster_id,
                coalesce(c.ready, 0)::bigint, coalesce(c.inflight, 0)::bigint,
                coalesce(c.deferred, 0)::bigint, coalesce(c.dead, 0)::bigint,
                (SELECT coalesce(sum(changes), 0) FROM counted)::bigint,
                (extract(epoch from clock_timestamp()) * 1000000)::bigint
         FROM {schema}.stream_config s
         LEFT JOIN {schema}.consumer_group_config g ON g.stream_id = s.id
         LEFT JOIN counted c ON c.id = g.id
         ORDER BY s.id, g.id",
    );
    let rows = database.ask(LIMIT, sqlx::query(sql)).await?;
    let mut counters = Counters::default();
    for row in &rows {
        let stream: StreamId = row.try_get(0)?;
        if counters.streams.last().is_none_or(|last| last.id != stream) {
            counters.streams.push(StreamIdentity {
                id: stream,
                name: row.try_get(1)?,
                owner: owner(row, 2)?,
            });
        }
        if let Some(id) = row.try_get::<Option<GroupId>, _>(5)? {
            counters.groups.push(GroupCounters {
                id,
                stream,
                name: row.try_get(6)?,
                owner: owner(row, 7)?,
                exceptions: Exceptions {
                    ready: row.try_get(10)?,
                    inflight: row.try_get(11)?,
                    deferred: row.try_get(12)?,
                    dead: row.try_get(13)?,
                },
            });
        }
        counters.changes = row.try_get(14)?;
        counters.at = timestamp(row.try_get(15)?);
    }
    Ok(counters)
}

/// How far each of these groups has come. A group that is gone is left out, and so is one whose
/// stream has lost a table.
///
/// # Errors
/// When the database does not answer.
pub async fn progress(database: &Database, groups: &[GroupId]) -> Result<Vec<(GroupId, Progress)>, DatabaseError> {
    let mut all = Vec::with_capacity(groups.len());
    for chunk in groups.chunks(CHUNK) {
        match progress_of(database, chunk).await {
            Ok(some) => all.extend(some),
            Err(DatabaseError::NotProvisioned(_) | DatabaseError::Retry(_)) => {
                for group in chunk {
                    match progress_of(database, std::slice::from_ref(group)).await {
                        Ok(one) => all.extend(one),
                        Err(DatabaseError::NotProvisioned(_) | DatabaseError::Retry(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

async fn progress_of(database: &Database, groups: &[GroupId]) -> Result<Vec<(GroupId, Progress)>, DatabaseError> {
    let sql = database.schema.sql(
        "SELECT g.id, p.head, p.claimed, p.committed, p.backlog, p.inflight,
                (extract(epoch from p.next_attempt_at) * 1000000)::bigint,
                (extract(epoch from p.oldest_unresolved_at) * 1000000)::bigint
         FROM unnest($1::bigint[]) AS g (id), LATERAL {schema}.group_progress(g.id) AS p",
    );
    let ids: Vec<i64> = groups.iter().map(|group| group.0).collect();
    let rows = database.ask(LIMIT, sqlx::query(sql).bind(ids)).await?;
    rows.iter()
        .map(|row| {
            let progress = Progress {
                head: row.try_get(1)?,
                claimed: row.try_get(2)?,
                committed: row.try_get(3)?,
                backlog: row.try_get(4)?,
                inflight: row.try_get(5)?,
                next_attempt_at: timestamp(row.try_get(6)?),
                oldest_unresolved_at: timestamp(row.try_get(7)?),
            };
            Ok((row.try_get(0)?, progress))
        })
        .collect()
}

/// What each of these streams takes and keeps. A stream that is gone has no size.
///
/// # Errors
/// When the database does not answer.
pub async fn stream_facts(
    database: &Database,
    streams: &[StreamId],
) -> Result<Vec<(StreamId, StreamFacts)>, DatabaseError> {
    let mut all = Vec::with_capacity(streams.len());
    for chunk in streams.chunks(CHUNK) {
        let sql = database.schema.sql(
            "SELECT s.id, f.size_bytes, (extract(epoch from f.oldest_message_at) * 1000000)::bigint
             FROM unnest($1::bigint[]) AS s (id), LATERAL {schema}.stream_facts(s.id) AS f",
        );
        let ids: Vec<i64> = chunk.iter().map(|stream| stream.0).collect();
        let rows = database.ask(LIMIT, sqlx::query(sql).bind(ids)).await?;
        for row in &rows {
            let facts = StreamFacts {
                size_bytes: row.try_get(1)?,
                oldest_message_at: timestamp(row.try_get(2)?),
            };
            all.push((row.try_get(0)?, facts));
        }
    }
    Ok(all)
}

/// Folds the rows of the counters, so that summing them stays cheap.
///
/// # Errors
/// When the database does not answer, or the role may not.
pub async fn compact(database: &Database) -> Result<(), DatabaseError> {
    let sql = database.schema.sql("SELECT {schema}.compact_statistics()");
    database.ask(LIMIT, sqlx::query(sql)).await?;
    Ok(())
}

fn owner(row: &PgRow, first: usize) -> Result<Option<Owner>, sqlx::Error> {
    let uid: Option<Uuid> = row.try_get(first)?;
    let reference: Option<String> = row.try_get(first + 1)?;
    let cluster_id: Option<String> = row.try_get(first + 2)?;
    Ok(match (uid, reference, cluster_id) {
        (Some(uid), Some(reference), Some(cluster_id)) => Some(Owner {
            uid,
            reference,
            cluster_id,
        }),
        _ => None,
    })
}

/// A time of the database, which sends microseconds; `None` where it is infinite or beyond the
/// years that can be written.
fn timestamp(microseconds: Option<i64>) -> Option<Timestamp> {
    microseconds.and_then(|microseconds| Timestamp::from_microsecond(microseconds).ok())
}
