//! When a failed message is tried again.

use std::fmt::Write;
use std::time::Duration;

use crate::api::Jitter;

use rand::{Rng, RngExt};

/// No retry comes sooner than this.
pub const FLOOR: Duration = Duration::from_secs(1);

/// At most so many delays are named in [`RetryPolicy::schedule`].
const NAMED_DELAYS: usize = 8;

/// How often and after how long a failed message is tried again: exponential backoff with full
/// jitter ("Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryPolicy {
    /// Retries after the first attempt. Once they are used up, the message is dead.
    pub max_retries: u32,
    /// The ceiling of the first delay.
    pub initial_delay: Duration,
    /// What no ceiling goes beyond.
    pub max_delay: Duration,
    /// What the ceiling is multiplied by from one delay to the next.
    pub factor: u32,
    /// How a delay is drawn from its ceiling.
    pub jitter: Jitter,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
            factor: 2,
            jitter: Jitter::Full,
        }
    }
}

impl RetryPolicy {
    /// Whether a message that has failed `attempts` times is dead.
    #[must_use]
    pub fn is_exhausted(&self, attempts: u32) -> bool {
        attempts > self.max_retries
    }

    /// `min(max_delay, initial_delay * factor ^ (attempts - 1))`: what the delay after so many
    /// failed attempts is drawn from.
    #[must_use]
    pub fn ceiling(&self, attempts: u32) -> Duration {
        if self.initial_delay.is_zero() {
            return Duration::ZERO;
        }
        self.factor
            .checked_pow(attempts.saturating_sub(1))
            .and_then(|growth| self.initial_delay.checked_mul(growth))
            .map_or(self.max_delay, |delay| delay.min(self.max_delay))
    }

    /// The delay after so many failed attempts, from 1; at least [`FLOOR`].
    pub fn delay(&self, attempts: u32, rng: &mut impl Rng) -> Duration {
        let ceiling = self.ceiling(attempts);
        let drawn = match self.jitter {
            Jitter::None => ceiling,
            Jitter::Full => {
                let most = u64::try_from(ceiling.as_millis()).unwrap_or(u64::MAX);
                Duration::from_millis(rng.random_range(0..=most))
            }
        };
        drawn.max(FLOOR)
    }

    /// A wait that the handler asked for, kept between [`FLOOR`] and the longest delay that this
    /// policy knows, but never shorter than `delay`.
    #[must_use]
    pub fn asked(&self, asked: Duration, delay: Duration) -> Duration {
        asked.min(self.max_delay).max(delay).max(FLOOR)
    }

    /// What the policy means, in words, such as `4 attempts: at once, then after up to 1 s, 2 s and
    /// 4 s; then dead`.
    #[must_use]
    pub fn schedule(&self) -> String {
        let attempts = u64::from(self.max_retries) + 1;
        if self.max_retries == 0 {
            return "1 attempt; then dead".into();
        }
        let up_to = match self.jitter {
            Jitter::Full => "up to ",
            Jitter::None => "",
        };
        format!(
            "{attempts} attempts: at once, then after {up_to}{}; then dead",
            self.delays()
        )
    }

    fn delays(&self) -> String {
        let named = u32::try_from(NAMED_DELAYS).unwrap_or(u32::MAX);
        let mut delays: Vec<Duration> = (1..=self.max_retries.min(named.saturating_add(1)))
            .map(|attempt| self.ceiling(attempt).max(FLOOR))
            .collect();
        let last = self.ceiling(self.max_retries).max(FLOOR);
        let longest = delays.iter().position(|delay| *delay == last);
        let mut text = String::new();
        let closing = match longest {
            // From here on it stays the same.
            Some(0) if self.max_retries > 1 => return format!("{} each time", words(last)),
            Some(first) if self.max_retries as usize > first + 2 => {
                delays.truncate(first);
                format!(", then {} each time", words(last))
            }
            _ if delays.len() > NAMED_DELAYS => {
                delays.truncate(3);
                format!(" and so on to {}", words(last))
            }
            _ if delays.len() > 1 => {
                delays.pop();
                format!(" and {}", words(last))
            }
            _ => String::new(),
        };
        for (place, delay) in delays.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{}", words(*delay));
        }
        text + &closing
    }
}

/// A duration as a person says it: `500 ms`, `90 s`, `5 min`, `2 h`.
fn words(duration: Duration) -> String {
    let millis = duration.as_millis();
    let (unit, length) = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)]
        .into_iter()
        .find(|(unit, length)| {
            // A minute reads better as 60 s.
            millis.is_multiple_of(*length) && millis >= *length && (*unit != "min" || millis > 2 * length)
        })
        .unwrap_or(("ms", 1));
    format!("{} {unit}", millis / length)
}
