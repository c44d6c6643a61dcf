//! The flags of every worker, whatever its handler is, and how one works.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Failure;
use super::database_arguments::DatabaseArguments;
use super::signals;
use crate::api::{Duration, Jitter};
use crate::delivery::handler::Handler;
use crate::delivery::link::{APPLICATION, Link};
use crate::delivery::metrics::Metrics;
use crate::delivery::retry::RetryPolicy;
use crate::delivery::worker::{Worker, WorkerSettings};
use crate::http::probes;

/// The most connections to the database where the flag does not say.
const CONNECTIONS: u32 = 4;

/// Which group is worked for, and how
#[derive(Debug, Args)]
pub(crate) struct WorkerArguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// Name of the stream
    #[arg(long, env = "SQLSTREAMS_STREAM")]
    stream: String,
    /// Name of the consumer group
    #[arg(long, env = "SQLSTREAMS_GROUP")]
    group: String,
    #[command(flatten)]
    retry: RetryArgs,
    /// How many messages are worked on at once
    #[arg(long, env = "SQLSTREAMS_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// For how long what this worker holds is its own without a sign of life
    #[arg(long, env = "SQLSTREAMS_LEASE", default_value = "15s", value_parser = lease)]
    lease: Duration,
    /// How long handlers may go on after the worker was told to stop
    #[arg(long, env = "SQLSTREAMS_GRACE_PERIOD", default_value = "30s")]
    grace_period: Duration,
    /// Name of this process, for people; the host's where left out
    #[arg(long, env = "SQLSTREAMS_INSTANCE_NAME")]
    instance_name: Option<String>,
    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, env = "SQLSTREAMS_HTTP_ADDRESS", default_value = "0.0.0.0:8080")]
    http_address: SocketAddr,
}

#[derive(Debug, Args)]
struct RetryArgs {
    /// Retries after the first attempt
    #[arg(long, env = "SQLSTREAMS_MAX_RETRIES", default_value_t = RetryPolicy::default().max_retries)]
    max_retries: u32,
    /// Ceiling of the first delay
    #[arg(long, env = "SQLSTREAMS_INITIAL_DELAY", default_value_t = RetryPolicy::default().initial_delay.into())]
    initial_delay: Duration,
    /// The ceiling grows up to this
    #[arg(long, env = "SQLSTREAMS_MAX_DELAY", default_value_t = RetryPolicy::default().max_delay.into())]
    max_delay: Duration,
    /// What the ceiling is multiplied by for each further retry
    #[arg(long, env = "SQLSTREAMS_FACTOR", default_value_t = RetryPolicy::default().factor, value_parser = clap::value_parser!(u32).range(1..=10))]
    factor: u32,
    /// How a delay is drawn from its ceiling
    #[arg(long, env = "SQLSTREAMS_JITTER", value_enum, default_value_t = RetryPolicy::default().jitter)]
    jitter: Jitter,
}

impl WorkerArguments {
    /// Gives the messages of the group to `handler` until the process is told to stop.
    pub(crate) async fn work<H: Handler>(self, handler: H) -> Result<(), Failure> {
        let stop = signals::stop()?;
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let database = self.database.open(APPLICATION, CONNECTIONS)?;
        let link = Arc::new(Link::new(database, Some(self.database.login()?), metrics.clone()));
        let listener = TcpListener::bind(self.http_address)
            .await
            .map_err(|error| format!("cannot listen on {}: {error}", self.http_address))?;
        let ready = Arc::clone(&link);
        let ready = move || {
            if ready.is_ready() {
                Ok(())
            } else {
                Err("no lease, or no answer from the database; see the log".into())
            }
        };
        let served = CancellationToken::new();
        let server = tokio::spawn(probes::serve(listener, probes::router(registry, ready), served.clone()));
        let settings = self.settings();
        let schedule = settings.retry.schedule();
        tracing::info!(stream = %settings.stream, group = %settings.group, %schedule, "starting");
        Worker::new(settings, link, handler, metrics).run(stop).await;
        served.cancel();
        server.await??;
        Ok(())
    }

    pub(crate) fn settings(&self) -> WorkerSettings {
        WorkerSettings {
            stream: self.stream.clone(),
            group: self.group.clone(),
            name: self.instance_name.clone().unwrap_or_else(host_name),
            concurrency: usize::try_from(self.concurrency).unwrap_or(1),
            lease: self.lease.into(),
            grace: self.grace_period.into(),
            retry: RetryPolicy {
                max_retries: self.retry.max_retries,
                initial_delay: self.retry.initial_delay.into(),
                max_delay: self.retry.max_delay.into(),
                factor: self.retry.factor,
                jitter: self.retry.jitter,
            },
        }
    }
}

fn lease(text: &str) -> Result<Duration, String> {
    let lease: Duration = text
        .parse()
        .map_err(|error: crate::api::DurationError| error.to_string())?;
    let time = std::time::Duration::from(lease);
    if time < std::time::Duration::from_secs(1) || time > std::time::Duration::from_secs(3600) {
        return Err("a lease lasts from 1s to 1h".into());
    }
    Ok(lease)
}

/// In a pod, the pod's name.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => format!("process {}", std::process::id()),
        name => name.to_owned(),
    }
}
