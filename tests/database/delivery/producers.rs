//! Producers of every kind, and what a reader must not do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rand::RngExt;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};

/// Publishes in all ways there are, some of them in transactions that stay open for a while or
/// are rolled back, until `end`. Errors of Postgres count as rolled back.
pub async fn produce(url: String, number: usize, end: Instant) {
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let mut round = 0;
    while Instant::now() < end {
        round += 1;
        let (way, pause, rollback) = {
            let mut rng = rand::rng();
            let pause = if rng.random_ratio(1, 10) { 150 } else { 8 };
            (
                rng.random_range(0..8),
                rng.random_range(0..=pause),
                rng.random_ratio(1, 5),
            )
        };
        let sleep = format!("SELECT pg_sleep({}.0 / 1000)", pause);
        let finish = if rollback { "ROLLBACK" } else { "COMMIT" };
        const INSERT: &str = "INSERT INTO sqlstreams.message_log_1 (payload) VALUES ('1')";
        let sql = match way {
            0 => format!("BEGIN; {INSERT}; {sleep}; {finish}"),
            1 => format!("BEGIN; SELECT sqlstreams.publish('payments', '1'); {sleep}; {finish}"),
            2 => format!(
                "BEGIN; SELECT sqlstreams.publish_batch('payments', ARRAY['1', '2', '3']::jsonb[]); {sleep}; {finish}"
            ),
            3 => format!(
                "BEGIN; {INSERT}; SAVEPOINT a; {INSERT}; {sleep}; ROLLBACK TO a; SAVEPOINT b; {INSERT}; RELEASE b; {finish}"
            ),
            4 => {
                let name = format!("p{number}_{round}");
                let prepare = format!("BEGIN; {INSERT}; {sleep}; PREPARE TRANSACTION '{name}'");
                if run(&mut connection, prepare).await {
                    run(&mut connection, sleep).await;
                    let finish = if rollback {
                        "ROLLBACK PREPARED"
                    } else {
                        "COMMIT PREPARED"
                    };
                    assert!(run(&mut connection, format!("{finish} '{name}'")).await);
                }
                continue;
            }
            // A write to another table first, so that the transaction id is much older than the id.
            5 => format!("BEGIN; INSERT INTO elsewhere VALUES (1); {sleep}; {INSERT}; {sleep}; {finish}"),
            6 => {
                // Straight into the partition that the next id belongs to; refused at its end.
                "DO $$ DECLARE p bigint; BEGIN \
                   SELECT sqlstreams.last_drawn_id(1) / partition_size INTO p FROM sqlstreams.stream_config WHERE id = 1; \
                   EXECUTE format('INSERT INTO sqlstreams.message_log_1_p%s (id, payload) VALUES (nextval(''sqlstreams.message_log_1_id_seq''), ''1'')', p); \
                   PERFORM pg_sleep(0.01); \
                 END $$".into()
            }
            _ => {
                copy(&mut connection).await;
                continue;
            }
        };
        run(&mut connection, sql).await;
    }
}

/// False, and rolled back, where Postgres refuses.
async fn run(connection: &mut PgConnection, sql: String) -> bool {
    let done = sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut *connection)
        .await
        .is_ok();
    if !done {
        let _ = sqlx::raw_sql("ROLLBACK").execute(connection).await;
    }
    done
}

async fn copy(connection: &mut PgConnection) {
    let copy = connection
        .copy_in_raw("COPY sqlstreams.message_log_1 (payload) FROM STDIN")
        .await;
    if let Ok(mut copy) = copy {
        for _ in 0..10 {
            copy.send(&b"1\n"[..]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let _ = copy.finish().await;
    }
}

/// The reader that everybody writes first, and that loses messages: all with an id greater than
/// the last one seen.
pub async fn read_naively(pool: PgPool, end: Instant) -> BTreeSet<i64> {
    let mut seen = BTreeSet::new();
    let mut position = 0_i64;
    while Instant::now() < end {
        let ids: Vec<i64> =
            sqlx::query_scalar("SELECT id FROM sqlstreams.message_log_1 WHERE id > $1 ORDER BY id LIMIT 1000")
                .bind(position)
                .fetch_all(&pool)
                .await
                .unwrap();
        position = ids.last().copied().unwrap_or(position);
        seen.extend(ids);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    seen
}

/// What is in the log and was never seen.
pub fn skipped(log: &BTreeSet<i64>, seen: &BTreeSet<i64>) -> Vec<i64> {
    log.difference(seen).copied().collect()
}
