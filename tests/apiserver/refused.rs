//! Manifests that the API server refuses, with the message that a person gets.

use serde_json::{Value, json};

use crate::harness::kubernetes::namespace;
use crate::operator::{database, group, stream};

async fn refused(manifest: &Value, expected: &str) {
    let namespace = namespace().await;
    let error = namespace.apply(manifest).await.expect_err(expected).to_string();
    assert!(error.contains(expected), "expected {expected:?} in {error}");
}

/// Applies `first`, then `second` over it, which must be refused.
async fn refused_change(first: &Value, second: &Value, expected: &str) {
    let namespace = namespace().await;
    namespace.apply_all(std::slice::from_ref(first)).await;
    let error = namespace.apply(second).await.expect_err(expected).to_string();
    assert!(error.contains(expected), "expected {expected:?} in {error}");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_readable_message() {
    let handler = |handler: Value| group("billing", json!({ "handler": handler }));
    let service = json!({"service": {"name": "x"}});
    let cases = [
        (
            database(json!({"schema": "pg_toast"})),
            "schema must not be one of Postgres's own",
        ),
        (database(json!({"schema": "Has Space"})), "spec.schema"),
        (
            database(json!({"pool": {"maxConnections": 0}})),
            "spec.pool.maxConnections",
        ),
        (stream("orders", json!({"partitionSize": 10})), "spec.partitionSize"),
        (
            stream("orders", json!({"retention": {"ttl": "soon"}})),
            "spec.retention.ttl",
        ),
        (
            stream("orders", json!({"retention": {"ttl": "0s"}})),
            "ttl must be longer than nothing",
        ),
        (
            stream("orders", json!({"retention": {"schedule": "whenever"}})),
            "spec.retention.schedule",
        ),
        (stream("orders", json!({"streamName": "has space"})), "spec.streamName"),
        (
            stream("orders", json!({"deletionPolicy": "Maybe"})),
            "spec.deletionPolicy",
        ),
        (
            handler(json!({})),
            "handler needs exactly one of http, container and sdk",
        ),
        (
            handler(json!({"http": service, "container": {"image": "x"}})),
            "handler needs exactly one of http, container and sdk",
        ),
        (
            handler(json!({"http": {}})),
            "handler.http needs exactly one of url and service",
        ),
        (
            handler(json!({"http": {"url": "ftp://example.com"}})),
            "spec.handler.http.url",
        ),
        (
            handler(json!({"http": {"url": "https://user:pw@example.com"}})),
            "spec.handler.http.url",
        ),
        (
            handler(json!({"http": service, "timeout": "0s"})),
            "timeout must be longer than nothing",
        ),
        (
            handler(json!({"http": {"service": {"name": "x"}, "headers": [{"name": "CE-Id", "value": "1"}]}})),
            "this header is set by the protocol itself",
        ),
        (
            handler(json!({"http": {"service": {"name": "x"}, "headers": [{"name": "X", "value": "a\nb"}]}})),
            "spec.handler.http.headers[0].value",
        ),
        (
            handler(json!({"container": {"image": "x", "port": 80}})),
            "spec.handler.container.port",
        ),
        (group("billing", json!({"replicas": -1})), "spec.replicas"),
        (group("billing", json!({"concurrency": 0})), "spec.concurrency"),
        (
            group("billing", json!({"retry": {"maxRetries": -1}})),
            "spec.retry.maxRetries",
        ),
        (
            group("billing", json!({"retry": {"initialDelay": "1 second"}})),
            "spec.retry.initialDelay",
        ),
        (
            group("billing", json!({"startFrom": {"at": "Latest", "messageId": 3}})),
            "startFrom needs exactly one of at, messageId and time",
        ),
    ];
    for (manifest, expected) in &cases {
        refused(manifest, expected).await;
    }
}

#[tokio::test]
async fn what_cannot_be_changed_says_so() {
    let cases = [
        (
            database(json!({})),
            database(json!({"schema": "other"})),
            "schema cannot be changed",
        ),
        (
            stream("s", json!({})),
            stream("s", json!({"partitionSize": 5000})),
            "partitionSize cannot be changed",
        ),
        (
            stream("s", json!({})),
            stream("s", json!({"streamName": "other"})),
            "streamName cannot be changed",
        ),
        (
            stream("s", json!({})),
            stream("s", json!({"databaseRef": {"name": "other"}})),
            "databaseRef cannot be changed",
        ),
        (
            group("g", json!({})),
            group("g", json!({"streamRef": {"name": "other"}})),
            "streamRef cannot be changed",
        ),
        (
            group("g", json!({})),
            group("g", json!({"groupName": "other"})),
            "groupName cannot be changed",
        ),
        (
            group("g", json!({})),
            group("g", json!({"startFrom": {"at": "Latest"}})),
            "startFrom counts only when",
        ),
    ];
    for (first, second, expected) in &cases {
        refused_change(first, second, expected).await;
    }
}
