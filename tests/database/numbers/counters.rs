//! The exception counters are exact, whoever changes the queue and however.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use sqlstreams::database::statistics::{self, Exceptions};

use super::installation::Installation;

async fn counted(installation: &Installation) -> Vec<(String, Exceptions)> {
    let counters = statistics::counters(&installation.database).await.unwrap();
    counters
        .groups
        .into_iter()
        .map(|group| (group.name, group.exceptions))
        .collect()
}

/// What the queue itself says.
async fn recounted(installation: &Installation) -> Vec<(String, Exceptions)> {
    let mut all = Vec::new();
    for (id, name) in [(1, "a"), (2, "b")] {
        let mut of_status = [0; 4];
        for (place, status) in ["ready", "inflight", "deferred", "dead"].into_iter().enumerate() {
            let from = format!("sqlstreams.exception_queue_1 WHERE consumer_group_id = {id} AND status = '{status}'");
            of_status[place] = installation.count(&from).await;
        }
        let [ready, inflight, deferred, dead] = of_status;
        all.push((
            name.to_owned(),
            Exceptions {
                ready,
                inflight,
                deferred,
                dead,
            },
        ));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_person_does_to_the_queue_is_counted() {
    let installation = Installation::new("s", &["a", "b"]).await;
    for sql in [
        "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status)
         SELECT g, i, 'dead' FROM generate_series(1, 2) AS g, generate_series(1, 100) AS i",
        "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status, next_attempt_at)
         SELECT 1, i, CASE WHEN i % 3 = 0 THEN 'ready' ELSE 'deferred' END, now() FROM generate_series(101, 200) AS i",
        "UPDATE sqlstreams.exception_queue_1 SET status = 'inflight', next_attempt_at = NULL, claimed_by = gen_random_uuid()
         WHERE status = 'ready' AND message_id < 150",
        "UPDATE sqlstreams.exception_queue_1 SET last_error = 'nothing that counts'",
        "UPDATE sqlstreams.exception_queue_1 SET consumer_group_id = 2, message_id = message_id + 1000 WHERE message_id = 7 AND consumer_group_id = 1",
        "DELETE FROM sqlstreams.exception_queue_1 WHERE message_id % 2 = 0",
        "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status) VALUES (1, 1, 'dead')
         ON CONFLICT (consumer_group_id, message_id) DO UPDATE SET attempts = 9",
        "BEGIN; DELETE FROM sqlstreams.exception_queue_1; ROLLBACK",
        "SELECT sqlstreams.compact_statistics()",
        "UPDATE sqlstreams.exception_queue_1 SET status = 'dead', next_attempt_at = NULL, claimed_by = NULL",
        "TRUNCATE sqlstreams.exception_queue_1",
        "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status) VALUES (2, 5, 'dead')",
    ] {
        installation.execute(sql).await;
        assert_eq!(counted(&installation).await, recounted(&installation).await, "after {sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_stay_exact_while_they_are_folded() {
    let installation = Installation::new("s", &["a", "b"]).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4_i64 {
        let pool = installation.database.pool.clone();
        writers.spawn(async move {
            for round in 0..50_i64 {
                let id = writer * 1000 + round;
                let group = 1 + round % 2;
                sqlx::query("INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status) VALUES ($1, $2, 'dead')")
                    .bind(group)
                    .bind(id)
                    .execute(&pool)
                    .await
                    .unwrap();
                if round % 5 == 0 {
                    sqlx::query("DELETE FROM sqlstreams.exception_queue_1 WHERE message_id = $1")
                        .bind(id)
                        .execute(&pool)
                        .await
                        .unwrap();
                }
            }
        });
    }
    for _ in 0..30 {
        statistics::compact(&installation.database).await.unwrap();
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    assert_eq!(counted(&installation).await, recounted(&installation).await);
    statistics::compact(&installation.database).await.unwrap();
    assert_eq!(counted(&installation).await, recounted(&installation).await);
    let counters = statistics::counters(&installation.database).await.unwrap();
    assert_eq!(counters.changes, 2, "one row a counter is left");
    assert!(!counters.wants_compaction());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncate_while_counters_are_being_folded_leaves_nothing_behind() {
    let installation = Installation::new("s", &["a", "b"]).await;
    installation
        .execute("INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status) VALUES (1, 1, 'dead'), (1, 2, 'dead')")
        .await;
    let mut folding = installation.database.pool.begin().await.unwrap();
    sqlx::query("SELECT sqlstreams.compact_statistics()")
        .execute(&mut *folding)
        .await
        .unwrap();
    let truncate = installation.execute("TRUNCATE sqlstreams.exception_queue_1");
    let commit = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        folding.commit().await.unwrap();
    };
    tokio::join!(truncate, commit);
    assert_eq!(counted(&installation).await, recounted(&installation).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_dead_letters_are_counted_exactly_and_from_few_rows() {
    let installation = Installation::new("s", &["a", "b"]).await;
    installation
        .execute(
            "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status)
             SELECT 1, i, 'dead' FROM generate_series(1, 1000000) AS i;
             DELETE FROM sqlstreams.exception_queue_1 WHERE message_id <= 3",
        )
        .await;
    let began = std::time::Instant::now();
    let counters = statistics::counters(&installation.database).await.unwrap();
    eprintln!("counted a million dead letters in {:?}", began.elapsed());
    assert_eq!(counters.groups[0].exceptions.dead, 999_997);
    assert_eq!(counters.groups[0].exceptions.retrying(), 0);
    assert!(counters.changes < 10, "{} rows", counters.changes);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_without_groups_and_owners_are_told() {
    let installation = Installation::new("s", &["a"]).await;
    installation
        .execute(
            "INSERT INTO sqlstreams.stream_config (name, partition_size) VALUES ('lonely', 1000);
             UPDATE sqlstreams.consumer_group_config
             SET owner_uid = '00000000-0000-0000-0000-000000000009', owner_ref = 'shop/a', cluster_id = 'there'",
        )
        .await;
    let counters = statistics::counters(&installation.database).await.unwrap();
    let streams: Vec<_> = counters
        .streams
        .iter()
        .map(|stream| (stream.name.as_str(), stream.owner.is_some()))
        .collect();
    assert_eq!(streams, [("s", true), ("lonely", false)]);
    let owner = counters.groups[0].owner.clone().unwrap();
    assert_eq!(
        (owner.reference.as_str(), owner.cluster_id.as_str(), owner.uid.as_u128()),
        ("shop/a", "there", 9)
    );
    assert!(counters.at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_of_a_group_that_is_gone_are_folded_away() {
    let installation = Installation::new("s", &["a", "b"]).await;
    installation
        .execute(
            "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status) VALUES (1, 1, 'dead'), (2, 1, 'dead');
             SELECT sqlstreams.drop_group_rows(1);
             SELECT sqlstreams.compact_statistics()",
        )
        .await;
    assert_eq!(installation.count("sqlstreams.statistics_delta").await, 1);
}
