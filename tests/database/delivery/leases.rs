//! Leases: what is lost with them, and to whom.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlstreams::database::DatabaseError;
use sqlstreams::database::claims::{Fate, Fence, Rest, Settlement, Verdict};
use sqlstreams::database::instances::Instance;
use sqlstreams::database::{CallError, MessageId};
use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::outcome::Outcome;

use super::stage::{Native, Stage, settings};

const SHORT: Duration = Duration::from_secs(1);

fn verdict(message: i64, fate: Fate) -> Verdict {
    Verdict {
        message: MessageId(message),
        fate,
        attempt: 1,
        error: Some("too late".into()),
        fingerprint: Some("too late".into()),
        delay_ms: 1000,
        duration_us: 1,
        destination: None,
    }
}

fn assert_fenced<T>(result: Result<T, CallError>) {
    match result {
        Err(CallError::Failed(DatabaseError::Fenced)) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was allowed"),
    }
}

async fn rows(stage: &Stage) -> String {
    stage
        .scalar(
            "SELECT json_build_array( \
                 (SELECT json_agg(e ORDER BY message_id) FROM sqlstreams.exception_queue_1 e), \
                 (SELECT json_agg(l) FROM sqlstreams.delivery_log_1 l), \
                 (SELECT json_agg(c ORDER BY id) FROM sqlstreams.claim_1 c), \
                 (SELECT json_agg(r ORDER BY claim_id) FROM sqlstreams.resolution_1 r), \
                 (SELECT json_agg(d) FROM sqlstreams.dead_letter d), \
                 (SELECT json_agg(s ORDER BY s::text) FROM sqlstreams.statistics_delta s))::text",
        )
        .await
}

