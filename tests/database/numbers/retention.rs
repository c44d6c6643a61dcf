//! Retention drops what is expired and finished, and says what is in its way.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use sqlstreams::database::DatabaseError;
use sqlstreams::database::retention::{Report, Request, preview, run};
use sqlx::Connection as _;
use uuid::Uuid;

use super::installation::{Installation, request};

fn dropped(report: &Report) -> Vec<&str> {
    report.dropped.iter().map(|partition| partition.name.as_str()).collect()
}

fn blockers(report: &Report) -> Vec<(&str, &str)> {
    report
        .behind
        .iter()
        .map(|behind| (behind.group.as_str(), behind.reason.as_str()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_partitions_that_are_full_expired_and_finished_by_every_group_are_dropped() {
    let installation = Installation::new("s", &["fast", "slow"]).await;
    installation.publish(2500).await;
    installation.age().await;
    installation.publish(1000).await;
    installation.finish(1, 3500).await;
    installation.finish(2, 1000).await;

    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(dropped(&report), ["message_log_1_p0"]);
    assert_eq!(blockers(&report), [("slow", "has finished messages up to 1000")]);

    installation.finish(2, 3500).await;
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(
        dropped(&report),
        ["message_log_1_p1"],
        "the third holds messages that are not expired"
    );
    assert_eq!(blockers(&report), []);
    assert_eq!(
        installation
            .value::<i64>("SELECT min(id) FROM sqlstreams.message_log_1")
            .await,
        2001
    );

    let stored: sqlx::types::Json<Report> = installation
        .value("SELECT retention_report FROM sqlstreams.stream_config")
        .await;
    assert_eq!(stored.0, report);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_a_ttl_keeps_everything() {
    let installation = Installation::new("s", &[]).await;
    installation
        .execute("UPDATE sqlstreams.stream_config SET retention_ttl_seconds = NULL")
        .await;
    installation.publish(2500).await;
    installation.age().await;
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(
        (
            dropped(&report).len(),
            installation.count("sqlstreams.message_log_1").await
        ),
        (0, 2500)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_in_the_way_is_named_with_since_when_until_it_is_out_of_the_way() {
    let installation = Installation::new("s", &["suspended"]).await;
    installation.publish(1500).await;
    installation.age().await;
    let first = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(blockers(&first), [("suspended", "has finished messages up to 0")]);
    installation.finish(1, 400).await;
    let second = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(blockers(&second), [("suspended", "has finished messages up to 400")]);
    assert_eq!(second.behind[0].since, first.ran_at);
    assert!(second.ran_at > first.ran_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_claims_and_retries_are_in_the_way_and_dead_letters_are_not() {
    let installation = Installation::new("s", &["g"]).await;
    installation.publish(1500).await;
    installation.age().await;
    installation
        .execute("INSERT INTO sqlstreams.claim_1 (consumer_group_id, low, high, instance) VALUES (1, 1, 600, gen_random_uuid())")
        .await;
    installation.finish(1, 1500).await;
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(
        blockers(&report),
        [("g", "has finished messages up to 0")],
        "a claim is open"
    );

    installation
        .execute(
            "INSERT INTO sqlstreams.resolution_1 (claim_id, outcome) VALUES (1, 'acked');
             INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status, next_attempt_at)
             VALUES (1, 17, 'deferred', now()), (1, 1200, 'deferred', now());",
        )
        .await;
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(blockers(&report), [("g", "is still retrying message 17")]);

    installation
        .execute(
            "UPDATE sqlstreams.exception_queue_1 SET status = 'dead', next_attempt_at = NULL WHERE message_id = 17",
        )
        .await;
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(dropped(&report), ["message_log_1_p0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn drop_unconsumed_waits_for_nobody() {
    let installation = Installation::new("s", &["lagging"]).await;
    installation
        .execute("UPDATE sqlstreams.stream_config SET drop_unconsumed = true")
        .await;
    installation.publish(2500).await;
    installation.age().await;
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(
        dropped(&report),
        ["message_log_1_p0", "message_log_1_p1", "message_log_1_p2"]
    );
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belonged_to_dropped_messages_is_swept_away() {
    let installation = Installation::new("s", &["g"]).await;
    installation.publish(2500).await;
    installation.age().await;
    installation.publish(100).await;
    installation.finish(1, 2600).await;
    installation
        .execute(
            "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status)
             SELECT 1, i, 'dead' FROM generate_series(1, 2500) AS i;
             INSERT INTO sqlstreams.delivery_log_1 (consumer_group_id, message_id, attempt, run, status, attempted_at, duration)
             SELECT 1, i, 1, 1, 'terminal', now(), '1 s' FROM generate_series(1, 2500) AS i;
             INSERT INTO sqlstreams.dead_letter (stream_id, consumer_group_id, message_id, run)
             SELECT 1, 1, i, 1 FROM generate_series(1, 2500) AS i;
             UPDATE sqlstreams.dead_letter SET archive_key = 'kept' WHERE message_id = 5;
             INSERT INTO sqlstreams.idempotency_key_1 (key, message_id, created_at)
             SELECT 'old' || i, i, now() - interval '25 hours' FROM generate_series(1, 1500) AS i;
             INSERT INTO sqlstreams.idempotency_key_1 (key, message_id) VALUES ('new', 1)",
        )
        .await;
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(dropped(&report), ["message_log_1_p0", "message_log_1_p1"]);
    assert_eq!(report.swept, 3 * 2000 - 1 + 1500);
    for (table, left) in [
        ("exception_queue_1", 500),
        ("delivery_log_1", 500),
        ("dead_letter", 501),
        ("idempotency_key_1", 1),
    ] {
        assert_eq!(
            installation.count(&format!("sqlstreams.{table}")).await,
            left,
            "{table}"
        );
    }
    let dead: i64 = installation
        .value("SELECT sum(delta)::bigint FROM sqlstreams.statistics_delta WHERE counter = 'dead'")
        .await;
    assert_eq!(dead, 500, "the counters know");
}

#[tokio::test(flavor = "multi_thread")]
async fn for_another_owner_nothing_is_done() {
    let installation = Installation::new("s", &[]).await;
    installation.publish(2500).await;
    installation.age().await;
    let stranger = Request {
        owner: Uuid::from_u128(666),
        ..request("s")
    };
    let error = run(&installation.database, &stranger).await.unwrap_err();
    assert!(matches!(error, DatabaseError::NotOwned(_)), "{error}");
    let error = preview(&installation.database, &stranger).await.unwrap_err();
    assert!(matches!(error, DatabaseError::NotOwned(_)), "{error}");
    for call in [
        "drop_oldest_partition(1, gen_random_uuid())",
        "sweep_dropped(1, gen_random_uuid(), 10)",
        "close_current_partition(1, gen_random_uuid())",
        "store_retention_report(1, gen_random_uuid(), '{}')",
        "expired_partitions(1, gen_random_uuid(), 10)",
    ] {
        let result = sqlx::query(sqlx::AssertSqlSafe(format!("SELECT FROM sqlstreams.{call}")))
            .execute(&installation.database.pool)
            .await;
        let code = result
            .unwrap_err()
            .into_database_error()
            .unwrap()
            .code()
            .unwrap()
            .into_owned();
        assert_eq!(code, "SS002", "{call}");
    }
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 2500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_stream_goes_on_in_a_new_partition_and_lets_go_of_the_old_one() {
    let installation = Installation::new("s", &["g"]).await;
    installation.publish(10).await;
    installation.age().await;
    installation.publish(1).await;
    installation.finish(1, 11).await;
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(dropped(&report), [] as [&str; 0], "the newest message is not expired");
    assert_eq!(installation.partitions().await, [0, 1, 2, 3]);

    installation.age().await;
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!(dropped(&report), ["message_log_1_p0"], "no message ever came after it");
    let id: i64 = installation.value("SELECT sqlstreams.publish('s', '1')").await;
    assert_eq!(id, 1001, "ids go on rising");
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!((dropped(&report).len(), report.behind.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_rise_over_everything_that_retention_does() {
    let installation = Installation::new("s", &[]).await;
    let mut last = 0;
    for _ in 0..6 {
        installation.publish(700).await;
        installation.age().await;
        run(&installation.database, &request("s")).await.unwrap();
        let id: i64 = installation.value("SELECT sqlstreams.publish('s', '1')").await;
        assert!(id > last + 700, "{id} after {last}");
        last = id;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_producer_makes_it_give_up_and_holds_no_other_up() {
    let installation = Installation::new("s", &[]).await;
    installation.publish(2500).await;
    installation.age().await;
    installation
        .execute("SELECT sqlstreams.ensure_partitions(1, 50000)")
        .await;
    let mut open = installation.database.pool.begin().await.unwrap();
    sqlx::query("SELECT sqlstreams.publish('s', '1')")
        .execute(&mut *open)
        .await
        .unwrap();

    let url = installation.test.url.clone();
    let stop = tokio_util::sync::CancellationToken::new();
    let producer = tokio::spawn({
        let stop = stop.clone();
        async move {
            let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
            let mut longest = Duration::ZERO;
            while !stop.is_cancelled() {
                let began = Instant::now();
                sqlx::query("SELECT sqlstreams.publish('s', '2')")
                    .execute(&mut connection)
                    .await
                    .unwrap();
                longest = longest.max(began.elapsed());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            longest
        }
    });
    let report = run(
        &installation.database,
        &Request {
            patience: Duration::from_secs(3),
            ..request("s")
        },
    )
    .await
    .unwrap();
    stop.cancel();
    let longest = producer.await.unwrap();
    assert_eq!((dropped(&report).len(), report.locked_out), (0, true));
    eprintln!("the longest publish took {longest:?} while retention tried for the lock");
    assert!(
        longest < Duration::from_millis(250),
        "the longest publish took {longest:?}"
    );

    open.commit().await.unwrap();
    let report = run(&installation.database, &request("s")).await.unwrap();
    assert_eq!((dropped(&report).len(), report.locked_out), (2, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_names_what_a_run_would_drop_and_changes_nothing() {
    let installation = Installation::new("s", &["g"]).await;
    installation.publish(3500).await;
    installation.age().await;
    installation.finish(1, 1000).await;
    let expired = preview(&installation.database, &request("s")).await.unwrap();
    let told: Vec<_> = expired
        .iter()
        .map(|one| {
            (
                one.partition.name.as_str(),
                one.behind.len(),
                one.partition.size_bytes > 0,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("message_log_1_p0", 0, true),
            ("message_log_1_p1", 1, true),
            ("message_log_1_p2", 1, true)
        ]
    );
    assert_eq!(installation.count("sqlstreams.message_log_1").await, 3500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_the_retention_functions_alone_can_run_it() {
    let installation = Installation::new("s", &[]).await;
    installation.publish(1500).await;
    installation.age().await;
    let role = format!("retention_{}", Uuid::new_v4().simple());
    installation
        .execute(&format!(
            "CREATE ROLE {role} LOGIN;
             GRANT USAGE ON SCHEMA sqlstreams TO {role};
             GRANT EXECUTE ON FUNCTION sqlstreams.retention_stream(text, uuid),
                 sqlstreams.ensure_partitions(bigint, bigint), sqlstreams.close_current_partition(bigint, uuid),
                 sqlstreams.drop_oldest_partition(bigint, uuid), sqlstreams.sweep_dropped(bigint, uuid, bigint),
                 sqlstreams.store_retention_report(bigint, uuid, jsonb) TO {role}"
        ))
        .await;
    let url = installation.test.url.replace("postgres@", &format!("{role}@"));
    let database = sqlstreams::database::Database {
        pool: sqlx::PgPool::connect_lazy(&url).unwrap(),
        schema: installation.database.schema.clone(),
    };
    let report = run(&database, &request("s")).await.unwrap();
    assert_eq!(dropped(&report), ["message_log_1_p0", "message_log_1_p1"]);
    database.pool.close().await;
}
