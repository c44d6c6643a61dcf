//! The metrics: one table for Prometheus and for people.

use k8s_openapi::jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use sqlstreams::database::statistics::Progress;
use sqlstreams::statistics::Metrics;
use sqlstreams::statistics::catalog::{ALL, Metric};
use sqlstreams::statistics::model::GroupNumbers;

use crate::statistics_status::group;

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

fn numbers(id: i64, name: &str) -> GroupNumbers {
    GroupNumbers {
        counters: group(id, name, None, 4),
        progress: Some(Progress::default()),
    }
}

#[test]
fn every_metric_is_exported_under_its_prometheus_name() {
    let mut registry = Registry::default();
    let mut gauges = Metrics::register(&mut registry).database("shop", "main");
    gauges.set("payments", &numbers(1, "cards"), Timestamp::UNIX_EPOCH);
    let text = text(&registry);
    for metric in ALL {
        let line = format!(
            "{}{{namespace=\"shop\",database=\"main\",stream=\"payments\",group=\"cards\"}}",
            metric.prometheus_name()
        );
        assert!(text.contains(&line), "{line} in\n{text}");
    }
}

#[test]
fn gauges_go_away_with_their_group_and_with_their_database() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let mut gauges = metrics.database("shop", "main");
    let mut others = metrics.database("shop", "other");
    for (id, name) in [(1, "cards"), (2, "mails")] {
        gauges.set("payments", &numbers(id, name), Timestamp::UNIX_EPOCH);
        others.set("payments", &numbers(id, name), Timestamp::UNIX_EPOCH);
    }
    gauges.read();
    gauges.retain(|id| id.0 == 2);
    let after = text(&registry);
    assert!(
        !after.contains("database=\"main\",stream=\"payments\",group=\"cards\""),
        "{after}"
    );
    assert!(
        after.contains("database=\"main\",stream=\"payments\",group=\"mails\""),
        "{after}"
    );
    drop(gauges);
    let after = text(&registry);
    assert!(!after.contains("database=\"main\""), "{after}");
    assert_eq!(after.matches("database=\"other\"").count(), 2 * ALL.len(), "{after}");
}

#[test]
fn a_renamed_group_leaves_no_gauge_behind() {
    let mut registry = Registry::default();
    let mut gauges = Metrics::register(&mut registry).database("shop", "main");
    gauges.set("payments", &numbers(1, "before"), Timestamp::UNIX_EPOCH);
    gauges.set("payments", &numbers(1, "after"), Timestamp::UNIX_EPOCH);
    assert!(!text(&registry).contains("before"));
}

#[test]
fn names_are_those_of_the_documents() {
    let names: Vec<_> = ALL.into_iter().map(Metric::name).collect();
    insta::assert_yaml_snapshot!(names);
}

#[test]
fn an_age_counts_from_the_oldest_failure_to_now_and_is_never_negative() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let age = |oldest: Option<i64>, now: i64| {
        let numbers = GroupNumbers {
            counters: group(1, "a", None, 0),
            progress: Some(Progress {
                oldest_unresolved_at: oldest.map(at),
                ..Progress::default()
            }),
        };
        Metric::ExceptionsOldestUnresolvedAge.value(&numbers, at(now))
    };
    assert_eq!(age(Some(900), 1000), Some(100.0));
    assert_eq!(age(Some(1001), 1000), Some(0.0));
    assert_eq!(age(None, 1000), Some(0.0));
}

#[test]
fn what_was_not_looked_up_has_no_value() {
    let numbers = GroupNumbers {
        counters: group(1, "a", None, 3),
        progress: None,
    };
    let known: Vec<_> = ALL
        .into_iter()
        .filter(|metric| metric.value(&numbers, Timestamp::UNIX_EPOCH).is_some())
        .collect();
    assert_eq!(
        known,
        [
            Metric::ExceptionsReady,
            Metric::ExceptionsInflight,
            Metric::ExceptionsDeferred,
            Metric::ExceptionsDead
        ]
    );
    assert_eq!(Metric::ExceptionsDead.value(&numbers, Timestamp::UNIX_EPOCH), Some(3.0));
}
