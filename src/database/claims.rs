//! Claims of new messages, and what became of claims.

use serde::Serialize;
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::call::CallError;
use super::instances::{Claim, Instance};
use super::{ClaimId, MessageId};

/// What a reader knows of how far the log is final: no message at or below `last` can appear any
/// more. Belongs to one server and one time line, so it is forgotten on every error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    last: i64,
    candidate: Option<i64>,
    writers: Option<Vec<String>>,
}

impl Fence {
    /// Whether messages are there that wait for an open transaction that writes to the log too.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.candidate.is_some()
    }
}

/// A part of a claim that goes on as a claim of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rest {
    /// The first id.
    pub low: i64,
    /// The last id.
    pub high: i64,
    /// One more than that of the claim it comes from.
    pub takeover: i32,
}

/// What became of a message that did not simply succeed at its first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It succeeded; only for a message that had failed before.
    Succeeded,
    /// Not attempted, and ready for anyone; only for a message that had failed before.
    Released,
    /// To be attempted again.
    Failed,
    /// Dead: no retries are left.
    Exhausted,
    /// Dead: the handler said that no retry will help.
    Terminal,
}

impl Fate {
    /// Whether the message is dead now.
    #[must_use]
    pub fn is_dead(self) -> bool {
        matches!(self, Self::Exhausted | Self::Terminal)
    }
}

/// One message and its [`Fate`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The message.
    #[serde(rename = "message_id")]
    pub message: MessageId,
    /// What became of it.
    #[serde(rename = "outcome")]
    pub fate: Fate,
    /// Which attempt it was, for the log only: the database counts itself.
    #[serde(skip)]
    pub attempt: u32,
    /// The handler's text.
    pub error: Option<String>,
    /// The text with numbers, ids and addresses folded.
    pub fingerprint: Option<String>,
    /// After how many milliseconds it is due again.
    pub delay_ms: i64,
    /// How long the attempt took, in microseconds.
    pub duration_us: i64,
    /// Where it was sent.
    pub destination: Option<String>,
}

/// What is recorded in one transaction, all or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Claims that are done, but for `rest`.
    pub claims: Vec<ClaimId>,
    /// Parts of these claims that are not done.
    pub rest: Vec<Rest>,
    /// Failures of messages of these claims.
    pub failures: Vec<Verdict>,
    /// What became of messages that [`Instance::claim_exceptions`] gave.
    pub exceptions: Vec<Verdict>,
}

impl Settlement {
    /// Whether there is nothing to record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.exceptions.is_empty()
    }
}

/// What [`Instance::settle`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The claims that the parts in `rest` have become, in the order of their ids.
    pub rest: Vec<Claim>,
    /// How many of the exceptions were not this instance's any more and were left as they are.
    pub lost_exceptions: usize,
}

impl Instance {
    /// Claims the next messages for the group, at most `limit` ids. `fence` is carried from one
    /// call to the next, and forgotten where the call fails.
    ///
    /// # Errors
    /// [`super::DatabaseError::Fenced`], [`super::DatabaseError::WrongIsolation`], or when the
    /// database does not answer as it should.
    pub async fn claim_messages(&self, fence: &mut Fence, limit: i64) -> Result<Option<Claim>, CallError> {
        let known = std::mem::take(fence);
        let mut call = self.database.call(Self::LIMIT).await?;
        let query = self
            .database
            .schema
            .sql("SELECT final, candidate, names, claim_id, low, high FROM {schema}.claim_messages($1, $2, $3, $4, $5, $6, $7)");
        let query = sqlx::query(query)
            .bind(self.stream)
            .bind(self.group)
            .bind(self.id)
            .bind(limit)
            .bind(known.last)
            .bind(known.candidate)
            .bind(known.writers);
        let row = call.row(query).await?;
        call.commit().await?;
        *fence = Fence {
            last: row.try_get("final")?,
            candidate: row.try_get("candidate")?,
            writers: row.try_get("names")?,
        };
        let Some(id) = row.try_get("claim_id")? else {
            return Ok(None);
        };
        Ok(Some(Claim {
            id,
            low: row.try_get("low")?,
            high: row.try_get("high")?,
            takeover: 0,
        }))
    }

    /// Records what became of messages.
    ///
    /// # Errors
    /// [`super::DatabaseError::Fenced`] where another worker has taken a claim over, or when the
    /// database does not answer as it should. Nothing is recorded then, unless the error is
    /// [`CallError::Unknown`].
    pub async fn settle(&self, settlement: &Settlement) -> Result<Settled, CallError> {
        let mut call = self.database.call(Self::LIMIT).await?;
        let query = self
            .database
            .schema
            .sql("SELECT {schema}.settle($1, $2, $3, $4, $5, $6, $7)");
        let query = sqlx::query(query)
            .bind(self.stream)
            .bind(self.group)
            .bind(self.id)
            .bind(settlement.claims.iter().map(|claim| claim.0).collect::<Vec<_>>())
            .bind(Json(&settlement.rest))
            .bind(Json(&settlement.failures))
            .bind(Json(&settlement.exceptions));
        let held: i64 = call.row(query).await?.try_get(0)?;
        let rest = match settlement.rest.as_slice() {
            [] => Vec::new(),
            rest => {
                let query = self.database.schema.stream_sql(
                    self.stream,
                    "SELECT id, low, high, takeover FROM {schema}.claim_{stream} \
                     JOIN unnest($2, $3) AS rest (low, takeover) USING (low, takeover) \
                     WHERE consumer_group_id = $1 ORDER BY low",
                );
                let query = sqlx::query(query)
                    .bind(self.group)
                    .bind(rest.iter().map(|rest| rest.low).collect::<Vec<_>>())
                    .bind(rest.iter().map(|rest| rest.takeover).collect::<Vec<_>>());
                call.rows(query).await?
            }
        };
        call.commit().await?;
        Ok(Settled {
            rest: rest.iter().map(Claim::from_row).collect::<Result<_, _>>()?,
            lost_exceptions: settlement
                .exceptions
                .len()
                .saturating_sub(usize::try_from(held).unwrap_or(0)),
        })
    }
}
