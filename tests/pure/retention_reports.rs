//! What a run of the retention job tells.

use k8s_openapi::jiff::Timestamp;
use sqlstreams::database::retention::{Blocker, DroppedPartition, Report};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn blocker(group: &str, reason: &str) -> Blocker {
    Blocker {
        group: group.into(),
        reason: reason.into(),
    }
}

#[test]
fn a_group_that_stays_in_the_way_keeps_since_when() {
    let mut first = Report::new(at(100));
    first.block(vec![blocker("a", "is at 1"), blocker("b", "is at 2")], None);
    let mut second = Report::new(at(200));
    second.block(vec![blocker("a", "is at 7"), blocker("c", "is at 3")], Some(&first));
    let told: Vec<_> = second
        .behind
        .iter()
        .map(|behind| (behind.group.as_str(), behind.reason.as_str(), behind.since))
        .collect();
    assert_eq!(told, [("a", "is at 7", at(100)), ("c", "is at 3", at(200))]);
    let mut third = Report::new(at(300));
    third.block(vec![blocker("b", "is at 2")], Some(&second));
    assert_eq!(third.behind[0].since, at(300), "b was out of the way in between");
}

#[test]
fn a_report_names_the_last_hundred_partitions() {
    let mut report = Report::new(at(0));
    for low in 0..150 {
        report.dropped(DroppedPartition {
            name: format!("p{low}"),
            low,
            high: low,
            size_bytes: 0,
        });
    }
    assert_eq!(report.dropped.len(), 100);
    assert_eq!(report.dropped[0].name, "p50");
    assert_eq!(report.dropped[99].name, "p149");
}

#[test]
fn a_report_reads_what_it_wrote() {
    let mut report = Report::new(at(1_700_000_000));
    report.block(vec![blocker("a", "is behind")], None);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["ran_at"], "2023-11-14T22:13:20Z");
    assert_eq!(json["behind"][0]["since"], "2023-11-14T22:13:20Z");
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
}
