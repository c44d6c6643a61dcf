//! The `sqlstreams` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sqlstreams::cli::main()
}
