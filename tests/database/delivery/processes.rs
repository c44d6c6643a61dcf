//! `sqlstreams worker` as a process: signals, probes, flags.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::receiver::{Receiver, answer};
use super::stage::{Native, Stage};
use sqlstreams::delivery::outcome::Outcome;

struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start(stage: &Stage, receiver: &Receiver, flags: &[&str]) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(env!("CARGO_BIN_EXE_sqlstreams"))
            .arg("worker")
            .env("SQLSTREAMS_DATABASE_URL", &stage.database.url)
            .args([
                "--stream",
                "payments",
                "--group",
                "charge-cards",
                "--http-address",
                &address,
            ])
            .args(["--handler-service", receiver.url.as_str()])
            .args(flags)
            .spawn()
            .unwrap();
        Self { child, address }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    async fn get(&self, path: &str) -> Option<(u16, String)> {
        sqlstreams::tls::install();
        let response = reqwest::get(format!("http://{}{path}", self.address)).await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    async fn exit_code(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < Duration::from_secs(10), "it does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_told_to_stop_finishes_its_work_and_ends_with_zero() {
    let stage = Stage::new(&["charge-cards"]).await;
    let receiver = Receiver::start(|_| async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        answer(200, "")
    })
    .await;
    let mut process = Process::start(&stage, &receiver, &["--concurrency", "2", "--grace-period", "5s"]);
    stage.publish_many(1).await;
    let began = Instant::now();
    while receiver.requests().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(15), "nothing was delivered");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(process.get("/healthz").await.unwrap().0, 200);
    assert_eq!(process.get("/readyz").await.unwrap().0, 200);
    let metrics = process.get("/metrics").await.unwrap().1;
    assert!(metrics.contains("sqlstreams_worker_inflight_messages 1"), "{metrics}");
    process.signal("-TERM");
    assert_eq!(process.exit_code().await, Some(0));
    stage
        .until(
            "the message is acknowledged",
            "SELECT p.committed = 1 FROM sqlstreams.group_progress(1) p",
        )
        .await;
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_process_at_once() {
    let stage = Stage::new(&["charge-cards"]).await;
    let receiver = Receiver::start(|_| std::future::pending()).await;
    let mut process = Process::start(&stage, &receiver, &["--grace-period", "60s"]);
    stage.publish_many(1).await;
    while receiver.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.signal("-INT");
    tokio::time::sleep(Duration::from_millis(300)).await;
    process.signal("-TERM");
    assert_eq!(process.exit_code().await, Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stood_still_past_its_lease_changes_no_row() {
    let stage = Stage::new(&["charge-cards"]).await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let waiting = Arc::clone(&gate);
    let receiver = Receiver::start(move |_| {
        let waiting = Arc::clone(&waiting);
        async move {
            drop(waiting.acquire().await);
            answer(410, "the late one")
        }
    })
    .await;
    stage.publish_many(1).await;
    let mut process = Process::start(&stage, &receiver, &["--lease", "1s"]);
    while receiver.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.signal("-STOP");
    let heir = stage.worker("charge-cards", Native(|_| async { Outcome::Done }));
    stage.until_done("charge-cards").await;
    // The answer is there when the process goes on.
    gate.add_permits(1);
    process.signal("-CONT");
    stage
        .until(
            "it has registered anew",
            "SELECT count(*) FILTER (WHERE fenced_at IS NULL AND lease_until > now() AND lease_seconds = 1) = 1 FROM sqlstreams.worker_instance",
        )
        .await;
    assert_eq!(
        stage.count("sqlstreams.exception_queue_1").await,
        0,
        "the late outcome was not recorded"
    );
    assert_eq!(stage.count("sqlstreams.delivery_log_1").await, 0);
    process.signal("-TERM");
    assert_eq!(process.exit_code().await, Some(0));
    heir.drain().await;
}
