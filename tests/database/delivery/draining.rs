//! A worker that is told to stop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::outcome::Outcome;

use super::stage::{Native, Stage, settings};

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_worker_finishes_what_runs_and_gives_back_the_rest_at_once() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(3).await;
    // Three messages teach the worker that it may hold many.
    let running = Arc::new(AtomicUsize::new(0));
    let first: Arc<Mutex<Vec<i64>>> = Arc::default();
    let (counter, record) = (Arc::clone(&running), Arc::clone(&first));
    let mut one = settings("charge-cards");
    one.concurrency = 1;
    let draining = stage.worker_with(
        one.clone(),
        Native(move |message: Message| {
            let (counter, record) = (Arc::clone(&counter), Arc::clone(&record));
            async move {
                if message.id.0 > 3 {
                    counter.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
                record.lock().unwrap().push(message.id.0);
                Outcome::Done
            }
        }),
    );
    stage.until_done("charge-cards").await;
    stage.publish_many(50).await;
    while running.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stage
        .until(
            "it holds all",
            "SELECT p.claimed = 53 FROM sqlstreams.group_progress(1) p",
        )
        .await;
    let second: Arc<Mutex<Vec<i64>>> = Arc::default();
    let record = Arc::clone(&second);
    let heir = stage.worker_with(
        one,
        Native(move |message: Message| {
            record.lock().unwrap().push(message.id.0);
            async { Outcome::Done }
        }),
    );
    let told = Instant::now();
    let drained = tokio::spawn(draining.drain());
    while second.lock().unwrap().len() < 49 {
        assert!(
            told.elapsed() < Duration::from_millis(1800),
            "others wait for the message that runs"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drained.await.unwrap();
    assert!(told.elapsed() < Duration::from_secs(4));
    stage.until_done("charge-cards").await;
    heir.drain().await;
    let mut all = [first.lock().unwrap().clone(), second.lock().unwrap().clone()].concat();
    all.sort_unstable();
    assert_eq!(all, (1..=53).collect::<Vec<i64>>(), "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_past_the_grace_period_is_given_back() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(2).await;
    let mut impatient = settings("charge-cards");
    impatient.grace = Duration::from_millis(300);
    // One hangs at its first attempt, the other at its second.
    let running = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&running);
    let worker = stage.worker_with(
        impatient,
        Native(move |message: Message| {
            let counter = Arc::clone(&counter);
            async move {
                if message.id.0 == 1 && message.attempt == 1 {
                    return Outcome::retry("once more");
                }
                counter.fetch_add(1, Ordering::Relaxed);
                std::future::pending().await
            }
        }),
    );
    while running.load(Ordering::Relaxed) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = Instant::now();
    worker.drain().await;
    assert!(told.elapsed() < Duration::from_secs(2));
    let row: (String, i32, i32) = sqlx::query_as("SELECT status, attempts, crashes FROM sqlstreams.exception_queue_1")
        .fetch_one(&stage.pool)
        .await
        .unwrap();
    assert_eq!(
        row,
        ("ready".into(), 1, 0),
        "an attempt that was broken off does not count"
    );
    let heir = stage.worker("charge-cards", Native(|_| async { Outcome::Done }));
    stage.until_done("charge-cards").await;
    stage
        .until("both are done", "SELECT count(*) = 0 FROM sqlstreams.exception_queue_1")
        .await;
    heir.drain().await;
}
