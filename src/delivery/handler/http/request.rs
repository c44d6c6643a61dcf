//! The headers of a request: CloudEvents 1.0 in binary mode, W3C trace context, and our own.

use std::fmt::Write;

use jiff::Timestamp;
use rand::RngExt;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::delivery::message::Message;

/// `ce-type` of a message that has no header of this name.
pub const DEFAULT_TYPE: &str = "io.sqlstreams.message";

/// What all messages of a worker have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `ce-source`, such as `/namespaces/shop/streams/payments`.
    pub source: String,
    /// Name of the consumer group.
    pub group: String,
}

impl Origin {
    /// Writes the headers of the protocol, over whatever has the same names.
    pub fn write_headers(&self, message: &Message, headers: &mut HeaderMap) {
        let own = message.headers();
        let id = message.event_id();
        let kind = own.get("ce-type").map_or(DEFAULT_TYPE, String::as_str);
        let trace = match own.get("traceparent") {
            Some(parent) if is_traceparent(parent) => parent.clone(),
            _ => new_traceparent(),
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        set(headers, "ce-specversion", "1.0");
        set(headers, "ce-id", &id);
        set(headers, "webhook-id", &id);
        set(headers, "ce-source", &self.source);
        set(headers, "ce-type", kind);
        set(headers, "ce-time", &time(message.created_at));
        set(headers, "sqlstreams-attempt", &message.attempt.to_string());
        set(headers, "sqlstreams-group", &self.group);
        set(headers, "traceparent", &trace);
    }
}

/// Whether a receiver would accept this `traceparent`
/// ([Trace Context, 3.2](https://www.w3.org/TR/trace-context/#traceparent-header)).
#[must_use]
pub fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let parts: Vec<&str> = text.split('-').collect();
    match parts.as_slice() {
        [version, trace, parent, flags, more @ ..] => {
            hex(version, 2)
                && *version != "ff"
                && hex(trace, 32)
                && trace.bytes().any(|byte| byte != b'0')
                && hex(parent, 16)
                && parent.bytes().any(|byte| byte != b'0')
                && hex(flags, 2)
                && (more.is_empty() || *version != "00")
        }
        _ => false,
    }
}

/// A trace of its own for a message that came with none; it is not sampled.
fn new_traceparent() -> String {
    let mut rng = rand::rng();
    let trace: u128 = rng.random_range(1..=u128::MAX);
    let parent: u64 = rng.random_range(1..=u64::MAX);
    format!("00-{trace:032x}-{parent:016x}-00")
}

fn time(micros: i64) -> String {
    Timestamp::from_microsecond(micros).map_or_else(|_| Timestamp::UNIX_EPOCH.to_string(), |time| time.to_string())
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // Encoded, every value is possible.
    if let Ok(value) = HeaderValue::from_str(&encode(value)) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Percent-encodes what the HTTP binding of CloudEvents wants encoded: all but printable ASCII,
/// and of that the space, the double quote and the percent sign
/// ([3.1.3.2](https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md#3132-http-header-values)).
fn encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b' ' | b'"' | b'%' => {
                let _ = write!(encoded, "%{byte:02X}");
            }
            0x21..=0x7e => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}
