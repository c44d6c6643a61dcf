//! The metrics: what they are called, what they count, and how a value is found.

use k8s_openapi::jiff::Timestamp;

use super::model::GroupNumbers;

/// What a value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Messages.
    Messages,
    /// The id of a message.
    MessageId,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// The unit as people read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::MessageId => "message id",
            Self::Seconds => "seconds",
        }
    }
}

/// A metric of one consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// `sqlstreams.consumer.exceptions.ready`
    ExceptionsReady,
    /// `sqlstreams.consumer.exceptions.inflight`
    ExceptionsInflight,
    /// `sqlstreams.consumer.exceptions.deferred`
    ExceptionsDeferred,
    /// `sqlstreams.consumer.exceptions.dead`
    ExceptionsDead,
    /// `sqlstreams.consumer.exceptions.oldest_unresolved_age`
    ExceptionsOldestUnresolvedAge,
    /// `sqlstreams.consumer.cursor.head`
    CursorHead,
    /// `sqlstreams.consumer.cursor.claimed`
    CursorClaimed,
    /// `sqlstreams.consumer.cursor.committed`
    CursorCommitted,
    /// `sqlstreams.consumer.cursor.backlog`
    CursorBacklog,
    /// `sqlstreams.consumer.cursor.inflight`
    CursorInflight,
}

/// Every metric, in the order in which they are listed.
pub const ALL: [Metric; 10] = [
    Metric::ExceptionsReady,
    Metric::ExceptionsInflight,
    Metric::ExceptionsDeferred,
    Metric::ExceptionsDead,
    Metric::ExceptionsOldestUnresolvedAge,
    Metric::CursorHead,
    Metric::CursorClaimed,
    Metric::CursorCommitted,
    Metric::CursorBacklog,
    Metric::CursorInflight,
];

impl Metric {
    /// The name with dots, as `sqlstreams metric list` shows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ExceptionsReady => "sqlstreams.consumer.exceptions.ready",
            Self::ExceptionsInflight => "sqlstreams.consumer.exceptions.inflight",
            Self::ExceptionsDeferred => "sqlstreams.consumer.exceptions.deferred",
            Self::ExceptionsDead => "sqlstreams.consumer.exceptions.dead",
            Self::ExceptionsOldestUnresolvedAge => "sqlstreams.consumer.exceptions.oldest_unresolved_age",
            Self::CursorHead => "sqlstreams.consumer.cursor.head",
            Self::CursorClaimed => "sqlstreams.consumer.cursor.claimed",
            Self::CursorCommitted => "sqlstreams.consumer.cursor.committed",
            Self::CursorBacklog => "sqlstreams.consumer.cursor.backlog",
            Self::CursorInflight => "sqlstreams.consumer.cursor.inflight",
        }
    }

    /// The name in Prometheus's form: underscores, and the unit at the end where it is one of the
    /// [base units](https://prometheus.io/docs/practices/naming/#base-units).
    #[must_use]
    pub fn prometheus_name(self) -> String {
        let name = self.name().replace('.', "_");
        match self.unit() {
            Unit::Seconds => format!("{name}_seconds"),
            Unit::Messages | Unit::MessageId => name,
        }
    }

    /// What the value is counted in.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::ExceptionsReady
            | Self::ExceptionsInflight
            | Self::ExceptionsDeferred
            | Self::ExceptionsDead
            | Self::CursorBacklog
            | Self::CursorInflight => Unit::Messages,
            Self::ExceptionsOldestUnresolvedAge => Unit::Seconds,
            Self::CursorHead | Self::CursorClaimed | Self::CursorCommitted => Unit::MessageId,
        }
    }

    /// One line for people.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::ExceptionsReady => "Failed messages that may be tried again at once",
            Self::ExceptionsInflight => "Failed messages that are being tried again",
            Self::ExceptionsDeferred => "Failed messages that wait for their next attempt",
            Self::ExceptionsDead => "Dead letters: messages for which automatic retries have stopped",
            Self::ExceptionsOldestUnresolvedAge => {
                "Time since the oldest of the messages being retried failed first; 0 where there is none"
            }
            Self::CursorHead => "Id of the newest message of the stream",
            Self::CursorClaimed => "Id up to which messages were given to workers",
            Self::CursorCommitted => "Id up to which messages are acknowledged or in the exception queue",
            Self::CursorBacklog => "Messages that no worker has claimed; an estimate beyond 10000",
            Self::CursorInflight => "Messages that workers have claimed and not acknowledged",
        }
    }

    /// The value for a group at a time; `None` where it is not known.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn value(self, group: &GroupNumbers, at: Timestamp) -> Option<f64> {
        let exceptions = group.counters.exceptions;
        let progress = group.progress;
        let count = match self {
            Self::ExceptionsReady => exceptions.ready,
            Self::ExceptionsInflight => exceptions.inflight,
            Self::ExceptionsDeferred => exceptions.deferred,
            Self::ExceptionsDead => exceptions.dead,
            Self::ExceptionsOldestUnresolvedAge => {
                let age = match progress?.oldest_unresolved_at {
                    Some(oldest) => at.duration_since(oldest).as_secs_f64(),
                    None => 0.0,
                };
                return Some(age.max(0.0));
            }
            Self::CursorHead => progress?.head,
            Self::CursorClaimed => progress?.claimed,
            Self::CursorCommitted => progress?.committed,
            Self::CursorBacklog => progress?.backlog,
            Self::CursorInflight => progress?.inflight,
        };
        Some(count as f64)
    }
}
