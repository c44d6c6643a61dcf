//! `sqlstreams manager run`

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Failure;
use crate::controllers::{Image, Manager, cluster_id};
use crate::http::probes;

/// Run the operator
#[derive(Debug, Args)]
pub(super) struct ManagerCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(Run),
}

/// Watch StreamDatabases, Streams and ConsumerGroups and make the world as they ask
///
/// Uses the service account of its pod, or the current context of the kubeconfig outside of a
/// cluster.
#[derive(Debug, Args)]
struct Run {
    /// Where /metrics, /healthz and /readyz are served
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080",
        env = "SQLSTREAMS_METRICS_ADDRESS"
    )]
    metrics_address: SocketAddr,
    /// Watch this namespace only; may be repeated [default: all namespaces]
    #[arg(
        long = "namespace",
        value_name = "NAMESPACE",
        env = "SQLSTREAMS_NAMESPACES",
        value_delimiter = ','
    )]
    namespaces: Vec<String>,
    /// Image of the workers and retention jobs, which must hold this same program
    #[arg(long, value_name = "IMAGE", env = "SQLSTREAMS_IMAGE")]
    worker_image: String,
    /// When the image is pulled: Always, IfNotPresent or Never [default: Kubernetes decides]
    #[arg(long, value_name = "POLICY", env = "SQLSTREAMS_IMAGE_PULL_POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    worker_image_pull_policy: Option<String>,
    /// Tells this cluster from others that use the same database [default: UID of kube-system]
    #[arg(long, value_name = "TEXT", env = "SQLSTREAMS_CLUSTER_ID")]
    cluster_id: Option<String>,
}

impl ManagerCommand {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let Action::Run(run) = self.action;
        run.run().await
    }
}

impl Run {
    async fn run(self) -> Result<(), Failure> {
        let client = Client::try_default().await.map_err(|error| {
            format!("no cluster to work for ({error}); run it in a pod with a service account, or set KUBECONFIG")
        })?;
        let stop = super::signals::stop()?;
        let listener = TcpListener::bind(self.metrics_address)
            .await
            .map_err(|error| format!("cannot listen on --metrics-address {}: {error}", self.metrics_address))?;
        let mut registry = Registry::default();
        let started = Arc::new(AtomicBool::new(false));
        let ready = {
            let started = Arc::clone(&started);
            move || {
                let ready = started.load(Ordering::Relaxed);
                ready
                    .then_some(())
                    .ok_or_else(|| "no answer from the Kubernetes API yet".to_owned())
            }
        };
        let cluster_id = match self.cluster_id {
            Some(id) => id,
            None => cluster_id(&client).await?,
        };
        let image = Image {
            reference: self.worker_image,
            pull_policy: self.worker_image_pull_policy,
        };
        let namespaces = self
            .namespaces
            .into_iter()
            .filter(|namespace| !namespace.is_empty())
            .collect();
        let manager = Manager::new(client, cluster_id, image, namespaces, &mut registry);
        started.store(true, Ordering::Relaxed);

        // Probes and numbers are there until the last reconcile is done.
        let served = CancellationToken::new();
        let server = tokio::spawn(probes::serve(listener, probes::router(registry, ready), served.clone()));
        tokio::select! {
            () = manager.run(stop) => {}
            ended = server => {
                return Err(format!("the server of probes and metrics has ended: {ended:?}").into());
            }
        }
        served.cancel();
        tracing::info!("stopped");
        Ok(())
    }
}
