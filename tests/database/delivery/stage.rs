//! A stream with groups, and workers in this process.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use sqlstreams::database::connection::{Credentials, TlsMode};
use sqlstreams::database::instances::{Assignment, Instance, Lookup};
use sqlstreams::delivery::handler::Handler;
use sqlstreams::delivery::link::Link;
use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::metrics::Metrics;
use sqlstreams::delivery::outcome::Outcome;
use sqlstreams::delivery::retry::RetryPolicy;
use sqlstreams::delivery::worker::{Worker, WorkerSettings};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{self, TestDatabase};

/// The stream of a test; its tables end in `_1`.
pub struct Stage {
    pub database: TestDatabase,
    pub pool: PgPool,
}

/// A worker that runs in this process.
pub struct Running {
    pub stop: CancellationToken,
    pub link: Arc<Link>,
    pub task: JoinHandle<()>,
}

/// A handler that is a function.
pub struct Native<F>(pub F);

impl<F, A> Handler for Native<F>
where
    F: Fn(Message) -> A + Send + Sync + 'static,
    A: Future<Output = Outcome> + Send,
{
    async fn handle(&self, message: Message) -> Outcome {
        (self.0)(message).await
    }
}

impl Stage {
    /// The stream `payments` with these groups.
    pub async fn new(groups: &[&str]) -> Self {
        Self::with_partitions(groups, 1_000_000).await
    }

    pub async fn with_partitions(groups: &[&str], partition_size: i64) -> Self {
        let database = harness::postgres().await.installed().await;
        let pool = database.pool.clone();
        sqlx::query("INSERT INTO sqlstreams.stream_config (name, partition_size) VALUES ('payments', $1)")
            .bind(partition_size)
            .execute(&pool)
            .await
            .unwrap();
        let stage = Self { database, pool };
        stage.execute("SELECT sqlstreams.create_stream_tables(1)").await;
        for group in groups {
            sqlx::query("INSERT INTO sqlstreams.consumer_group_config (stream_id, name) VALUES (1, $1)")
                .bind(group)
                .execute(&stage.pool)
                .await
                .unwrap();
        }
        stage
    }

    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&self.pool)
            .await
            .unwrap();
    }

    pub async fn publish(&self, payload: &str) -> i64 {
        sqlx::query_scalar("SELECT sqlstreams.publish('payments', $1::text::jsonb)")
            .bind(payload)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    pub async fn publish_many(&self, number: i64) {
        sqlx::query("INSERT INTO sqlstreams.message_log_1 (payload) SELECT jsonb_build_object('n', n) FROM generate_series(1, $1) AS n")
            .bind(number)
            .execute(&self.pool)
            .await
            .unwrap();
    }

    /// The first column of the first row.
    pub async fn scalar<T>(&self, sql: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    pub async fn count(&self, from: &str) -> i64 {
        self.scalar(&format!("SELECT count(*) FROM {from}")).await
    }

    /// Waits until the query gives true.
    pub async fn until(&self, what: &str, sql: &str) {
        self.until_within(Duration::from_secs(15), what, sql).await;
    }

    pub async fn until_within(&self, limit: Duration, what: &str, sql: &str) {
        let began = Instant::now();
        while !self.scalar::<bool>(sql).await {
            assert!(began.elapsed() < limit, "waited in vain until {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the group has nothing more to do.
    pub async fn until_done(&self, group: &str) {
        let sql = format!(
            "SELECT p.claimed = coalesce((SELECT max(id) FROM sqlstreams.message_log_1), 0) AND p.committed = p.claimed \
             FROM sqlstreams.consumer_group_config g, sqlstreams.group_progress(g.id) p WHERE g.name = '{group}'"
        );
        self.until_within(Duration::from_secs(60), "all messages are acknowledged", &sql)
            .await;
    }

    pub async fn assignment(&self, group: &str) -> Assignment {
        match self.database.installation().look_up("payments", group).await.unwrap() {
            Lookup::Found(assignment) => assignment,
            other => panic!("{other:?}"),
        }
    }

    pub async fn instance(&self, group: &str, lease: Duration) -> Instance {
        let assignment = self.assignment(group).await;
        self.database
            .installation()
            .register(&assignment, "test", lease)
            .await
            .unwrap()
    }

    pub fn worker(&self, group: &str, handler: impl Handler) -> Running {
        self.worker_with(settings(group), handler)
    }

    pub fn worker_with(&self, settings: WorkerSettings, handler: impl Handler) -> Running {
        self.worker_at(&self.database.url, settings, handler)
    }

    /// A worker that reaches the database by `url`.
    pub fn worker_at(&self, url: &str, settings: WorkerSettings, handler: impl Handler) -> Running {
        let metrics = Metrics::new(&mut Registry::default());
        let mut database = self.database.installation();
        let credentials = Credentials::from_url(url).unwrap().tls(TlsMode::Disable, None);
        database.pool = credentials.pool(5);
        let link = Arc::new(Link::new(database, None, metrics.clone()));
        let stop = CancellationToken::new();
        let worker = Worker::new(settings, Arc::clone(&link), handler, metrics);
        let task = tokio::spawn(worker.run(stop.clone()));
        Running { stop, link, task }
    }
}

impl Running {
    /// Tells it to stop and waits until it has.
    pub async fn drain(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(30), self.task)
            .await
            .expect("it ends")
            .unwrap();
    }

    /// Ends it without a word to the database.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

pub fn settings(group: &str) -> WorkerSettings {
    WorkerSettings {
        stream: "payments".into(),
        group: group.into(),
        name: "test".into(),
        concurrency: 4,
        lease: Duration::from_secs(15),
        grace: Duration::from_secs(5),
        retry: RetryPolicy::default(),
    }
}
