//! The schema of an installation: made, found again, and never mistaken.

use sqlstreams::api::Adoption;
use sqlstreams::database::connection::{Credentials, TlsMode};
use sqlstreams::database::groups::{GroupRequest, StartPosition};
use sqlstreams::database::ownership::Owner;
use sqlstreams::database::streams::{ProvisionError, StreamRequest};
use sqlstreams::database::{Database, DatabaseError, Schema, StreamId, connection, migrate, statistics};
use uuid::Uuid;

use crate::harness::{Pooler, postgres};

fn request(name: &str) -> StreamRequest {
    StreamRequest {
        name: name.into(),
        owner: Owner {
            uid: Uuid::new_v4(),
            reference: "shop/orders".into(),
            cluster_id: "cluster".into(),
        },
        adoption: Adoption::IfUnowned,
        take_over_from: None,
        partition_size: 1000,
        retention_ttl_seconds: None,
        drop_unconsumed: false,
        idempotency_key_ttl_seconds: 60,
    }
}

/// A group for which the log itself is read.
fn from_the_start_of_time(stream: StreamId) -> GroupRequest {
    GroupRequest {
        stream,
        name: "billing".into(),
        owner: Owner {
            uid: Uuid::new_v4(),
            reference: "shop/billing".into(),
            cluster_id: "cluster".into(),
        },
        adoption: Adoption::IfUnowned,
        take_over_from: None,
        start: StartPosition::Time(0),
        settings: serde_json::json!({}),
    }
}

#[tokio::test]
async fn several_operators_that_start_at_once_migrate_once() {
    let database = postgres().await.database().await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let pool = database.pool.clone();
            tokio::spawn(async move { migrate::migrate(&pool, &Schema::default()).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(
            task.await.expect("no panic").expect("migrated"),
            migrate::newest_version()
        );
    }
    let version = migrate::version(&database.installation()).await.expect("an answer");
    assert_eq!(version, Some(migrate::newest_version()));
}

#[tokio::test]
async fn a_schema_of_any_name_works_and_nothing_lands_elsewhere() {
    for name in ["select", "Üni\"code'; DROP TABLE x; --", "a b.c", "$1%s{stream}"] {
        let database = postgres().await.database().await;
        let schema = Schema::new(name).expect("a possible name");
        migrate::migrate(&database.pool, &schema).await.expect(name);
        let installation = Database {
            pool: database.pool.clone(),
            schema,
        };
        let stream = installation.provision_stream(&request("orders")).await.expect(name);
        assert_eq!(installation.count_streams().await.expect(name), 1);
        installation
            .provision_group(&from_the_start_of_time(stream.id))
            .await
            .expect(name);
        let elsewhere: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname NOT IN ($1, 'pg_catalog', 'information_schema', 'pg_toast')",
        )
        .bind(name)
        .fetch_one(&database.pool)
        .await
        .expect("a number");
        assert_eq!((stream.id.0, elsewhere), (1, 0), "{name}");
    }
}

#[tokio::test]
async fn two_installations_in_one_database_do_not_meet() {
    let database = postgres().await.database().await;
    let of = |schema: &str| Database {
        pool: database.pool.clone(),
        schema: Schema::new(schema).expect("a name"),
    };
    for schema in ["one", "two"] {
        migrate::migrate(&database.pool, &of(schema).schema)
            .await
            .expect("migrated");
    }
    of("one")
        .provision_stream(&request("orders"))
        .await
        .expect("provisioned");
    assert_eq!(of("two").count_streams().await.expect("a number"), 0);
}

#[tokio::test]
async fn an_absent_schema_says_who_makes_it() {
    let database = postgres().await.database().await;
    assert_eq!(
        migrate::version(&database.installation()).await.expect("an answer"),
        None
    );
    let error = database
        .installation()
        .count_streams()
        .await
        .expect_err("nothing is there");
    assert!(matches!(error, DatabaseError::NotProvisioned(_)), "{error:?}");
    assert!(error.to_string().contains("see the StreamDatabase resource"), "{error}");
}

#[tokio::test]
async fn provisioning_again_changes_nothing_and_repairs_what_is_missing() {
    let database = postgres().await.installed().await;
    let installation = database.installation();
    let request = request("orders");
    let first = installation.provision_stream(&request).await.expect("provisioned");
    assert_eq!(installation.provision_stream(&request).await.expect("again"), first);
    sqlx::raw_sql("DROP TABLE sqlstreams.delivery_log_1")
        .execute(&database.pool)
        .await
        .expect("dropped");
    installation.provision_stream(&request).await.expect("repaired");
    let there: Option<String> = sqlx::query_scalar("SELECT to_regclass('sqlstreams.delivery_log_1')::text")
        .fetch_one(&database.pool)
        .await
        .expect("an answer");
    assert!(there.is_some());
}

