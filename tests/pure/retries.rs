//! When a failed message is tried again.

use std::time::Duration;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use sqlstreams::api::Jitter;
use sqlstreams::delivery::retry::{FLOOR, RetryPolicy};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

prop_compose! {
    fn policies()(
        max_retries in any::<u32>(),
        initial in 0_u64..1_000_000_000,
        max in 0_u64..1_000_000_000_000,
        factor in any::<u32>(),
        full in any::<bool>(),
    ) -> RetryPolicy {
        RetryPolicy {
            max_retries,
            initial_delay: Duration::from_millis(initial),
            max_delay: Duration::from_millis(max),
            factor,
            jitter: if full { Jitter::Full } else { Jitter::None },
        }
    }
}

proptest! {
    #[test]
    fn a_delay_is_between_the_floor_and_the_ceiling_at_any_attempt(policy in policies(), attempt in 1_u32.., seed in any::<u64>()) {
        let delay = policy.delay(attempt, &mut StdRng::seed_from_u64(seed));
        prop_assert!(delay >= FLOOR);
        prop_assert!(delay <= policy.ceiling(attempt).max(FLOOR));
        prop_assert!(policy.ceiling(attempt) <= policy.max_delay);
    }

    #[test]
    fn a_ceiling_never_falls_from_one_attempt_to_the_next(policy in policies(), attempt in 1_u32..u32::MAX) {
        prop_assume!(policy.factor >= 1);
        prop_assert!(policy.ceiling(attempt) <= policy.ceiling(attempt + 1));
    }

    #[test]
    fn every_policy_can_be_told_in_few_words(policy in policies()) {
        prop_assert!(policy.schedule().len() < 200, "{}", policy.schedule());
    }

    #[test]
    fn a_wait_that_was_asked_for_stays_within_bounds(policy in policies(), asked in any::<u64>(), attempt in 1_u32..100, seed in any::<u64>()) {
        let delay = policy.delay(attempt, &mut StdRng::seed_from_u64(seed));
        let wait = policy.asked(Duration::from_secs(asked), delay);
        prop_assert!(wait >= delay);
        prop_assert!(wait <= policy.max_delay.max(delay).max(FLOOR));
    }
}

#[test]
fn full_jitter_uses_the_whole_range() {
    let policy = RetryPolicy::default();
    let mut rng = StdRng::seed_from_u64(7);
    let delays: Vec<Duration> = (0..1000).map(|_| policy.delay(7, &mut rng)).collect();
    assert!(delays.iter().any(|delay| *delay < seconds(5)));
    assert!(delays.iter().any(|delay| *delay > seconds(55)));
    assert!(delays.iter().all(|delay| *delay <= seconds(60)));
}

#[test]
fn the_ceiling_doubles_from_one_second_to_sixty() {
    let policy = RetryPolicy::default();
    let ceilings: Vec<u64> = (1..=8).map(|attempt| policy.ceiling(attempt).as_secs()).collect();
    assert_eq!(ceilings, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[test]
fn three_retries_follow_the_first_attempt() {
    let policy = RetryPolicy::default();
    assert!(!policy.is_exhausted(3));
    assert!(policy.is_exhausted(4));
}

#[test]
fn without_jitter_the_delay_is_the_ceiling() {
    let policy = RetryPolicy {
        jitter: Jitter::None,
        ..RetryPolicy::default()
    };
    let mut rng = StdRng::seed_from_u64(1);
    assert_eq!(policy.delay(3, &mut rng), seconds(4));
}

#[test]
fn the_schedule_reads_well() {
    let of = |max_retries, initial, max, factor, jitter| {
        RetryPolicy {
            max_retries,
            initial_delay: Duration::from_millis(initial),
            max_delay: Duration::from_millis(max),
            factor,
            jitter,
        }
        .schedule()
    };
    let cases = [
        (
            of(3, 1_000, 60_000, 2, Jitter::Full),
            "4 attempts: at once, then after up to 1 s, 2 s and 4 s; then dead",
        ),
        (of(0, 1_000, 60_000, 2, Jitter::Full), "1 attempt; then dead"),
        (
            of(1, 1_000, 60_000, 2, Jitter::Full),
            "2 attempts: at once, then after up to 1 s; then dead",
        ),
        (
            of(2, 1_000, 60_000, 2, Jitter::None),
            "3 attempts: at once, then after 1 s and 2 s; then dead",
        ),
        (
            of(7, 1_000, 60_000, 2, Jitter::Full),
            "8 attempts: at once, then after up to 1 s, 2 s, 4 s, 8 s, 16 s, 32 s and 60 s; then dead",
        ),
        (
            of(20, 1_000, 60_000, 2, Jitter::Full),
            "21 attempts: at once, then after up to 1 s, 2 s, 4 s, 8 s, 16 s, 32 s, then 60 s each time; then dead",
        ),
        (
            of(5, 10_000, 10_000, 2, Jitter::None),
            "6 attempts: at once, then after 10 s each time; then dead",
        ),
        (
            of(2, 100, 60_000, 2, Jitter::None),
            "3 attempts: at once, then after 1 s each time; then dead",
        ),
        (
            of(12, 1_000, 86_400_000, 2, Jitter::Full),
            "13 attempts: at once, then after up to 1 s, 2 s, 4 s and so on to 2048 s; then dead",
        ),
        (
            of(2, 300_000, 86_400_000, 12, Jitter::None),
            "3 attempts: at once, then after 5 min and 1 h; then dead",
        ),
    ];
    for (schedule, expected) in cases {
        assert_eq!(schedule, expected);
    }
}
