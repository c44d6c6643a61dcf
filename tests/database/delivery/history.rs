//! Nothing is skipped, nothing is doubled, and nobody is waited for without need.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlstreams::database::DatabaseError;
use sqlstreams::database::claims::Fence;
use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::outcome::Outcome;
use sqlx::{Connection, PgConnection};

use super::producers::{produce, read_naively, skipped};
use super::stage::{Native, Stage};

const GROUPS: [&str; 3] = ["charge-cards", "email-receipts", "analytics"];
const PRODUCERS: usize = 24;

type Handled = Arc<Mutex<Vec<i64>>>;

fn recorder(handled: &Handled) -> impl Fn(Message) -> std::future::Ready<Outcome> + Send + Sync + use<> {
    let handled = Arc::clone(handled);
    move |message| {
        handled.lock().unwrap().push(message.id.0);
        // Some fail, so that exceptions are checked as well.
        std::future::ready(if message.id.0 % 50 == 0 && message.attempt == 1 {
            Outcome::retry("later")
        } else {
            Outcome::Done
        })
    }
}

/// First proves, with the reader that everybody writes first, that this history can be lost in.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_skipped_or_doubled_whatever_order_transactions_commit_in() {
    let stage = Stage::with_partitions(&GROUPS, 2_000).await;
    stage.execute("CREATE TABLE elsewhere (n int)").await;
    let handled: Vec<Handled> = GROUPS.iter().map(|_| Handled::default()).collect();
    let mut workers = Vec::new();
    for (group, handled) in GROUPS.iter().zip(&handled) {
        for _ in 0..2 {
            workers.push(stage.worker(group, Native(recorder(handled))));
        }
    }
    let end = Instant::now() + Duration::from_secs(8);
    let naive = tokio::spawn(read_naively(stage.pool.clone(), end + Duration::from_secs(1)));
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|number| tokio::spawn(produce(stage.database.url.clone(), number, end)))
        .collect();
    for producer in producers {
        producer.await.unwrap();
    }
    let naive = naive.await.unwrap();
    for group in GROUPS {
        stage.until_done(group).await;
    }
    stage
        .until(
            "all failures are done",
            "SELECT count(*) = 0 FROM sqlstreams.exception_queue_1",
        )
        .await;
    for worker in workers {
        worker.drain().await;
    }
    let log: Vec<i64> = sqlx::query_scalar("SELECT id FROM sqlstreams.message_log_1")
        .fetch_all(&stage.pool)
        .await
        .unwrap();
    let log: BTreeSet<i64> = log.into_iter().collect();
    assert!(log.len() > 2_000, "only {} messages were published", log.len());
    assert!(
        !skipped(&log, &naive).is_empty(),
        "the checker finds nothing amiss with a reader that is wrong"
    );
    for (group, handled) in GROUPS.iter().zip(&handled) {
        let handled = handled.lock().unwrap().clone();
        let seen: BTreeSet<i64> = handled.iter().copied().collect();
        assert_eq!(skipped(&log, &seen), [0_i64; 0], "{group} skipped messages");
        assert_eq!(
            skipped(&seen, &log),
            [0_i64; 0],
            "{group} saw messages that were rolled back"
        );
        let retried = seen.iter().filter(|id| *id % 50 == 0).count();
        assert_eq!(handled.len(), seen.len() + retried, "{group} was given messages twice");
    }
    let attempts = stage.count("sqlstreams.delivery_log_1").await;
    let retried = log.iter().filter(|id| *id % 50 == 0).count();
    assert_eq!(attempts, i64::try_from(retried * 2 * GROUPS.len()).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_writes_elsewhere_delays_nobody() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.execute("CREATE TABLE elsewhere (n int)").await;
    let handled = Handled::default();
    let worker = stage.worker("charge-cards", Native(recorder(&handled)));
    let mut report = PgConnection::connect(&stage.database.url).await.unwrap();
    // It has a transaction id and reads the log.
    sqlx::raw_sql("BEGIN; INSERT INTO elsewhere VALUES (1); SELECT count(*) FROM sqlstreams.message_log_1")
        .execute(&mut report)
        .await
        .unwrap();
    for _ in 0..5 {
        let id = stage.publish("{}").await;
        let published = Instant::now();
        while !handled.lock().unwrap().contains(&id) {
            assert!(
                published.elapsed() < Duration::from_secs(1),
                "message {id} waits for the report"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut report).await.unwrap();
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_publishes_is_waited_for() {
    let stage = Stage::new(&["charge-cards"]).await;
    let handled = Handled::default();
    let worker = stage.worker("charge-cards", Native(recorder(&handled)));
    let mut slow = PgConnection::connect(&stage.database.url).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT sqlstreams.publish('payments', '1')")
        .execute(&mut slow)
        .await
        .unwrap();
    let second = stage.publish("2").await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(
        *handled.lock().unwrap(),
        [0_i64; 0],
        "the first message could still come"
    );
    sqlx::raw_sql("COMMIT").execute(&mut slow).await.unwrap();
    stage.until_done("charge-cards").await;
    worker.drain().await;
    let mut handled = handled.lock().unwrap().clone();
    handled.sort_unstable();
    assert_eq!(handled, [second - 1, second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolation_level_other_than_read_committed_is_refused() {
    let stage = Stage::new(&["charge-cards"]).await;
    stage.publish_many(1).await;
    let assignment = stage.assignment("charge-cards").await;
    let database: String = stage.scalar("SELECT current_database()::text").await;
    stage
        .execute(&format!(
            "ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'"
        ))
        .await;
    let mut installation = stage.database.installation();
    installation.pool = sqlx::PgPool::connect(&stage.database.url).await.unwrap();
    let instance = installation
        .register(&assignment, "test", Duration::from_secs(15))
        .await
        .unwrap();
    let error = instance.claim_messages(&mut Fence::default(), 10).await.unwrap_err();
    assert!(matches!(error.fault(), DatabaseError::WrongIsolation), "{error}");
    let worker = stage.worker("charge-cards", Native(|_| async { Outcome::Done }));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!worker.link.is_ready());
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_group_costs_next_to_nothing() {
    let stage = Stage::new(&["charge-cards"]).await;
    let worker = stage.worker("charge-cards", Native(|_| async { Outcome::Done }));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let transactions = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let before: i64 = stage.scalar(transactions).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let after: i64 = stage.scalar(transactions).await;
    worker.drain().await;
    let a_second = (after - before) / 4;
    // Postgres counts late, so some of the beginning is in it. Without growing waits it were hundreds.
    assert!(a_second <= 50, "{a_second} transactions a second");
}
