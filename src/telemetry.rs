//! Where log lines go, and in which form.

use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// The variable that says what is logged, as `tracing` filters are written.
pub const FILTER_VARIABLE: &str = "SQLSTREAMS_LOG";
/// What is logged where nothing else is said.
const DEFAULT_FILTER: &str = "info,sqlx=warn,kube=warn,kube_client=warn,kube_runtime=warn,hyper=warn,tower=warn";

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line: `timestamp`, `level`, `target`, `message` and the fields of the event.
    Json,
}

/// Flags for logging, of every subcommand.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct LogArguments {
    /// Form of the log; text on a terminal, json otherwise
    #[arg(long, value_name = "FORM", env = "SQLSTREAMS_LOG_FORMAT", global = true)]
    pub log_format: Option<LogFormat>,
}

/// Starts logging to standard error and chooses the TLS implementation. Later calls change nothing.
///
/// # Errors
/// When `SQLSTREAMS_LOG` is no filter.
pub fn start(arguments: LogArguments) -> Result<(), String> {
    crate::tls::install();
    let terminal = std::io::stderr().is_terminal();
    let filter = filter(std::env::var(FILTER_VARIABLE).ok().as_deref())?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal && std::env::var_os("NO_COLOR").is_none());
    let format = arguments
        .log_format
        .unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let _ = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .try_init(),
    };
    Ok(())
}

fn filter(given: Option<&str>) -> Result<EnvFilter, String> {
    match given.map(str::trim).filter(|given| !given.is_empty()) {
        // The given directives come last, and the last word on a target counts.
        Some(given) => EnvFilter::try_new(format!("{DEFAULT_FILTER},{given}"))
            .map_err(|error| format!("{FILTER_VARIABLE} is not a filter such as info or sqlstreams=debug: {error}")),
        None => Ok(EnvFilter::new(DEFAULT_FILTER)),
    }
}
