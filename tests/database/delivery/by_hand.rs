//! Rows that a person changed: whatever they say, the worker goes on.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::outcome::Outcome;

use super::outcomes::quick;
use super::stage::{Native, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_message_made_ready_by_hand_is_tried_and_holds_nobody_up() {
    let stage = Stage::new(&["charge-cards"]).await;
    let mut settings = quick("charge-cards");
    settings.retry.max_retries = 0;
    // Messages whose number is 1 fail: the first of each batch.
    let worker = stage.worker_with(
        settings,
        Native(|message: Message| async move {
            if message.payload.ends_with(b": 1}") {
                Outcome::retry("no")
            } else {
                Outcome::Done
            }
        }),
    );
    stage.publish_many(1).await;
    stage
        .until("it is dead", "SELECT count(*) = 1 FROM sqlstreams.dead_letter")
        .await;
    stage
        .execute("UPDATE sqlstreams.exception_queue_1 SET status = 'ready', next_attempt_at = now()")
        .await;
    stage
        .until("it is dead again", "SELECT count(*) = 2 FROM sqlstreams.delivery_log_1")
        .await;
    assert_eq!(stage.count("sqlstreams.dead_letter").await, 1);

    // One that the group has not reached, and one with a history that the row does not know.
    stage
        .execute(
            "UPDATE sqlstreams.exception_queue_1 SET status = 'ready', attempts = 0, next_attempt_at = now(); \
             INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status, attempts) \
             VALUES (1, 2, 'dead', 7)",
        )
        .await;
    stage.publish_many(50).await;
    stage.until_done("charge-cards").await;
    stage
        .until("all have failed", "SELECT count(*) = 4 FROM sqlstreams.delivery_log_1")
        .await;
    let rows: Vec<(i64, String, i32)> =
        sqlx::query_as("SELECT message_id, status, attempts FROM sqlstreams.exception_queue_1 ORDER BY 1")
            .fetch_all(&stage.pool)
            .await
            .unwrap();
    assert_eq!(rows, [(1, "dead".into(), 1), (2, "dead".into(), 1)]);
    let dead: i64 = stage
        .scalar("SELECT sum(delta)::bigint FROM sqlstreams.statistics_delta WHERE counter = 'dead'")
        .await;
    assert_eq!(dead, 2, "the counters agree");
    worker.drain().await;
}
