//! What the operator makes in Kubernetes, keeps as it should be, and leaves alone.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use sqlstreams::api::{ConsumerGroup, Stream};

use crate::harness::kubernetes::eventually;
use crate::operator::{Operator, group};

#[tokio::test(flavor = "multi_thread")]
async fn a_database_a_stream_and_a_group_applied_at_once_are_provisioned() {
    let operator = Operator::start().await;
    let (stream, group) = operator.provision().await;
    let id = stream
        .status
        .as_ref()
        .and_then(|status| status.stream_id)
        .expect("an id");
    assert_eq!(id, 1, "the first stream of a database");
    assert_eq!(
        stream.status.and_then(|status| status.message_log),
        Some("sqlstreams.message_log_1".into())
    );
    let status = group.status.expect("a status");
    assert_eq!((status.stream_id, status.group_id), (Some(1), Some(1)));
    let policy = status.retry_policy.expect("a retry policy");
    assert_eq!(policy.max_retries, 3);
    assert_eq!(
        policy.schedule,
        "4 attempts: at once, then after up to 1 s, 2 s and 4 s; then dead"
    );

    let account: ServiceAccount = operator
        .namespace
        .api()
        .get("billing-worker")
        .await
        .expect("an account");
    assert_eq!(account.automount_service_account_token, Some(false));
    let job: CronJob = operator.namespace.api().get("orders-retention").await.expect("a job");
    let spec = job.spec.expect("a spec");
    assert_eq!(spec.concurrency_policy.as_deref(), Some("Forbid"));
    assert!(spec.schedule.ends_with(" * * * *"), "{}", spec.schedule);
    let tables: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE schemaname = 'sqlstreams' AND tablename ~ '_1$'")
            .fetch_one(&operator.database.pool)
            .await
            .expect("an answer");
    assert_eq!(tables, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_edited_or_deleted_is_repaired() {
    let operator = Operator::start().await;
    operator.provision().await;
    operator
        .namespace
        .merge::<Deployment>("billing-worker", json!({"spec": {"replicas": 7}}))
        .await;
    eventually("the Deployment has one replica again", async || {
        let deployment: Deployment = operator.namespace.api().get("billing-worker").await.ok()?;
        (deployment.spec?.replicas == Some(1)).then_some(())
    })
    .await;
    let jobs = operator.namespace.api::<CronJob>();
    jobs.delete("orders-retention", &DeleteParams::background())
        .await
        .expect("deleted");
    eventually("the CronJob is back", async || {
        jobs.get_opt("orders-retention").await.ok().flatten()
    })
    .await;
    let accounts = operator.namespace.api::<ServiceAccount>();
    accounts
        .delete("billing-worker", &DeleteParams::background())
        .await
        .expect("deleted");
    eventually("the ServiceAccount is back", async || {
        accounts.get_opt("billing-worker").await.ok().flatten()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scale_and_suspend_reach_the_workers_and_a_change_rolls_them_out() {
    let operator = Operator::start().await;
    operator.provision().await;
    let replicas = async |wanted: i32| {
        eventually(&format!("the Deployment asks for {wanted}"), async || {
            let deployment: Deployment = operator.namespace.api().get("billing-worker").await.ok()?;
            (deployment.spec?.replicas == Some(wanted)).then_some(())
        })
        .await;
    };
    let groups = operator.namespace.api::<ConsumerGroup>();
    let mut scale = groups.get_scale("billing").await.expect("a scale");
    scale.spec.get_or_insert_default().replicas = Some(3);
    groups
        .replace_scale("billing", &PostParams::default(), &scale)
        .await
        .expect("scaled");
    replicas(3).await;
    operator
        .namespace
        .merge::<ConsumerGroup>("billing", json!({"spec": {"suspend": true}}))
        .await;
    replicas(0).await;
    operator
        .condition::<ConsumerGroup>("billing", "WorkersAvailable", "True", "NoneWanted")
        .await;
    operator
        .condition::<ConsumerGroup>("billing", "Ready", "True", "Ready")
        .await;
    operator
        .namespace
        .merge::<ConsumerGroup>(
            "billing",
            json!({"spec": {"suspend": false, "retry": {"maxRetries": 9}}}),
        )
        .await;
    eventually("the pods are told of the new retries", async || {
        let deployment: Deployment = operator.namespace.api().get("billing-worker").await.ok()?;
        let arguments = deployment.spec?.template.spec?.containers.first()?.args.clone()?;
        arguments.contains(&"--max-retries=9".to_owned()).then_some(())
    })
    .await;
    let policy = eventually("the status shows the new policy", async || {
        let group: ConsumerGroup = operator.namespace.api().get("billing").await.ok()?;
        group.status?.retry_policy.filter(|policy| policy.max_retries == 9)
    })
    .await;
    assert!(policy.schedule.starts_with("10 attempts"), "{}", policy.schedule);
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_follows_the_pods_of_the_deployment() {
    let operator = Operator::start().await;
    operator.provision().await;
    let condition = operator
        .condition::<ConsumerGroup>("billing", "Ready", "False", "WorkersNotReady")
        .await;
    assert!(
        condition.message.starts_with("0 of 1 workers are ready"),
        "{}",
        condition.message
    );
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
    let status = operator
        .namespace
        .api::<ConsumerGroup>()
        .get("billing")
        .await
        .expect("the group")
        .status
        .expect("a status");
    assert_eq!((status.replicas, status.ready_replicas), (Some(1), Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_deployment_of_the_same_name_is_left_alone() {
    let operator = Operator::start().await;
    operator.namespace.apply_all(&operator.database_manifests()).await;
    let selector = json!({"app": "other"});
    let foreign = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "billing-worker"},
        "spec": {"selector": {"matchLabels": selector}, "template": {"metadata": {"labels": selector},
                 "spec": {"containers": [{"name": "other", "image": "other:1"}]}}},
    });
    operator
        .namespace
        .apply_all(&[
            foreign,
            crate::operator::stream("orders", json!({})),
            group("billing", json!({})),
        ])
        .await;
    let condition = operator
        .condition::<ConsumerGroup>("billing", "Ready", "False", "NameTaken")
        .await;
    assert!(
        condition
            .message
            .contains("billing-worker exists and belongs to somebody else"),
        "{}",
        condition.message
    );
    let deployment: Deployment = operator
        .namespace
        .api()
        .get("billing-worker")
        .await
        .expect("it is there");
    assert_eq!(
        deployment
            .spec
            .expect("a spec")
            .template
            .spec
            .expect("a spec")
            .containers[0]
            .name,
        "other"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_leads_out_of_the_cluster_is_refused() {
    let operator = Operator::start().await;
    operator.namespace.apply_all(&operator.database_manifests()).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "handler"},
                         "spec": {"type": "ExternalName", "externalName": "example.com"}});
    operator
        .namespace
        .apply_all(&[
            service,
            crate::operator::stream("orders", json!({})),
            group("billing", json!({})),
        ])
        .await;
    let condition = operator
        .condition::<ConsumerGroup>("billing", "Ready", "False", "InvalidSpec")
        .await;
    assert!(condition.message.contains("ExternalName"), "{}", condition.message);
    operator
        .namespace
        .api::<Service>()
        .delete("handler", &DeleteParams::default())
        .await
        .expect("deleted");
    operator
        .condition::<ConsumerGroup>("billing", "Provisioned", "True", "Provisioned")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_group_is_left_alone() {
    let operator = Operator::start().await;
    operator.provision().await;
    let pause = json!({"metadata": {"annotations": {"sqlstreams.io/paused": "true"}}, "spec": {"replicas": 5}});
    operator.namespace.merge::<ConsumerGroup>("billing", pause).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let deployment: Deployment = operator
        .namespace
        .api()
        .get("billing-worker")
        .await
        .expect("a Deployment");
    assert_eq!(deployment.spec.expect("a spec").replicas, Some(1));
    operator
        .namespace
        .merge::<ConsumerGroup>(
            "billing",
            json!({"metadata": {"annotations": {"sqlstreams.io/paused": null}}}),
        )
        .await;
    eventually("it goes on once it is no longer paused", async || {
        let deployment: Deployment = operator.namespace.api().get("billing-worker").await.ok()?;
        (deployment.spec?.replicas == Some(5)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_kubernetes_itself_can_judge_is_reported_as_invalid_with_its_words() {
    let operator = Operator::start().await;
    operator.namespace.apply_all(&operator.database_manifests()).await;
    let schedule = json!({"retention": {"schedule": "61 * * * *"}});
    operator
        .namespace
        .apply_all(&[crate::operator::stream("orders", schedule)])
        .await;
    let condition = operator
        .condition::<Stream>("orders", "Ready", "False", "InvalidSpec")
        .await;
    assert!(condition.message.contains("spec.schedule"), "{}", condition.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_out_of_a_resource_is_taken_out_of_its_children() {
    let operator = Operator::start().await;
    operator.provision().await;
    let selector = async || {
        let deployment: Deployment = operator.namespace.api().get("billing-worker").await.ok()?;
        Some(deployment.spec?.template.spec?.node_selector)
    };
    operator
        .namespace
        .merge::<ConsumerGroup>(
            "billing",
            json!({"spec": {"worker": {"nodeSelector": {"disk": "fast"}}}}),
        )
        .await;
    eventually("the pods are bound to nodes", async || selector().await.flatten()).await;
    operator
        .namespace
        .merge::<ConsumerGroup>("billing", json!({"spec": {"worker": {"nodeSelector": null}}}))
        .await;
    eventually("the pods are bound no more", async || {
        selector().await?.is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_the_settings_before_do_not_make_a_group_ready() {
    let operator = Operator::start().await;
    operator.provision().await;
    let pods = async |updated: i32, generation: i64| {
        let status =
            json!({"replicas": 1, "readyReplicas": 1, "updatedReplicas": updated, "observedGeneration": generation});
        operator
            .namespace
            .merge_status::<Deployment>("billing-worker", status)
            .await;
    };
    pods(1, 1).await;
    operator
        .condition::<ConsumerGroup>("billing", "Ready", "True", "Ready")
        .await;
    operator
        .namespace
        .merge::<ConsumerGroup>("billing", json!({"spec": {"concurrency": 3}}))
        .await;
    let old = operator
        .condition::<ConsumerGroup>("billing", "Ready", "False", "WorkersNotReady")
        .await;
    assert!(
        old.message
            .starts_with("1 of 1 workers are ready, 0 with the newest settings"),
        "{}",
        old.message
    );
    pods(1, 2).await;
    operator
        .condition::<ConsumerGroup>("billing", "Ready", "True", "Ready")
        .await;
}
