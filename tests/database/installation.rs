//! The schema of an installation: made, found again, and never mistaken.

use sqlstreams::api::Adoption;
use sqlstreams::database::groups::{GroupRequest, StartPosition};
use sqlstreams::database::ownership::Owner;
use sqlstreams::database::streams::StreamRequest;
use sqlstreams::database::{Database, DatabaseError, Schema, StreamId, migrate};
use uuid::Uuid;

use crate::harness::postgres;

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
    let version = migrate::version(&database.pool, &Schema::default())
        .await
        .expect("an answer");
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
        migrate::version(&database.pool, &Schema::default())
            .await
            .expect("an answer"),
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
