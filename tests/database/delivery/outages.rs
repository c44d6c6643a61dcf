//! A database that breaks off or stays away.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::outcome::Outcome;

use super::proxy::{Break, Proxy};
use super::stage::{Native, Stage, settings};
use crate::harness;

type Counts = Arc<Mutex<BTreeMap<i64, usize>>>;

/// Counts attempts; message 2 of a round fails for good.
fn counting(counts: &Counts) -> impl Fn(Message) -> std::future::Ready<Outcome> + Send + Sync + use<> {
    let counts = Arc::clone(counts);
    move |message| {
        *counts.lock().unwrap().entry(message.id.0).or_default() += 1;
        std::future::ready(if message.id.0 % 10 == 2 {
            Outcome::terminal("no")
        } else {
            Outcome::Done
        })
    }
}

/// Publishes ten messages, breaks the settlement of some of them, and returns how often each was
/// attempted.
async fn broken_settlement(when: Break) -> (Stage, BTreeMap<i64, usize>) {
    let stage = Stage::new(&["charge-cards"]).await;
    let proxy = Proxy::start(harness::postgres().await.port()).await;
    let counts = Counts::default();
    let url = proxy.url(&stage.database.url);
    let worker = stage.worker_at(&url, settings("charge-cards"), Native(counting(&counts)));
    proxy.break_next_settlement(when);
    stage.publish_many(10).await;
    let began = Instant::now();
    while !proxy.has_broken() {
        assert!(began.elapsed() < Duration::from_secs(10), "nothing was settled");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stage.until_done("charge-cards").await;
    worker.drain().await;
    let counts = counts.lock().unwrap().clone();
    (stage, counts)
}

async fn assert_one_dead(stage: &Stage) {
    let rows: Vec<(i64, String, i32)> =
        sqlx::query_as("SELECT message_id, status, attempts FROM sqlstreams.exception_queue_1")
            .fetch_all(&stage.pool)
            .await
            .unwrap();
    assert_eq!(rows, [(2, "dead".into(), 1)]);
    assert_eq!(stage.count("sqlstreams.delivery_log_1").await, 1);
    assert_eq!(stage.count("sqlstreams.dead_letter").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_that_was_lost_is_made_up_for_by_another_attempt() {
    let (stage, counts) = broken_settlement(Break::Before).await;
    assert_eq!(counts.len(), 10);
    assert!(counts.values().any(|count| *count == 2), "{counts:?}");
    assert_one_dead(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_that_was_recorded_without_an_answer_is_not_made_again() {
    let (stage, counts) = broken_settlement(Break::After).await;
    assert_eq!(counts.len(), 10);
    assert_one_dead(&stage).await;
    // What was recorded is done: only messages that were not in that settlement may come again.
    let once = counts.values().filter(|count| **count == 1).count();
    assert!(once >= 1, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_outlasts_an_outage_of_the_database() {
    let stage = Stage::new(&["charge-cards"]).await;
    let proxy = Proxy::start(harness::postgres().await.port()).await;
    let counts = Counts::default();
    let mut short = settings("charge-cards");
    short.lease = Duration::from_secs(2);
    let url = proxy.url(&stage.database.url);
    let worker = stage.worker_at(&url, short, Native(counting(&counts)));
    stage.publish_many(10).await;
    stage.until_done("charge-cards").await;
    assert!(worker.link.is_ready());
    proxy.close();
    stage.publish_many(10).await;
    let began = Instant::now();
    while worker.link.is_ready() {
        assert!(began.elapsed() < Duration::from_secs(3), "it believes that all is well");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Longer than the lease.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!worker.link.is_ready());
    proxy.open();
    stage.until_done("charge-cards").await;
    assert!(worker.link.is_ready());
    worker.drain().await;
    let counts = counts.lock().unwrap().clone();
    assert_eq!(counts.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_waits_for_a_stream_and_a_group_that_are_not_there_yet() {
    let stage = Stage::new(&[]).await;
    stage.publish_many(3).await;
    let worker = stage.worker("charge-cards", Native(|_| async { Outcome::Done }));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!worker.link.is_ready());
    stage
        .execute("INSERT INTO sqlstreams.consumer_group_config (stream_id, name) VALUES (1, 'charge-cards')")
        .await;
    stage.until_done("charge-cards").await;
    worker.drain().await;
}
