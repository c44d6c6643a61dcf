//! The four services that receive payments.requested, as one small HTTP server; `--role` says
//! which of them it plays. Each message is a POST whose body is the order; the answer decides what
//! becomes of the message for the group that asked:
//!
//! - 2xx: done;
//! - the header `sqlstreams-outcome: terminal`: dead at once, for no retry would help;
//! - anything else: it failed, and is tried again later.
//!
//! The text of a failure becomes `last_error`, so it names ids and leaves the order out.

use std::collections::HashSet;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use clap::{Parser, ValueEnum};
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
struct Arguments {
    /// The service to play
    #[arg(long, value_enum, env = "ROLE")]
    role: Role,
    /// Where to listen
    #[arg(long, env = "LISTEN", default_value = "0.0.0.0:8081")]
    listen: SocketAddr,
    /// The payment provider that cannot be reached just now; empty when all can
    #[arg(long, env = "UNREACHABLE_PROVIDER", default_value = "fjordpay")]
    unreachable_provider: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    ChargeCards,
    FraudScreening,
    EmailReceipts,
    Analytics,
}

/// What the services look at in an order.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Order {
    order_id: String,
    merchant_id: String,
    /// In the smallest unit of the currency.
    amount: u64,
    provider: String,
    card: String,
}

enum Refusal {
    /// May work later.
    Retry(String),
    /// Will never work.
    Terminal(String),
}

struct Service {
    role: Role,
    unreachable_provider: String,
    /// Orders whose issuer was busy when they came first.
    asked_again: Mutex<HashSet<String>>,
}

/// Orders above this are not screened automatically, in the smallest unit of the currency.
const SCREENING_LIMIT: u64 = 1_000_000;

impl Service {
    fn handle(&self, order: &Order) -> Result<(), Refusal> {
        match self.role {
            Role::ChargeCards => self.charge(order),
            Role::FraudScreening => screen(order),
            Role::EmailReceipts | Role::Analytics => Ok(()),
        }
    }

    fn charge(&self, order: &Order) -> Result<(), Refusal> {
        if order.provider == self.unreachable_provider {
            return Err(Refusal::Retry(format!(
                "payment provider unreachable: connection to {} timed out",
                order.provider
            )));
        }
        // Sandbox cards say by their token how their issuer behaves.
        if order.card.starts_with("card_stolen_") {
            return Err(Refusal::Terminal(format!(
                "{} is reported stolen: {} must not be charged",
                order.card, order.order_id
            )));
        }
        let mut asked_again = self.asked_again.lock().unwrap_or_else(PoisonError::into_inner);
        if order.card.starts_with("card_busy_") && asked_again.insert(order.order_id.clone()) {
            return Err(Refusal::Retry(format!(
                "the issuer of {} is busy: try {} again",
                order.card, order.order_id
            )));
        }
        Ok(())
    }
}

fn screen(order: &Order) -> Result<(), Refusal> {
    if order.amount > SCREENING_LIMIT {
        return Err(Refusal::Terminal(format!(
            "screening rejected {}: above the limit of {}",
            order.order_id, order.merchant_id
        )));
    }
    Ok(())
}

async fn receive(State(service): State<Arc<Service>>, headers: HeaderMap, body: String) -> Response {
    let id = headers
        .get("ce-id")
        .and_then(|id| id.to_str().ok())
        .unwrap_or("without an id");
    let order: Order = match serde_json::from_str(&body) {
        Ok(order) => order,
        // The parser's own message may quote the order.
        Err(error) => {
            let place = format!("line {} column {}", error.line(), error.column());
            return terminal(format!("message {id} is no order: see {place} of its payload"));
        }
    };
    match service.handle(&order) {
        Ok(()) => (StatusCode::OK, format!("{} done\n", order.order_id)).into_response(),
        Err(Refusal::Retry(text)) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        Err(Refusal::Terminal(text)) => terminal(text),
    }
}

fn terminal(text: String) -> Response {
    let outcome = (
        HeaderName::from_static("sqlstreams-outcome"),
        HeaderValue::from_static("terminal"),
    );
    (StatusCode::UNPROCESSABLE_ENTITY, [outcome], text).into_response()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let service = Arc::new(Service {
        role: arguments.role,
        unreachable_provider: arguments.unreachable_provider,
        asked_again: Mutex::default(),
    });
    let router = Router::new()
        .route("/", post(receive))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(service);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stopped = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let listener = tokio::net::TcpListener::bind(arguments.listen).await?;
    eprintln!("listening on {}", listener.local_addr()?);
    // Requests that are under way are answered first.
    axum::serve(listener, router).with_graceful_shutdown(stopped).await?;
    Ok(())
}
