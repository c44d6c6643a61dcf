//! Messages sent as HTTP requests: CloudEvents in binary mode, one POST for each attempt.

pub mod addresses;
pub mod answer;
pub mod fault;
pub mod request;

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Response, Url, redirect};
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use self::addresses::{AddressRules, FilteringResolver};
use self::answer::Answer;
use self::request::Origin;
use super::Handler;
use crate::delivery::message::Message;
use crate::delivery::outcome::{MAX_ERROR_BYTES, Outcome};

/// How long an idle connection to the receiver is kept. Shorter than what servers commonly keep
/// theirs for, so that a request seldom meets one that is just being closed.
const IDLE_CONNECTION: Duration = Duration::from_secs(4);
/// For how long the body of an answer that says "done" is read, for the sake of the connection.
const DRAIN: Duration = Duration::from_millis(500);

/// Where messages are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any URL. Only addresses that `rules` allow are connected to.
    Url(Url, AddressRules),
    /// A Service of the cluster or the pod's own container, at whatever address it has.
    Service(Url),
}

impl Target {
    /// Refuses what can never be sent to.
    ///
    /// # Errors
    /// [`TargetError::NotHttp`] or [`TargetError::Address`].
    pub fn check(&self) -> Result<(), TargetError> {
        let url = self.url();
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(TargetError::NotHttp);
        }
        match self {
            Self::Url(url, rules) => rules.check_url(url),
            Self::Service(_) => Ok(()),
        }
    }

    fn url(&self) -> &Url {
        match self {
            Self::Url(url, _) | Self::Service(url) => url,
        }
    }
}

/// Settings of an [`HttpHandler`].
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Where messages are sent.
    pub target: Target,
    /// An attempt that takes longer has failed.
    pub timeout: Duration,
    /// Headers sent with each message; those of the protocol go before them.
    pub headers: HeaderMap,
    /// What the messages come from.
    pub origin: Origin,
    /// At most so many connections are kept while idle.
    pub concurrency: usize,
}

/// Why messages cannot be sent to a target at all.
#[derive(Debug, Error)]
pub enum TargetError {
    /// Not a URL that a request can be sent to.
    #[error("the handler's URL must begin with http:// or https:// and name a host")]
    NotHttp,
    /// The URL itself names an address that is not allowed.
    #[error("the handler's URL leads to {0}, which a handler outside the cluster may not have")]
    Address(std::net::IpAddr),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up; are there certificates of authorities on this system?")]
    Client,
}

/// Sends each message to one receiver.
#[derive(Debug)]
pub struct HttpHandler {
    client: Client,
    url: Url,
    destination: String,
    timeout: Duration,
    headers: HeaderMap,
    origin: Origin,
}

impl HttpHandler {
    /// Makes ready to send.
    ///
    /// # Errors
    /// When the target can never be sent to.
    pub fn new(settings: HttpSettings) -> Result<Self, TargetError> {
        crate::tls::install();
        let builder = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("sqlstreams/", env!("CARGO_PKG_VERSION")))
            .pool_idle_timeout(IDLE_CONNECTION)
            .pool_max_idle_per_host(settings.concurrency)
            .tcp_nodelay(true);
        settings.target.check()?;
        let (url, builder) = match settings.target {
            Target::Service(url) => (url, builder),
            Target::Url(url, rules) => (url, builder.dns_resolver(Arc::new(FilteringResolver::new(rules)))),
        };
        Ok(Self {
            client: builder.build().map_err(|_| TargetError::Client)?,
            destination: without_secrets(&url),
            url,
            timeout: settings.timeout,
            headers: settings.headers,
            origin: settings.origin,
        })
    }

    async fn send(&self, message: Message) -> Result<Response, reqwest::Error> {
        let mut headers = self.headers.clone();
        self.origin.write_headers(&message, &mut headers);
        self.client
            .post(self.url.clone())
            .headers(headers)
            .body(message.payload)
            .send()
            .await
    }
}

impl Handler for HttpHandler {
    async fn handle(&self, message: Message) -> Outcome {
        let deadline = Instant::now() + self.timeout;
        let mut response = match timeout_at(deadline, self.send(message)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Outcome::retry(fault::describe(&error)),
            Err(_) => {
                let timeout = crate::api::Duration::from(self.timeout);
                return Outcome::retry(format!("no answer within {timeout}"));
            }
        };
        let mut answer = Answer::new(response.status(), response.headers());
        // A connection is used again where the answer was read; but nobody waits for the body of
        // one that says "done".
        let deadline = match answer.is_done() {
            true => deadline.min(Instant::now() + DRAIN),
            false => deadline,
        };
        // Where the body breaks off, what came before says more about the failure than the break.
        let read = async {
            while !answer.is_full()
                && let Ok(Some(chunk)) = response.chunk().await
            {
                answer.push(&chunk);
            }
        };
        let _ = timeout_at(deadline, read).await;
        answer.outcome()
    }

    fn destination(&self) -> Option<&str> {
        Some(&self.destination)
    }
}

/// A URL without user, password, query and fragment, any of which may be a secret.
fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    // Fails only for URLs that have no host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// So many bytes of an answer are kept: enough to see that there were more than are stored.
const KEPT_BYTES: usize = MAX_ERROR_BYTES + 1;
