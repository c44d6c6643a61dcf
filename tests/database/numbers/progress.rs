//! How far groups have come, and what streams take and keep.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use sqlstreams::database::partitions::{Growth, ensure, last_ids};
use sqlstreams::database::statistics::{self, Progress};
use sqlstreams::database::{GroupId, StreamId};

use super::installation::Installation;

async fn progress(installation: &Installation, group: i64) -> Progress {
    let all = statistics::progress(&installation.database, &[GroupId(group)])
        .await
        .unwrap();
    all[0].1
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_backlog_and_open_claims_are_told() {
    let installation = Installation::new("s", &["g"]).await;
    assert_eq!(progress(&installation, 1).await, Progress::default());

    installation.publish(100).await;
    let told = progress(&installation, 1).await;
    assert_eq!(
        (told.head, told.claimed, told.committed, told.backlog, told.inflight),
        (100, 0, 0, 100, 0)
    );

    installation.finish(1, 40).await;
    installation
        .execute("INSERT INTO sqlstreams.claim_1 (consumer_group_id, low, high, instance) VALUES (1, 41, 60, gen_random_uuid())")
        .await;
    let told = progress(&installation, 1).await;
    assert_eq!(
        (told.head, told.claimed, told.committed, told.backlog, told.inflight),
        (100, 60, 40, 40, 20)
    );
    assert_eq!(told.lag(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_counted_up_to_ten_thousand_and_estimated_beyond() {
    let installation = Installation::new("s", &["g"]).await;
    installation.publish(30).await;
    installation
        .execute("DELETE FROM sqlstreams.message_log_1 WHERE id % 2 = 0")
        .await;
    assert_eq!(progress(&installation, 1).await.backlog, 15);
    installation.publish(20_000).await;
    assert_eq!(progress(&installation, 1).await.backlog, 20_030);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_for_another_group_alone_are_no_backlog() {
    let installation = Installation::new("s", &["g", "other"]).await;
    installation
        .execute("INSERT INTO sqlstreams.message_log_1 (payload, only_group_id) VALUES ('1', NULL), ('2', 2), ('3', 1)")
        .await;
    assert_eq!(progress(&installation, 1).await.backlog, 2);
    assert_eq!(progress(&installation, 2).await.backlog, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn times_of_retries_are_told() {
    let installation = Installation::new("s", &["g"]).await;
    installation
        .execute(
            "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status, next_attempt_at, created_at)
             VALUES (1, 5, 'deferred', '2030-01-01T00:00:07Z', '2020-01-01T00:00:00Z'),
                    (1, 6, 'deferred', '2030-01-01T00:00:03.5Z', '2020-01-02T00:00:00Z');
             INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status, created_at)
             VALUES (1, 1, 'dead', '2019-01-01T00:00:00Z')",
        )
        .await;
    let told = progress(&installation, 1).await;
    assert_eq!(told.next_attempt_at.unwrap().to_string(), "2030-01-01T00:00:03.5Z");
    assert_eq!(told.oldest_unresolved_at.unwrap().to_string(), "2020-01-01T00:00:00Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_gone_and_a_stream_that_lost_a_table_hide_no_other() {
    let installation = Installation::new("s", &["g"]).await;
    installation
        .execute(
            "INSERT INTO sqlstreams.stream_config (name, partition_size) VALUES ('broken', 1000);
             INSERT INTO sqlstreams.consumer_group_config (stream_id, name) VALUES (2, 'lost')",
        )
        .await;
    installation.publish(3).await;
    let all = statistics::progress(&installation.database, &[GroupId(2), GroupId(1), GroupId(99)])
        .await
        .unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].0, all[0].1.backlog), (GroupId(1), 3));
    let facts = statistics::stream_facts(&installation.database, &[StreamId(2), StreamId(1), StreamId(99)])
        .await
        .unwrap();
    let sizes: Vec<_> = facts.iter().map(|(id, facts)| (id.0, facts.size_bytes > 0)).collect();
    assert_eq!(sizes, [(2, false), (1, true), (99, false)]);
    assert_eq!(last_ids(&installation.database).await.unwrap(), [(StreamId(1), 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_message_is_that_of_the_first_partition_that_holds_one() {
    let installation = Installation::new("s", &[]).await;
    let oldest = async || {
        statistics::stream_facts(&installation.database, &[StreamId(1)])
            .await
            .unwrap()[0]
            .1
            .oldest_message_at
    };
    assert_eq!(oldest().await, None);
    installation.publish(1500).await;
    installation
        .execute(
            "DELETE FROM sqlstreams.message_log_1 WHERE id <= 1000;
             UPDATE sqlstreams.message_log_1 SET created_at = '2024-05-06T07:08:09.000001Z' WHERE id = 1001",
        )
        .await;
    assert_eq!(oldest().await.unwrap().to_string(), "2024-05-06T07:08:09.000001Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_progress_of_many_groups_is_found_in_few_locks() {
    let groups: Vec<String> = (0..150).map(|number| format!("g{number}")).collect();
    let names: Vec<&str> = groups.iter().map(String::as_str).collect();
    let installation = Installation::new("s", &names).await;
    installation.publish(5).await;
    let ids: Vec<GroupId> = (1..=150).map(GroupId).collect();
    let all = statistics::progress(&installation.database, &ids).await.unwrap();
    assert_eq!(all.len(), 150);
    assert!(all.iter().all(|(_, progress)| progress.backlog == 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_made_ahead_by_how_fast_the_log_grows() {
    let now = tokio::time::Instant::now();
    let mut growth = Growth::default();
    assert_eq!(growth.ahead(0, now), 0);
    let ahead = growth.ahead(1000, now + std::time::Duration::from_secs(1));
    assert_eq!(ahead, 10_000);
    let installation = Installation::new("s", &[]).await;
    assert_eq!(installation.partitions().await, [0, 1, 2]);
    assert_eq!(ensure(&installation.database, StreamId(1), ahead).await.unwrap(), 8);
    assert_eq!(ensure(&installation.database, StreamId(1), ahead).await.unwrap(), 0);
    assert_eq!(installation.partitions().await.len(), 11);
}
