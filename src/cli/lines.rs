//! From a line of JSON to a message.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::database::publish::NewMessage;

/// How a line is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineFormat {
    /// The line is an object with the fields `payload`, `key`, `headers` and `idempotency_key`,
    /// instead of the payload itself.
    pub envelope: bool,
    /// Where in the payload the key is, as a JSON pointer
    /// ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)).
    pub key_field: Option<String>,
}

/// Why a line is no message. Quotes nothing of it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LineError {
    /// No JSON.
    #[error("is not JSON (at column {0})")]
    NotJson(usize),
    /// Not UTF-8, without which there is no JSON.
    #[error("is not UTF-8")]
    NotUtf8,
    /// Longer than any message may be.
    #[error("has more than {0} bytes")]
    TooLong(usize),
    /// An envelope is no object.
    #[error("is no JSON object; without --envelope each line is a payload of its own")]
    NoEnvelope,
    /// An envelope without a payload.
    #[error("has no field payload")]
    NoPayload,
    /// Perhaps a field is misspelt.
    #[error("has a field beside payload, key, headers and idempotency_key")]
    UnknownField,
    /// A field is of the wrong kind.
    #[error("has a field {0} that is no string")]
    NoString(&'static str),
    /// Headers must be an object.
    #[error("has headers that are no JSON object")]
    NoHeaders,
    /// A key can be a string, a number or a boolean.
    #[error("has an object or an array where --key-field points")]
    NoKey,
}

impl LineFormat {
    /// Reads a line; `None` where it is blank.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(&self, line: &[u8]) -> Result<Option<NewMessage>, LineError> {
        let line = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8)?.trim();
        if line.is_empty() {
            return Ok(None);
        }
        let mut message = if self.envelope {
            envelope(line)?
        } else {
            json::<&RawValue>(line)?;
            NewMessage {
                payload: line.to_owned(),
                ..NewMessage::default()
            }
        };
        if let Some(pointer) = &self.key_field {
            message.key = key_at(&message.payload, pointer)?;
        }
        Ok(Some(message))
    }
}

fn json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, LineError> {
    serde_json::from_str(text).map_err(|error| LineError::NotJson(error.column()))
}

fn envelope(line: &str) -> Result<NewMessage, LineError> {
    // Whatever is wrong after this check is wrong with the JSON.
    if !line.starts_with('{') {
        json::<&RawValue>(line)?;
        return Err(LineError::NoEnvelope);
    }
    let mut fields: BTreeMap<String, &RawValue> = json(line)?;
    let payload = fields.remove("payload").ok_or(LineError::NoPayload)?;
    let headers = fields
        .remove("headers")
        .map(RawValue::get)
        .filter(|headers| *headers != "null");
    if headers.is_some_and(|headers| !headers.starts_with('{')) {
        return Err(LineError::NoHeaders);
    }
    let mut string = |name: &'static str| -> Result<Option<String>, LineError> {
        fields.remove(name).map_or(Ok(None), |value| {
            serde_json::from_str(value.get()).map_err(|_| LineError::NoString(name))
        })
    };
    let message = NewMessage {
        payload: payload.get().to_owned(),
        key: string("key")?,
        headers: headers.map(str::to_owned),
        idempotency_key: string("idempotency_key")?,
    };
    if fields.is_empty() {
        Ok(message)
    } else {
        Err(LineError::UnknownField)
    }
}

/// The key of a payload; none where the pointer leads to nothing or to null.
fn key_at(payload: &str, pointer: &str) -> Result<Option<String>, LineError> {
    let payload: Value = json(payload)?;
    match payload.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) => Ok(Some(key.clone())),
        Some(key @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(key.to_string())),
        Some(Value::Array(_) | Value::Object(_)) => Err(LineError::NoKey),
    }
}
