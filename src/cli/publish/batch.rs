//! Batches, each a transaction of its own.

use std::time::Duration;

use tokio::time::Instant;

use super::super::Failure;
use crate::database::publish::{NewMessage, PublishError, publish, publish_batch};
use crate::database::{Database, DatabaseError, MessageId};

/// How long to wait for a partition.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long before it is looked for again.
const PAUSE: Duration = Duration::from_millis(250);

/// What was done so far.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Lines that are done with, those left out at the beginning included.
    pub(super) lines: u64,
    /// Messages published.
    pub(super) published: u64,
    /// Least and greatest id.
    pub(super) ids: Option<(MessageId, MessageId)>,
}

/// Why a batch was not sent, or may not have been.
enum Unsent {
    /// Nothing of it was published.
    Publish(PublishError),
    /// It may have been published.
    Commit(DatabaseError),
}

impl From<PublishError> for Unsent {
    fn from(error: PublishError) -> Self {
        Self::Publish(error)
    }
}

/// Collects messages and publishes them.
pub(super) struct Publisher {
    database: Database,
    stream: String,
    pub(super) summary: Summary,
    batch: Vec<NewMessage>,
    /// The number of the line of each message.
    numbers: Vec<u64>,
    bytes: usize,
    /// Lines read.
    read: u64,
}

impl Publisher {
    pub(super) fn new(database: Database, stream: String, skipped: u64) -> Self {
        Self {
            database,
            stream,
            summary: Summary {
                lines: skipped,
                ..Summary::default()
            },
            batch: Vec::new(),
            numbers: Vec::new(),
            bytes: 0,
            read: skipped,
        }
    }

    /// Counts a line that was read, and returns its number.
    pub(super) fn next_line(&mut self) -> u64 {
        self.read += 1;
        self.read
    }

    /// Takes in what the line just counted holds; nothing where it is blank.
    pub(super) fn add(&mut self, message: Option<NewMessage>) {
        if let Some(message) = message {
            self.bytes += message.payload.len() + message.headers.as_ref().map_or(0, String::len);
            self.batch.push(message);
            self.numbers.push(self.read);
        }
    }

    pub(super) fn batch_is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    pub(super) fn batch_len(&self) -> usize {
        self.batch.len()
    }

    pub(super) fn batch_bytes(&self) -> usize {
        self.bytes
    }

    /// Publishes what was collected: all of it, or nothing.
    pub(super) async fn flush(&mut self) -> Result<(), Failure> {
        if !self.batch.is_empty() {
            let began = Instant::now();
            let ids = loop {
                match self.send().await {
                    Err(Unsent::Publish(PublishError::NoPartition)) if began.elapsed() < PATIENCE => {
                        tokio::time::sleep(PAUSE).await;
                    }
                    other => break other,
                }
            };
            match ids {
                Ok(ids) => self.count(&ids),
                Err(Unsent::Publish(PublishError::Refused(reason))) => return Err(self.refused(&reason).await?.into()),
                Err(Unsent::Publish(error)) => return Err(error.into()),
                Err(Unsent::Commit(error)) => return Err(self.unanswered(&error).into()),
            }
        }
        self.batch.clear();
        self.numbers.clear();
        self.bytes = 0;
        self.summary.lines = self.read;
        Ok(())
    }

    async fn send(&self) -> Result<Vec<MessageId>, Unsent> {
        let mut transaction = self.database.pool.begin().await.map_err(PublishError::from)?;
        let ids = publish_batch(&mut transaction, &self.database.schema, &self.stream, &self.batch).await?;
        transaction
            .commit()
            .await
            .map_err(|error| Unsent::Commit(error.into()))?;
        Ok(ids)
    }

    fn count(&mut self, ids: &[MessageId]) {
        self.summary.published += ids.len() as u64;
        for id in ids.iter().copied() {
            let (first, last) = self.summary.ids.unwrap_or((id, id));
            self.summary.ids = Some((first.min(id), last.max(id)));
        }
    }

    /// Finds the line that the database does not take, by trying each in a transaction that is
    /// rolled back.
    async fn refused(&self, reason: &str) -> Result<String, DatabaseError> {
        let mut transaction = self.database.pool.begin().await?;
        for (message, number) in self.batch.iter().zip(&self.numbers) {
            match publish(&mut transaction, &self.database.schema, &self.stream, message).await {
                Ok(_) => {}
                Err(PublishError::Refused(reason)) => {
                    return Ok(format!("line {number}: {}", refusal(&reason)));
                }
                // Out of partitions, the rest cannot be tried.
                Err(PublishError::NoPartition) => break,
                Err(PublishError::Database(error)) => return Err(error),
            }
        }
        transaction.rollback().await?;
        Ok(format!("{}: {}", self.lines(), refusal(reason)))
    }

    /// The connection broke while the batch was being committed.
    fn unanswered(&self, error: &DatabaseError) -> String {
        format!(
            "{error}\nwhether {} were published is not known: the answer to their COMMIT is missing",
            self.lines()
        )
    }

    fn lines(&self) -> String {
        match (self.numbers.first(), self.numbers.last()) {
            (Some(first), Some(last)) => format!("lines {first} to {last}"),
            _ => "no lines".into(),
        }
    }
}

fn refusal(reason: &str) -> String {
    format!("the database refuses the message: {reason}; its batch was not published")
}
