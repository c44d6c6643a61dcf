//! The numbers as Prometheus gauges, one set for each consumer group.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit as PrometheusUnit};

use super::catalog::{ALL, Metric, Unit};
use super::model::GroupNumbers;
use crate::database::GroupId;

type FloatGauge = Gauge<f64, AtomicU64>;

/// Which group a gauge is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabels {
    /// Namespace of the ConsumerGroup, or of the StreamDatabase where there is none.
    namespace: String,
    /// Name of the StreamDatabase.
    database: String,
    stream: String,
    group: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DatabaseLabels {
    namespace: String,
    database: String,
}

/// The gauges of every database. Clones are of the same gauges.
#[derive(Clone, Debug)]
pub struct Metrics {
    gauges: Vec<(Metric, Family<GroupLabels, FloatGauge>)>,
    read_at: Family<DatabaseLabels, FloatGauge>,
}

impl Metrics {
    /// Makes the gauges known to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let gauges = ALL
            .into_iter()
            .map(|metric| {
                let family = Family::<GroupLabels, FloatGauge>::default();
                // The registry adds the unit to the name itself.
                let name = metric.name().replace('.', "_");
                match metric.unit() {
                    Unit::Seconds => {
                        registry.register_with_unit(name, metric.description(), PrometheusUnit::Seconds, family.clone())
                    }
                    Unit::Messages | Unit::MessageId => registry.register(name, metric.description(), family.clone()),
                }
                (metric, family)
            })
            .collect();
        let read_at = Family::default();
        registry.register_with_unit(
            "sqlstreams_statistics_read_time",
            "When the counters of the database were last read, in Unix time; the others are as old as that",
            PrometheusUnit::Seconds,
            read_at.clone(),
        );
        Self { gauges, read_at }
    }

    /// The gauges of one StreamDatabase.
    #[must_use]
    pub fn database(&self, namespace: &str, name: &str) -> DatabaseMetrics {
        DatabaseMetrics {
            metrics: self.clone(),
            labels: DatabaseLabels {
                namespace: namespace.into(),
                database: name.into(),
            },
            groups: HashMap::new(),
        }
    }
}

/// The gauges of one database; they go away with it.
#[derive(Debug)]
pub struct DatabaseMetrics {
    metrics: Metrics,
    labels: DatabaseLabels,
    groups: HashMap<GroupId, GroupLabels>,
}

impl DatabaseMetrics {
    /// Notes that the counters were read just now.
    pub fn read(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.metrics.read_at.get_or_create(&self.labels).set(now.as_secs_f64());
    }

    /// Sets the gauges of a group; those of which nothing is known stay as they are.
    pub fn set(&mut self, stream: &str, group: &GroupNumbers, at: Timestamp) {
        let labels = GroupLabels {
            namespace: self.labels.namespace.clone(),
            database: self.labels.database.clone(),
            stream: stream.into(),
            group: group.counters.name.clone(),
        };
        for (metric, family) in &self.metrics.gauges {
            if let Some(value) = metric.value(group, at) {
                family.get_or_create(&labels).set(value);
            }
        }
        if let Some(old) = self.groups.insert(group.counters.id, labels.clone())
            && old != labels
        {
            self.remove(&old);
        }
    }

    /// Takes away the gauges of groups that are gone.
    pub fn retain(&mut self, is_there: impl Fn(GroupId) -> bool) {
        let gone: Vec<GroupId> = self.groups.keys().copied().filter(|id| !is_there(*id)).collect();
        for id in gone {
            if let Some(labels) = self.groups.remove(&id) {
                self.remove(&labels);
            }
        }
    }

    fn remove(&self, labels: &GroupLabels) {
        for (_, family) in &self.metrics.gauges {
            family.remove(labels);
        }
    }
}

impl Drop for DatabaseMetrics {
    fn drop(&mut self) {
        for labels in self.groups.values() {
            self.remove(labels);
        }
        self.metrics.read_at.remove(&self.labels);
    }
}
