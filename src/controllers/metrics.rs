//! Numbers about reconciling.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    kind: &'static str,
    reason: &'static str,
}

/// Numbers about reconciling, by kind.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    duration: Family<KindLabels, Histogram>,
    errors: Family<ErrorLabels, Counter>,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let duration = Family::new_with_constructor(histogram as fn() -> Histogram);
        let errors = Family::default();
        registry.register_with_unit(
            "sqlstreams_reconcile_duration",
            "Time that one reconcile took",
            Unit::Seconds,
            duration.clone(),
        );
        registry.register(
            "sqlstreams_reconcile_errors",
            "Reconciles that failed, by reason",
            errors.clone(),
        );
        Self { duration, errors }
    }

    pub(crate) fn observe(&self, kind: &'static str, seconds: f64, error: Option<&'static str>) {
        self.duration.get_or_create(&KindLabels { kind }).observe(seconds);
        if let Some(reason) = error {
            self.errors.get_or_create(&ErrorLabels { kind, reason }).inc();
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
}
