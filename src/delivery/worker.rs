//! A worker: one instance after the other, for as long as the process runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use super::link::{Activity, Link};
use super::lost::{Backoff, Lost};
use super::metrics::Metrics;
use super::retry::RetryPolicy;
use super::session::Session;
use super::slot::Shop;
use crate::database::CallError;
use crate::database::connection::inspect;
use crate::database::instances::{Assignment, Instance, Lookup};

/// How often a stream or group is looked for that is not there.
const LOOK_UP_EVERY: Duration = Duration::from_secs(2);

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Name of the stream in the installation.
    pub stream: String,
    /// Name of the group in the stream.
    pub group: String,
    /// Name of this process, for people; need not be unique.
    pub name: String,
    /// How many messages handlers may work on at once.
    pub concurrency: usize,
    /// For how long what this worker holds is its own without a renewal.
    pub lease: Duration,
    /// How long handlers may go on after the worker was told to stop.
    pub grace: Duration,
    /// When failed messages are tried again.
    pub retry: RetryPolicy,
}

/// Looks up what the names of a worker lead to, and waits until they lead somewhere. `None` when
/// it is stopped before.
async fn look_up(link: &Link, settings: &WorkerSettings, stop: &CancellationToken) -> Option<Assignment> {
    let mut backoff = Backoff::new();
    let search = async {
        loop {
            let missing = match link.database.look_up(&settings.stream, &settings.group).await {
                Ok(Lookup::Found(assignment)) => {
                    link.answered(Activity::Register);
                    return assignment;
                }
                Ok(Lookup::NoStream) => format!("there is no stream \"{}\" yet", settings.stream),
                Ok(Lookup::NoGroup) => format!(
                    "the stream \"{}\" has no consumer group \"{}\" yet",
                    settings.stream, settings.group
                ),
                Err(error) => {
                    link.failed(Activity::Register, error.fault());
                    backoff.wait().await;
                    continue;
                }
            };
            link.trouble(Activity::Register, missing);
            tokio::time::sleep(LOOK_UP_EVERY).await;
        }
    };
    stop.run_until_cancelled(search).await
}

/// Delivers the messages of one group until it is stopped.
#[derive(Debug)]
pub struct Worker<H> {
    settings: WorkerSettings,
    link: Arc<Link>,
    shop: Arc<Shop<H>>,
}

impl<H: Handler> Worker<H> {
    /// A worker that gives messages to `handler`.
    #[must_use]
    pub fn new(settings: WorkerSettings, link: Arc<Link>, handler: H, metrics: Metrics) -> Self {
        let shop = Shop {
            handler,
            retry: settings.retry,
            metrics,
        };
        Self {
            settings,
            link,
            shop: Arc::new(shop),
        }
    }

    /// Works until `stop` is cancelled, then drains. Neither an absent database nor absent tables
    /// end it.
    pub async fn run(self, stop: CancellationToken) {
        let mut backoff = Backoff::new();
        while let Some(assignment) = look_up(&self.link, &self.settings, &stop).await {
            let registered = Instant::now();
            let instance = match self.register(&assignment).await {
                Ok(instance) => instance,
                Err(error) => {
                    self.link.failed(Activity::Register, error.fault());
                    let _ = stop.run_until_cancelled(backoff.wait()).await;
                    continue;
                }
            };
            self.link.forget_troubles();
            self.link.set_ready(true);
            let (stream, group) = (&self.settings.stream, &self.settings.group);
            tracing::info!(%stream, %group, %instance, "working");
            let session = Session::start(
                instance,
                registered,
                &self.settings,
                Arc::clone(&self.shop),
                &self.link,
                &stop,
            );
            let lost = session.run(&stop, self.settings.grace).await;
            self.link.set_ready(false);
            let Some(lost) = lost else {
                tracing::info!(%stream, %group, "drained");
                return;
            };
            self.shop.metrics.lease_lost();
            tracing::warn!(%stream, %group, reason = %lost, "abandoned what was being worked on");
            if stop.is_cancelled() {
                return;
            }
            // A lease that lasted shows that all is well again.
            if registered.elapsed() > self.settings.lease {
                backoff.succeeded();
            }
            if !matches!(lost, Lost::Fenced | Lost::Expired) || registered.elapsed() < self.settings.lease {
                let _ = stop.run_until_cancelled(backoff.wait()).await;
            }
        }
    }

    async fn register(&self, assignment: &Assignment) -> Result<Instance, CallError> {
        inspect(&self.link.database.pool).await.map_err(CallError::Failed)?;
        let WorkerSettings { name, lease, .. } = &self.settings;
        self.link.database.register(assignment, name, *lease).await
    }
}
