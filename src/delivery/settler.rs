//! Records what became of messages.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::board::Board;
use super::link::{Activity, Link};
use super::lost::{Backoff, Lost};
use super::metrics::Metrics;
use crate::database::claims::{Settlement, Verdict};
use crate::database::instances::Instance;

/// How long outcomes are gathered, so that one transaction records many.
const GATHER: Duration = Duration::from_millis(2);
/// How often outcomes are looked for that have waited too long for the rest of their claim.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Settles for one instance.
pub(super) struct Settler {
    pub(super) instance: Instance,
    pub(super) board: Arc<Board>,
    pub(super) link: Arc<Link>,
    pub(super) metrics: Metrics,
    pub(super) stream: String,
    pub(super) group: String,
}

impl Settler {
    /// Settles until the instance is lost.
    pub(super) async fn run(self) -> Option<Lost> {
        loop {
            tokio::select! {
                () = self.board.outcomes.notified() => sleep(GATHER).await,
                () = sleep(LOOK_EVERY) => {}
            }
            loop {
                let settlement = self.board.collect();
                if settlement.is_empty() {
                    break;
                }
                if let Err(lost) = self.settle(&settlement).await {
                    return Some(lost);
                }
            }
            if let Err(lost) = self.give_back().await {
                return Some(lost);
            }
        }
    }

    /// Tries until it is recorded. An error that is sure to have recorded nothing costs only time.
    async fn settle(&self, settlement: &Settlement) -> Result<(), Lost> {
        let mut backoff = Backoff::new();
        loop {
            match self.instance.settle(settlement).await {
                Ok(settled) => {
                    self.link.answered(Activity::Settle);
                    self.board.settled(&settled);
                    self.log(settlement, settled.lost_exceptions);
                    return Ok(());
                }
                Err(error) => {
                    self.metrics.settle_failed(error.fault().reason());
                    self.link.failed(Activity::Settle, error.fault());
                    if let Some(lost) = Lost::from_error(&error) {
                        return Err(lost);
                    }
                    backoff.wait().await;
                }
            }
        }
    }

    /// Once the board is closed, lets other workers go on at once with what nobody works on here.
    async fn give_back(&self) -> Result<(), Lost> {
        let claims = self.board.give_up_pending();
        if claims.is_empty() {
            return Ok(());
        }
        match self.instance.give_back(&claims).await {
            Ok(()) => Ok(()),
            Err(error) => {
                // Others take them over when the lease has ended.
                self.link.failed(Activity::Settle, error.fault());
                Lost::from_error(&error).map_or(Ok(()), Err)
            }
        }
    }

    /// One line for each dead letter. It says which message it is, and nothing of what is in it or
    /// in the error.
    fn log(&self, settlement: &Settlement, lost_exceptions: usize) {
        let Self { stream, group, .. } = self;
        let dead = |verdict: &&Verdict| verdict.fate.is_dead();
        // Where some were not recorded, it is not known which.
        let exceptions = if lost_exceptions == 0 {
            settlement.exceptions.as_slice()
        } else {
            &[]
        };
        for verdict in settlement.failures.iter().chain(exceptions).filter(dead) {
            let (message_id, attempt) = (verdict.message.0, verdict.attempt);
            tracing::warn!(%stream, %group, message_id, attempt, "dead-lettered");
        }
        if lost_exceptions > 0 {
            tracing::info!(%stream, %group, lost_exceptions, "outcomes came too late and were not recorded");
        }
    }
}
