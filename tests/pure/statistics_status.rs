//! What the status of each resource shows.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use sqlstreams::database::ownership::Owner;
use sqlstreams::database::statistics::{Counters, Exceptions, GroupCounters, Progress, StreamFacts, StreamIdentity};
use sqlstreams::database::{GroupId, Schema, StreamId};
use sqlstreams::statistics::Change;
use sqlstreams::statistics::model::Model;
use sqlstreams::statistics::status::{Home, Kind, Numbers, Resource, WantedStatus, apply_body, human_size, wanted};
use uuid::Uuid;

fn owner(uid: u128, reference: &str, cluster: &str) -> Option<Owner> {
    Some(Owner {
        uid: Uuid::from_u128(uid),
        reference: reference.into(),
        cluster_id: cluster.into(),
    })
}

pub fn group(id: i64, name: &str, owner: Option<Owner>, dead: i64) -> GroupCounters {
    GroupCounters {
        id: GroupId(id),
        stream: StreamId(1),
        name: name.into(),
        owner,
        exceptions: Exceptions {
            ready: 1,
            inflight: 2,
            deferred: 3,
            dead,
        },
    }
}

pub fn counters(groups: Vec<GroupCounters>) -> Counters {
    Counters {
        streams: vec![StreamIdentity {
            id: StreamId(1),
            name: "payments".into(),
            owner: owner(1, "shop/payments", "here"),
        }],
        groups,
        changes: 0,
        at: Timestamp::from_second(1000).ok(),
    }
}

fn progress() -> Progress {
    Progress {
        head: 110,
        claimed: 100,
        committed: 90,
        backlog: 10,
        inflight: 5,
        next_attempt_at: Timestamp::new(1005, 999_000_000).ok(),
        oldest_unresolved_at: Timestamp::new(900, 1).ok(),
    }
}

fn statuses(model: &Model) -> Vec<WantedStatus> {
    let home = Home {
        cluster: "here",
        namespace: "shop",
    };
    wanted(model, &BTreeSet::from([StreamId(1)]), home, &Schema::default())
}

fn complete() -> Model {
    let mut model = Model::default();
    model.counted(counters(vec![
        group(7, "b", owner(2, "shop/b", "here"), 400),
        group(9, "a", owner(3, "shop/a", "elsewhere"), 0),
        group(11, "c", None, 1),
    ]));
    model.progressed(vec![(GroupId(7), progress()), (GroupId(9), progress())]);
    model.found(vec![(
        StreamId(1),
        StreamFacts {
            size_bytes: 1_288_490_189,
            oldest_message_at: Timestamp::new(500, 5).ok(),
        },
    )]);
    model
}

#[test]
fn a_group_shows_its_numbers_in_whole_seconds() {
    let all = statuses(&complete());
    let group = &all[0];
    assert_eq!(
        (group.resource.kind, group.resource.name.as_str()),
        (Kind::ConsumerGroup, "b")
    );
    let condition = group.condition.as_ref().unwrap();
    let condition = condition.over(&[], None, Timestamp::from_second(2000).unwrap());
    let body = apply_body(&group.resource, "17", &group.numbers, Some(&condition));
    insta::assert_yaml_snapshot!(body);
}

#[test]
fn a_stream_shows_sums_and_one_line_for_each_group_by_name() {
    let all = statuses(&complete());
    let stream = &all[1];
    assert_eq!(stream.condition, None);
    insta::assert_yaml_snapshot!(apply_body(&stream.resource, "17", &stream.numbers, None));
}

#[test]
fn resources_of_other_clusters_and_what_nobody_owns_are_left_alone() {
    let resources: Vec<_> = statuses(&complete())
        .into_iter()
        .map(|one| one.resource.to_string())
        .collect();
    assert_eq!(resources, ["ConsumerGroup shop/b", "Stream shop/payments"]);
}

#[test]
fn what_was_not_looked_up_yet_is_not_written() {
    let mut model = Model::default();
    model.counted(counters(vec![group(7, "b", owner(2, "shop/b", "here"), 0)]));
    assert_eq!(statuses(&model), []);
}

#[test]
fn a_stream_has_at_most_a_hundred_lines() {
    let mut model = complete();
    model.counted(counters(
        (0..150).map(|id| group(id, &format!("g{id:03}"), None, 1)).collect(),
    ));
    let Numbers::Stream(status) = &statuses(&model)[0].numbers else {
        panic!("the only owned resource is the stream")
    };
    assert_eq!(
        (status.groups.len(), status.group_count, status.dead),
        (100, Some(150), Some(150))
    );
}

#[test]
fn without_dead_letters_the_condition_holds() {
    let mut model = Model::default();
    model.counted(counters(vec![group(7, "b", owner(2, "shop/b", "here"), 0)]));
    model.progressed(vec![(GroupId(7), Progress::default())]);
    let all = statuses(&model);
    assert_eq!(all[0].condition.as_ref().unwrap().status, Some(true));
}

#[test]
fn more_dead_letters_are_a_change_of_their_own_kind() {
    let numbers = |dead: Option<i64>, lag: i64| Numbers::read(Kind::ConsumerGroup, &json!({"dead": dead, "lag": lag}));
    let cases = [
        (numbers(Some(1), 0), Some(numbers(Some(1), 0)), Change::Nothing),
        (numbers(Some(1), 1), Some(numbers(Some(1), 0)), Change::Numbers),
        (numbers(Some(0), 0), Some(numbers(Some(1), 0)), Change::Numbers),
        (numbers(Some(2), 1), Some(numbers(Some(1), 0)), Change::MoreDead),
        (numbers(Some(2), 1), Some(numbers(None, 0)), Change::MoreDead),
        (numbers(Some(0), 0), None, Change::Numbers),
        (numbers(Some(1), 0), None, Change::MoreDead),
    ];
    for (new, written, change) in cases {
        assert_eq!(new.change_since(written.as_ref()), change, "{new:?} after {written:?}");
    }
}

#[test]
fn numbers_read_back_are_those_that_were_written_and_nothing_else() {
    for wanted in statuses(&complete()) {
        let mut status = apply_body(&wanted.resource, "17", &wanted.numbers, None)["status"].clone();
        status["streamId"] = json!(4);
        status["observedGeneration"] = json!(2);
        assert_eq!(Numbers::read(wanted.resource.kind, &status), wanted.numbers);
    }
}

#[test]
fn sizes_are_for_people() {
    for (bytes, text) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (1_288_490_189, "1.2 GiB"),
        (i64::MAX, "8192.0 PiB"),
    ] {
        assert_eq!(human_size(bytes), text);
    }
}

/// Whoever owns the database can write any owner into it.
#[test]
fn a_database_reaches_no_resource_beyond_its_own_namespace() {
    let home = Home {
        cluster: "here",
        namespace: "shop",
    };
    let of = |owner: Option<Owner>| Resource::of_owner(Kind::ConsumerGroup, owner.as_ref(), home);
    assert!(of(owner(1, "shop/a", "here")).is_some());
    assert_eq!(of(owner(1, "bank/a", "here")), None);
    assert_eq!(of(owner(1, "shop/a", "elsewhere")), None);
}
