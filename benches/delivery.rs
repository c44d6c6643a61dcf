//! How fast one worker empties a backlog: `cargo bench --bench delivery`, on an idle machine.
//!
//! `SQLSTREAMS_BENCH_MESSAGES` sets the length of the backlog, 200,000 where it is not set. The
//! server is a throw-away one with fsync off, on the same machine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/harness/mod.rs"]
mod harness;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use prometheus_client::registry::Registry;
use reqwest::header::HeaderMap;
use sqlstreams::database::Database;
use sqlstreams::delivery::handler::Handler;
use sqlstreams::delivery::handler::http::request::Origin;
use sqlstreams::delivery::handler::http::{HttpHandler, HttpSettings, Target};
use sqlstreams::delivery::link::Link;
use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::metrics::Metrics;
use sqlstreams::delivery::outcome::Outcome;
use sqlstreams::delivery::retry::RetryPolicy;
use sqlstreams::delivery::worker::{Worker, WorkerSettings};
use tokio_util::sync::CancellationToken;

/// Counts what it is given, and does nothing else.
struct NoOp(Arc<AtomicU64>);

impl Handler for NoOp {
    async fn handle(&self, _: Message) -> Outcome {
        self.0.fetch_add(1, Ordering::Relaxed);
        Outcome::Done
    }
}

/// Counts what it has sent.
struct Counted(HttpHandler, Arc<AtomicU64>);

impl Handler for Counted {
    async fn handle(&self, message: Message) -> Outcome {
        let outcome = self.0.handle(message).await;
        self.1.fetch_add(1, Ordering::Relaxed);
        outcome
    }
}

async fn prepare(database: &Database, messages: i64) {
    let statements = [
        "INSERT INTO sqlstreams.stream_config (name, partition_size) VALUES ('payments', 1000000)",
        "SELECT sqlstreams.create_stream_tables(1)",
        "INSERT INTO sqlstreams.consumer_group_config (stream_id, name) \
         SELECT 1, 'group-' || n FROM generate_series(1, 10) AS n",
    ];
    for statement in statements {
        sqlx::query(statement).execute(&database.pool).await.unwrap();
    }
    // 253 bytes each.
    sqlx::query(
        "INSERT INTO sqlstreams.message_log_1 (payload) \
         SELECT jsonb_build_object('order', n, 'filler', repeat('x', 215)) FROM generate_series(1, $1) AS n",
    )
    .bind(messages)
    .execute(&database.pool)
    .await
    .unwrap();
    sqlx::query("VACUUM ANALYZE sqlstreams.message_log_1")
        .execute(&database.pool)
        .await
        .unwrap();
}

/// From the start of the workers until the last message is acknowledged.
async fn measure<H: Handler>(
    database: &Database,
    group: u32,
    concurrency: usize,
    handlers: Vec<H>,
    messages: i64,
) -> f64 {
    let stop = CancellationToken::new();
    let began = Instant::now();
    let mut workers = Vec::new();
    for handler in handlers {
        let metrics = Metrics::new(&mut Registry::default());
        let link = Arc::new(Link::new(database.clone(), None, metrics.clone()));
        let settings = WorkerSettings {
            stream: "payments".into(),
            group: format!("group-{group}"),
            name: "bench".into(),
            concurrency,
            lease: Duration::from_secs(15),
            grace: Duration::from_secs(5),
            retry: RetryPolicy::default(),
        };
        let worker = Worker::new(settings, link, handler, metrics);
        workers.push(tokio::spawn(worker.run(stop.clone())));
    }
    let done = "SELECT p.claimed >= $2 AND p.committed = p.claimed FROM sqlstreams.group_progress($1) p";
    while !sqlx::query_scalar::<_, bool>(done)
        .bind(i64::from(group))
        .bind(messages)
        .fetch_one(&database.pool)
        .await
        .unwrap()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    stop.cancel();
    for worker in workers {
        worker.await.unwrap();
    }
    #[allow(clippy::cast_precision_loss)]
    let speed = messages as f64 / seconds;
    speed
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run());
}

async fn run() {
    let backlog: i64 = std::env::var("SQLSTREAMS_BENCH_MESSAGES").map_or(200_000, |text| text.parse().unwrap());
    let server = harness::postgres().await;
    let database = server.installed().await.installation();
    prepare(&database, backlog).await;
    let handled = Arc::new(AtomicU64::new(0));
    for (group, workers, concurrency) in [(1, 1, 1), (2, 1, 4), (3, 1, 32), (4, 2, 4)] {
        let handlers = (0..workers).map(|_| NoOp(Arc::clone(&handled))).collect();
        let speed = measure(&database, group, concurrency, handlers, backlog).await;
        println!("no-op, {workers} worker(s), concurrency {concurrency}: {speed:.0} messages/s");
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(|| async {})).await });
    let small = server.installed().await.installation();
    prepare(&small, 20_000).await;
    let handler = HttpHandler::new(HttpSettings {
        target: Target::Service(url),
        timeout: Duration::from_secs(10),
        headers: HeaderMap::new(),
        origin: Origin {
            source: "/streams/payments".into(),
            group: "group-1".into(),
        },
        concurrency: 32,
    })
    .unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let speed = measure(&small, 1, 32, vec![Counted(handler, sent)], 20_000).await;
    println!("HTTP on this machine, 1 worker, concurrency 32: {speed:.0} messages/s");
}
