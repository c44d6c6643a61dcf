//! When a status is written.

use std::time::Duration;

use sqlstreams::statistics::{Change, Pace};
use tokio::time::Instant;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn nothing_new_is_never_written() {
    let now = Instant::now();
    let mut pace = Pace::default();
    assert_eq!(pace.write_at(now, Change::Nothing), None);
    pace.failed(now);
    assert_eq!(pace.write_at(now, Change::Nothing), None);
}

#[test]
fn numbers_wait_five_seconds_after_a_write_and_dead_letters_do_not() {
    let now = Instant::now();
    let mut pace = Pace::default();
    assert_eq!(pace.write_at(now, Change::Numbers), Some(now));
    pace.written(now);
    let later = now + seconds(1);
    assert_eq!(pace.write_at(later, Change::Numbers), Some(now + seconds(5)));
    assert_eq!(pace.write_at(later, Change::MoreDead), Some(later));
}

#[test]
fn failures_are_tried_again_ever_less_often() {
    let now = Instant::now();
    let mut pace = Pace::default();
    assert!(pace.failed(now), "the first is worth a line in the log");
    assert_eq!(pace.write_at(now, Change::MoreDead), Some(now + seconds(1)));
    assert!(!pace.failed(now));
    assert_eq!(pace.write_at(now, Change::MoreDead), Some(now + seconds(2)));
    for _ in 0..100 {
        pace.failed(now);
    }
    assert_eq!(pace.read_at(now), now + seconds(60));
    pace.answered();
    assert_eq!(pace.write_at(now, Change::MoreDead), Some(now));
    assert!(pace.failed(now));
}

#[test]
fn events_are_a_minute_apart() {
    let now = Instant::now();
    let mut pace = Pace::default();
    assert_eq!(pace.event_at(now), now);
    pace.event_sent(now);
    assert_eq!(pace.event_at(now + seconds(3)), now + seconds(60));
}
