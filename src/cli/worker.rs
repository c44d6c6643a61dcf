//! `sqlstreams worker`: delivers the messages of one consumer group.

use clap::Args;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::Failure;
use super::worker_arguments::WorkerArguments;
use crate::api::Duration;
use crate::delivery::handler::http::addresses::AddressRules;
use crate::delivery::handler::http::request::Origin;
use crate::delivery::handler::http::{HttpHandler, HttpSettings, Target};

/// Deliver the messages of one consumer group to its handler
///
/// Ends with 0 when it is told to stop (SIGTERM, SIGINT) and has finished or given back what it
/// held. A second signal ends it at once.
#[derive(Debug, Args)]
pub(super) struct Worker {
    #[command(flatten)]
    worker: WorkerArguments,
    #[command(flatten)]
    handler: HandlerArgs,
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

impl Worker {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let settings = self.worker.settings();
        let handler = HttpHandler::new(HttpSettings {
            target: self.handler.target()?,
            timeout: self.handler.handler_timeout.into(),
            headers: self.handler.headers(),
            origin: Origin {
                source: self.handler.source(&settings.stream),
                group: settings.group,
            },
            concurrency: settings.concurrency,
        })?;
        self.worker.work(handler).await
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

/// Neither the name nor the value is shown where they cannot be used.
fn header(text: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let (name, value) = text.split_once('=').ok_or("it must read NAME=VALUE")?;
    let name = name.trim().parse().map_err(|_| "the name is not that of a header")?;
    let mut value: HeaderValue = value.parse().map_err(|_| "the value cannot be sent in a header")?;
    value.set_sensitive(true);
    Ok((name, value))
}
