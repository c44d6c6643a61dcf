//! Partitions of the logs, made ahead of the ids that need them.

use std::time::Duration;

use sqlx::Row as _;
use tokio::time::Instant;

use super::{Database, DatabaseError, StreamId};

/// How long each step of a call may take.
const LIMIT: Duration = Duration::from_secs(10);
/// For how long the partitions ahead should last.
const AHEAD_SECONDS: f64 = 10.0;
/// What is remembered of a burst, each time the log is looked at.
const REMEMBERED: f64 = 0.9;

/// How fast a log grows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    last: Option<(Instant, i64)>,
    per_second: f64,
}

impl Growth {
    /// Takes in the last id and returns for how many more there should be room.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    pub fn ahead(&mut self, id: i64, now: Instant) -> i64 {
        if let Some((then, before)) = self.last {
            let seconds = now.duration_since(then).as_secs_f64().max(0.001);
            let observed = id.saturating_sub(before).max(0) as f64 / seconds;
            self.per_second = observed.max(self.per_second * REMEMBERED);
        }
        self.last = Some((now, id));
        // Casting saturates.
        (self.per_second * AHEAD_SECONDS) as i64
    }

    /// The last id that was taken in.
    #[must_use]
    pub fn last_id(&self) -> Option<i64> {
        self.last.map(|(_, id)| id)
    }
}

/// The greatest id that was drawn for each stream, in one query.
///
/// # Errors
/// When the database does not answer.
pub async fn last_ids(database: &Database) -> Result<Vec<(StreamId, i64)>, DatabaseError> {
    let sql = database.schema.sql(
        "SELECT s.id, {schema}.last_drawn_id(s.id) FROM {schema}.stream_config s
         WHERE to_regclass(format('%I.message_log_%s', $1::text, s.id)) IS NOT NULL",
    );
    let query = sqlx::query(sql).bind(database.schema.name());
    let rows = database.ask(LIMIT, query).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Creates the partitions that the next `ahead` ids of a stream need, two at the least; returns
/// how many there were to create.
///
/// # Errors
/// When the database does not answer, or the stream is gone.
pub async fn ensure(database: &Database, stream: StreamId, ahead: i64) -> Result<i32, DatabaseError> {
    let sql = database.schema.sql("SELECT {schema}.ensure_partitions($1, $2)");
    let row = database
        .ask_one(LIMIT, sqlx::query(sql).bind(stream).bind(ahead))
        .await?;
    Ok(row.try_get(0)?)
}
