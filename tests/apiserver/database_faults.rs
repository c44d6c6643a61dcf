//! A database that cannot be worked with: the condition says what to do, and doing it helps.

use serde_json::json;
use sqlstreams::api::{ConsumerGroup, Stream, StreamDatabase};

use crate::operator::{Operator, database, group, secret, stream};

/// Applies a Secret that does not work, waits for the reason, and then for the recovery with one
/// that does.
async fn faulty(operator: &Operator, login: serde_json::Value, condition: &str, reason: &str, remedy: &str) {
    operator
        .namespace
        .apply_all(&[
            login,
            database(json!({})),
            stream("orders", json!({})),
            group("billing", json!({})),
        ])
        .await;
    operator
        .condition::<StreamDatabase>("main", condition, "False", reason)
        .await;
    let ready = operator
        .condition::<StreamDatabase>("main", "Ready", "False", reason)
        .await;
    assert!(ready.message.contains(remedy), "{}", ready.message);
    assert!(!ready.message.contains("wrong-secret"), "a password: {}", ready.message);
    let of_stream = operator.condition::<Stream>("orders", "Ready", "False", reason).await;
    assert!(
        of_stream.message.starts_with("StreamDatabase main: "),
        "{}",
        of_stream.message
    );
    operator
        .condition::<ConsumerGroup>("billing", "Ready", "False", reason)
        .await;
    operator.namespace.apply_all(&[secret(&operator.database.url)]).await;
    operator
        .condition::<StreamDatabase>("main", "Ready", "True", "Ready")
        .await;
    operator.stream_ready("orders").await;
    operator
        .condition::<ConsumerGroup>("billing", "Provisioned", "True", "Provisioned")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_is_named_and_found_once_it_is_there() {
    let operator = Operator::start().await;
    operator.namespace.apply_all(&[database(json!({}))]).await;
    let ready = operator
        .condition::<StreamDatabase>("main", "Ready", "False", "SecretNotFound")
        .await;
    assert!(
        ready.message.contains("Secret login does not exist"),
        "{}",
        ready.message
    );
    operator.namespace.apply_all(&[secret(&operator.database.url)]).await;
    operator
        .condition::<StreamDatabase>("main", "Ready", "True", "Ready")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_without_the_keys_names_them() {
    let operator = Operator::start().await;
    let login =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"host": "db"}});
    faulty(
        &operator,
        login,
        "DatabaseReachable",
        "InvalidSecret",
        "is missing; beside host it needs dbname, user and password",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_database_is_said_to_be_so() {
    let operator = Operator::start().await;
    let login = secret("postgresql://app:wrong-secret@127.0.0.1:1/app");
    faulty(
        &operator,
        login,
        "DatabaseReachable",
        "DatabaseUnreachable",
        "check the host and port",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_is_said_to_be_so() {
    let operator = Operator::start().await;
    let login = secret(&operator.database.url.replace("postgres@", "nobody-there:wrong-secret@"));
    faulty(
        &operator,
        login,
        "DatabaseReachable",
        "AuthenticationFailed",
        "check user and password",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_exist_is_named() {
    let operator = Operator::start().await;
    let login = secret(&operator.database.url.replace("/test_", "/absent_"));
    faulty(
        &operator,
        login,
        "DatabaseReachable",
        "NoSuchDatabase",
        "create it or correct dbname",
    )
    .await;
}

/// Makes a role with a setting of its own and returns a URL that logs in as it.
async fn role(operator: &Operator, setup: &'static str) -> String {
    let name = format!("role_{}", operator.namespace.name.replace('-', "_"));
    let statements = setup.replace("{role}", &name);
    sqlx::raw_sql(sqlx::AssertSqlSafe(statements))
        .execute(&operator.database.pool)
        .await
        .expect("a role");
    operator.database.url.replace("postgres@", &format!("{name}@"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_database_is_said_to_be_so() {
    let operator = Operator::start().await;
    let url = role(
        &operator,
        "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET default_transaction_read_only = on",
    )
    .await;
    faulty(
        &operator,
        secret(&url),
        "Provisioned",
        "DatabaseReadOnly",
        "point the Secret at the primary",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_isolation_level_is_refused() {
    let operator = Operator::start().await;
    let url = role(
        &operator,
        "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET default_transaction_isolation = 'repeatable read'",
    )
    .await;
    faulty(
        &operator,
        secret(&url),
        "Provisioned",
        "WrongIsolationLevel",
        "unset default_transaction_isolation",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_create_the_schema_is_told_what_to_grant() {
    let operator = Operator::start().await;
    let url = role(&operator, "CREATE ROLE {role} LOGIN").await;
    faulty(
        &operator,
        secret(&url),
        "Provisioned",
        "PermissionDenied",
        "grant it to the role",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_a_newer_release_is_left_alone() {
    let operator = Operator::start().await;
    operator.namespace.apply_all(&operator.database_manifests()).await;
    operator
        .condition::<StreamDatabase>("main", "Ready", "True", "Ready")
        .await;
    sqlx::query(
        "INSERT INTO sqlstreams._sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'of a newer release', true, '', 0)",
    )
    .execute(&operator.database.pool)
    .await
    .expect("a row");
    let ready = operator
        .condition::<StreamDatabase>("main", "Ready", "False", "NewerSchema")
        .await;
    assert!(ready.message.contains("upgrade sqlstreams"), "{}", ready.message);
    sqlx::query("DELETE FROM sqlstreams._sqlx_migrations WHERE version = 9999")
        .execute(&operator.database.pool)
        .await
        .expect("deleted");
    operator
        .condition::<StreamDatabase>("main", "Ready", "True", "Ready")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_its_database_resource_names_it() {
    let operator = Operator::start().await;
    operator
        .namespace
        .apply_all(&[stream("orders", json!({})), group("billing", json!({}))])
        .await;
    let ready = operator
        .condition::<Stream>("orders", "Ready", "False", "DatabaseNotFound")
        .await;
    assert!(
        ready.message.contains("StreamDatabase main does not exist"),
        "{}",
        ready.message
    );
    operator
        .condition::<ConsumerGroup>("billing", "Ready", "False", "StreamNotReady")
        .await;
    operator.namespace.apply_all(&operator.database_manifests()).await;
    operator.stream_ready("orders").await;
    operator
        .condition::<ConsumerGroup>("billing", "Provisioned", "True", "Provisioned")
        .await;
}
