//! Messages that are large, and messages that are gone.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::outcome::Outcome;

use super::outcomes::quick;
use super::stage::{Native, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_large_messages_is_read_in_parts() {
    let stage = Stage::new(&["charge-cards"]).await;
    // 50 messages of 800 KB that do not compress, which is more than is read at once.
    stage
        .execute(
            "INSERT INTO sqlstreams.message_log_1 (payload) \
             SELECT jsonb_build_object('n', n, 'filler', (SELECT n.n::text || string_agg(md5(k::text || random()), '' ORDER BY k) FROM generate_series(1, 25000) AS k)) \
             FROM generate_series(1, 50) AS n (n)",
        )
        .await;
    let handled: Arc<Mutex<Vec<i64>>> = Arc::default();
    let record = Arc::clone(&handled);
    let mut many = quick("charge-cards");
    many.concurrency = 50;
    let worker = stage.worker_with(
        many,
        Native(move |message: Message| {
            assert!(message.payload.len() > 800_000);
            record.lock().unwrap().push(message.id.0);
            async { Outcome::Done }
        }),
    );
    stage.until_done("charge-cards").await;
    worker.drain().await;
    let mut handled = handled.lock().unwrap().clone();
    handled.sort_unstable();
    assert_eq!(handled, (1..=50).collect::<Vec<i64>>());
    assert!(
        stage.count("sqlstreams.claim_1 WHERE takeover > 0").await >= 2,
        "the claim was split"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_message_whose_log_row_is_gone_keeps_nobody_busy() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(2).await;
    let worker = stage.worker_with(
        quick("charge-cards"),
        Native(|message: Message| async move {
            if message.id.0 == 1 {
                Outcome::retry("later")
            } else {
                Outcome::Done
            }
        }),
    );
    stage
        .until(
            "it has failed",
            "SELECT count(*) = 1 FROM sqlstreams.exception_queue_1 WHERE status = 'deferred'",
        )
        .await;
    stage.execute("DELETE FROM sqlstreams.message_log_1 WHERE id = 1").await;
    stage
        .until(
            "it waits for the sweep",
            "SELECT count(*) = 1 FROM sqlstreams.exception_queue_1 WHERE status = 'ready' AND next_attempt_at > now() + interval '50 s'",
        )
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    worker.drain().await;
    assert_eq!(stage.count("sqlstreams.delivery_log_1").await, 1);
}
