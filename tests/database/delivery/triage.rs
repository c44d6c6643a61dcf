//! Dead letters, seen with SQL and in the log.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::outcome::Outcome;
use sqlx::{AssertSqlSafe, Row};
use tracing_subscriber::fmt::MakeWriter;

use super::stage::{Native, Stage, settings};

/// The first query of the triage guide; the stream has the id 1.
const WHAT_IS_DYING: &str = "
SELECT d.last_error, count(*),
       min(m.created_at) AS first_seen, max(m.created_at) AS last_seen
FROM sqlstreams.exception_queue_1 d
JOIN sqlstreams.message_log_1 m ON m.id = d.message_id
JOIN sqlstreams.consumer_group_config g ON g.id = d.consumer_group_id
WHERE g.name = 'fraud-screening' AND d.status = 'dead'
GROUP BY 1 ORDER BY 2 DESC;";

/// The second one.
const ONE_CASUALTY: &str = "
SELECT m.payload, d.attempts, d.last_error,
       l.attempt, l.status, l.error, l.attempted_at
FROM sqlstreams.exception_queue_1 d
JOIN sqlstreams.message_log_1 m ON m.id = d.message_id
LEFT JOIN sqlstreams.delivery_log_1 l ON (l.consumer_group_id, l.message_id) = (d.consumer_group_id, d.message_id)
WHERE d.status = 'dead'
ORDER BY d.updated_at DESC, l.attempt;";

#[tokio::test(flavor = "multi_thread")]
async fn the_queries_of_the_triage_guide_run_unchanged() {
    let stage = Stage::new(&["fraud-screening"]).await;
    stage.publish_many(10).await;
    let worker = stage.worker(
        "fraud-screening",
        Native(|message: Message| async move {
            match message.id.0 {
                1..=3 => Outcome::terminal("merchant is unknown"),
                4 => Outcome::terminal("amount is negative"),
                _ => Outcome::Done,
            }
        }),
    );
    stage.until_done("fraud-screening").await;
    worker.drain().await;
    let groups: Vec<(String, i64, bool)> = sqlx::query_as(AssertSqlSafe(format!(
        "SELECT last_error, count, first_seen <= last_seen FROM ({}) AS q",
        WHAT_IS_DYING.trim_end_matches(';')
    )))
    .fetch_all(&stage.pool)
    .await
    .unwrap();
    assert_eq!(
        groups,
        [
            ("merchant is unknown".into(), 3, true),
            ("amount is negative".into(), 1, true)
        ]
    );
    let rows = sqlx::raw_sql(WHAT_IS_DYING).fetch_all(&stage.pool).await.unwrap();
    assert_eq!(rows.len(), 2);
    let rows = sqlx::query(ONE_CASUALTY).fetch_all(&stage.pool).await.unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(row.get::<serde_json::Value, _>("payload")["n"].is_number());
        assert_eq!(row.get::<i32, _>("attempts"), 1);
        assert_eq!(row.get::<i32, _>("attempt"), 1);
        assert_eq!(row.get::<String, _>("status"), "terminal");
        assert_eq!(row.get::<String, _>("error"), row.get::<String, _>("last_error"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_is_dead_for_one_group_done_for_another_and_not_reached_by_a_third() {
    let stage = Stage::new(&["charge-cards", "email-receipts", "analytics"]).await;
    for order in ["order-101", "order-102", "order-103"] {
        stage.publish(&format!(r#"{{"order": "{order}"}}"#)).await;
    }
    let charge = stage.worker(
        "charge-cards",
        Native(|message: Message| async move {
            if String::from_utf8_lossy(&message.payload).contains("order-103") {
                Outcome::terminal("card declined for order-103")
            } else {
                Outcome::Done
            }
        }),
    );
    let receipts = stage.worker("email-receipts", Native(|_| async { Outcome::Done }));
    stage.until_done("charge-cards").await;
    stage.until_done("email-receipts").await;
    charge.drain().await;
    receipts.drain().await;
    let rows: Vec<(String, i64, String)> = sqlx::query_as(
        "SELECT g.name, e.message_id, e.status FROM sqlstreams.exception_queue_1 e \
         JOIN sqlstreams.consumer_group_config g ON g.id = e.consumer_group_id",
    )
    .fetch_all(&stage.pool)
    .await
    .unwrap();
    assert_eq!(rows, [("charge-cards".into(), 3, "dead".into())]);
    let progress: Vec<(String, i64, i64)> = sqlx::query_as(
        "SELECT g.name, p.committed, p.backlog FROM sqlstreams.consumer_group_config g, sqlstreams.group_progress(g.id) p ORDER BY g.id",
    )
    .fetch_all(&stage.pool)
    .await
    .unwrap();
    assert_eq!(
        progress,
        [
            ("charge-cards".into(), 3, 0),
            ("email-receipts".into(), 3, 0),
            ("analytics".into(), 0, 3)
        ]
    );
    assert_eq!(
        stage.count("sqlstreams.message_log_1").await,
        3,
        "one row for all of them"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_for_one_group_is_not_given_to_others() {
    let stage = Stage::new(&["charge-cards", "email-receipts"]).await;
    stage
        .execute("INSERT INTO sqlstreams.message_log_1 (payload, only_group_id) VALUES ('1', 2), ('2', NULL), ('3', 1)")
        .await;
    let seen: Arc<Mutex<Vec<(i64, String)>>> = Arc::default();
    let record = Arc::clone(&seen);
    let worker = stage.worker(
        "charge-cards",
        Native(move |message: Message| {
            let text = String::from_utf8(message.payload).unwrap();
            record.lock().unwrap().push((message.id.0, text));
            async { Outcome::Done }
        }),
    );
    stage.until_done("charge-cards").await;
    worker.drain().await;
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, [(2, "2".into()), (3, "3".into())]);
}

/// All that is logged by this test binary.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn captured() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_a_dead_letter_and_nothing_of_its_content() {
    let log = captured();
    let stage = Stage::new(&["fraud-screening"]).await;
    let id = stage.publish(r#"{"card": "pan-4111111111111111"}"#).await;
    let mut settings = settings("fraud-screening");
    settings.retry.max_retries = 0;
    let worker = stage.worker_with(
        settings,
        Native(|_| async { Outcome::retry("error-of-the-handler-77") }),
    );
    stage
        .until(
            "it is dead",
            "SELECT count(*) = 1 FROM sqlstreams.exception_queue_1 WHERE status = 'dead'",
        )
        .await;
    worker.drain().await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("dead-lettered") && line.contains("fraud-screening"))
        .expect("there is a line for it");
    for part in [
        "stream=payments",
        "group=fraud-screening",
        &format!("message_id={id}"),
        "attempt=1",
    ] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!text.contains("4111111111111111"), "no payload, at any level");
    let ours = |line: &&str| line.contains("sqlstreams::");
    assert!(
        !text
            .lines()
            .filter(ours)
            .any(|line| line.contains("error-of-the-handler-77")),
        "no error text"
    );
}
