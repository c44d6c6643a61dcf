//! What an HTTP answer means.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sqlstreams::delivery::handler::http::answer::Answer;
use sqlstreams::delivery::outcome::{CUT_MARK, MAX_ERROR_BYTES, Outcome};

fn outcome(status: u16, headers: &[(&'static str, &'static str)], body: &[u8]) -> Outcome {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    let mut answer = Answer::new(StatusCode::from_u16(status).unwrap(), &headers);
    for chunk in body.chunks(1000) {
        answer.push(chunk);
    }
    answer.outcome()
}

fn wait(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
    match outcome(503, headers, b"") {
        Outcome::Retry { retry_after, .. } => retry_after,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_header_goes_before_the_status() {
    const TERMINAL: &[(&str, &str)] = &[("sqlstreams-outcome", "terminal")];
    let cases = [
        (200, &[][..], Outcome::Done),
        (204, &[][..], Outcome::Done),
        (200, TERMINAL, Outcome::terminal("why")),
        (503, TERMINAL, Outcome::terminal("why")),
        (
            200,
            &[("sqlstreams-outcome", " Terminal ")][..],
            Outcome::terminal("why"),
        ),
        (200, &[("sqlstreams-outcome", "fine")][..], Outcome::Done),
        (410, &[][..], Outcome::terminal("why")),
        (404, &[][..], Outcome::retry("why")),
        (302, &[][..], Outcome::retry("why")),
        (500, &[][..], Outcome::retry("why")),
    ];
    for (status, headers, expected) in cases {
        assert_eq!(outcome(status, headers, b"why"), expected, "{status} {headers:?}");
    }
}

#[test]
fn the_body_is_the_error_and_the_status_where_there_is_none() {
    assert_eq!(outcome(500, &[], b"card declined\n"), Outcome::retry("card declined\n"));
    assert_eq!(outcome(503, &[], b""), Outcome::retry("HTTP 503 Service Unavailable"));
    assert_eq!(outcome(599, &[], b" \n"), Outcome::retry("HTTP 599"));
}

#[test]
fn no_more_of_a_body_is_kept_than_can_be_stored() {
    let Outcome::Retry { error, .. } = outcome(500, &[], &vec![b'x'; 100_000]) else {
        panic!("it failed");
    };
    assert!(error.as_str().len() <= MAX_ERROR_BYTES);
    assert!(error.as_str().ends_with(CUT_MARK));
}

#[test]
fn a_receiver_may_ask_to_wait() {
    assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
    assert_eq!(
        wait(&[("retry-after", "99999999999999999999999")]),
        Some(Duration::from_secs(u64::MAX))
    );
    assert_eq!(
        wait(&[
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")
        ]),
        Some(Duration::from_secs(30)),
        "by the receiver's own clock"
    );
    assert_eq!(
        wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]),
        Some(Duration::ZERO),
        "in the past"
    );
    assert_eq!(wait(&[("retry-after", "soon")]), None);
    assert_eq!(wait(&[("retry-after", "-3")]), None);
    let Outcome::Retry { retry_after, .. } = outcome(500, &[("retry-after", "7")], b"") else {
        panic!("it failed");
    };
    assert_eq!(retry_after, None, "only where a server is overloaded");
}
