//! What is left when resources go, and in which order they may.

use kube::api::DeleteParams;
use serde_json::json;
use sqlstreams::api::{ConsumerGroup, Stream, StreamDatabase};

use crate::operator::{Conditioned, Operator, group, secret, stream};

impl Operator {
    async fn delete<K: Conditioned>(&self, name: &str) {
        let _ = self
            .namespace
            .api::<K>()
            .delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
    }

    /// Streams and groups with whether they have an owner.
    async fn rows(&self) -> Vec<(String, bool)> {
        sqlx::query_as(
            "SELECT name, owner_uid IS NOT NULL FROM sqlstreams.stream_config \
             UNION ALL SELECT name, owner_uid IS NOT NULL FROM sqlstreams.consumer_group_config ORDER BY 1",
        )
        .fetch_all(&self.database.pool)
        .await
        .expect("rows")
    }
}

fn rows(rows: &[(&str, bool)]) -> Vec<(String, bool)> {
    rows.iter().map(|(name, owned)| ((*name).to_owned(), *owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_data_stays_without_an_owner_and_is_adopted_again() {
    let operator = Operator::start().await;
    operator.provision().await;
    sqlx::query("SELECT sqlstreams.publish('orders', '{}')")
        .execute(&operator.database.pool)
        .await
        .expect("published");
    operator.delete::<ConsumerGroup>("billing").await;
    operator.gone::<ConsumerGroup>("billing").await;
    operator.delete::<Stream>("orders").await;
    operator.gone::<Stream>("orders").await;
    assert_eq!(operator.rows().await, rows(&[("billing", false), ("orders", false)]));

    operator
        .namespace
        .apply_all(&[stream("orders", json!({"adoption": "Never"}))])
        .await;
    let refused = operator
        .condition::<Stream>("orders", "Ready", "False", "Conflict")
        .await;
    assert!(refused.message.contains("adoption: IfUnowned"), "{}", refused.message);
    operator
        .namespace
        .apply_all(&[
            stream("orders", json!({"adoption": "IfUnowned"})),
            group("billing", json!({})),
        ])
        .await;
    let adopted = operator.stream_ready("orders").await;
    assert_eq!(
        adopted.status.and_then(|status| status.stream_id),
        Some(1),
        "the same tables"
    );
    operator
        .condition::<ConsumerGroup>("billing", "Provisioned", "True", "Provisioned")
        .await;
    assert_eq!(operator.rows().await, rows(&[("billing", true), ("orders", true)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_data_is_gone() {
    let operator = Operator::start().await;
    operator.namespace.apply_all(&operator.database_manifests()).await;
    let policy = json!({"deletionPolicy": "Delete"});
    operator
        .namespace
        .apply_all(&[stream("orders", policy.clone()), group("billing", policy)])
        .await;
    operator.stream_ready("orders").await;
    operator
        .condition::<ConsumerGroup>("billing", "Provisioned", "True", "Provisioned")
        .await;
    operator.delete::<ConsumerGroup>("billing").await;
    operator.gone::<ConsumerGroup>("billing").await;
    assert_eq!(operator.rows().await, rows(&[("orders", true)]));
    operator.delete::<Stream>("orders").await;
    operator.gone::<Stream>("orders").await;
    assert_eq!(operator.rows().await, rows(&[]));
    let tables: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_tables WHERE schemaname = 'sqlstreams' AND tablename ~ '_[0-9]+(_p[0-9]+)?$'",
    )
    .fetch_one(&operator.database.pool)
    .await
    .expect("a number");
    assert_eq!(tables, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_from_the_bottom_up_waits_for_what_stands_on_it() {
    let mut operator = Operator::start().await;
    operator.provision().await;
    operator.delete::<StreamDatabase>("main").await;
    let waits = operator
        .condition::<StreamDatabase>("main", "Ready", "False", "InUse")
        .await;
    assert!(waits.message.contains("orders"), "{}", waits.message);
    operator.delete::<Stream>("orders").await;
    let waits = operator.condition::<Stream>("orders", "Ready", "False", "InUse").await;
    assert!(waits.message.contains("billing"), "{}", waits.message);
    // An operator that is started in the middle of it must come to the same end.
    operator.stop().await;
    operator.delete::<ConsumerGroup>("billing").await;
    operator.resume();
    operator.gone::<ConsumerGroup>("billing").await;
    operator.gone::<Stream>("orders").await;
    operator.gone::<StreamDatabase>("main").await;
    assert_eq!(operator.rows().await, rows(&[("billing", false), ("orders", false)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_gone_for_ever_has_a_way_out() {
    let mut operator = Operator::start().await;
    operator.provision().await;
    operator.stop().await;
    operator
        .namespace
        .apply_all(&[secret("postgresql://app:secret@127.0.0.1:1/app")])
        .await;
    operator.resume();
    operator
        .condition::<StreamDatabase>("main", "Ready", "False", "DatabaseUnreachable")
        .await;
    operator.delete::<ConsumerGroup>("billing").await;
    operator.collect_garbage().await;
    operator.delete::<Stream>("orders").await;
    operator.condition::<Stream>("orders", "Ready", "False", "InUse").await;
    let abandon = json!({"metadata": {"annotations": {"sqlstreams.io/abandon": "true"}}});
    operator
        .namespace
        .merge::<ConsumerGroup>("billing", abandon.clone())
        .await;
    operator.gone::<ConsumerGroup>("billing").await;
    let waits = operator
        .condition::<Stream>("orders", "Ready", "False", "DatabaseUnreachable")
        .await;
    assert!(waits.message.contains("sqlstreams.io/abandon"), "{}", waits.message);
    operator.namespace.merge::<Stream>("orders", abandon).await;
    operator.gone::<Stream>("orders").await;
    assert_eq!(
        operator.rows().await,
        rows(&[("billing", true), ("orders", true)]),
        "nothing was touched"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_never_came_to_anything_goes_at_once() {
    let operator = Operator::start().await;
    operator
        .namespace
        .apply_all(&[stream("orders", json!({})), group("billing", json!({}))])
        .await;
    operator
        .condition::<Stream>("orders", "Ready", "False", "DatabaseNotFound")
        .await;
    operator
        .condition::<ConsumerGroup>("billing", "Ready", "False", "StreamNotReady")
        .await;
    operator.delete::<ConsumerGroup>("billing").await;
    operator.gone::<ConsumerGroup>("billing").await;
    operator.delete::<Stream>("orders").await;
    operator.gone::<Stream>("orders").await;
}
