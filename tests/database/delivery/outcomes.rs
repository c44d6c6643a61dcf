//! What becomes of messages, row by row of the tables that people look at.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::outcome::Outcome;
use sqlstreams::delivery::worker::WorkerSettings;

use super::receiver::{Receiver, answer, terminal};
use super::stage::{Native, Stage, settings};

/// Retries after one second each, the shortest there is.
pub fn quick(group: &str) -> WorkerSettings {
    let mut settings = settings(group);
    settings.retry.max_delay = Duration::from_secs(1);
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn success_leaves_no_row() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(500).await;
    let worker = stage.worker("charge-cards", Native(|_| async { Outcome::Done }));
    stage.until_done("charge-cards").await;
    worker.drain().await;
    for table in ["exception_queue_1", "delivery_log_1", "dead_letter", "statistics_delta"] {
        assert_eq!(stage.count(&format!("sqlstreams.{table}")).await, 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_success_removes_the_row_and_leaves_its_history() {
    let stage = Stage::new(&["charge-cards"]).await;
    let receiver = Receiver::start(|request| async move {
        match request.header("sqlstreams-attempt") {
            "1" => answer(503, "bank is closed"),
            _ => answer(200, ""),
        }
    })
    .await;
    let handler = receiver.handler();
    let id = stage.publish(r#"{"order": "order-101", "cents": 1250}"#).await;
    let worker = stage.worker_with(quick("charge-cards"), handler);
    stage
        .until(
            "the failure is recorded",
            "SELECT count(*) = 1 FROM sqlstreams.exception_queue_1 WHERE status IN ('deferred', 'inflight') AND attempts = 1 AND last_error = 'bank is closed'",
        )
        .await;
    stage
        .until(
            "the row is gone again",
            "SELECT count(*) = 0 FROM sqlstreams.exception_queue_1",
        )
        .await;
    worker.drain().await;
    let log: Vec<(i32, String, Option<String>)> =
        sqlx::query_as("SELECT attempt, status, error FROM sqlstreams.delivery_log_1 ORDER BY attempt")
            .fetch_all(&stage.pool)
            .await
            .unwrap();
    assert_eq!(
        log,
        [
            (1, "failed".into(), Some("bank is closed".into())),
            (2, "succeeded".into(), None)
        ]
    );
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body, "the same payload");
    assert_eq!(requests[0].body["cents"], 1250);
    assert_eq!(requests[0].id(), id);
    assert_eq!(
        requests[0].header("ce-id"),
        requests[1].header("ce-id"),
        "an id that is stable over retries"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_is_dead_after_the_initial_attempt_and_three_retries() {
    let stage = Stage::new(&["charge-cards"]).await;
    let receiver = Receiver::start(|_| async { answer(500, "card declined\n\"do not honour\" ✓") }).await;
    let handler = receiver.handler();
    stage.publish("{}").await;
    let worker = stage.worker_with(quick("charge-cards"), handler);
    stage
        .until(
            "it is dead",
            "SELECT count(*) = 1 FROM sqlstreams.exception_queue_1 WHERE status = 'dead'",
        )
        .await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    worker.drain().await;
    assert_eq!(receiver.requests().len(), 4, "and no attempt after that");
    let row: (i32, i32, String, String, bool) = sqlx::query_as(
        "SELECT attempts, run, last_error, error_fingerprint, next_attempt_at IS NULL FROM sqlstreams.exception_queue_1",
    )
    .fetch_one(&stage.pool)
    .await
    .unwrap();
    assert_eq!(
        row,
        (
            4,
            1,
            "card declined\n\"do not honour\" ✓".into(),
            "card declined \"do not honour\" ✓".into(),
            true
        ),
        "the handler's own text, verbatim"
    );
    let apart: Vec<f64> = sqlx::query_scalar(
        "SELECT extract(epoch FROM attempted_at - lag(attempted_at) OVER (ORDER BY attempt))::float8 \
         FROM sqlstreams.delivery_log_1 WHERE status = 'failed' ORDER BY attempt OFFSET 1",
    )
    .fetch_all(&stage.pool)
    .await
    .unwrap();
    assert_eq!(apart.len(), 3);
    assert!(apart.iter().all(|seconds| (0.95..2.5).contains(seconds)), "{apart:?}");
    let destination: String = stage.scalar("SELECT destination FROM sqlstreams.dead_letter").await;
    assert_eq!(destination, receiver.url.as_str());
    assert_eq!(
        stage
            .scalar::<i64>("SELECT sum(delta)::bigint FROM sqlstreams.statistics_delta WHERE counter = 'dead'")
            .await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_failure_is_dead_at_once() {
    let stage = Stage::new(&["charge-cards"]).await;
    let receiver = Receiver::start(|request| async move {
        match request.body["how"].as_str() {
            Some("header") => terminal(200, "no such card"),
            _ => answer(410, ""),
        }
    })
    .await;
    let handler = receiver.handler();
    stage.publish(r#"{"how": "header"}"#).await;
    stage.publish(r#"{"how": "gone"}"#).await;
    let worker = stage.worker("charge-cards", handler);
    stage
        .until(
            "both are dead",
            "SELECT count(*) = 2 FROM sqlstreams.exception_queue_1 WHERE status = 'dead'",
        )
        .await;
    worker.drain().await;
    assert_eq!(receiver.requests().len(), 2);
    let rows: Vec<(i32, String, String)> = sqlx::query_as(
        "SELECT e.attempts, e.last_error, l.status FROM sqlstreams.exception_queue_1 e \
         JOIN sqlstreams.delivery_log_1 l USING (message_id) ORDER BY message_id",
    )
    .fetch_all(&stage.pool)
    .await
    .unwrap();
    assert_eq!(
        rows,
        [
            (1, "no such card".into(), "terminal".into()),
            (1, "HTTP 410 Gone".into(), "terminal".into())
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_handler_is_a_failure_with_its_value() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(3).await;
    let handled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&handled);
    let worker = stage.worker(
        "charge-cards",
        Native(move |message: Message| {
            counter.fetch_add(1, Ordering::Relaxed);
            async move {
                assert_ne!(message.id.0, 2, "no second message, please");
                Outcome::Done
            }
        }),
    );
    stage
        .until(
            "the panic is recorded",
            "SELECT count(*) = 1 FROM sqlstreams.exception_queue_1 WHERE message_id = 2",
        )
        .await;
    worker.drain().await;
    let error: String = stage
        .scalar("SELECT last_error FROM sqlstreams.exception_queue_1")
        .await;
    assert!(
        error.starts_with("the handler panicked at ") && error.contains("no second message, please"),
        "{error}"
    );
    assert!(handled.load(Ordering::Relaxed) >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_messages_and_fresh_ones_do_not_starve_each_other() {
    let stage = Stage::new(&["charge-cards"]).await;
    // 200 messages that fail for ever and a stream of good ones, for one handler that takes 5 ms.
    stage.publish_many(200).await;
    let mut settings = quick("charge-cards");
    settings.concurrency = 1;
    settings.retry.max_retries = 1000;
    let worker = stage.worker_with(
        settings,
        Native(|message: Message| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if message.id.0 <= 200 {
                Outcome::retry("no")
            } else {
                Outcome::Done
            }
        }),
    );
    stage
        .until(
            "all have failed",
            "SELECT count(*) = 200 FROM sqlstreams.exception_queue_1",
        )
        .await;
    stage.publish_many(300).await;
    stage
        .until_within(
            Duration::from_secs(20),
            "the good ones are done although the others are always due",
            "SELECT p.claimed = 500 AND p.inflight = 0 FROM sqlstreams.group_progress(1) p",
        )
        .await;
    stage
        .until(
            "and the others were tried again",
            "SELECT min(attempts) >= 2 FROM sqlstreams.exception_queue_1",
        )
        .await;
    worker.drain().await;
}
