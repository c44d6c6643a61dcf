//! The numbers in the status of the resources, without the controllers: they own other fields.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use sqlstreams::api::{ConsumerGroup, ConsumerGroupStatus, Stream};
use sqlstreams::statistics::{Metrics, Watched, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::kubernetes::{TestNamespace, eventually, namespace};
use crate::harness::{TestDatabase, postgres};
use crate::operator::{group, stream};

const CLUSTER: &str = "cluster-of-tests";

/// The Stream `orders` and the ConsumerGroup `billing`, their rows in a database, and whoever
/// looks after their numbers.
struct Scene {
    namespace: TestNamespace,
    database: TestDatabase,
    registry: Registry,
    metrics: Metrics,
    running: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Scene {
    async fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let scene = Self {
            namespace: namespace().await,
            database: postgres().await.installed().await,
            registry,
            metrics,
            running: None,
        };
        scene
            .namespace
            .apply_all(&[stream("orders", json!({})), group("billing", json!({}))])
            .await;
        let namespace = &scene.namespace.name;
        let owner = |uid: Option<String>, name: &str| {
            format!(
                "'{}', '{namespace}/{name}', '{CLUSTER}'",
                uid.expect("an object has a UID")
            )
        };
        let stream = owner(
            scene.namespace.api::<Stream>().get("orders").await.expect("it").uid(),
            "orders",
        );
        let group = owner(scene.group().await.uid(), "billing");
        scene
            .execute(&format!(
                "INSERT INTO sqlstreams.stream_config (name, partition_size, owner_uid, owner_ref, cluster_id)
                 VALUES ('orders', 1000, {stream});
                 SELECT sqlstreams.create_stream_tables(1);
                 INSERT INTO sqlstreams.consumer_group_config (stream_id, name, owner_uid, owner_ref, cluster_id)
                 VALUES (1, 'billing', {group})"
            ))
            .await;
        scene
    }

    fn start(&mut self) {
        let watched = Watched {
            database: self.database.installation(),
            namespace: self.namespace.name.clone(),
            name: "main".into(),
            cluster_id: CLUSTER.into(),
            client: self.namespace.client.clone(),
            metrics: self.metrics.clone(),
        };
        let stop = CancellationToken::new();
        self.running = Some((stop.clone(), tokio::spawn(watch(watched, stop))));
    }

    async fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            task.await.expect("it ends without a panic");
        }
    }

    async fn execute(&self, sql: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))
            .execute(&self.database.pool)
            .await
            .expect("a statement");
    }

    async fn bury(&self, ids: std::ops::RangeInclusive<i64>) {
        self.execute(&format!(
            "INSERT INTO sqlstreams.exception_queue_1 (consumer_group_id, message_id, status)
             SELECT 1, i, 'dead' FROM generate_series({}, {}) AS i",
            ids.start(),
            ids.end()
        ))
        .await;
    }

    async fn group(&self) -> ConsumerGroup {
        self.namespace.api().get("billing").await.expect("the group")
    }

    async fn status(&self) -> ConsumerGroupStatus {
        self.group().await.status.unwrap_or_default()
    }

    async fn until(&self, what: &str, holds: impl Fn(&ConsumerGroupStatus) -> bool) -> ConsumerGroupStatus {
        eventually(what, async || {
            let status = self.status().await;
            holds(&status).then_some(status)
        })
        .await
    }

    async fn events(&self) -> Vec<Event> {
        let api = self.namespace.api::<Event>();
        api.list(&ListParams::default()).await.expect("a list").items
    }

    async fn versions(&self) -> BTreeMap<&'static str, Option<String>> {
        let stream: Stream = self.namespace.api().get("orders").await.expect("the stream");
        BTreeMap::from([
            ("group", self.group().await.resource_version()),
            ("stream", stream.resource_version()),
        ])
    }

    fn exported(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("it is text");
        text
    }
}

