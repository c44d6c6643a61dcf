//! The headers of a request to a handler.

use reqwest::header::{HeaderMap, HeaderValue};
use sqlstreams::database::MessageId;
use sqlstreams::database::message_log::StoredMessage;
use sqlstreams::delivery::handler::http::request::{Origin, is_traceparent};
use sqlstreams::delivery::message::Message;
use uuid::Uuid;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn headers_of(headers: Option<&str>, attempt: u32, fixed: HeaderMap) -> HeaderMap {
    let message = Message::new(
        Uuid::nil(),
        StoredMessage {
            id: MessageId(3),
            payload: b"{}".to_vec(),
            key: None,
            headers: headers.map(|text| text.as_bytes().to_vec()),
            created_at: 1_700_000_000_123_456,
        },
        attempt,
    );
    let origin = Origin {
        source: "/namespaces/shop/streams/payments".into(),
        group: "charge-cards".into(),
    };
    let mut written = fixed;
    origin.write_headers(&message, &mut written);
    written
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers[name].to_str().unwrap()
}

#[test]
fn a_request_carries_a_cloud_event() {
    let headers = headers_of(None, 2, HeaderMap::new());
    let expected = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "00000000-0000-0000-0000-000000000000.3.1700000000123456"),
        ("webhook-id", "00000000-0000-0000-0000-000000000000.3.1700000000123456"),
        ("ce-source", "/namespaces/shop/streams/payments"),
        ("ce-type", "io.sqlstreams.message"),
        ("ce-time", "2023-11-14T22:13:20.123456Z"),
        ("sqlstreams-attempt", "2"),
        ("sqlstreams-group", "charge-cards"),
    ];
    for (name, value) in expected {
        assert_eq!(text(&headers, name), value, "{name}");
    }
    assert!(is_traceparent(text(&headers, "traceparent")));
}

#[test]
fn a_message_may_name_its_type_and_its_trace() {
    let own = format!(r#"{{"ce-type": "com.example.paid", "traceparent": "{TRACE}", "other": "x", "number": 1}}"#);
    let headers = headers_of(Some(&own), 1, HeaderMap::new());
    assert_eq!(text(&headers, "ce-type"), "com.example.paid");
    assert_eq!(text(&headers, "traceparent"), TRACE);
    assert!(!headers.contains_key("other"));
}

#[test]
fn values_that_no_header_can_hold_are_percent_encoded() {
    let headers = headers_of(Some(r#"{"ce-type": "a b\r\nx: \"é\" 5%"}"#), 1, HeaderMap::new());
    assert_eq!(text(&headers, "ce-type"), "a%20b%0D%0Ax:%20%22%C3%A9%22%205%25");
}

#[test]
fn a_trace_that_is_none_is_replaced() {
    let headers = headers_of(Some(r#"{"traceparent": "00-0000-xx"}"#), 1, HeaderMap::new());
    assert!(is_traceparent(text(&headers, "traceparent")));
}

#[test]
fn headers_of_the_protocol_go_before_fixed_ones() {
    let mut fixed = HeaderMap::new();
    fixed.insert("authorization", HeaderValue::from_static("Bearer x"));
    fixed.append("ce-id", HeaderValue::from_static("forged"));
    fixed.append("ce-id", HeaderValue::from_static("forged again"));
    let headers = headers_of(None, 1, fixed);
    assert_eq!(text(&headers, "authorization"), "Bearer x");
    assert_eq!(headers.get_all("ce-id").iter().count(), 1);
    assert!(text(&headers, "ce-id").ends_with(".3.1700000000123456"));
}

#[test]
fn a_traceparent_is_checked() {
    let cases = [
        (TRACE, true),
        ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-future", true),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-future", false),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", false),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false),
        ("", false),
    ];
    for (trace, valid) in cases {
        assert_eq!(is_traceparent(trace), valid, "{trace}");
    }
}
