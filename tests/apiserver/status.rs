//! When the status is written, and when it is not.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use sqlstreams::api::{ConsumerGroup, Stream};

use crate::harness::kubernetes::eventually;
use crate::operator::Operator;

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_operator_writes_nothing() {
    let operator = Operator::start().await;
    operator.provision().await;
    operator
        .namespace
        .merge_status::<Deployment>(
            "billing-worker",
            json!({"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "observedGeneration": 1}),
        )
        .await;
    operator
        .condition::<ConsumerGroup>("billing", "Ready", "True", "Ready")
        .await;
    operator
        .condition::<ConsumerGroup>("billing", "NoDeadLetters", "True", "NoDeadLetters")
        .await;
    // The first facts about the stream come within a few seconds.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let before = operator.versions().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(operator.versions().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_operator_changes_nothing() {
    let mut operator = Operator::start().await;
    operator.provision().await;
    operator
        .namespace
        .merge_status::<Deployment>(
            "billing-worker",
            json!({"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "observedGeneration": 1}),
        )
        .await;
    operator
        .condition::<ConsumerGroup>("billing", "Ready", "True", "Ready")
        .await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let before = operator.versions().await;
    operator.stop().await;
    operator.resume();
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(operator.versions().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_seen_in_the_status_within_two_seconds() {
    let operator = Operator::start().await;
    operator.provision().await;
    operator
        .condition::<ConsumerGroup>("billing", "NoDeadLetters", "True", "NoDeadLetters")
        .await;
    sqlx::query("INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status, attempts) VALUES (1, 1, 'dead', 4)")
        .execute(&operator.database.pool)
        .await
        .expect("a dead letter");
    let recorded = std::time::Instant::now();
    eventually("the status counts it", async || {
        let group: ConsumerGroup = operator.namespace.api().get("billing").await.ok()?;
        (group.status?.dead == Some(1)).then_some(())
    })
    .await;
    let seen = recorded.elapsed();
    assert!(seen < Duration::from_secs(2), "seen after {seen:?}");
    operator
        .condition::<ConsumerGroup>("billing", "NoDeadLetters", "False", "DeadLetters")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_retention_from_dropping_is_a_condition_and_leaves_ready_alone() {
    let operator = Operator::start().await;
    operator.provision().await;
    operator
        .condition::<Stream>("orders", "RetentionHealthy", "Unknown", "NotRunYet")
        .await;
    let behind = r#"{"group": "slow", "reason": "has finished messages up to 3", "since": "2026-01-01T00:00:00Z"}"#;
    let reports = [
        (
            format!(r#""behind": [{behind}]"#),
            "False",
            "Blocked",
            "group slow has finished messages up to 3 (since 2026-01-01T00:00:00Z)",
        ),
        (
            r#""behind": [], "locked_out": true"#.to_owned(),
            "False",
            "LockedOut",
            "the next run tries again",
        ),
        (
            r#""behind": []"#.to_owned(),
            "True",
            "UpToDate",
            "all that is past its time was dropped",
        ),
    ];
    for (number, (rest, status, reason, message)) in reports.into_iter().enumerate() {
        sqlx::query("UPDATE sqlstreams.stream_config SET retention_report = $1::jsonb")
            .bind(format!(
                r#"{{"ran_at": "2026-01-01T00:00:00Z", "dropped": [], {rest}}}"#
            ))
            .execute(&operator.database.pool)
            .await
            .expect("a report");
        // Any change makes the operator look.
        let annotation = json!({"metadata": {"annotations": {"look": number.to_string()}}});
        operator.namespace.merge::<Stream>("orders", annotation).await;
        let condition = operator
            .condition::<Stream>("orders", "RetentionHealthy", status, reason)
            .await;
        assert!(condition.message.contains(message), "{}", condition.message);
    }
    operator.condition::<Stream>("orders", "Ready", "True", "Ready").await;
}