/// Several clients by turns, so that each meets connections that the others have used.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_works_behind_a_pooler_in_transaction_mode() {
    let server = postgres().await;
    let database = server.database().await;
    let pooler = Pooler::start(server).await;
    let login = Credentials::from_url(&pooler.url(&database.url))
        .expect("a URL")
        .tls(TlsMode::Disable, None);
    let client = || Database {
        pool: login.pool(2),
        schema: Schema::default(),
    };
    let mut uids = std::collections::BTreeSet::new();
    for round in 0..6 {
        let client = client();
        connection::inspect(&client.pool).await.expect("a server");
        let reached = migrate::migrate(&client.pool, &client.schema).await.expect("migrated");
        assert_eq!(migrate::version(&client).await.expect("a version"), Some(reached));
        let request = request(&format!("orders-{round}"));
        for _ in 0..5 {
            uids.insert(client.provision_stream(&request).await.expect("provisioned").uid);
        }
        let stream = client
            .owned_stream(&request.name, request.owner.uid)
            .await
            .expect("an answer")
            .expect("its own");
        let group = GroupRequest {
            start: StartPosition::Latest,
            ..from_the_start_of_time(stream)
        };
        client.provision_group(&group).await.expect("provisioned");
        statistics::counters(&client).await.expect("counters");
        assert_eq!(client.count_streams().await.expect("a number"), round + 1);
    }
    assert_eq!(uids.len(), 6);
    client()
        .drop_stream("orders-0", &request("orders-0").owner)
        .await
        .expect("not its own, so nothing happens");
    assert_eq!(client().count_streams().await.expect("a number"), 6);
}

/// A message that is published before the group, and committed after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_group_is_given_what_commits_late_and_not_what_came_before_its_start() {
    let database = postgres().await.installed().await;
    let installation = database.installation();
    let stream = installation
        .provision_stream(&request("orders"))
        .await
        .expect("provisioned")
        .id;
    let publish = "SELECT sqlstreams.publish('orders', '{}')";
    sqlx::query(publish).execute(&database.pool).await.expect("published");
    let now: i64 = sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        .fetch_one(&database.pool)
        .await
        .expect("a time");
    let mut late = database.pool.begin().await.expect("a transaction");
    sqlx::query(publish).execute(&mut *late).await.expect("published");
    sqlx::query(publish).execute(&database.pool).await.expect("published");
    let group = |name: &str, start| GroupRequest {
        name: name.into(),
        start,
        ..from_the_start_of_time(stream)
    };

    installation
        .provision_group(&group("from-time", StartPosition::Time(now)))
        .await
        .expect("provisioned");
    let refused = installation
        .provision_group(&group("latest", StartPosition::Latest))
        .await
        .expect_err("it waits");
    assert!(matches!(refused, ProvisionError::PublishersOpen), "{refused}");
    late.commit().await.expect("committed");
    installation
        .provision_group(&group("latest", StartPosition::Latest))
        .await
        .expect("provisioned");
    let positions: Vec<(String, i64)> =
        sqlx::query_as("SELECT name, start_position FROM sqlstreams.consumer_group_config ORDER BY id")
            .fetch_all(&database.pool)
            .await
            .expect("rows");
    assert_eq!(positions, [("from-time".to_owned(), 1), ("latest".to_owned(), 3)]);
}

#[tokio::test]
async fn a_log_that_was_dropped_and_made_anew_gives_out_no_id_that_a_group_has_passed() {
    let database = postgres().await.installed().await;
    let installation = database.installation();
    let request = request("orders");
    installation.provision_stream(&request).await.expect("provisioned");
    sqlx::raw_sql(
        "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status) VALUES (7, 2500, 'dead'); \
         INSERT INTO sqlstreams.claim_1 (consumer_group_id, low, high, instance) VALUES (7, 1, 4000, gen_random_uuid()); \
         DROP TABLE sqlstreams.message_log_1, sqlstreams.exception_queue_1",
    )
    .execute(&database.pool)
    .await
    .expect("dropped");
    installation.provision_stream(&request).await.expect("made anew");
    let id: i64 = sqlx::query_scalar("SELECT sqlstreams.publish('orders', '{}')")
        .fetch_one(&database.pool)
        .await
        .expect("published");
    assert_eq!(id, 4001);
    let counters: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlstreams.statistics_delta")
        .fetch_one(&database.pool)
        .await
        .expect("a number");
    assert_eq!(counters, 0, "the queue that is gone counts no more");
}
