//! Ways to the database: through a pooler, and with a login that changes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::registry::Registry;
use sqlstreams::database::login::{Login, LoginSource};
use sqlstreams::delivery::link::Link;
use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::metrics::Metrics;
use sqlstreams::delivery::outcome::Outcome;
use sqlstreams::delivery::worker::Worker;
use tokio_util::sync::CancellationToken;

use super::outcomes::quick;
use super::stage::{Native, Stage, settings};
use crate::harness::{self, Pooler};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_works_behind_a_pooler_in_transaction_mode() {
    let stage = Stage::new(&["charge-cards"]).await;
    let pooler = Pooler::start(harness::postgres().await).await;
    let url = pooler.url(&stage.database.url);
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(stage.worker_at(
            &url,
            quick("charge-cards"),
            Native(|message: Message| async move {
                if message.id.0 % 100 == 0 && message.attempt == 1 {
                    Outcome::retry("later")
                } else {
                    Outcome::Done
                }
            }),
        ));
    }
    for _ in 0..20 {
        stage.publish_many(50).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stage.until_done("charge-cards").await;
    stage
        .until(
            "all failures are done",
            "SELECT count(*) = 0 FROM sqlstreams.exception_queue_1",
        )
        .await;
    assert_eq!(stage.count("sqlstreams.delivery_log_1").await, 20);
    assert_eq!(
        stage.count("sqlstreams.worker_instance").await,
        3,
        "nobody had to register anew"
    );
    for worker in workers {
        worker.drain().await;
    }
}

fn write_login(folder: &Path, url: &str, user: &str) {
    let (_, rest) = url.split_once("@127.0.0.1:").unwrap();
    let (port, database) = rest.split_once('/').unwrap();
    let keys = [
        ("host", "127.0.0.1"),
        ("port", port),
        ("dbname", database),
        ("user", user),
        ("password", "x"),
    ];
    for (key, value) in keys {
        std::fs::write(folder.join(key), value).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_login_is_picked_up_without_a_restart() {
    let stage = Stage::new(&["charge-cards"]).await;
    let database: String = stage.scalar("SELECT current_database()::text").await;
    let (old, new) = (format!("{database}_old"), format!("{database}_new"));
    stage.execute(&format!("CREATE ROLE {old} LOGIN SUPERUSER")).await;
    let folder = tempfile::tempdir().unwrap();
    write_login(folder.path(), &stage.database.url, &old);
    let login = Login {
        source: LoginSource::Folder(folder.path().to_owned()),
        tls_mode: None,
        tls_authority: None,
    };
    let mut installation = stage.database.installation();
    installation.pool = login.read().unwrap().pool(5);
    let handled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&handled);
    let metrics = Metrics::new(&mut Registry::default());
    let link = Arc::new(Link::new(installation, Some(login), metrics.clone()));
    let handler = Native(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Outcome::Done }
    });
    let worker = Worker::new(settings("charge-cards"), Arc::clone(&link), handler, metrics);
    let stop = CancellationToken::new();
    let task = tokio::spawn(worker.run(stop.clone()));
    stage.publish_many(1).await;
    stage.until_done("charge-cards").await;

    write_login(folder.path(), &stage.database.url, &new);
    stage.execute(&format!("ALTER ROLE {old} RENAME TO {new}")).await;
    stage
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND application_name LIKE 'sqlstreams%' AND pid <> pg_backend_pid()",
        )
        .await;
    stage.publish_many(1).await;
    stage.until_done("charge-cards").await;
    assert_eq!(handled.load(Ordering::Relaxed), 2);
    stop.cancel();
    task.await.unwrap();
}
