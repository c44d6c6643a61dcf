//! What a handler is given.

use std::collections::BTreeMap;
use std::fmt;

use uuid::Uuid;

use crate::database::MessageId;
use crate::database::message_log::StoredMessage;

/// One message at one attempt.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Uid of the stream, new whenever a stream of this name is created.
    pub stream_uid: Uuid,
    /// Its place in the stream.
    pub id: MessageId,
    /// The payload: JSON text.
    pub payload: Vec<u8>,
    /// What it is ordered by, if anything.
    pub key: Option<String>,
    headers: Option<Vec<u8>>,
    /// When it was published, in microseconds since 1970.
    pub created_at: i64,
    /// 1 for the first attempt. Counts on over redrives, as the delivery log does.
    pub attempt: u32,
}

impl Message {
    /// A message of the log of a stream, at its attempt number `attempt`.
    #[must_use]
    pub fn new(stream_uid: Uuid, stored: StoredMessage, attempt: u32) -> Self {
        let StoredMessage {
            id,
            payload,
            key,
            headers,
            created_at,
        } = stored;
        Self {
            stream_uid,
            id,
            payload,
            key,
            headers,
            created_at,
            attempt,
        }
    }

    /// Tells the message apart from every other: an id alone can be given out again after a
    /// failover, or in a stream that was created anew. The same at every attempt.
    #[must_use]
    pub fn event_id(&self) -> String {
        format!("{}.{}.{}", self.stream_uid, self.id, self.created_at)
    }

    /// The payload as a type of one's own.
    ///
    /// # Errors
    /// When the payload is not of that form. The text says where, and can quote a value of it.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.payload)
    }

    /// The headers whose values are texts. Read anew at each call.
    #[must_use]
    pub fn headers(&self) -> BTreeMap<String, String> {
        let Some(headers) = &self.headers else {
            return BTreeMap::new();
        };
        let headers: BTreeMap<String, serde_json::Value> = serde_json::from_slice(headers).unwrap_or_default();
        headers
            .into_iter()
            .filter_map(|(name, value)| match value {
                serde_json::Value::String(value) => Some((name, value)),
                _ => None,
            })
            .collect()
    }
}

/// Never shows the content.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
