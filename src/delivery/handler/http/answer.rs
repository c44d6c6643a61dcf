//! From an HTTP answer to an outcome.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

use super::KEPT_BYTES;
use crate::delivery::outcome::{ErrorText, MAX_ERROR_BYTES, Outcome};

/// The header by which a receiver says what should become of the message.
pub const OUTCOME_HEADER: &str = "sqlstreams-outcome";

/// An answer, of whose body no more is kept than can be stored.
#[derive(Clone, Debug)]
pub struct Answer {
    status: StatusCode,
    terminal: bool,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl Answer {
    /// An answer whose body is still to come.
    #[must_use]
    pub fn new(status: StatusCode, headers: &HeaderMap) -> Self {
        let terminal = headers
            .get_all(OUTCOME_HEADER)
            .iter()
            .any(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"terminal"));
        Self {
            status,
            terminal: terminal || status == StatusCode::GONE,
            retry_after: retry_after(status, headers),
            body: Vec::new(),
        }
    }

    /// Whether the message is done, whatever the body says.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.status.is_success() && !self.terminal
    }

    /// Whether no more of the body is wanted.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.body.len() >= KEPT_BYTES
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, chunk: &[u8]) {
        let room = KEPT_BYTES - self.body.len();
        self.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    /// What the answer means: the header before the status.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        if self.is_done() {
            return Outcome::Done;
        }
        let error = if self.body.trim_ascii().is_empty() {
            ErrorText::new(self.status_line())
        } else {
            ErrorText::cut(&self.body, self.body.len() > MAX_ERROR_BYTES)
        };
        if self.terminal {
            Outcome::Terminal { error }
        } else {
            Outcome::Retry {
                error,
                retry_after: self.retry_after,
            }
        }
    }

    fn status_line(&self) -> String {
        match self.status.canonical_reason() {
            Some(reason) => format!("HTTP {} {reason}", self.status.as_u16()),
            None => format!("HTTP {}", self.status.as_u16()),
        }
    }
}

/// How long the receiver asks to wait
/// ([RFC 9110, 10.2.3](https://www.rfc-editor.org/rfc/rfc9110#name-retry-after)): seconds, or a
/// date, which is compared with the receiver's own clock where the answer shows it.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let until = date(value)?;
    let now = headers
        .get(DATE)
        .and_then(|value| date(value.to_str().ok()?))
        .unwrap_or_else(Timestamp::now);
    Some(Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO))
}

fn date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp())
}
