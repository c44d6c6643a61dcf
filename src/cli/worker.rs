//! `sqlstreams worker`: delivers the messages of one consumer group.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use prometheus_client::registry::Registry;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Failure;
use super::database_arguments::DatabaseArguments;
use super::signals;
use crate::api::Duration;
use crate::api::Jitter;
use crate::delivery::handler::http::addresses::AddressRules;
use crate::delivery::handler::http::request::Origin;
use crate::delivery::handler::http::{HttpHandler, HttpSettings, Target};
use crate::delivery::link::{APPLICATION, Link};
use crate::delivery::metrics::Metrics;
use crate::delivery::retry::RetryPolicy;
use crate::delivery::worker::{Worker as DeliveryWorker, WorkerSettings};
use crate::http::probes;

/// The most connections to the database where the flag does not say.
const CONNECTIONS: u32 = 5;

/// Deliver the messages of one consumer group to its handler
///
/// Ends with 0 when it is told to stop (SIGTERM, SIGINT) and has finished or given back what it
/// held. A second signal ends it at once.
#[derive(Debug, Args)]
pub(super) struct Worker {
    #[command(flatten)]
    database: DatabaseArguments,
    /// Name of the stream
    #[arg(long, env = "SQLSTREAMS_STREAM")]
    stream: String,
    /// Name of the consumer group
    #[arg(long, env = "SQLSTREAMS_GROUP")]
    group: String,
    #[command(flatten)]
    handler: HandlerArgs,
    #[command(flatten)]
    retry: RetryArgs,
    /// How many messages are worked on at once
    #[arg(long, env = "SQLSTREAMS_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// For how long what this worker holds is its own without a sign of life
    #[arg(long, env = "SQLSTREAMS_LEASE", default_value = "15s", value_parser = lease)]
    lease: Duration,
    /// How long handlers may go on after the worker was told to stop
    #[arg(long, env = "SQLSTREAMS_GRACE_PERIOD", default_value = "25s")]
    grace_period: Duration,
    /// Name of this process, for people; the host's where left out
    #[arg(long, env = "SQLSTREAMS_INSTANCE_NAME")]
    instance_name: Option<String>,
    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, env = "SQLSTREAMS_HTTP_ADDRESS", default_value = "0.0.0.0:8080")]
    http_address: SocketAddr,
}

#[derive(Debug, Args)]
struct HandlerArgs {
    /// URL that messages are sent to; may not lead to loopback, link-local or private addresses
    #[arg(
        long,
        env = "SQLSTREAMS_HANDLER_URL",
        hide_env_values = true,
        required_unless_present = "handler_service",
        conflicts_with = "handler_service"
    )]
    handler_url: Option<Url>,
    /// URL of a Service of the cluster or of the pod's own container
    #[arg(long, env = "SQLSTREAMS_HANDLER_SERVICE")]
    handler_service: Option<Url>,
    /// Let --handler-url lead to private addresses too
    #[arg(long, env = "SQLSTREAMS_ALLOW_PRIVATE_ADDRESSES")]
    allow_private_addresses: bool,
    /// An attempt that takes longer has failed
    #[arg(long, env = "SQLSTREAMS_HANDLER_TIMEOUT", default_value = "30s")]
    handler_timeout: Duration,
    /// A header to send with each message; may be repeated, in the variable one on each line
    #[arg(
        long = "handler-header",
        env = "SQLSTREAMS_HANDLER_HEADERS",
        hide_env_values = true,
        value_name = "NAME=VALUE",
        value_delimiter = '\n',
        value_parser = header
    )]
    handler_headers: Vec<(HeaderName, HeaderValue)>,
    /// The ce-source of messages; /streams/NAME where left out
    #[arg(long, env = "SQLSTREAMS_SOURCE")]
    source: Option<String>,
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

impl Worker {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let stop = signals::stop()?;
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let database = self.database.open(APPLICATION, CONNECTIONS)?;
        let link = Arc::new(Link::new(database, Some(self.database.login()?), metrics.clone()));
        let listener = TcpListener::bind(self.http_address)
            .await
            .map_err(|error| format!("cannot listen on {}: {error}", self.http_address))?;
        let ready = Arc::clone(&link);
        let served = CancellationToken::new();
        let server = tokio::spawn(probes::serve(
            listener,
            probes::router(registry, move || {
                if ready.is_ready() {
                    Ok(())
                } else {
                    Err("no lease, or no answer from the database; see the log".into())
                }
            }),
            served.clone(),
        ));
        let settings = self.settings();
        let handler = HttpHandler::new(HttpSettings {
            target: self.handler.target()?,
            timeout: self.handler.handler_timeout.into(),
            headers: self.handler.headers(),
            origin: Origin {
                source: self.handler.source(&self.stream),
                group: self.group,
            },
            concurrency: settings.concurrency,
        })?;
        let schedule = settings.retry.schedule();
        tracing::info!(stream = %settings.stream, group = %settings.group, %schedule, "starting");
        DeliveryWorker::new(settings, link, handler, metrics).run(stop).await;
        served.cancel();
        server.await??;
        Ok(())
    }

    fn settings(&self) -> WorkerSettings {
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

impl HandlerArgs {
    fn target(&self) -> Result<Target, Failure> {
        let rules = AddressRules {
            allow_private: self.allow_private_addresses,
        };
        match (&self.handler_url, &self.handler_service) {
            (Some(url), _) => Ok(Target::Url(url.clone(), rules)),
            (None, Some(url)) => Ok(Target::Service(url.clone())),
            (None, None) => Err("give --handler-url or --handler-service".into()),
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.handler_headers {
            headers.append(name, value.clone());
        }
        headers
    }

    fn source(&self, stream: &str) -> String {
        self.source.clone().unwrap_or_else(|| format!("/streams/{stream}"))
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

/// Neither the name nor the value is shown where they cannot be used.
fn header(text: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let (name, value) = text.split_once('=').ok_or("it must read NAME=VALUE")?;
    let name = name.trim().parse().map_err(|_| "the name is not that of a header")?;
    let mut value: HeaderValue = value.parse().map_err(|_| "the value cannot be sent in a header")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// In a pod, the pod's name.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => format!("process {}", std::process::id()),
        name => name.to_owned(),
    }
}
