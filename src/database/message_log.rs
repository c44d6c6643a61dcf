//! Reading the messages of a log.

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::call::CallError;
use super::instances::Instance;
use super::{DatabaseError, MessageId};

/// Microseconds from 1970, which the rest of the program counts from, to 2000, where Postgres'
/// binary timestamps begin.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A message as it is in the log.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its place in the stream.
    pub id: MessageId,
    /// The payload: JSON text.
    pub payload: Vec<u8>,
    /// What it is ordered by, if anything.
    pub key: Option<String>,
    /// The headers: the text of a JSON object.
    pub headers: Option<Vec<u8>>,
    /// When it was published, in microseconds since 1970.
    pub created_at: i64,
}

/// Never shows the content.
impl std::fmt::Debug for StoredMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredMessage")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// What a read gave.
#[derive(Debug, Default)]
pub struct Page {
    /// Messages in the order of their ids.
    pub messages: Vec<StoredMessage>,
    /// Messages that are there and were left out, because those before them have as many bytes as
    /// were asked for.
    pub left_out: Vec<MessageId>,
}

impl Instance {
    /// Reads the messages from `low` to `high` that are for this group, until they have `budget`
    /// bytes, as `message_bytes` reckons; at least one.
    ///
    /// # Errors
    /// When the database does not answer as it should.
    pub async fn read_range(&self, low: i64, high: i64, budget: i64) -> Result<Page, CallError> {
        let query = self.database.schema.stream_sql(
            self.stream,
            "SELECT id, CASE WHEN before < $4 THEN payload END, created_at, key, headers FROM ( \
                 SELECT id, payload, created_at, key, headers, \
                        sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - bytes AS before \
                 FROM (SELECT *, {schema}.message_bytes(payload, headers) AS bytes \
                       FROM {schema}.message_log_{stream} \
                       WHERE id >= $1 AND id <= $2 AND coalesce(only_group_id, $3) = $3) AS l) AS m \
             ORDER BY id",
        );
        let query = sqlx::query(query).bind(low).bind(high).bind(self.group).bind(budget);
        let mut call = self.database.call(Self::LIMIT).await?;
        let rows = call.rows(query).await?;
        call.commit().await?;
        Ok(page(&rows)?)
    }

    /// As [`Instance::read_range`], the messages with these ids. One that is no longer in the log
    /// is missing from the page.
    ///
    /// # Errors
    /// When the database does not answer as it should.
    pub async fn read_messages(&self, ids: &[MessageId], budget: i64) -> Result<Page, CallError> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let (Some(&low), Some(&high)) = (ids.iter().min(), ids.iter().max()) else {
            return Ok(Page::default());
        };
        let query = self.database.schema.stream_sql(
            self.stream,
            "SELECT id, CASE WHEN before < $4 THEN payload END, created_at, key, headers FROM ( \
                 SELECT id, payload, created_at, key, headers, \
                        sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - bytes AS before \
                 FROM (SELECT *, {schema}.message_bytes(payload, headers) AS bytes \
                       FROM {schema}.message_log_{stream} \
                       WHERE id >= $1 AND id <= $2 AND id = ANY ($3)) AS l) AS m \
             ORDER BY id",
        );
        let query = sqlx::query(query).bind(low).bind(high).bind(ids).bind(budget);
        let mut call = self.database.call(Self::LIMIT).await?;
        let rows = call.rows(query).await?;
        call.commit().await?;
        Ok(page(&rows)?)
    }
}

fn page(rows: &[PgRow]) -> Result<Page, DatabaseError> {
    let mut page = Page {
        messages: Vec::with_capacity(rows.len()),
        left_out: Vec::new(),
    };
    for row in rows {
        let id: MessageId = row.try_get(0)?;
        match json(row, 1)? {
            Some(payload) => page.messages.push(StoredMessage {
                id,
                payload,
                // A timestamptz comes as microseconds since 2000.
                created_at: row
                    .try_get_unchecked::<i64, _>(2)?
                    .saturating_add(POSTGRES_EPOCH_MICROS),
                key: row.try_get(3)?,
                headers: json(row, 4)?,
            }),
            None => page.left_out.push(id),
        }
    }
    Ok(page)
}

/// The text of a jsonb column. Its binary form is a version byte, 1 in all versions of Postgres,
/// and the text (`jsonb_send`).
fn json(row: &PgRow, column: usize) -> Result<Option<Vec<u8>>, DatabaseError> {
    match row.try_get_unchecked::<Option<&[u8]>, _>(column)? {
        None => Ok(None),
        Some([1, text @ ..]) => Ok(Some(text.to_vec())),
        Some(_) => Err(DatabaseError::Protocol("jsonb of an unknown version".into())),
    }
}
