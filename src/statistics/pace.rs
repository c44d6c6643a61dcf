//! When a resource's status is written: at once for a new dead letter, else now and then.

use std::time::Duration;

use tokio::time::Instant;

/// The least time between two writes of one resource, but for new dead letters.
const BETWEEN_WRITES: Duration = Duration::from_secs(5);
/// The least time between two events of one resource.
const BETWEEN_EVENTS: Duration = Duration::from_secs(60);
/// How long to wait after a first failure; doubled for each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// How what is wanted differs from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Not at all.
    Nothing,
    /// Some number.
    Numbers,
    /// There are more dead letters.
    MoreDead,
}

/// When one resource was written last and may be written again. Holds no clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    written_at: Option<Instant>,
    event_at: Option<Instant>,
    failures: u32,
    retry_at: Option<Instant>,
}

impl Pace {
    /// When to write; `None` where there is nothing to write.
    #[must_use]
    pub fn write_at(&self, now: Instant, change: Change) -> Option<Instant> {
        let at = match change {
            Change::Nothing => return None,
            Change::MoreDead => now,
            Change::Numbers => self.written_at.map_or(now, |written| written + BETWEEN_WRITES),
        };
        Some(self.retry_at.map_or(at, |retry| at.max(retry)))
    }

    /// When an event may be sent.
    #[must_use]
    pub fn event_at(&self, now: Instant) -> Instant {
        self.event_at.map_or(now, |sent| sent + BETWEEN_EVENTS)
    }

    /// When a failed read is tried again.
    #[must_use]
    pub fn read_at(&self, now: Instant) -> Instant {
        self.retry_at.unwrap_or(now)
    }

    /// The API server answered.
    pub fn answered(&mut self) {
        self.failures = 0;
        self.retry_at = None;
    }

    /// A write was made.
    pub fn written(&mut self, now: Instant) {
        self.answered();
        self.written_at = Some(now);
    }

    /// An event was sent, or tried to be.
    pub fn event_sent(&mut self, now: Instant) {
        self.event_at = Some(now);
    }

    /// A call failed. Returns whether it is the first one in a row.
    pub fn failed(&mut self, now: Instant) -> bool {
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(16)).min(LAST_RETRY);
        self.failures += 1;
        self.retry_at = Some(now + wait);
        self.failures == 1
    }
}
