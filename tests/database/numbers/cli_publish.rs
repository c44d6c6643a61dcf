//! `sqlstreams publish`, `retention run` and `metric list`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use super::installation::{Installation, OWNER};

fn sqlstreams(installation: &Installation, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sqlstreams"))
        .args(arguments)
        .env("SQLSTREAMS_DATABASE_URL", &installation.test.url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // One that stops at a line reads no further.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn numbers(range: std::ops::RangeInclusive<i64>) -> String {
    range.map(|number| format!("{number}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_published_in_order_and_summed_up() {
    let installation = Installation::new("s", &[]).await;
    let input = numbers(1..=1200).replace("7\n", "7\n\n");
    let output = sqlstreams(&installation, &["publish", "--stream", "s", "--output", "json"], &input);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        summary,
        serde_json::json!({"stream": "s", "lines": 1320, "published": 1200, "firstId": 1, "lastId": 1200})
    );
    assert_eq!(text(&output.stderr), "", "no bar where there is no terminal");
    let in_order = installation
        .count("sqlstreams.message_log_1 WHERE payload::bigint = id")
        .await;
    assert_eq!(in_order, 1200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_line_is_named_and_its_batch_is_not_sent() {
    let installation = Installation::new("s", &[]).await;
    let mut input = numbers(1..=250);
    input.push_str("{secret\n");
    input.push_str(&numbers(252..=300));
    let arguments = ["publish", "--stream", "s", "--batch-size", "100"];
    let output = sqlstreams(&installation, &arguments, &input);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        error.contains("line 251 is not JSON (at column 2); its batch was not sent"),
        "{error}"
    );
    assert!(
        error.contains("200 messages were published before; to go on: --skip-lines 200"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 200);

    let fixed = input.replace("{secret", "251");
    let output = sqlstreams(
        &installation,
        &[&arguments[..], &["--skip-lines", "200"]].concat(),
        &fixed,
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_the_database_refuses_is_named_too() {
    let installation = Installation::new("s", &[]).await;
    let input = format!("{}\"secret\\u0000\"\n{}", numbers(1..=5), numbers(7..=9));
    let output = sqlstreams(&installation, &["publish", "--stream", "s"], &input);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("line 6: the database refuses the message"), "{error}");
    assert!(
        error.contains("0 messages were published before; to go on: --skip-lines 0"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn envelopes_with_an_idempotency_key_are_published_once() {
    let installation = Installation::new("s", &[]).await;
    let input = r#"{"payload": {"n": 1}, "key": "k", "headers": {"ce-type": "t"}, "idempotency_key": "a"}
{"payload": {"n": 2}}
{"payload": {"n": 3}}
"#;
    for round in 1..=2 {
        let output = sqlstreams(&installation, &["publish", "--stream", "s", "--envelope"], input);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(installation.count("sqlstreams.message_log_1").await, 1 + 2 * round);
    }
    let first: String = installation
        .value("SELECT concat_ws('|', payload, key, headers) FROM sqlstreams.message_log_1 WHERE id = 1")
        .await;
    assert_eq!(first, r#"{"n": 1}|k|{"ce-type": "t"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_taken_from_the_payload_of_a_file() {
    let installation = Installation::new("s", &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines");
    std::fs::write(&file, "{\"c\":{\"id\":\"k1\"}}\n{\"c\":{\"id\":2}}").unwrap();
    let arguments = [
        "publish",
        "--stream",
        "s",
        "--key-field",
        "/c/id",
        file.to_str().unwrap(),
    ];
    let output = sqlstreams(&installation, &arguments, "");
    assert_eq!(
        text(&output.stdout),
        "2 messages were published to s, ids 1 to 2\n",
        "{}",
        text(&output.stderr)
    );
    let keys: Vec<String> = installation
        .value("SELECT array_agg(key ORDER BY id) FROM sqlstreams.message_log_1")
        .await;
    assert_eq!(keys, ["k1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_names_what_to_do_and_never_the_password() {
    let installation = Installation::new("s", &[]).await;
    let cases: [(&[&str], &str); 4] = [
        (&["publish", "--stream", "nosuch"], "stream \"nosuch\" does not exist"),
        (
            &[
                "publish",
                "--stream",
                "s",
                "--database-url",
                "postgresql://u:hunter2@127.0.0.1:1/d",
            ],
            "the database cannot be reached",
        ),
        (
            &["publish", "--stream", "s", "--database-url", "mysql://u:hunter2@h/d"],
            "--database-url",
        ),
        (&["publish", "--stream", "s", "/nosuch"], "/nosuch: No such file"),
    ];
    for (arguments, wanted) in cases {
        let output = sqlstreams(&installation, arguments, "1\n");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(wanted), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_runs_from_the_command_line() {
    let installation = Installation::new("s", &["g"]).await;
    installation.publish(2500).await;
    installation.age().await;
    installation.finish(1, 1000).await;
    let owner = OWNER.to_string();
    let arguments = ["retention", "run", "--stream", "s", "--owner-uid", &owner];

    let output = sqlstreams(&installation, &[&arguments[..], &["--dry-run"]].concat(), "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(installation.partitions().await[0], 0, "a dry run drops nothing");
    assert!(
        text(&output.stderr).contains("would be dropped"),
        "{}",
        text(&output.stderr)
    );

    let output = sqlstreams(&installation, &arguments, "");
    assert!(
        output.status.success(),
        "blocked is no failure: {}",
        text(&output.stderr)
    );
    let lines: Vec<serde_json::Value> = text(&output.stderr)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        lines.iter().any(|line| line["partition"] == "message_log_1_p0"),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line["group"] == "g" && line["level"] == "WARN"),
        "{lines:?}"
    );

    let stranger = uuid::Uuid::new_v4().to_string();
    let output = sqlstreams(
        &installation,
        &["retention", "run", "--stream", "s", "--owner-uid", &stranger],
        "",
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("no stream \"s\" is owned by"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_listed_with_their_values() {
    let installation = Installation::new("s", &["a", "b"]).await;
    installation.publish(7).await;
    installation
        .execute(
            "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status) VALUES (1, 3, 'dead')",
        )
        .await;
    let output = sqlstreams(
        &installation,
        &["metric", "list", "--group", "a", "--output", "json"],
        "",
    );
    let values: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let value = |name: &str| values.iter().find(|value| value["name"] == name).unwrap()["value"].clone();
    assert_eq!(values.len(), 10);
    assert_eq!(value("sqlstreams.consumer.exceptions.dead"), 1);
    assert_eq!(value("sqlstreams.consumer.cursor.backlog"), 7);
    let output = sqlstreams(&installation, &["metric", "list", "--stream", "s"], "");
    let table = text(&output.stdout);
    assert_eq!(table.lines().count(), 21, "{table}");
    assert!(table.lines().any(|line| {
        line.split_whitespace().collect::<Vec<_>>()
            == ["sqlstreams.consumer.exceptions.dead", "s", "a", "1", "messages"]
    }));
}
