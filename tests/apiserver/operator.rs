//! An operator of one namespace, in the process of the test.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use sqlstreams::api::{ConsumerGroup, Stream, StreamDatabase};
use sqlstreams::controllers::{Image, Manager};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::kubernetes::{TestNamespace, eventually, namespace};
use crate::harness::{TestDatabase, postgres};

/// An operator, the namespace that it works for, and a database for it to work with.
pub struct Operator {
    pub namespace: TestNamespace,
    pub database: TestDatabase,
    running: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Operator {
    /// Starts one with an empty database.
    pub async fn start() -> Self {
        let mut operator = Self {
            namespace: namespace().await,
            database: postgres().await.database().await,
            running: None,
        };
        operator.resume();
        operator
    }

    /// Another operator in a namespace of its own, with the same database.
    pub async fn beside(&self) -> Self {
        let database = TestDatabase {
            url: self.database.url.clone(),
            pool: self.database.pool.clone(),
        };
        let mut operator = Self {
            namespace: namespace().await,
            database,
            running: None,
        };
        operator.resume();
        operator
    }

    /// Starts it again after [`Operator::stop`].
    pub fn resume(&mut self) {
        let image = Image {
            reference: "sqlstreams:test".into(),
            pull_policy: Some("Never".into()),
        };
        let manager = Manager::new(
            self.namespace.client.clone(),
            "cluster-of-tests".into(),
            image,
            vec![self.namespace.name.clone()],
            &mut Registry::default(),
        );
        let stop = CancellationToken::new();
        self.running = Some((stop.clone(), tokio::spawn(manager.run(stop))));
    }

    /// Stops it, and waits until it has.
    pub async fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            task.await.expect("the operator ends without a panic");
        }
    }

    /// The Secret with the login, and the StreamDatabase `main`.
    pub fn database_manifests(&self) -> [Value; 2] {
        [secret(&self.database.url), database(json!({}))]
    }

    /// Applies the database, the Stream `orders` and the ConsumerGroup `billing`, and waits until
    /// they are as far as they come without pods.
    pub async fn provision(&self) -> (Stream, ConsumerGroup) {
        self.namespace.apply_all(&self.database_manifests()).await;
        self.namespace
            .apply_all(&[stream("orders", json!({})), group("billing", json!({}))])
            .await;
        let stream = self.stream_ready("orders").await;
        self.condition::<ConsumerGroup>("billing", "Provisioned", "True", "Provisioned")
            .await;
        let group = self.namespace.api().get("billing").await.expect("the group");
        (stream, group)
    }

    pub async fn stream_ready(&self, name: &str) -> Stream {
        self.condition::<Stream>(name, "Ready", "True", "Ready").await;
        self.namespace.api().get(name).await.expect("the stream")
    }

    /// Waits for a condition with this status and reason, and returns it.
    pub async fn condition<K: Conditioned>(&self, name: &str, kind: &str, status: &str, reason: &str) -> Condition {
        let what = format!("{} {name} says {kind} {status} {reason}", K::kind(&()));
        eventually(&what, async || {
            let resource = self.namespace.api::<K>().get(name).await.ok()?;
            let found = resource.conditions().into_iter().find(|it| it.type_ == kind)?;
            (found.status == status && found.reason == reason).then_some(found)
        })
        .await
    }

    /// Waits until the object is gone.
    pub async fn gone<K: Conditioned>(&self, name: &str) {
        eventually(&format!("{} {name} is gone", K::kind(&())), async || {
            self.collect_garbage().await;
            self.namespace
                .api::<K>()
                .get_opt(name)
                .await
                .expect("an answer")
                .is_none()
                .then_some(())
        })
        .await;
    }

    /// Lets Deployments go that are being deleted in the foreground, as the garbage collector does
    /// once their pods are gone.
    pub async fn collect_garbage(&self) {
        let api: Api<Deployment> = self.namespace.api();
        for deployment in api.list(&ListParams::default()).await.expect("a list") {
            if deployment.metadata.deletion_timestamp.is_some() {
                let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                let _ = api.patch(&deployment.name_any(), &PatchParams::default(), &patch).await;
            }
        }
    }

    /// The version of every object that the operator writes.
    pub async fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        macro_rules! add {
            ($kind:ty) => {
                for object in self
                    .namespace
                    .api::<$kind>()
                    .list(&ListParams::default())
                    .await
                    .expect("a list")
                {
                    let key = format!("{} {}", stringify!($kind), object.name_any());
                    versions.insert(key, object.resource_version().unwrap_or_default());
                }
            };
        }
        add!(StreamDatabase);
        add!(Stream);
        add!(ConsumerGroup);
        add!(Deployment);
        add!(k8s_openapi::api::batch::v1::CronJob);
        add!(k8s_openapi::api::core::v1::ServiceAccount);
        add!(k8s_openapi::api::events::v1::Event);
        versions
    }
}

/// A kind with conditions.
pub trait Conditioned:
    kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
    + Clone
    + std::fmt::Debug
    + serde::de::DeserializeOwned
    + Send
    + Sync
{
    fn conditions(&self) -> Vec<Condition>;
}

macro_rules! conditioned {
    ($($kind:ty),*) => {$(
        impl Conditioned for $kind {
            fn conditions(&self) -> Vec<Condition> {
                self.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
            }
        }
    )*};
}
conditioned!(StreamDatabase, Stream, ConsumerGroup);

pub fn secret(url: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"uri": url}})
}

pub fn database(spec: Value) -> Value {
    resource(
        "StreamDatabase",
        "main",
        json!({"secretRef": {"name": "login"}, "tls": {"mode": "Disable"}}),
        spec,
    )
}

pub fn stream(name: &str, spec: Value) -> Value {
    resource("Stream", name, json!({"databaseRef": {"name": "main"}}), spec)
}

/// A group of the stream `orders`.
pub fn group(name: &str, spec: Value) -> Value {
    let handler = json!({"http": {"service": {"name": "handler"}}});
    resource(
        "ConsumerGroup",
        name,
        json!({"streamRef": {"name": "orders"}, "handler": handler}),
        spec,
    )
}

/// A resource whose spec is `base` with the keys of `spec` put over it.
fn resource(kind: &str, name: &str, mut base: Value, spec: Value) -> Value {
    let base_spec = base.as_object_mut().expect("an object");
    base_spec.extend(spec.as_object().expect("an object").clone());
    json!({"apiVersion": "sqlstreams.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": base})
}
