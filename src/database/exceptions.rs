//! Messages that have failed and are due again.

use sqlx::FromRow;

use super::MessageId;
use super::call::CallError;
use super::instances::Instance;

/// A message whose next attempt is due, held by the instance that claimed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub struct DueException {
    /// The message.
    #[sqlx(rename = "message_id")]
    pub message: MessageId,
    /// Attempts in this run.
    pub attempts: i32,
    /// 1, and one more for each redrive.
    pub run: i32,
    /// Attempts in earlier runs.
    pub prior_attempts: i32,
    /// How many workers were lost while they held it.
    pub crashes: i32,
}

impl Instance {
    /// Claims at most `limit` messages whose next attempt is due, those that wait longest first.
    ///
    /// # Errors
    /// [`super::DatabaseError::Fenced`], or when the database does not answer as it should.
    pub async fn claim_exceptions(&self, limit: i64) -> Result<Vec<DueException>, CallError> {
        let mut call = self.database.call(Self::LIMIT).await?;
        let query = self.database.schema.sql(
            "SELECT message_id, attempts, run, prior_attempts, crashes FROM {schema}.claim_exceptions($1, $2, $3, $4)",
        );
        let query = sqlx::query(query)
            .bind(self.stream)
            .bind(self.group)
            .bind(self.id)
            .bind(limit);
        let rows = call.rows(query).await?;
        call.commit().await?;
        Ok(rows.iter().map(DueException::from_row).collect::<Result<_, _>>()?)
    }
}
