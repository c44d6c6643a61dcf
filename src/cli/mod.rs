//! The command line: one file for each subcommand.
//!
//! Exit codes: 0 done, 1 it failed, 2 the arguments cannot be understood.

mod crd;
mod database_arguments;
pub mod lines;
mod manager;
mod metric;
mod output;
mod publish;
mod retention;
mod signals;
mod worker;
mod worker_arguments;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::telemetry::{self, LogArguments};

pub(crate) use worker_arguments::WorkerArguments;

/// Message streams in plain Postgres, managed as Kubernetes resources.
#[derive(Debug, Parser)]
#[command(
    name = "sqlstreams",
    version,
    about,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    Crd(crd::Crd),
    Manager(manager::ManagerCommand),
    Metric(metric::Metric),
    Publish(publish::Publish),
    Retention(retention::Retention),
    Worker(Box<worker::Worker>),
}

/// What a subcommand that failed says, in one line.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the command line of the process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = telemetry::start(cli.log)
        .map_err(Failure::from)
        .and_then(|()| match cli.command {
            Command::Crd(command) => command.run(),
            Command::Manager(command) => block_on(command.run()),
            Command::Metric(command) => command.run(),
            Command::Publish(command) => command.run(),
            Command::Retention(command) => command.run(),
            Command::Worker(command) => block_on(command.run()),
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sqlstreams: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a subcommand that waits for others.
pub(crate) fn block_on(future: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(future)
}
