//! What a command prints.

use std::io::{ErrorKind, Write as _};

use super::Failure;

/// Prints to standard output. A reader that has gone, as `head` does, is no failure.
///
/// # Errors
/// When the text cannot be written.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {error}").into())
        }
        _ => Ok(()),
    }
}
