//! Publishing, in the transaction of the caller.
//!
//! Statements are not kept prepared: another connection of a pooler in transaction mode would not
//! know them.

use sqlx::PgConnection;
use thiserror::Error;

use super::{DatabaseError, MessageId, Schema};

/// A message to be published. JSON is kept as text, so that numbers keep all their digits on the
/// way to the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// The payload, in JSON.
    pub payload: String,
    /// What messages that belong together have in common.
    pub key: Option<String>,
    /// A JSON object.
    pub headers: Option<String>,
    /// A message with a key that was used before is not published again.
    pub idempotency_key: Option<String>,
}

/// Why nothing was published. Carries nothing of a message.
#[derive(Debug, Error)]
pub enum PublishError {
    /// A message is not as it must be.
    #[error("the database refuses the message: {0}")]
    Refused(String),
    /// The partition for the next ids is not there yet (23514 without a constraint). Workers and the
    /// operator make partitions ahead; a burst can be faster than they are for a second.
    #[error("the log has no partition for the next ids yet; a worker or the operator makes one within seconds")]
    NoPartition,
    /// Anything else.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl From<sqlx::Error> for PublishError {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::Database(error) = &error {
            let code = error.code().unwrap_or_default();
            if code == "23514" && error.constraint().is_none() {
                return Self::NoPartition;
            }
            if let Some(reason) = refusal(&code, error.constraint()) {
                return Self::Refused(reason);
            }
        }
        Self::Database(error.into())
    }
}

/// What is wrong with the message, told from the SQLSTATE and the violated constraint: the texts
/// of the server can quote the message.
fn refusal(code: &str, constraint: Option<&str>) -> Option<String> {
    Some(match (code, constraint) {
        // The constraints of the log are named after what they refuse: payload_exceeds_1048576_bytes.
        ("23514", Some(constraint)) if constraint.starts_with("idempotency_key") => {
            "the idempotency key exceeds 1024 bytes".into()
        }
        ("23514", Some(constraint)) => format!("the {}", constraint.replace('_', " ")),
        ("22P05" | "22021", _) => "it holds \\u0000, which no text in Postgres can hold".into(),
        ("22P02", _) => "it is not JSON as Postgres reads it".into(),
        ("54000" | "54001", _) => "its JSON is too large or nested too deeply for Postgres".into(),
        (code, _) if code.starts_with("22") => format!("it holds a value out of range (SQLSTATE {code})"),
        ("23502", _) => "it has no payload".into(),
        _ => return None,
    })
}

/// Publishes one message. It is there once the caller's transaction commits.
///
/// With an idempotency key that was used before, the id of the message published then is returned
/// and nothing is published.
///
/// # Errors
/// The caller's transaction is aborted then, as after any error in Postgres.
pub async fn publish(
    connection: &mut PgConnection,
    schema: &Schema,
    stream: &str,
    message: &NewMessage,
) -> Result<MessageId, PublishError> {
    let sql = schema.sql("SELECT {schema}.publish($1, $2::text::jsonb, $3, $4::text::jsonb, $5)");
    let id = sqlx::query_scalar(sql)
        .bind(stream)
        .bind(&message.payload)
        .bind(&message.key)
        .bind(&message.headers)
        .bind(&message.idempotency_key)
        .persistent(false)
        .fetch_one(connection)
        .await?;
    Ok(id)
}

/// Publishes messages in their order and returns their ids in that order. One round trip for each
/// run of messages without an idempotency key, and one for each message with one.
///
/// # Errors
/// As [`publish`].
pub async fn publish_batch(
    connection: &mut PgConnection,
    schema: &Schema,
    stream: &str,
    messages: &[NewMessage],
) -> Result<Vec<MessageId>, PublishError> {
    let mut ids = Vec::with_capacity(messages.len());
    for run in messages.chunk_by(|a, b| a.idempotency_key.is_none() && b.idempotency_key.is_none()) {
        match run {
            [message] => ids.push(publish(connection, schema, stream, message).await?),
            run => ids.extend(append(connection, schema, stream, run).await?),
        }
    }
    Ok(ids)
}

async fn append(
    connection: &mut PgConnection,
    schema: &Schema,
    stream: &str,
    messages: &[NewMessage],
) -> Result<Vec<MessageId>, PublishError> {
    fn column<'a>(messages: &'a [NewMessage], of: fn(&'a NewMessage) -> Option<&'a str>) -> Vec<Option<&'a str>> {
        messages.iter().map(of).collect()
    }
    let sql =
        schema.sql("SELECT unnest({schema}.publish_batch($1, $2::text[]::jsonb[], $3::text[], $4::text[]::jsonb[]))");
    let ids = sqlx::query_scalar(sql)
        .bind(stream)
        .bind(column(messages, |message| Some(&message.payload)))
        .bind(column(messages, |message| message.key.as_deref()))
        .bind(column(messages, |message| message.headers.as_deref()))
        .persistent(false)
        .fetch_all(connection)
        .await?;
    Ok(ids)
}
