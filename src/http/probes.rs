//! Probes for Kubernetes and numbers for Prometheus: `/healthz`, `/readyz` and `/metrics`.

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

struct Probes {
    registry: Registry,
    ready: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

/// The routes: `/healthz` answers 200 as long as the process answers at all, `/readyz` 200, or 503
/// with the reason that `ready` gives, `/metrics` what is registered.
pub fn router(registry: Registry, ready: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Probes {
            registry,
            ready: Box::new(ready),
        }))
}

/// Serves [`router`] until `stop` is cancelled and every request that was begun is answered.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

async fn readiness(State(probes): State<Arc<Probes>>) -> Response {
    match (probes.ready)() {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(probes): State<Arc<Probes>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &probes.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
