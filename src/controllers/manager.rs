//! All controllers, and what wakes them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::context::{Context, Image};
use super::metrics::Metrics;
use super::reconcile::{Guarded, controller, run, scoped};
use super::stream::database_key;
use crate::api::conditions::READY;
use crate::api::{ConsumerGroup, Stream, StreamDatabase};

/// Why the operator cannot start.
#[derive(Debug, Error)]
pub enum ManagerError {
    /// kube-system cannot be read.
    #[error(
        "the cluster has no id: namespace kube-system cannot be read ({0}); allow it, or pass --cluster-id with a text that \
         no other cluster uses which shares a database with this one"
    )]
    ClusterId(String),
}

/// What tells this cluster from all others: the UID of its kube-system namespace, which lives as
/// long as the cluster does.
///
/// # Errors
/// When it cannot be read.
pub async fn cluster_id(client: &Client) -> Result<String, ManagerError> {
    let namespace = Api::<Namespace>::all(client.clone()).get("kube-system").await;
    let namespace = namespace.map_err(|error| ManagerError::ClusterId(error.to_string()))?;
    namespace
        .uid()
        .ok_or_else(|| ManagerError::ClusterId("it has no UID".into()))
}

/// The operator: the controllers of all kinds.
pub struct Manager {
    context: Arc<Context>,
    namespaces: Vec<Option<String>>,
}

impl Manager {
    /// An operator of the whole cluster, or of the given namespaces alone, whose numbers are added
    /// to `registry`.
    #[must_use]
    pub fn new(
        client: Client,
        cluster_id: String,
        image: Image,
        namespaces: Vec<String>,
        registry: &mut Registry,
    ) -> Self {
        let metrics = Metrics::register(registry);
        let statistics = crate::statistics::Metrics::register(registry);
        let namespaces = if namespaces.is_empty() {
            vec![None]
        } else {
            namespaces.into_iter().map(Some).collect()
        };
        Self {
            context: Arc::new(Context::new(client, cluster_id, image, metrics, statistics)),
            namespaces,
        }
    }

    /// Runs until `stop` is cancelled; reconciles that are under way then are finished.
    pub async fn run(self, stop: CancellationToken) {
        let scopes = self.namespaces.iter().map(|namespace| {
            let (context, namespace, stop) = (&self.context, namespace.as_deref(), &stop);
            async move {
                tokio::join!(
                    databases(context, namespace, stop.clone()),
                    streams(context, namespace, stop.clone()),
                    groups(context, namespace, stop.clone())
                );
            }
        });
        join_all(scopes).await;
    }
}

/// Databases that are to go look again when a stream is gone.
async fn databases(context: &Arc<Context>, namespace: Option<&str>, stop: CancellationToken) {
    let (controller, store) = controller::<StreamDatabase>(context, namespace);
    let streams = watcher(scoped::<Stream>(context, namespace), watcher::Config::default())
        .default_backoff()
        .touched_objects();
    let controller = controller.watches_stream(streams, move |stream| {
        of(&store, |database: &StreamDatabase| {
            is_going(database)
                && database.namespace() == stream.namespace()
                && stream
                    .0
                    .as_ref()
                    .is_ok_and(|stream| stream.spec.database_ref.name == database.name_any())
        })
    });
    run(controller, Arc::clone(context), stop).await;
}

/// Streams look again when their database turned ready, or not; those that are to go, when a group
/// is gone.
async fn streams(context: &Arc<Context>, namespace: Option<&str>, stop: CancellationToken) {
    let (controller, store) = controller::<Stream>(context, namespace);
    let databases = watcher(scoped::<StreamDatabase>(context, namespace), watcher::Config::default())
        .default_backoff()
        .touched_objects()
        .predicate_filter(
            |database: &Guarded<StreamDatabase>| {
                let database = database.0.as_ref().ok()?;
                let conditions = database.status.as_ref().map(|status| status.conditions.as_slice());
                Some(fingerprint(&(database.metadata.generation, ready(conditions))))
            },
            kube::runtime::PredicateConfig::default(),
        );
    let groups = watcher(scoped::<ConsumerGroup>(context, namespace), watcher::Config::default())
        .default_backoff()
        .touched_objects();
    let going = store.clone();
    let controller = controller
        .owns(child_api::<CronJob>(context, namespace), watcher::Config::default())
        .watches_stream(groups, move |group| {
            of(&going, |stream: &Stream| {
                is_going(stream)
                    && stream.namespace() == group.namespace()
                    && group
                        .0
                        .as_ref()
                        .is_ok_and(|group| group.spec.stream_ref.name == stream.name_any())
            })
        })
        .watches_stream(databases, move |database| {
            of(&store, |stream: &Stream| {
                stream.spec.database_ref.name == database.name_any() && stream.namespace() == database.namespace()
            })
        });
    run(controller, Arc::clone(context), stop).await;
}

/// Groups look again when their stream turned ready, or not, or its defaults changed, and when
/// their workers change.
async fn groups(context: &Arc<Context>, namespace: Option<&str>, stop: CancellationToken) {
    let (controller, store) = controller::<ConsumerGroup>(context, namespace);
    let streams = watcher(scoped::<Stream>(context, namespace), watcher::Config::default())
        .default_backoff()
        .touched_objects()
        .predicate_filter(
            |stream: &Guarded<Stream>| {
                let stream = stream.0.as_ref().ok()?;
                let status = stream.status.as_ref();
                let conditions = status.map(|status| status.conditions.as_slice());
                let id = status.and_then(|status| status.stream_id);
                let database = database_key(stream);
                Some(fingerprint(&(
                    stream.metadata.generation,
                    id,
                    ready(conditions),
                    database,
                )))
            },
            kube::runtime::PredicateConfig::default(),
        );
    let controller = controller
        .owns(child_api::<Deployment>(context, namespace), watcher::Config::default())
        .owns(
            child_api::<ServiceAccount>(context, namespace),
            watcher::Config::default(),
        )
        .watches_stream(streams, move |stream| {
            of(&store, |group: &ConsumerGroup| {
                group.spec.stream_ref.name == stream.name_any() && group.namespace() == stream.namespace()
            })
        });
    run(controller, Arc::clone(context), stop).await;
}

fn child_api<K>(context: &Context, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    }
}

/// The objects of a store that a change concerns.
fn of<K>(store: &Store<Guarded<K>>, concerned: impl Fn(&K) -> bool) -> Vec<ObjectRef<Guarded<K>>>
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    let objects = store.state();
    let concerned = objects.iter().filter(|object| object.0.as_ref().is_ok_and(&concerned));
    concerned.map(|object| ObjectRef::from_obj(object.as_ref())).collect()
}

fn is_going<K: ResourceExt>(resource: &K) -> bool {
    resource.meta().deletion_timestamp.is_some()
}

fn ready(conditions: Option<&[Condition]>) -> Option<(&str, &str)> {
    let ready = conditions?.iter().find(|condition| condition.type_ == READY)?;
    Some((&ready.status, &ready.reason))
}

fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
