//! Handlers in Rust: what they return, and what becomes of it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{Command, Stdio};
use std::time::Duration;

use sqlstreams::consumer::{Consumer, Failure, Message, Native, terminal};

use super::outcomes::quick;
use super::stage::Stage;

/// Publishes one message for a group without retries, and returns what was recorded of it.
async fn recorded(consumer: impl Consumer) -> Option<(String, i32, String)> {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(1).await;
    let mut settings = quick("charge-cards");
    settings.retry.max_retries = 0;
    let worker = stage.worker_with(settings, Native::new(consumer, Duration::from_millis(500)));
    stage
        .until(
            "the message is acknowledged",
            "SELECT p.committed = 1 FROM sqlstreams.group_progress(1) p",
        )
        .await;
    worker.drain().await;
    sqlx::query_as(
        "SELECT l.status, q.attempts, q.last_error FROM sqlstreams.exception_queue_1 q \
         JOIN sqlstreams.delivery_log_1 l USING (consumer_group_id, message_id)",
    )
    .fetch_optional(&stage.pool)
    .await
    .unwrap()
}

async fn fails(message: Message) -> Result<(), Failure> {
    std::fs::read(format!("/absent/{}", message.id))?;
    Ok(())
}

async fn panics(message: Message) -> Result<(), Failure> {
    tokio::task::yield_now().await;
    assert_eq!(message.id.0, 0, "order-103 is nobody's");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_succeeds_leaves_no_row() {
    assert_eq!(recorded(async |_: Message| Ok(())).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_kept_in_its_own_words() {
    let (status, attempts, error) = recorded(fails).await.unwrap();
    assert_eq!((status.as_str(), attempts), ("failed", 1));
    assert_eq!(error, "No such file or directory (os error 2)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_error_is_recorded_as_one() {
    let (status, _, error) = recorded(async |_: Message| Err(terminal("order-103 was cancelled")))
        .await
        .unwrap();
    assert_eq!(
        (status.as_str(), error.as_str()),
        ("terminal", "order-103 was cancelled")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_kept_with_its_value_its_place_and_its_stack() {
    let (status, _, error) = recorded(panics).await.unwrap();
    assert_eq!(status, "failed");
    assert!(
        error.starts_with("the handler panicked at tests/database/delivery/native.rs:"),
        "{error}"
    );
    assert!(error.contains("order-103 is nobody's"), "{error}");
    let stack = error
        .split_once('\n')
        .map(|(_, rest)| rest.to_owned())
        .unwrap_or_default();
    assert!(stack.contains("native::panics"), "{error}");
    assert!(
        !stack.contains("rust_begin_unwind"),
        "the machinery is left out: {error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_takes_too_long_has_failed() {
    let (status, _, error) = recorded(async |_: Message| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(
        (status.as_str(), error.as_str()),
        ("failed", "the handler took longer than 500ms")
    );
}

/// As a ConsumerGroup with `handler.sdk` runs it: all that it is told, it is told by variables.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_ones_own_is_a_whole_worker() {
    let stage = Stage::new(&["charge-cards"]).await;
    for amount in [100, -1] {
        let payload = format!("{{\"orderId\": \"order-{amount}\", \"amount\": {amount}}}");
        stage
            .execute(&format!("SELECT sqlstreams.publish('payments', '{payload}')"))
            .await;
    }
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_sqlstreams")).with_file_name("examples/native-worker");
    let mut child = Command::new(&program)
        .env("SQLSTREAMS_DATABASE_URL", &stage.database.url)
        .env("SQLSTREAMS_STREAM", "payments")
        .env("SQLSTREAMS_GROUP", "charge-cards")
        .env("SQLSTREAMS_HTTP_ADDRESS", "127.0.0.1:0")
        .env("SQLSTREAMS_MAX_RETRIES", "0")
        .env("SQLSTREAMS_HANDLER_TIMEOUT", "5s")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; cargo build --examples makes it", program.display()));
    stage
        .until(
            "both are acknowledged",
            "SELECT p.committed = 2 FROM sqlstreams.group_progress(1) p",
        )
        .await;
    assert!(
        Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait().and_then(|status| {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().expect("a pipe"), &mut text)?;
        Ok((status, text))
    });
    let (status, text) = output.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(text, "charged 100 for order-100\n");
    let dead: String = stage
        .scalar("SELECT last_error FROM sqlstreams.exception_queue_1 WHERE status = 'dead'")
        .await;
    assert_eq!(dead, "order--1: the amount is negative");
}
