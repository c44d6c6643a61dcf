//! What is asked of a database, and when.

use std::time::Duration;

use sqlstreams::database::statistics::{Exceptions, Progress};
use sqlstreams::database::{GroupId, StreamId};
use sqlstreams::statistics::model::Model;
use sqlstreams::statistics::{Action, Agenda};
use tokio::time::Instant;

use crate::statistics_status::{counters, group};

fn model(groups: i64) -> Model {
    let mut model = Model::default();
    model.counted(counters(
        (1..=groups).map(|id| group(id, &id.to_string(), None, 0)).collect(),
    ));
    model
}

fn after(now: Instant, millis: u64) -> Instant {
    now + Duration::from_millis(millis)
}

#[test]
fn a_first_round_asks_for_everything_and_then_waits() {
    let now = Instant::now();
    let mut agenda = Agenda::new(now);
    assert_eq!(agenda.next(now), Action::Counters);
    let mut model = Model::default();
    let news = model.counted(counters(vec![group(1, "a", None, 0)]));
    agenda.counted(now, now, &model, &news, true);
    assert_eq!(agenda.next(now), Action::Partitions);
    agenda.topped_up(now, now);
    assert_eq!(agenda.next(now), Action::Progress(vec![GroupId(1)]));
    assert_eq!(agenda.next(now), Action::Facts(vec![StreamId(1)]));
    assert_eq!(agenda.next(now), Action::Compact);
    assert_eq!(agenda.next(now), Action::Wait(after(now, 1000)));
}

#[test]
fn counters_do_not_wait_behind_a_round_through_all_groups() {
    let now = Instant::now();
    let mut agenda = Agenda::new(now);
    let mut known = Model::default();
    let news = known.counted(counters(
        (1..=100).map(|id| group(id, &id.to_string(), None, 0)).collect(),
    ));
    assert_eq!(agenda.next(now), Action::Counters);
    agenda.counted(now, now, &known, &news, false);
    assert_eq!(agenda.next(now), Action::Partitions);
    let chunk = |from: i64| Action::Progress((from..from + 20).map(GroupId).collect());
    assert_eq!(agenda.next(now), chunk(1));
    assert_eq!(agenda.next(after(now, 1000)), Action::Counters);
    let changed = known.counted(counters(
        (1..=100)
            .map(|id| group(id, &id.to_string(), None, i64::from(id == 90)))
            .collect(),
    ));
    agenda.counted(after(now, 1000), after(now, 1000), &known, &changed, false);
    assert_eq!(agenda.next(after(now, 1000)), Action::Partitions);
    assert_eq!(agenda.next(after(now, 1000)), chunk(21));
}

#[test]
fn a_slow_database_is_asked_less_often() {
    let now = Instant::now();
    let mut agenda = Agenda::new(now);
    let model = model(0);
    assert_eq!(agenda.next(now), Action::Counters);
    agenda.counted(now, after(now, 500), &model, &Default::default(), false);
    agenda.topped_up(now, after(now, 500));
    assert_eq!(agenda.next(after(now, 500)), Action::Facts(vec![StreamId(1)]));
    assert_eq!(agenda.next(after(now, 500)), Action::Wait(after(now, 2500)));
}

#[test]
fn a_group_that_has_finished_the_last_id_is_left_in_peace() {
    let finished = Progress {
        head: 100,
        claimed: 100,
        committed: 100,
        ..Progress::default()
    };
    let cases = [
        (Some(finished), 0, Some(100), false),
        (None, 0, Some(100), true),
        (Some(finished), 0, None, true),
        (Some(finished), 0, Some(101), true),
        (Some(finished), 1, Some(100), true),
        (
            Some(Progress {
                claimed: 90,
                committed: 90,
                backlog: 10,
                ..finished
            }),
            0,
            Some(100),
            true,
        ),
        (
            Some(Progress {
                committed: 90,
                inflight: 10,
                ..finished
            }),
            0,
            Some(100),
            true,
        ),
        (
            Some(Progress {
                claimed: 99,
                committed: 99,
                ..finished
            }),
            0,
            Some(100),
            true,
        ),
    ];
    for (progress, retrying, last_id, restless) in cases {
        let mut model = Model::default();
        let mut one = group(1, "a", None, 5);
        one.exceptions = Exceptions {
            deferred: retrying,
            dead: 5,
            ..Exceptions::default()
        };
        model.counted(counters(vec![one]));
        model.progressed(progress.map(|progress| (GroupId(1), progress)).into_iter().collect());
        model.drew(&last_id.map(|id| (StreamId(1), id)).into_iter().collect::<Vec<_>>());
        assert_eq!(
            model.restless().count() == 1,
            restless,
            "{progress:?} {retrying} {last_id:?}"
        );
    }
}

#[test]
fn a_failure_puts_everything_off() {
    let now = Instant::now();
    let mut agenda = Agenda::new(now);
    assert_eq!(agenda.next(now), Action::Counters);
    agenda.failed(after(now, 8000));
    assert_eq!(agenda.next(after(now, 7999)), Action::Wait(after(now, 8000)));
    assert_eq!(agenda.next(after(now, 8000)), Action::Counters);
}
