//! Receivers that are slow, broken or up to no good.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue};
use sqlstreams::database::MessageId;
use sqlstreams::database::message_log::StoredMessage;
use sqlstreams::delivery::handler::Handler;
use sqlstreams::delivery::handler::http::addresses::AddressRules;
use sqlstreams::delivery::handler::http::request::Origin;
use sqlstreams::delivery::handler::http::{HttpHandler, HttpSettings, Target};
use sqlstreams::delivery::message::Message;
use sqlstreams::delivery::outcome::{MAX_ERROR_BYTES, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

const TIMEOUT: Duration = Duration::from_millis(400);

/// What a receiver does with a connection once it has read a request.
#[derive(Clone, Copy)]
enum Does {
    Says(&'static str),
    /// And keeps the connection open.
    SaysAndStays(&'static str),
    /// Then sends `x` without end.
    SaysAndGoesOn(&'static str),
    Resets,
}

struct Hostile {
    port: u16,
    connections: Arc<AtomicUsize>,
}

async fn hostile(does: Does) -> Hostile {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(act(stream, does));
        }
    });
    Hostile { port, connections }
}

async fn act(mut stream: TcpStream, does: Does) {
    let mut buffer = vec![0; 65_536];
    let _ = stream.read(&mut buffer).await;
    match does {
        Does::Says(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
        }
        Does::SaysAndStays(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        Does::SaysAndGoesOn(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            while stream.write_all(&[b'x'; 10_000]).await.is_ok() {}
        }
        Does::Resets => {
            let _ = stream.set_zero_linger();
        }
    }
}

fn handler(target: Target) -> HttpHandler {
    let mut headers = HeaderMap::new();
    headers.insert(
        "authorization",
        HeaderValue::from_static("Bearer token-of-the-receiver"),
    );
    HttpHandler::new(HttpSettings {
        target,
        timeout: TIMEOUT,
        headers,
        origin: Origin {
            source: "/streams/payments".into(),
            group: "charge-cards".into(),
        },
        concurrency: 1,
    })
    .unwrap()
}

fn message() -> Message {
    Message::new(
        Uuid::nil(),
        StoredMessage {
            id: MessageId(1),
            payload: br#"{"card": "content-of-the-message"}"#.to_vec(),
            key: None,
            headers: None,
            created_at: 0,
        },
        1,
    )
}

/// Sends one message to a receiver that has a password in its URL.
async fn send(does: Does) -> (Outcome, Hostile) {
    let receiver = hostile(does).await;
    let url = format!(
        "http://user:password-in-the-url@127.0.0.1:{}/hook?token=secret",
        receiver.port
    );
    let outcome = handler(Target::Service(url.parse().unwrap())).handle(message()).await;
    if let Outcome::Retry { error, .. } | Outcome::Terminal { error } = &outcome {
        for secret in ["content-of-the-message", "password-in-the-url", "token"] {
            assert!(!error.as_str().contains(secret), "{}", error.as_str());
        }
    }
    (outcome, receiver)
}

fn error(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Retry { error, .. } => error.as_str(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn silence_is_a_time_out() {
    let began = Instant::now();
    let (outcome, _) = send(Does::SaysAndStays("")).await;
    assert_eq!(error(&outcome), "no answer within 400ms");
    assert!(began.elapsed() < TIMEOUT * 3);
}

#[tokio::test]
async fn half_an_answer_is_a_time_out() {
    let (outcome, _) = send(Does::SaysAndStays("HTTP/1.1 200 OK\r\nContent-Le")).await;
    assert_eq!(error(&outcome), "no answer within 400ms");
}

#[tokio::test]
async fn a_reset_says_so() {
    let (outcome, _) = send(Does::Resets).await;
    assert!(
        error(&outcome).starts_with("the connection broke before an answer came"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_receiver_that_hangs_up_has_not_answered() {
    let (outcome, _) = send(Does::Says("")).await;
    assert!(
        error(&outcome).starts_with("the connection broke before an answer came"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn what_is_no_http_is_no_answer() {
    let (outcome, _) = send(Does::Says("220 mail.example.com ESMTP\r\n")).await;
    assert!(
        error(&outcome).starts_with("the connection broke before an answer came"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_closed_port_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let outcome = handler(Target::Service(url)).handle(message()).await;
    assert_eq!(error(&outcome), "no connection to the receiver: connection refused");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_says_so() {
    let url: Url = "http://no-such-host.invalid/".parse().unwrap();
    for target in [
        Target::Service(url.clone()),
        Target::Url(url.clone(), AddressRules::default()),
    ] {
        let outcome = handler(target).handle(message()).await;
        let text = error(&outcome);
        assert!(
            text == "no connection to the receiver: the name of the host cannot be resolved"
                || text == "no answer within 400ms",
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_endless_error_is_cut_and_not_read_to_the_end() {
    let began = Instant::now();
    let (outcome, _) = send(Does::SaysAndGoesOn(
        "HTTP/1.1 500 Oops\r\nContent-Length: 999999999999\r\n\r\n",
    ))
    .await;
    assert!(began.elapsed() < TIMEOUT);
    assert!(error(&outcome).len() <= MAX_ERROR_BYTES);
    assert!(error(&outcome).ends_with(" [cut]"));
}

#[tokio::test]
async fn an_endless_success_is_a_success() {
    let began = Instant::now();
    let (outcome, _) = send(Does::SaysAndGoesOn(
        "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n",
    ))
    .await;
    assert_eq!(outcome, Outcome::Done);
    assert!(began.elapsed() < TIMEOUT);
}

#[tokio::test]
async fn an_error_that_never_ends_is_taken_as_far_as_it_came() {
    let (outcome, _) = send(Does::SaysAndStays(
        "HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\ncard decl",
    ))
    .await;
    assert_eq!(error(&outcome), "card decl");
}

#[tokio::test]
async fn a_terminal_answer_counts_without_its_body() {
    let answer = "HTTP/1.1 200 OK\r\nsqlstreams-outcome: terminal\r\nContent-Length: 100\r\n\r\n";
    let (outcome, _) = send(Does::SaysAndStays(answer)).await;
    assert_eq!(outcome, Outcome::terminal("HTTP 200 OK"));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = hostile(Does::Says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).await;
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:{}/\r\nContent-Length: 0\r\n\r\n",
        elsewhere.port
    );
    let (outcome, receiver) = send(Does::Says(answer.leak())).await;
    assert_eq!(error(&outcome), "HTTP 307 Temporary Redirect");
    assert_eq!(receiver.connections.load(Ordering::Relaxed), 1);
    assert_eq!(elsewhere.connections.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn huge_headers_are_no_answer() {
    let answer = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(2_000_000));
    let (outcome, _) = send(Does::Says(answer.leak())).await;
    assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_not_connected_to() {
    let receiver = hostile(Does::Says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).await;
    let url: Url = format!("http://localhost:{}/", receiver.port).parse().unwrap();
    for allow_private in [false, true] {
        let handler = handler(Target::Url(url.clone(), AddressRules { allow_private }));
        let outcome = handler.handle(message()).await;
        assert!(error(&outcome).contains("where a URL may not lead"), "{outcome:?}");
    }
    assert_eq!(receiver.connections.load(Ordering::Relaxed), 0);
    let handler = handler(Target::Service(url));
    assert_eq!(
        handler.handle(message()).await,
        Outcome::Done,
        "a service of the cluster may be anywhere"
    );
}

#[tokio::test]
async fn a_url_with_such_an_address_is_refused_from_the_start() {
    for url in [
        "http://127.0.0.1/",
        "http://169.254.169.254/",
        "http://10.0.0.1/",
        "ftp://example.com/",
    ] {
        let settings = HttpSettings {
            target: Target::Url(url.parse().unwrap(), AddressRules::default()),
            timeout: TIMEOUT,
            headers: HeaderMap::new(),
            origin: Origin {
                source: "/streams/payments".into(),
                group: "charge-cards".into(),
            },
            concurrency: 1,
        };
        assert!(HttpHandler::new(settings).is_err(), "{url}");
    }
}

#[tokio::test]
async fn the_destination_holds_no_secret() {
    let url = "https://user:password@example.com/hook?token=secret#x".parse().unwrap();
    let handler = handler(Target::Service(url));
    assert_eq!(handler.destination(), Some("https://example.com/hook"));
}
