//! How lines become messages.

use sqlstreams::cli::lines::{LineError, LineFormat};
use sqlstreams::database::publish::NewMessage;

fn raw() -> LineFormat {
    LineFormat::default()
}

fn envelope() -> LineFormat {
    LineFormat {
        envelope: true,
        key_field: None,
    }
}

fn keyed(pointer: &str) -> LineFormat {
    LineFormat {
        envelope: false,
        key_field: Some(pointer.into()),
    }
}

#[test]
fn a_raw_line_is_the_payload_to_the_digit() {
    let line = br#" {"amount": 12345678901234567890.10, "b":[1,2]} "#;
    let message = raw().parse(line).unwrap().unwrap();
    assert_eq!(message.payload, r#"{"amount": 12345678901234567890.10, "b":[1,2]}"#);
    assert_eq!(message.key, None);
}

#[test]
fn a_blank_line_is_no_message() {
    for line in [&b""[..], b"  \t", b"\r"] {
        assert_eq!(raw().parse(line).unwrap(), None);
        assert_eq!(envelope().parse(line).unwrap(), None);
    }
}

#[test]
fn an_envelope_gives_every_field() {
    let line = br#"{"payload": {"a":1}, "key": "k", "headers": {"ce-type":"t"}, "idempotency_key": "i"}"#;
    assert_eq!(
        envelope().parse(line).unwrap().unwrap(),
        NewMessage {
            payload: r#"{"a":1}"#.into(),
            key: Some("k".into()),
            headers: Some(r#"{"ce-type":"t"}"#.into()),
            idempotency_key: Some("i".into()),
        }
    );
    let nulls = br#"{"payload": null, "key": null, "headers": null}"#;
    let message = envelope().parse(nulls).unwrap().unwrap();
    assert_eq!(message.payload, "null");
    assert_eq!((message.key, message.headers), (None, None));
}

#[test]
fn the_key_comes_from_where_the_pointer_leads() {
    let cases: [(&str, &str, Option<&str>); 6] = [
        ("/customer/id", r#"{"customer":{"id":"c-1"}}"#, Some("c-1")),
        ("/customer/id", r#"{"customer":{"id":42}}"#, Some("42")),
        ("/ok", r#"{"ok":true}"#, Some("true")),
        ("/a~1b", r#"{"a/b":"slash"}"#, Some("slash")),
        ("/missing", r#"{"a":1}"#, None),
        ("/null", r#"{"null":null}"#, None),
    ];
    for (pointer, line, key) in cases {
        let message = keyed(pointer).parse(line.as_bytes()).unwrap().unwrap();
        assert_eq!(message.key.as_deref(), key, "{pointer} in {line}");
    }
    assert_eq!(keyed("/a").parse(br#"{"a":[1]}"#), Err(LineError::NoKey));
}

#[test]
fn a_malformed_line_is_told_without_what_it_holds() {
    let cases: [(LineFormat, &[u8], LineError); 11] = [
        (raw(), b"secret", LineError::NotJson(1)),
        (raw(), br#"{"a":1} trailing"#, LineError::NotJson(9)),
        (raw(), b"\"\xff\"", LineError::NotUtf8),
        (envelope(), b"secret", LineError::NotJson(1)),
        (envelope(), br#""secret""#, LineError::NoEnvelope),
        (envelope(), br#"{"payload":1"#, LineError::NotJson(12)),
        (envelope(), br#"{"key":"secret"}"#, LineError::NoPayload),
        (envelope(), br#"{"payload":1,"secret":2}"#, LineError::UnknownField),
        (envelope(), br#"{"payload":1,"key":7}"#, LineError::NoString("key")),
        (
            envelope(),
            br#"{"payload":1,"idempotency_key":{}}"#,
            LineError::NoString("idempotency_key"),
        ),
        (
            envelope(),
            br#"{"payload":1,"headers":["secret"]}"#,
            LineError::NoHeaders,
        ),
    ];
    for (format, line, wanted) in cases {
        let error = format.parse(line).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(error, wanted, "{}", String::from_utf8_lossy(line));
    }
}
