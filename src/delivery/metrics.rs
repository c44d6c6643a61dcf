//! What a worker counts.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// How an attempt ended, as the metrics tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The message is done.
    Succeeded,
    /// It will be tried again.
    Failed,
    /// It is dead, all retries being used up.
    Exhausted,
    /// It is dead because the handler said so.
    Terminal,
}

/// The metrics of one worker.
#[derive(Clone, Debug)]
pub struct Metrics {
    succeeded: Counter,
    failed: Counter,
    exhausted: Counter,
    terminal: Counter,
    handler_seconds: Histogram,
    claims: Counter,
    claimed_exceptions: Counter,
    takeovers: Counter,
    lost_leases: Counter,
    database_errors: Family<ReasonLabel, Counter>,
    settle_errors: Family<ReasonLabel, Counter>,
    inflight: Gauge<i64, AtomicI64>,
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let attempts = Family::<OutcomeLabel, Counter>::default();
        let attempt = |outcome| attempts.get_or_create(&OutcomeLabel { outcome }).clone();
        let metrics = Self {
            succeeded: attempt("succeeded"),
            failed: attempt("failed"),
            exhausted: attempt("exhausted"),
            terminal: attempt("terminal"),
            handler_seconds: Histogram::new(exponential_buckets(0.001, 2.5, 13)),
            claims: Counter::default(),
            claimed_exceptions: Counter::default(),
            takeovers: Counter::default(),
            lost_leases: Counter::default(),
            database_errors: Family::default(),
            settle_errors: Family::default(),
            inflight: Gauge::default(),
        };
        let registry = registry.sub_registry_with_prefix("sqlstreams_worker");
        registry.register("attempts", "Attempts to deliver a message, by outcome", attempts);
        registry.register(
            "handler_duration_seconds",
            "How long the handler took for one message",
            metrics.handler_seconds.clone(),
        );
        registry.register("claims", "Claims of new messages", metrics.claims.clone());
        registry.register(
            "claimed_exceptions",
            "Messages claimed for another attempt",
            metrics.claimed_exceptions.clone(),
        );
        registry.register(
            "takeovers",
            "Claims taken over from workers whose lease had expired",
            metrics.takeovers.clone(),
        );
        registry.register(
            "lost_leases",
            "How often this worker had to abandon what it held",
            metrics.lost_leases.clone(),
        );
        registry.register(
            "database_errors",
            "Calls of the database that failed, by reason",
            metrics.database_errors.clone(),
        );
        registry.register(
            "settle_errors",
            "Failed attempts to record outcomes, by reason",
            metrics.settle_errors.clone(),
        );
        registry.register(
            "inflight_messages",
            "Messages that the handler is working on",
            metrics.inflight.clone(),
        );
        metrics
    }

    pub(super) fn attempt_begins(&self) {
        self.inflight.inc();
    }

    pub(super) fn attempt_ends(&self) {
        self.inflight.dec();
    }

    pub(super) fn attempted(&self, outcome: AttemptOutcome, duration: Duration) {
        match outcome {
            AttemptOutcome::Succeeded => &self.succeeded,
            AttemptOutcome::Failed => &self.failed,
            AttemptOutcome::Exhausted => &self.exhausted,
            AttemptOutcome::Terminal => &self.terminal,
        }
        .inc();
        self.handler_seconds.observe(duration.as_secs_f64());
    }

    pub(super) fn claimed(&self) {
        self.claims.inc();
    }

    pub(super) fn exceptions_claimed(&self, number: usize) {
        self.claimed_exceptions
            .inc_by(u64::try_from(number).unwrap_or(u64::MAX));
    }

    pub(super) fn taken_over(&self, number: usize) {
        self.takeovers.inc_by(u64::try_from(number).unwrap_or(u64::MAX));
    }

    pub(super) fn lease_lost(&self) {
        self.lost_leases.inc();
    }

    pub(super) fn database_failed(&self, reason: &'static str) {
        self.database_errors.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(super) fn settle_failed(&self, reason: &'static str) {
        self.settle_errors.get_or_create(&ReasonLabel { reason }).inc();
    }
}
