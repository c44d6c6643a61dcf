//! How many messages to hold at once.

use std::time::Duration;

/// How long what is held should take the handlers: a crash then repeats little, and other workers
/// are not kept from messages for longer.
const HELD: Duration = Duration::from_millis(500);
/// No more messages are held than this, however fast the handler is.
const MOST: usize = 5_000;
/// Weight of one attempt in the running mean.
const WEIGHT: f64 = 0.05;

/// Learns how long the handler takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    concurrency: usize,
    mean_seconds: Option<f64>,
}

impl Pace {
    pub(super) fn new(concurrency: usize) -> Self {
        Self {
            concurrency,
            mean_seconds: None,
        }
    }

    pub(super) fn learn(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let mean = self.mean_seconds.unwrap_or(seconds);
        self.mean_seconds = Some(mean + WEIGHT * (seconds - mean));
    }

    /// How many messages, beside those that handlers work on, to hold.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub(super) fn messages(&self) -> usize {
        let Some(mean) = self.mean_seconds else {
            return 0;
        };
        let messages = HELD.as_secs_f64() * self.concurrency as f64 / mean.max(1e-9);
        // Casting saturates.
        (messages as usize).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_lasts_half_a_second() {
        let mut pace = Pace::new(10);
        assert_eq!(pace.messages(), 0, "nothing is known yet");
        pace.learn(Duration::from_millis(50));
        assert_eq!(pace.messages(), 100);
    }

    #[test]
    fn a_slow_handler_is_given_no_more_than_it_can_begin() {
        let mut pace = Pace::new(4);
        pace.learn(Duration::from_secs(30));
        assert_eq!(pace.messages(), 0);
    }

    #[test]
    fn a_handler_that_takes_no_time_is_bounded_all_the_same() {
        let mut pace = Pace::new(4);
        pace.learn(Duration::ZERO);
        assert_eq!(pace.messages(), MOST);
    }
}
