//! A receiver of messages on this machine.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::Response;
use reqwest::Url;
use sqlstreams::delivery::handler::http::request::Origin;
use sqlstreams::delivery::handler::http::{HttpHandler, HttpSettings, Target};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One request.
#[derive(Clone, Debug)]
pub struct Received {
    pub headers: HeaderMap,
    pub body: serde_json::Value,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The id of the message.
    pub fn id(&self) -> i64 {
        self.header("ce-id").split('.').nth(1).unwrap().parse().unwrap()
    }
}

pub struct Receiver {
    pub url: Url,
    requests: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Answers every request as `answer` says.
    pub async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(Received) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response> + Send,
    {
        let requests: Arc<Mutex<Vec<Received>>> = Arc::default();
        let seen = Arc::clone(&requests);
        let router = Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
            let body = serde_json::from_slice(&body).unwrap();
            let received = Received { headers, body };
            seen.lock().unwrap().push(received.clone());
            let answer = answer.clone();
            async move { answer(received).await }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/charge", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, requests, task }
    }

    pub fn requests(&self) -> Vec<Received> {
        self.requests.lock().unwrap().clone()
    }

    /// A handler that sends here.
    pub fn handler(&self) -> HttpHandler {
        HttpHandler::new(HttpSettings {
            target: Target::Service(self.url.clone()),
            timeout: std::time::Duration::from_secs(5),
            headers: HeaderMap::new(),
            origin: Origin {
                source: "/streams/payments".into(),
                group: "charge-cards".into(),
            },
            concurrency: 4,
        })
        .unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer with this status and body.
pub fn answer(status: u16, body: &str) -> Response {
    Response::builder().status(status).body(body.to_owned().into()).unwrap()
}

/// An answer that says that no retry will help.
pub fn terminal(status: u16, body: &str) -> Response {
    let builder = Response::builder()
        .status(status)
        .header("sqlstreams-outcome", "terminal");
    builder.body(body.to_owned().into()).unwrap()
}
