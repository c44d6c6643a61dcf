//! Why an instance is at an end, and how calls that failed are made again.

use std::time::Duration;

use thiserror::Error;

use crate::database::{CallError, DatabaseError};

/// Why an instance gave up what it held. The worker then registers anew.
#[derive(Debug, Error)]
pub(super) enum Lost {
    /// Another worker found the lease expired.
    #[error("another worker has taken over, since the lease was not renewed in time")]
    Fenced,
    /// The lease could not be renewed while it lasted; others may have taken over by now.
    #[error("the lease could not be renewed in time")]
    Expired,
    /// Whether a transaction was committed is unknown, so what this instance holds is too.
    #[error("the connection broke while a transaction was being committed")]
    Unknown,
    /// The tables of the stream are gone.
    #[error("the tables of the stream are not there any more")]
    Gone,
    /// A task ended with a panic.
    #[error("a task of the worker panicked")]
    Panicked,
}

impl Lost {
    /// Whether an error leaves nothing to go on with; the others may pass.
    pub(super) fn from_error(error: &CallError) -> Option<Self> {
        match error {
            CallError::Unknown(_) => Some(Self::Unknown),
            CallError::Failed(DatabaseError::Fenced) => Some(Self::Fenced),
            CallError::Failed(DatabaseError::NotProvisioned(_)) => Some(Self::Gone),
            CallError::Failed(_) => None,
        }
    }
}

/// Waits that grow from one failure to the next, until something succeeds.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);

    pub(super) fn new() -> Self {
        Self { next: Self::FIRST }
    }

    pub(super) fn succeeded(&mut self) {
        self.next = Self::FIRST;
    }

    /// Waits for the time that it is due, give or take a fifth, so that workers that failed
    /// together do not come back together.
    pub(super) async fn wait(&mut self) {
        let scatter = rand::random_range(0.8..1.2);
        tokio::time::sleep(self.next.mul_f64(scatter)).await;
        self.next = (self.next * 2).min(Self::LONGEST);
    }
}
