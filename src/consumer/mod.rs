//! Handlers in Rust: a worker of one's own.
//!
//! A [`Consumer`] is given every message of a stream, several at once, and says by what it returns
//! how it went. [`run`] makes a whole worker of it: claims, leases, retries, dead letters, probes
//! and metrics are those of `sqlstreams worker`, and so are the settings, which it takes from flags
//! or from variables of the environment.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use serde::Deserialize;
//! use sqlstreams::consumer::{Failure, Message, run, terminal};
//!
//! #[derive(Deserialize)]
//! struct Order {
//!     id: String,
//!     cancelled: bool,
//! }
//!
//! async fn charge(message: Message) -> Result<(), Failure> {
//!     // The parser's own text may quote the payload.
//!     let order: Order = message.json().map_err(|_| terminal("the payload is no order"))?;
//!     if order.cancelled {
//!         return Err(terminal(format!("{} was cancelled", order.id)));
//!     }
//!     tokio::net::TcpStream::connect("provider.example:443").await?;
//!     Ok(())
//! }
//!
//! fn main() -> ExitCode {
//!     run(charge)
//! }
//! ```
//!
//! In Kubernetes, a ConsumerGroup runs such a program by `handler.sdk`.

mod failure;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::cli::{WorkerArguments, block_on};
use crate::delivery::handler::Handler;
use crate::delivery::outcome::Outcome;
use crate::telemetry::{self, LogArguments};

pub use crate::delivery::message::Message;
pub use failure::{Failure, terminal};

/// Handles the messages of a consumer group. Any function from a [`Message`] to a future of a
/// result is one.
///
/// Called from several tasks at once, up to the concurrency of the group. A message is given again
/// after a failure, and also when a worker has died or lost its lease while it was handled: so a
/// handler must stand being called twice for one message, whose [`Message::event_id`] tells that it
/// is the same.
pub trait Consumer: Send + Sync + 'static {
    /// Handles one message.
    ///
    /// # Errors
    /// Any error, by `?`, says that the message is to be tried again, as long as retries are left;
    /// [`terminal`] says that no retry will help. The text of the error is kept as the message's
    /// last error, verbatim: name the order in it, not its content.
    ///
    /// A panic counts as an error, with its value and stack as the text. The future is dropped when
    /// it takes longer than the group allows or the worker has lost its lease.
    fn handle(&self, message: Message) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl<F, R> Consumer for F
where
    F: Fn(Message) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Failure>> + Send,
{
    fn handle(&self, message: Message) -> impl Future<Output = Result<(), Failure>> + Send {
        self(message)
    }
}

/// A worker for one consumer group of a stream
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    worker: WorkerArguments,
    /// An attempt that takes longer has failed
    #[arg(long, env = "SQLSTREAMS_HANDLER_TIMEOUT", default_value = "30s")]
    handler_timeout: crate::api::Duration,
    #[command(flatten)]
    log: LogArguments,
}

/// Gives the messages of a group to `consumer` until the process is told to stop by SIGTERM or
/// SIGINT; what is being handled then is finished within the grace period. To be returned from
/// `main`.
///
/// The flags are those of `sqlstreams worker`, but for those of its HTTP handler; `--help` lists
/// them. Each can also be given as a variable, as a ConsumerGroup does: `SQLSTREAMS_STREAM`,
/// `SQLSTREAMS_GROUP`, `SQLSTREAMS_DATABASE_URL` and so on.
pub fn run(consumer: impl Consumer) -> ExitCode {
    let Arguments {
        worker,
        handler_timeout,
        log,
    } = Arguments::parse();
    let handler = Native {
        consumer,
        timeout: handler_timeout.into(),
    };
    let result = telemetry::start(log)
        .map_err(Into::into)
        .and_then(|()| block_on(worker.work(handler)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A consumer as the worker knows handlers.
pub struct Native<C> {
    consumer: C,
    timeout: Duration,
}

impl<C: Consumer> Native<C> {
    /// `consumer`, whose attempts may take as long as `timeout`; for a worker that is put together
    /// by hand, see [`crate::delivery`].
    pub fn new(consumer: C, timeout: Duration) -> Self {
        Self { consumer, timeout }
    }
}

impl<C: Consumer> Handler for Native<C> {
    async fn handle(&self, message: Message) -> Outcome {
        match tokio::time::timeout(self.timeout, self.consumer.handle(message)).await {
            Ok(Ok(())) => Outcome::Done,
            Ok(Err(failure)) => failure.into(),
            Err(_) => Outcome::retry(format!(
                "the handler took longer than {}",
                crate::api::Duration::from(self.timeout)
            )),
        }
    }
}
