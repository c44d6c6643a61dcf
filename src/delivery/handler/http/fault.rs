//! What is said of a request that got no answer. Never the URL, which may hold a password.

use std::error::Error;
use std::io::{self, ErrorKind};

use super::addresses::{NoAllowedAddress, Unresolved};

/// Says why no answer came: what a person at the receiver's end would look for.
pub(super) fn describe(error: &reqwest::Error) -> String {
    let stage = if error.is_connect() {
        "no connection to the receiver"
    } else {
        "the connection broke before an answer came"
    };
    match cause(error) {
        Some(cause) => format!("{stage}: {cause}"),
        None => stage.into(),
    }
}

/// The innermost cause whose text is known to hold nothing but the cause.
fn cause(error: &reqwest::Error) -> Option<String> {
    let mut next = error.source();
    while let Some(error) = next {
        if error.is::<NoAllowedAddress>() || error.is::<Unresolved>() {
            return Some(error.to_string());
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(describe_io(error));
        }
        next = error.source();
    }
    None
}

fn describe_io(error: &io::Error) -> String {
    if let Some(inner) = error.get_ref() {
        if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
            return format!("TLS: {tls}");
        }
        if inner.is::<NoAllowedAddress>() || inner.is::<Unresolved>() {
            return inner.to_string();
        }
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset => "connection reset".into(),
        ErrorKind::ConnectionAborted => "connection aborted".into(),
        ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => "connection closed".into(),
        ErrorKind::TimedOut => "connection timed out".into(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "host unreachable".into(),
        // Names that do not resolve come as errors without a code.
        _ if error.raw_os_error().is_none() => "the name of the host cannot be resolved".into(),
        kind => kind.to_string(),
    }
}
