//! Runs handlers: each slot one message after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::board::Board;
use super::fingerprint::fingerprint;
use super::handler::Handler;
use super::holdings::{Place, Ticket};
use super::metrics::{AttemptOutcome, Metrics};
use super::outcome::{ErrorText, Outcome};
use super::panics;
use super::retry::RetryPolicy;
use crate::database::claims::{Fate, Verdict};

/// What the slots of a worker share.
#[derive(Debug)]
pub(super) struct Shop<H> {
    pub(super) handler: H,
    pub(super) retry: RetryPolicy,
    pub(super) metrics: Metrics,
}

/// Counts a message as being worked on for as long as it lives, however the work ends.
struct Working<'a>(&'a Metrics);

impl<'a> Working<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.attempt_begins();
        Self(metrics)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.attempt_ends();
    }
}

/// Works until the board is closed.
pub(super) async fn run<H: Handler>(board: Arc<Board>, shop: Arc<Shop<H>>) {
    while let Some(ticket) = board.next().await {
        shop.serve(&board, ticket).await;
        // A handler that never waits would keep all else from running.
        tokio::task::coop::consume_budget().await;
    }
}

impl<H: Handler> Shop<H> {
    async fn serve(&self, board: &Board, ticket: Ticket) {
        let working = Working::new(&self.metrics);
        let Ticket {
            message,
            attempts,
            place,
        } = ticket;
        let (id, attempt) = (message.id, message.attempt);
        let started = Instant::now();
        let handled = panics::catch(self.handler.handle(message)).await;
        let outcome = handled.unwrap_or_else(Outcome::retry);
        let took = started.elapsed();
        drop(working);
        let fate = self.fate(&outcome, attempts + 1);
        self.metrics
            .attempted(fate.map_or(AttemptOutcome::Succeeded, into_label), took);
        let verdict = match (fate, place) {
            (None, Place::Claim { .. }) => None,
            (None, Place::Exception) => Some((Fate::Succeeded, None, Duration::ZERO)),
            (Some(fate), _) => {
                let (error, asked) = match outcome {
                    Outcome::Retry { error, retry_after } => (Some(error), retry_after),
                    Outcome::Terminal { error } => (Some(error), None),
                    Outcome::Done => (None, None),
                };
                Some((fate, error, self.delay(attempts + 1, asked)))
            }
        };
        let verdict = verdict.map(|(fate, error, delay)| Verdict {
            message: id,
            fate,
            attempt,
            fingerprint: error.as_ref().map(|error| fingerprint(error.as_str())),
            error: error.map(ErrorText::into_string),
            delay_ms: i64::try_from(delay.as_millis()).unwrap_or(i64::MAX),
            duration_us: i64::try_from(took.as_micros()).unwrap_or(i64::MAX),
            destination: self.handler.destination().map(str::to_owned),
        });
        board.finish(place, verdict, took);
    }

    /// What becomes of a message that was attempted `attempts` times in this run; `None` where it
    /// is done.
    fn fate(&self, outcome: &Outcome, attempts: u32) -> Option<Fate> {
        match outcome {
            Outcome::Done => None,
            Outcome::Terminal { .. } => Some(Fate::Terminal),
            Outcome::Retry { .. } if self.retry.is_exhausted(attempts) => Some(Fate::Exhausted),
            Outcome::Retry { .. } => Some(Fate::Failed),
        }
    }

    fn delay(&self, attempts: u32, asked: Option<Duration>) -> Duration {
        let delay = self.retry.delay(attempts, &mut rand::rng());
        match asked {
            Some(asked) => self.retry.asked(asked, delay),
            None => delay,
        }
    }
}

fn into_label(fate: Fate) -> AttemptOutcome {
    match fate {
        Fate::Succeeded | Fate::Released => AttemptOutcome::Succeeded,
        Fate::Failed => AttemptOutcome::Failed,
        Fate::Exhausted => AttemptOutcome::Exhausted,
        Fate::Terminal => AttemptOutcome::Terminal,
    }
}
