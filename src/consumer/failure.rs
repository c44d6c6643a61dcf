//! What a handler says when it fails.

use std::error::Error;

use crate::delivery::outcome::Outcome;

type BoxError = Box<dyn Error + Send + Sync>;

/// Why a message was not handled. Made from any error by `?`, or by [`terminal`].
#[derive(Debug)]
pub struct Failure {
    error: BoxError,
    terminal: bool,
}

/// A failure that no retry will help: the message is dead at once, even with retries left.
///
/// ```
/// # use sqlstreams::consumer::{Failure, terminal};
/// fn check(cancelled: bool) -> Result<(), Failure> {
///     if cancelled { Err(terminal("order-103 was cancelled")) } else { Ok(()) }
/// }
/// # assert!(check(true).is_err());
/// ```
pub fn terminal(error: impl Into<BoxError>) -> Failure {
    Failure {
        error: error.into(),
        terminal: true,
    }
}

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            terminal: false,
        }
    }
}

impl From<Failure> for Outcome {
    fn from(Failure { error, terminal }: Failure) -> Self {
        let text = with_causes(error.as_ref());
        if terminal {
            Self::terminal(text)
        } else {
            Self::retry(text)
        }
    }
}

/// The error and what caused it, as far as an error does not repeat its cause itself.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