async fn expired(stage: &Stage, group: &str) -> (Instance, sqlstreams::database::instances::Claim) {
    let instance = stage.instance(group, Duration::from_millis(100)).await;
    let claim = instance
        .claim_messages(&mut Fence::default(), 5)
        .await
        .unwrap()
        .unwrap();
    (instance, claim)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_instance_changes_no_row() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(20).await;
    // A message that has failed before, held by the instance that will be fenced.
    let first = stage.instance("charge-cards", Duration::from_secs(60)).await;
    let claim = first.claim_messages(&mut Fence::default(), 1).await.unwrap().unwrap();
    let settlement = Settlement {
        claims: vec![claim.id],
        failures: vec![Verdict {
            delay_ms: 0,
            ..verdict(1, Fate::Failed)
        }],
        ..Settlement::default()
    };
    first.settle(&settlement).await.unwrap();
    let (late, claim) = expired(&stage, "charge-cards").await;
    assert_eq!(late.claim_exceptions(10).await.unwrap().len(), 1);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let heir = stage.instance("charge-cards", Duration::from_secs(60)).await;
    let taken = heir.take_over().await.unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(
        (taken[0].low, taken[0].high, taken[0].takeover),
        (claim.low, claim.high, 1)
    );
    let before = rows(&stage).await;

    let rest = vec![Rest {
        low: claim.low,
        high: claim.high,
        takeover: claim.takeover + 1,
    }];
    let settlements = [
        Settlement {
            claims: vec![claim.id],
            ..Settlement::default()
        },
        Settlement {
            claims: vec![claim.id],
            rest,
            ..Settlement::default()
        },
        Settlement {
            claims: vec![claim.id],
            failures: vec![verdict(claim.low, Fate::Terminal)],
            ..Settlement::default()
        },
        Settlement {
            exceptions: vec![verdict(1, Fate::Succeeded)],
            ..Settlement::default()
        },
        Settlement {
            exceptions: vec![verdict(1, Fate::Terminal)],
            ..Settlement::default()
        },
    ];
    for settlement in &settlements {
        assert_fenced(late.settle(settlement).await);
    }
    assert_fenced(late.claim_messages(&mut Fence::default(), 5).await);
    assert_fenced(late.claim_exceptions(5).await);
    assert_fenced(late.give_back(&[claim.id]).await);
    assert!(!late.renew(Duration::from_secs(1)).await.unwrap());
    late.end().await.unwrap();
    assert_eq!(rows(&stage).await, before);
    assert!(heir.renew(Duration::from_secs(1)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledging_and_taking_over_at_the_same_time_has_one_winner() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(200).await;
    let heir = stage.instance("charge-cards", Duration::from_secs(60)).await;
    let mut wins = [0, 0];
    for _ in 0..30 {
        let (late, claim) = expired(&stage, "charge-cards").await;
        tokio::time::sleep(Duration::from_millis(101)).await;
        let settlement = Settlement {
            claims: vec![claim.id],
            failures: vec![verdict(claim.low, Fate::Terminal)],
            ..Settlement::default()
        };
        let (settled, taken) = tokio::join!(late.settle(&settlement), heir.take_over());
        let taken = taken.unwrap().iter().any(|taken| taken.low == claim.low);
        assert_ne!(settled.is_ok(), taken, "claim {}", claim.id);
        wins[usize::from(taken)] += 1;
    }
    let resolved = stage.count("sqlstreams.resolution_1").await;
    assert_eq!(resolved, 30);
    assert_eq!(stage.count("sqlstreams.exception_queue_1").await, wins[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_messages_of_a_killed_worker_run_again_within_its_lease_and_two_seconds() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(3).await;
    let mut short = settings("charge-cards");
    short.lease = SHORT;
    let began = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&began);
    let killed = stage.worker_with(
        short.clone(),
        Native(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        }),
    );
    while began.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A lease is kept for as long as the worker lives.
    tokio::time::sleep(SHORT * 2).await;
    let done = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&done);
    let heir = stage.worker_with(
        short,
        Native(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            async { Outcome::Done }
        }),
    );
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(done.load(Ordering::Relaxed), 0, "taken from a worker that lives");
    let killed_at = Instant::now();
    killed.kill().await;
    while done.load(Ordering::Relaxed) < 3 {
        assert!(
            killed_at.elapsed() < SHORT + Duration::from_secs(2),
            "not taken over in time"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stage.until_done("charge-cards").await;
    heir.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_worker_drops_its_work_and_registers_anew() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(1).await;
    let mut short = settings("charge-cards");
    short.lease = SHORT;
    let dropped = Arc::new(AtomicBool::new(false));
    let attempts = Arc::new(AtomicUsize::new(0));

    struct OnDrop(Arc<AtomicBool>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let (flag, counter) = (Arc::clone(&dropped), Arc::clone(&attempts));
    let worker = stage.worker_with(
        short,
        Native(move |_| {
            let first = counter.fetch_add(1, Ordering::Relaxed) == 0;
            let flag = Arc::clone(&flag);
            async move {
                if first {
                    let _guard = OnDrop(flag);
                    std::future::pending::<()>().await;
                }
                Outcome::Done
            }
        }),
    );
    while attempts.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stage
        .execute("UPDATE sqlstreams.worker_instance SET fenced_at = now()")
        .await;
    let fenced = Instant::now();
    while !dropped.load(Ordering::Relaxed) {
        assert!(fenced.elapsed() < SHORT, "the handler goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stage
        .until(
            "it has registered anew",
            "SELECT count(*) = 2 AND count(fenced_at) = 1 FROM sqlstreams.worker_instance",
        )
        .await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_message_does_not_hold_back_the_others_of_its_claim() {
    let stage = Stage::new(&["charge-cards"]).await;
    let release = Arc::new(tokio::sync::Semaphore::new(0));
    let gate = Arc::clone(&release);
    stage.publish_many(100).await;
    let worker = stage.worker(
        "charge-cards",
        Native(move |message: Message| {
            let gate = Arc::clone(&gate);
            async move {
                match message.id.0 {
                    // Hold still while all others are done.
                    2 => drop(gate.acquire().await),
                    1 | 90 => return Outcome::terminal("no"),
                    _ => {}
                }
                Outcome::Done
            }
        }),
    );
    stage
        .until_within(
            Duration::from_secs(3),
            "all but one are recorded",
            "SELECT p.claimed = 100 AND p.inflight = 1 AND p.committed = 1 FROM sqlstreams.group_progress(1) p",
        )
        .await;
    assert_eq!(
        stage.count("sqlstreams.exception_queue_1 WHERE status = 'dead'").await,
        2
    );
    let claims = stage.count("sqlstreams.claim_1").await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(
        stage.count("sqlstreams.claim_1").await,
        claims,
        "split once, not for ever"
    );
    release.add_permits(1);
    stage.until_done("charge-cards").await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emptying_the_ledger_under_load_keeps_positions_and_claims() {
    let stage = Stage::new(&["charge-cards", "email-receipts"]).await;
    let handled: Arc<Mutex<Vec<i64>>> = Arc::default();
    let record = Arc::clone(&handled);
    let worker = stage.worker(
        "charge-cards",
        Native(move |message: Message| {
            record.lock().unwrap().push(message.id.0);
            async { Outcome::Done }
        }),
    );
    let other = stage.instance("email-receipts", Duration::from_secs(60)).await;
    stage.publish_many(10).await;
    let open = other.claim_messages(&mut Fence::default(), 4).await.unwrap().unwrap();
    let mut rotated = 0;
    for _ in 0..60 {
        stage.publish_many(20).await;
        match other.rotate_claims(10).await {
            Ok(true) => rotated += 1,
            Ok(false) | Err(CallError::Failed(DatabaseError::Locked)) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.until_done("charge-cards").await;
    worker.drain().await;
    assert!(rotated >= 3, "rotated {rotated} times");
    let mut handled = handled.lock().unwrap().clone();
    handled.sort_unstable();
    assert_eq!(handled, (1..=1210).collect::<Vec<i64>>());
    let settlement = Settlement {
        claims: vec![open.id],
        ..Settlement::default()
    };
    other
        .settle(&settlement)
        .await
        .expect("an open claim outlives the rotation");
    let next = other.claim_messages(&mut Fence::default(), 1).await.unwrap().unwrap();
    assert_eq!(next.low, open.high + 1, "so does the position");
}

/// A dump that began before a rotation and reached the ledger after it saw an empty one.
#[tokio::test]
async fn a_dump_that_missed_the_ledger_repeats_only_what_was_not_acknowledged_at_the_rotation() {
    let stage = Stage::new(&["charge-cards"]).await;
    let instance = stage.instance("charge-cards", Duration::from_secs(60)).await;
    stage.publish_many(30).await;
    let mut fence = Fence::default();
    for _ in 0..2 {
        let claim = instance.claim_messages(&mut fence, 10).await.unwrap().unwrap();
        let settlement = Settlement {
            claims: vec![claim.id],
            ..Settlement::default()
        };
        instance.settle(&settlement).await.unwrap();
    }
    let open = instance.claim_messages(&mut fence, 10).await.unwrap().unwrap();
    assert!(instance.rotate_claims(1).await.unwrap());
    stage
        .execute("TRUNCATE sqlstreams.claim_1, sqlstreams.resolution_1")
        .await;
    let position: i64 = stage.scalar("SELECT sqlstreams.group_position(1, 1)").await;
    assert_eq!(position, open.low - 1);
}
