//! Two resources that mean the same stream.

use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use sqlstreams::api::Stream;

use crate::operator::{Operator, stream};

#[tokio::test(flavor = "multi_thread")]
async fn the_second_resource_for_a_stream_gets_a_conflict_and_touches_nothing() {
    let operator = Operator::start().await;
    operator.namespace.apply_all(&operator.database_manifests()).await;
    operator
        .namespace
        .apply_all(&[stream("first", json!({"streamName": "orders"}))])
        .await;
    let first = operator.stream_ready("first").await;
    let second = json!({"streamName": "orders", "deletionPolicy": "Delete", "retention": {"ttl": "1s"}});
    operator.namespace.apply_all(&[stream("second", second)]).await;
    let conflict = operator
        .condition::<Stream>("second", "Provisioned", "False", "Conflict")
        .await;
    let owner = format!("{}/first", operator.namespace.name);
    assert!(conflict.message.contains(&owner), "{}", conflict.message);
    assert!(
        conflict.message.contains(&first.uid().expect("a UID")),
        "{}",
        conflict.message
    );

    let _ = operator
        .namespace
        .api::<Stream>()
        .delete("second", &DeleteParams::default())
        .await
        .expect("deleted");
    operator.gone::<Stream>("second").await;
    let (owner_ref, ttl): (String, Option<i64>) =
        sqlx::query_as("SELECT owner_ref, retention_ttl_seconds FROM sqlstreams.stream_config WHERE name = 'orders'")
            .fetch_one(&operator.database.pool)
            .await
            .expect("the stream is still there");
    assert_eq!((owner_ref, ttl), (owner, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_taken_over_from_a_lost_owner_by_naming_it() {
    let operator = Operator::start().await;
    operator.namespace.apply_all(&operator.database_manifests()).await;
    operator.namespace.apply_all(&[stream("orders", json!({}))]).await;
    operator.stream_ready("orders").await;
    let other = operator.beside().await;
    other.namespace.apply_all(&other.database_manifests()).await;
    other.namespace.apply_all(&[stream("orders", json!({}))]).await;
    other.condition::<Stream>("orders", "Ready", "False", "Conflict").await;
    let lost = operator
        .namespace
        .api::<Stream>()
        .get("orders")
        .await
        .expect("the stream")
        .uid();
    let annotation = json!({"metadata": {"annotations": {"sqlstreams.io/take-over-from": lost}}});
    other.namespace.merge::<Stream>("orders", annotation).await;
    let taken = other.stream_ready("orders").await;
    assert_eq!(taken.status.and_then(|status| status.stream_id), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_stream_keeps_its_partition_size() {
    let operator = Operator::start().await;
    operator.provision().await;
    sqlx::query("UPDATE sqlstreams.stream_config SET partition_size = 5000")
        .execute(&operator.database.pool)
        .await
        .expect("set");
    operator
        .namespace
        .merge::<Stream>("orders", json!({"spec": {"retention": {"ttl": "1d"}}}))
        .await;
    let refused = operator
        .condition::<Stream>("orders", "Ready", "False", "PartitionSizeDiffers")
        .await;
    assert!(refused.message.contains("partitionSize 5000"), "{}", refused.message);
}
