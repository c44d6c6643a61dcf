//! The command line: one file for each subcommand.
//!
//! Exit codes: 0 done, 1 it failed, 2 the arguments cannot be understood.

mod crd;
mod signals;
mod telemetry;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

#[derive(Debug, Subcommand)]
enum Command {
    Crd(crd::Crd),
    Worker(Box<worker::Worker>),
}

/// What a subcommand that failed says, in one line.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the command line of the process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Crd(command) => command.run(),
        Command::Worker(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sqlstreams: {failure}");
            ExitCode::FAILURE
        }
    }
}
