//! Logs on standard error.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// A JSON object a line.
    Json,
    /// For people.
    Text,
}

/// What is logged, and how.
#[derive(Clone, Debug, Args)]
pub(super) struct LogArgs {
    /// What is logged: a level, or levels for parts of the program
    #[arg(long, env = "SQLSTREAMS_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
    /// How log lines look; text on a terminal where left out, else json
    #[arg(long, env = "SQLSTREAMS_LOG_FORMAT")]
    log_format: Option<LogFormat>,
}

impl LogArgs {
    /// Starts to log.
    pub(super) fn start(&self) -> Result<(), super::Failure> {
        let filter = EnvFilter::try_new(&self.log)?;
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr);
        let by_default = if std::io::stderr().is_terminal() {
            LogFormat::Text
        } else {
            LogFormat::Json
        };
        match self.log_format.unwrap_or(by_default) {
            LogFormat::Json => lines.json().flatten_event(true).try_init(),
            LogFormat::Text => lines.with_target(false).try_init(),
        }
    }
}
