//! What becomes of messages, row by row of the tables that people look at.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use sqlstreams::delivery::outcome::Outcome;

use super::stage::{Native, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn success_leaves_no_row() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(500).await;
    let worker = stage.worker("charge-cards", Native(|_| async { Outcome::Done }));
    stage.until_done("charge-cards").await;
    worker.drain().await;
    assert_eq!(stage.count("sqlstreams.exception_queue_1").await, 0);
    assert_eq!(stage.count("sqlstreams.delivery_log_1").await, 0);
}
