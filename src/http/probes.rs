//! `/healthz`, `/readyz` and `/metrics`.

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

/// The media type of what [`encode`] writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

struct Probes {
    registry: Registry,
    ready: Box<dyn Fn() -> bool + Send + Sync>,
}

/// The routes: `/healthz` answers 200 as long as the process answers at all, `/readyz` 200 or 503
/// as `ready` says, `/metrics` what is registered.
pub fn router(registry: Registry, ready: impl Fn() -> bool + Send + Sync + 'static) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Probes {
            registry,
            ready: Box::new(ready),
        }))
}

/// Serves [`router`] until `stop` is cancelled.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

async fn readiness(State(probes): State<Arc<Probes>>) -> (StatusCode, &'static str) {
    if (probes.ready)() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

async fn metrics(State(probes): State<Arc<Probes>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &probes.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
