//! Publishing, from any language.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use sqlstreams::database::publish::{NewMessage, PublishError, publish, publish_batch};
use sqlstreams::database::{DatabaseError, MessageId, Schema};
use sqlx::postgres::PgPoolCopyExt as _;
use sqlx::{Connection as _, PgConnection};

use super::installation::Installation;

fn message(payload: &str) -> NewMessage {
    NewMessage {
        payload: payload.into(),
        ..NewMessage::default()
    }
}

async fn connect(installation: &Installation, user: &str) -> PgConnection {
    let url = installation.test.url.replace("postgres@", &format!("{user}@"));
    PgConnection::connect(&url).await.unwrap()
}

/// A role that may insert payload, key and headers, and nothing else.
async fn publisher(installation: &Installation) -> String {
    let role = format!("publisher_{}", uuid::Uuid::new_v4().simple());
    installation
        .execute(&format!(
            "CREATE ROLE {role} LOGIN;
             GRANT USAGE ON SCHEMA sqlstreams TO {role};
             GRANT INSERT (payload, key, headers) ON sqlstreams.message_log_1 TO {role}"
        ))
        .await;
    role
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_there_when_the_callers_transaction_commits_and_not_before() {
    let installation = Installation::new("s", &[]).await;
    let schema = Schema::default();
    let mut transaction = installation.database.pool.begin().await.unwrap();
    let whole = NewMessage {
        payload: r#"{"order": 12345678901234567890.10}"#.into(),
        key: Some("order-1".into()),
        headers: Some(r#"{"ce-type": "made"}"#.into()),
        idempotency_key: None,
    };
    let id = publish(&mut transaction, &schema, "s", &whole).await.unwrap();
    assert_eq!(id, MessageId(1));
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 0);
    transaction.commit().await.unwrap();
    let row: String = installation
        .value("SELECT concat_ws('|', id, payload, key, headers) FROM sqlstreams.message_log_1")
        .await;
    assert_eq!(
        row,
        r#"1|{"order": 12345678901234567890.10}|order-1|{"ce-type": "made"}"#
    );

    let mut transaction = installation.database.pool.begin().await.unwrap();
    publish(&mut transaction, &schema, "s", &whole).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_keeps_its_order_and_returns_the_ids_in_it() {
    let installation = Installation::new("s", &[]).await;
    let mut connection = installation.database.pool.acquire().await.unwrap();
    let mut messages: Vec<NewMessage> = (0..500).map(|number| message(&number.to_string())).collect();
    messages[100].key = Some("k".into());
    messages[250].idempotency_key = Some("once".into());
    messages[251].idempotency_key = Some("once".into());
    let ids = publish_batch(&mut connection, &Schema::default(), "s", &messages)
        .await
        .unwrap();
    assert_eq!(ids.len(), 500);
    assert_eq!(ids[251], ids[250], "an idempotency key counts within a batch too");
    for (place, id) in ids.iter().enumerate().filter(|(place, _)| *place != 251) {
        let payload: i64 = installation
            .value(&format!(
                "SELECT payload::bigint FROM sqlstreams.message_log_1 WHERE id = {id}"
            ))
            .await;
        assert_eq!(payload, i64::try_from(place).unwrap());
    }
    assert!(ids.is_sorted());
    assert_eq!(
        publish_batch(&mut connection, &Schema::default(), "s", &[])
            .await
            .unwrap(),
        []
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_of_different_lengths_are_refused() {
    let installation = Installation::new("s", &[]).await;
    let error = sqlx::query("SELECT sqlstreams.publish_batch('s', ARRAY['1', '2']::jsonb[], ARRAY['k'])")
        .execute(&installation.database.pool)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("as many elements as payloads (2)"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_may_insert_and_copy_what_it_was_granted_and_nothing_else() {
    let installation = Installation::new("s", &[]).await;
    let role = publisher(&installation).await;
    let mut connection = connect(&installation, &role).await;
    for allowed in [
        "INSERT INTO sqlstreams.message_log_1 (payload, key, headers) VALUES ('1', 'k', '{}')",
        "INSERT INTO sqlstreams.message_log_1 (payload) SELECT to_jsonb(i) FROM generate_series(1, 10) AS i",
        "SELECT sqlstreams.publish('s', '1')",
        "SELECT sqlstreams.publish_batch('s', ARRAY['1']::jsonb[])",
    ] {
        sqlx::query(allowed)
            .execute(&mut connection)
            .await
            .unwrap_or_else(|error| panic!("{allowed}: {error}"));
    }
    for refused in [
        "INSERT INTO sqlstreams.message_log_1 (id, payload) OVERRIDING SYSTEM VALUE VALUES (999, '1')",
        "INSERT INTO sqlstreams.message_log_1 (payload, created_at) VALUES ('1', '2000-01-01')",
        "INSERT INTO sqlstreams.message_log_1 (payload, only_group_id) VALUES ('1', 1)",
        "SELECT count(*) FROM sqlstreams.message_log_1",
        "DELETE FROM sqlstreams.message_log_1",
        "SELECT nextval('sqlstreams.message_log_1_id_seq')",
        "SELECT sqlstreams.publishable_stream('s')",
        "SELECT sqlstreams.ensure_partitions(1, 1000000)",
        "SELECT sqlstreams.drop_stream_tables(1)",
        "SELECT sqlstreams.compact_statistics()",
    ] {
        let error = sqlx::query(refused).execute(&mut connection).await.unwrap_err();
        assert_eq!(
            error.into_database_error().unwrap().code().unwrap(),
            "42501",
            "{refused}"
        );
    }
    let pool = sqlx::PgPool::connect_lazy(&installation.test.url.replace("postgres@", &format!("{role}@"))).unwrap();
    let mut copy = pool
        .copy_in_raw("COPY sqlstreams.message_log_1 (payload, key) FROM STDIN")
        .await
        .unwrap();
    copy.send(&b"{\"a\":1}\tk1\n{\"a\":2}\tk2\n"[..]).await.unwrap();
    assert_eq!(copy.finish().await.unwrap(), 2);
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_the_right_is_told_which_and_where() {
    let installation = Installation::new("s", &[]).await;
    let role = format!("stranger_{}", uuid::Uuid::new_v4().simple());
    installation
        .execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA sqlstreams TO {role}"
        ))
        .await;
    let mut connection = connect(&installation, &role).await;
    let error = publish(&mut connection, &Schema::default(), "s", &message("1"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, PublishError::Database(DatabaseError::PermissionDenied(_))),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .contains(&format!("role \"{role}\" may not publish to stream \"s\"")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_told_without_what_it_holds() {
    let installation = Installation::new("s", &[]).await;
    let schema = Schema::default();
    let big = format!("\"{}secret\"", "x".repeat(1024 * 1024));
    let with = |change: fn(&mut NewMessage)| {
        let mut message = message("\"secret\"");
        change(&mut message);
        message
    };
    let cases = [
        (message(&big), "the payload exceeds 1048576 bytes"),
        (message("\"secret\\u0000\""), "\\u0000"),
        (message("secret"), "not JSON"),
        (
            with(|message| message.key = Some("k".repeat(1025))),
            "the key exceeds 1024 bytes",
        ),
        (
            with(|message| message.headers = Some("[1]".into())),
            "the headers is no object",
        ),
        (
            with(|message| message.headers = Some(format!("{{\"a\":\"{}\"}}", "h".repeat(70_000)))),
            "the headers exceed 65536 bytes",
        ),
        (
            with(|message| message.idempotency_key = Some("i".repeat(1025))),
            "the idempotency key exceeds 1024 bytes",
        ),
    ];
    for (message, wanted) in cases {
        let mut transaction = installation.database.pool.begin().await.unwrap();
        let error = publish(&mut transaction, &schema, "s", &message).await.unwrap_err();
        assert!(matches!(error, PublishError::Refused(_)), "{error:?}");
        assert!(error.to_string().contains(wanted), "{error} should say {wanted}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        let mut transaction = installation.database.pool.begin().await.unwrap();
        let two = [message.clone(), message];
        let error = publish_batch(&mut transaction, &schema, "s", &two).await.unwrap_err();
        assert!(
            error.to_string().contains(wanted),
            "{error} should say {wanted}, in a batch too"
        );
    }
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_of_just_the_limit_is_taken() {
    let installation = Installation::new("s", &[]).await;
    // jsonb puts four bytes before a string of its own and four before the whole.
    let payload = format!("\"{}\"", "x".repeat(1024 * 1024 - 64));
    let mut connection = installation.database.pool.acquire().await.unwrap();
    publish(&mut connection, &Schema::default(), "s", &message(&payload))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_callers_with_one_idempotency_key_publish_once() {
    let installation = Installation::new("s", &[]).await;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..50 {
        let url = installation.test.url.clone();
        callers.spawn(async move {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            let mut once = message(&caller.to_string());
            once.idempotency_key = Some("payment-1".into());
            publish(&mut connection, &Schema::default(), "s", &once).await.unwrap()
        });
    }
    let ids: std::collections::BTreeSet<MessageId> = callers.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_of_a_transaction_that_is_rolled_back_is_free_again() {
    let installation = Installation::new("s", &[]).await;
    let mut once = message("1");
    once.idempotency_key = Some("k".into());
    let mut first = installation.database.pool.begin().await.unwrap();
    publish(&mut first, &Schema::default(), "s", &once).await.unwrap();
    let waiting = tokio::spawn({
        let (url, once) = (installation.test.url.clone(), once.clone());
        async move {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            publish(&mut connection, &Schema::default(), "s", &once).await.unwrap()
        }
    });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    first.rollback().await.unwrap();
    let id = waiting.await.unwrap();
    assert_eq!(
        installation
            .value::<i64>("SELECT id FROM sqlstreams.message_log_1")
            .await,
        id.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_of_streams_stay_names() {
    for name in [
        "s'; DROP TABLE sqlstreams.stream_config; --",
        "\"quoted\"",
        "%s%I%L",
        "$1",
        "\\",
        "ström.ünïcode-🦀",
        "message_log_1",
    ] {
        let installation = Installation::new(name, &[]).await;
        let mut connection = installation.database.pool.acquire().await.unwrap();
        let id = publish(&mut connection, &Schema::default(), name, &message("1"))
            .await
            .unwrap();
        assert_eq!(id, MessageId(1), "{name}");
        let error = publish(&mut connection, &Schema::default(), &format!("{name}x"), &message("1"))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, PublishError::Database(DatabaseError::NoSuchStream(_))),
            "{error:?}"
        );
        assert!(
            error
                .to_string()
                .starts_with(&format!("stream \"{name}x\" does not exist")),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_beyond_the_partitions_is_told_as_that() {
    let installation = Installation::new("s", &[]).await;
    let mut connection = installation.database.pool.acquire().await.unwrap();
    let many = vec![message("1"); 4000];
    let error = publish_batch(&mut connection, &Schema::default(), "s", &many)
        .await
        .unwrap_err();
    assert!(matches!(error, PublishError::NoPartition), "{error:?}");
}

/// What comes out of another table is still compressed.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_small_only_when_compressed_is_refused_too() {
    let installation = Installation::new("s", &[]).await;
    let pool = &installation.test.pool;
    sqlx::raw_sql("CREATE TABLE source AS SELECT jsonb_build_object('x', repeat('x', 3000000)) AS payload")
        .execute(pool)
        .await
        .unwrap();
    for column in ["payload", "headers"] {
        let rest = if column == "payload" { "" } else { ", payload" };
        let value = if column == "payload" { "" } else { ", '{}'" };
        let insert = format!("INSERT INTO sqlstreams.message_log_1 ({column}{rest}) SELECT payload{value} FROM source");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(insert))
            .execute(pool)
            .await
            .unwrap_err();
        let constraint = error
            .as_database_error()
            .and_then(|error| error.constraint())
            .unwrap_or_default()
            .to_owned();
        assert!(
            constraint.starts_with(column) && constraint.contains("exceed"),
            "{column}: {error}"
        );
    }
    let taken = "INSERT INTO sqlstreams.message_log_1 (payload) SELECT jsonb_build_object('x', repeat('x', 1000000))";
    sqlx::raw_sql(taken).execute(pool).await.unwrap();
}
