//! An installation with one owned stream, whose tables end in `_1`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use sqlstreams::database::Database;
use sqlstreams::database::retention::Request;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Postgres, Row, Type};
use uuid::Uuid;

use crate::harness::{self, TestDatabase};

pub const OWNER: Uuid = Uuid::from_u128(1);

pub struct Installation {
    pub test: TestDatabase,
    pub database: Database,
}

impl Installation {
    /// With partitions of 1,000 ids and an hour's retention.
    pub async fn new(stream: &str, groups: &[&str]) -> Self {
        let test = harness::postgres().await.installed().await;
        let database = test.installation();
        let installation = Self { test, database };
        sqlx::query(
            "INSERT INTO sqlstreams.stream_config
                 (name, partition_size, owner_uid, owner_ref, cluster_id, retention_ttl_seconds)
             VALUES ($1, 1000, $2, 'shop/payments', 'here', 3600)",
        )
        .bind(stream)
        .bind(OWNER)
        .execute(&installation.database.pool)
        .await
        .unwrap();
        installation.execute("SELECT sqlstreams.create_stream_tables(1)").await;
        for group in groups {
            sqlx::query("INSERT INTO sqlstreams.consumer_group_config (stream_id, name) VALUES (1, $1)")
                .bind(group)
                .execute(&installation.database.pool)
                .await
                .unwrap();
        }
        installation
    }

    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&self.database.pool)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub async fn value<T>(&self, sql: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, Postgres> + Type<Postgres> + Send + Unpin,
    {
        let row: PgRow = sqlx::query(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&self.database.pool)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        row.get(0)
    }

    pub async fn count(&self, from: &str) -> i64 {
        self.value(&format!("SELECT count(*) FROM {from}")).await
    }

    /// Publishes messages and makes partitions for them.
    pub async fn publish(&self, count: i64) {
        self.execute(&format!(
            "SELECT sqlstreams.ensure_partitions(1, {count});
             INSERT INTO sqlstreams.message_log_1 (payload) SELECT to_jsonb(i) FROM generate_series(1, {count}) AS i;
             SELECT sqlstreams.ensure_partitions(1, 0)"
        ))
        .await;
    }

    /// Lets the messages that are there now be past their time.
    pub async fn age(&self) {
        self.execute("UPDATE sqlstreams.message_log_1 SET created_at = created_at - interval '2 hours'")
            .await;
    }

    /// Lets a group have finished everything up to an id.
    pub async fn finish(&self, group: i64, high: i64) {
        self.execute(&format!(
            "WITH claimed AS (
                 INSERT INTO sqlstreams.claim_1 (consumer_group_id, low, high, instance)
                 SELECT {group}, sqlstreams.group_position(1, {group}) + 1, {high}, gen_random_uuid() RETURNING id)
             INSERT INTO sqlstreams.resolution_1 (claim_id, outcome) SELECT id, 'acked' FROM claimed"
        ))
        .await;
    }

    /// Names of the partitions of the log, oldest first.
    pub async fn partitions(&self) -> Vec<i64> {
        let rows = sqlx::query("SELECT number FROM sqlstreams.log_partitions(1) ORDER BY number")
            .fetch_all(&self.database.pool)
            .await
            .unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// A request of the owner, with little patience.
pub fn request(stream: &str) -> Request {
    Request {
        stream: stream.into(),
        owner: OWNER,
        patience: Duration::from_millis(500),
    }
}
