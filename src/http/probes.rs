//! Probes for Kubernetes and numbers for Prometheus: `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The media type of the OpenMetrics text format
/// ([specification](https://prometheus.io/docs/specs/om/open_metrics_spec/)).
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether the process can do its work now; an answer of no says why, in a few words.
pub type Readiness = dyn Fn() -> Result<(), String> + Send + Sync;

#[derive(Clone)]
struct Shared {
    registry: Arc<Registry>,
    ready: Arc<Readiness>,
}

/// Serves until `stop` is cancelled and every request that was begun is answered.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(
    address: SocketAddr,
    registry: Arc<Registry>,
    ready: Arc<Readiness>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "serving probes and metrics");
    axum::serve(listener, router(registry, ready))
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

/// The routes, for a server of one's own.
pub fn router(registry: Arc<Registry>, ready: Arc<Readiness>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .with_state(Shared { registry, ready })
}

async fn readiness(State(shared): State<Shared>) -> Response {
    match (shared.ready)() {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &shared.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