fn transition(status: &ConsumerGroupStatus) -> String {
    let condition = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "NoDeadLetters");
    condition.expect("NoDeadLetters").last_transition_time.0.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_dead_letter_is_in_the_status_within_two_seconds() {
    let mut scene = Scene::new().await;
    scene.start();
    let status = scene.until("the first numbers", |status| status.dead == Some(0)).await;
    assert_eq!(status.conditions[0].status, "True");
    let mut longest = Duration::ZERO;
    for number in 1..=5 {
        scene.bury(number..=number).await;
        let began = Instant::now();
        let status = scene
            .until("the dead letter", |status| status.dead == Some(number))
            .await;
        longest = longest.max(began.elapsed());
        let condition = &status.conditions[0];
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_str()),
            ("False", "DeadLetters")
        );
    }
    eprintln!("the longest way of a dead letter into the status took {longest:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    let stream = eventually("the stream shows it", async || {
        let stream: Stream = scene.namespace.api().get("orders").await.ok()?;
        stream.status.filter(|status| status.dead == Some(5))
    })
    .await;
    assert_eq!(
        (
            stream.group_count,
            stream.groups[0].name.as_str(),
            stream.groups[0].dead
        ),
        (Some(1), "billing", 5)
    );
    assert!(stream.size.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_system_writes_nothing_even_when_it_starts_again() {
    let mut scene = Scene::new().await;
    scene.execute("SELECT sqlstreams.publish('orders', '1')").await;
    scene.bury(1..=3).await;
    scene.start();
    let before = scene
        .until("all numbers", |status| status.dead == Some(3) && status.lag == Some(1))
        .await;
    eventually("the stream's numbers", async || {
        let stream: Stream = scene.namespace.api().get("orders").await.ok()?;
        stream
            .status
            .filter(|status| status.size.is_some() && status.groups[0].lag == 1)
    })
    .await;
    let versions = scene.versions().await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(scene.versions().await, versions);

    scene.stop().await;
    scene.start();
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(
        scene.versions().await,
        versions,
        "nothing has changed since the restart"
    );
    assert_eq!(
        scene.events().await.len(),
        1,
        "the dead letters of before are not told again"
    );

    scene.bury(4..=4).await;
    let after = scene
        .until("another dead letter", |status| status.dead == Some(4))
        .await;
    assert_eq!(
        transition(&after),
        transition(&before),
        "the condition did not change its status"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_condition_turns_with_the_last_dead_letter() {
    let mut scene = Scene::new().await;
    scene.bury(1..=2).await;
    scene.start();
    let before = scene.until("dead letters", |status| status.dead == Some(2)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.execute("DELETE FROM sqlstreams.exception_queue_1").await;
    let after = scene.until("no dead letter", |status| status.dead == Some(0)).await;
    assert_eq!(after.conditions[0].status, "True");
    assert_ne!(transition(&after), transition(&before));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_controllers_wrote_stays() {
    let mut scene = Scene::new().await;
    let controllers = json!({
        "apiVersion": "sqlstreams.io/v1alpha1", "kind": "ConsumerGroup",
        "metadata": {"name": "billing"},
        "status": {
            "replicas": 2,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2024-01-01T00:00:00Z"
            }],
        },
    });
    let api = scene.namespace.api::<ConsumerGroup>();
    let apply = async |status: &Value| {
        let parameters = PatchParams::apply("sqlstreams").force();
        api.patch_status("billing", &parameters, &Patch::Apply(status))
            .await
            .expect("a status")
    };
    apply(&controllers).await;
    scene.execute("SELECT sqlstreams.publish('orders', '1')").await;
    scene.start();
    let status = scene.until("the numbers", |status| status.lag == Some(1)).await;
    assert_eq!((status.replicas, status.conditions.len()), (Some(2), 2));
    apply(&controllers).await;
    let status = scene.status().await;
    assert_eq!(
        (status.lag, status.conditions.len()),
        (Some(1), 2),
        "and the other way round"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_object_of_the_same_name_is_not_written_to() {
    let mut scene = Scene::new().await;
    scene.start();
    let old = scene.until("the first numbers", |status| status.dead.is_some()).await;
    assert_eq!(old.dead, Some(0));
    let api = scene.namespace.api::<ConsumerGroup>();
    api.delete("billing", &DeleteParams::default()).await.expect("deleted");
    scene.namespace.apply_all(&[group("billing", json!({}))]).await;
    scene.bury(1..=1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(scene.status().await, ConsumerGroupStatus::default());

    api.delete("billing", &DeleteParams::default()).await.expect("deleted");
    scene.bury(2..=2).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(
        api.get_opt("billing").await.expect("an answer").is_none(),
        "nothing brings it back"
    );

    scene.namespace.apply_all(&[group("billing", json!({}))]).await;
    let uid = scene.group().await.uid().expect("an object has a UID");
    scene
        .execute(&format!(
            "UPDATE sqlstreams.consumer_group_config SET owner_uid = '{uid}'"
        ))
        .await;
    scene
        .until("the new owner is written to", |status| status.dead == Some(2))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_of_another_cluster_are_left_alone() {
    let mut scene = Scene::new().await;
    scene
        .execute("UPDATE sqlstreams.consumer_group_config SET cluster_id = 'elsewhere'")
        .await;
    scene.bury(1..=1).await;
    scene.start();
    eventually("the stream's numbers", async || {
        let stream: Stream = scene.namespace.api().get("orders").await.ok()?;
        stream.status.filter(|status| status.dead == Some(1))
    })
    .await;
    assert_eq!(scene.status().await, ConsumerGroupStatus::default());
    assert!(scene.events().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_told_in_one_event_a_minute() {
    let mut scene = Scene::new().await;
    scene.start();
    scene.until("the first numbers", |status| status.dead.is_some()).await;
    scene.bury(1..=400).await;
    scene.until("400 dead letters", |status| status.dead == Some(400)).await;
    let event = eventually("an event", async || scene.events().await.pop()).await;
    assert_eq!(event.reason.as_deref(), Some("DeadLettered"));
    assert_eq!(event.note.as_deref(), Some("400 messages became dead letters"));
    assert_eq!(
        event.regarding.and_then(|regarding| regarding.uid),
        scene.group().await.uid()
    );
    for number in 401..=404 {
        scene.bury(number..=number).await;
        scene.until("one more", |status| status.dead == Some(number)).await;
    }
    assert_eq!(scene.events().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_follow_and_go_away_with_the_database() {
    let mut scene = Scene::new().await;
    scene.execute("SELECT sqlstreams.publish('orders', '1')").await;
    scene.start();
    scene.bury(1..=7).await;
    scene.until("dead letters", |status| status.dead == Some(7)).await;
    let labels = format!(
        "{{namespace=\"{}\",database=\"main\",stream=\"orders\",group=\"billing\"}}",
        scene.namespace.name
    );
    for (name, value) in [
        ("exceptions_dead", "7.0"),
        ("cursor_backlog", "1.0"),
        ("cursor_head", "1.0"),
    ] {
        let line = format!("sqlstreams_consumer_{name}{labels} {value}");
        assert!(scene.exported().contains(&line), "{line} in\n{}", scene.exported());
    }
    scene.stop().await;
    assert!(!scene.exported().contains("billing"), "{}", scene.exported());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_workers_gets_its_partitions_in_time() {
    let mut scene = Scene::new().await;
    scene.start();
    for _ in 0..20 {
        scene
            .execute("INSERT INTO sqlstreams.message_log_1 (payload) SELECT '1' FROM generate_series(1, 400)")
            .await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_back_is_read_again() {
    let mut scene = Scene::new().await;
    scene.start();
    scene.until("the first numbers", |status| status.dead.is_some()).await;
    scene
        .execute("ALTER TABLE sqlstreams.statistics_delta RENAME TO hidden")
        .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    scene
        .execute("ALTER TABLE sqlstreams.hidden RENAME TO statistics_delta")
        .await;
    scene.bury(1..=1).await;
    scene.until("the dead letter", |status| status.dead == Some(1)).await;
}
