//! The conditions of a status: what they are called, and how one is set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// What is asked for is provisioned, and workers run as many as asked. Dead letters, an open
/// circuit and blocked retention leave it alone: they have conditions of their own.
pub const READY: &str = "Ready";
/// The database answers and accepts the login.
pub const DATABASE_REACHABLE: &str = "DatabaseReachable";
/// Postgres holds what the resource asks for.
pub const PROVISIONED: &str = "Provisioned";
/// The last run of the retention job dropped all that was past its time.
pub const RETENTION_HEALTHY: &str = "RetentionHealthy";
/// As many workers are ready as were asked for.
pub const WORKERS_AVAILABLE: &str = "WorkersAvailable";
/// The group has no dead letters.
pub const NO_DEAD_LETTERS: &str = "NoDeadLetters";

/// The longest message that is kept; the API server refuses one over 32,768 characters.
const MAX_MESSAGE: usize = 1024;

/// A condition as a step wants it, without times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// One of the names above.
    pub kind: &'static str,
    /// `Some(true)`, `Some(false)`, or `None` for Unknown.
    pub status: Option<bool>,
    /// One word in CamelCase, stable over releases.
    pub reason: &'static str,
    /// For people; says what to do where something is wrong.
    pub message: String,
}

impl Wanted {
    /// A condition that holds.
    pub fn holds(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: Some(true),
            reason,
            message: message.into(),
        }
    }

    /// A condition that does not hold.
    pub fn fails(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: Some(false),
            reason,
            message: message.into(),
        }
    }

    /// A condition of which nothing is known.
    pub fn unknown(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            reason,
            message: message.into(),
        }
    }

    /// The condition to write, beside what is there now: `lastTransitionTime` moves only when the
    /// status does, so that writing the same condition again changes nothing.
    #[must_use]
    pub fn over(&self, current: &[Condition], generation: Option<i64>, now: Timestamp) -> Condition {
        let status = match self.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let last_transition_time = current
            .iter()
            .find(|condition| condition.type_ == self.kind && condition.status == status)
            .map_or(Time(now), |condition| condition.last_transition_time.clone());
        Condition {
            type_: self.kind.into(),
            status: status.into(),
            reason: self.reason.into(),
            message: self.message.chars().take(MAX_MESSAGE).collect(),
            observed_generation: generation,
            last_transition_time,
        }
    }
}
