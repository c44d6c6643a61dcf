//! What is the same for every kind: a reconcile from outside.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Patch, PatchParams};
use kube::core::DeserializeGuard;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, predicates, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::context::{Context, MANAGER};
use super::error::Problem;
use crate::api::{ABANDON_ANNOTATION, FINALIZER, PAUSE_ANNOTATION};

/// The longest that one reconcile may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Reconciles of one kind that run at once.
const CONCURRENCY: u16 = 8;

/// A watched object, which may be one that cannot be decoded: that must not stop the others.
pub(crate) type Guarded<K> = DeserializeGuard<K>;

/// A kind that the operator reconciles.
pub(crate) trait Managed:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// For logs and metric labels.
    const KIND: &'static str;

    /// When a resource that is as it should be is looked at again, for drift that no watch tells of.
    const RESYNC: Duration;

    /// Makes the world as the resource asks, and writes its status, also where that fails.
    fn reconcile(&self, context: &Context) -> impl Future<Output = Result<(), Problem>> + Send;

    /// Deals with what the resource stands for before it goes.
    fn clean_up(&self, context: &Context) -> impl Future<Output = Result<(), Problem>> + Send;

    /// Writes why the clean-up waits.
    fn report_clean_up(&self, context: &Context, problem: &Problem)
    -> impl Future<Output = Result<(), Problem>> + Send;
}

/// Whose changes are looked at: all namespaces, or one.
pub(crate) fn scoped<K>(context: &Context, namespace: Option<&str>) -> Api<Guarded<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    }
}

/// A controller of the kind that does not wake at its own writes to status, and the objects that
/// it has seen.
pub(crate) fn controller<K: Managed>(
    context: &Context,
    namespace: Option<&str>,
) -> (Controller<Guarded<K>>, Store<Guarded<K>>) {
    let (store, writer) = reflector::store();
    let changes = watcher(scoped::<K>(context, namespace), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(
            kube::runtime::Predicate::combine(
                kube::runtime::Predicate::combine(predicates::generation, predicates::finalizers),
                predicates::annotations,
            ),
            kube::runtime::PredicateConfig::default(),
        );
    let config = kube::runtime::controller::Config::default()
        .concurrency(CONCURRENCY)
        .debounce(Duration::from_millis(50));
    (
        Controller::for_stream(changes, store.clone()).with_config(config),
        store,
    )
}

/// Runs the controller until it is told to stop; what is under way is finished.
pub(crate) async fn run<K: Managed>(
    controller: Controller<Guarded<K>>,
    context: Arc<Context>,
    stop: CancellationToken,
) {
    controller
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(
            |object, context| async move { outer(object, &context).await },
            |object, problem, context| context.failures.failed(&object.uid().unwrap_or_default(), problem),
            context,
        )
        .for_each(|result| async move {
            if let Err(kube::runtime::controller::Error::QueueError(error)) = result {
                tracing::warn!(kind = K::KIND, %error, "a watch was interrupted");
            }
        })
        .await;
}

async fn outer<K: Managed>(object: Arc<Guarded<K>>, context: &Context) -> Result<Action, Problem> {
    let started = Instant::now();
    let span = tracing::info_span!(
        "reconcile",
        kind = K::KIND,
        namespace = object.namespace().unwrap_or_default(),
        name = object.name_any()
    );
    let result = async {
        let resource = match &object.0 {
            Ok(resource) => resource,
            Err(invalid) => return Err(Problem::Undecodable(invalid.error.chars().take(300).collect())),
        };
        tokio::time::timeout(TIME_LIMIT, inner(resource, context))
            .await
            .unwrap_or(Err(Problem::TimedOut))
    }
    .instrument(span.clone())
    .await;
    let failed = result
        .as_ref()
        .err()
        .filter(|problem| !matches!(problem, Problem::Waiting(_)));
    context
        .metrics
        .observe(K::KIND, started.elapsed().as_secs_f64(), failed.map(Problem::reason));
    if let Some(problem) = failed {
        span.in_scope(|| tracing::warn!(reason = problem.reason(), "{problem}"));
    }
    result.map(|()| context.failures.succeeded(&object.uid().unwrap_or_default(), K::RESYNC))
}

async fn inner<K: Managed>(resource: &K, context: &Context) -> Result<(), Problem> {
    if is_set(resource, PAUSE_ANNOTATION) {
        return Ok(());
    }
    let finalized = resource.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    match (resource.meta().deletion_timestamp.is_some(), finalized) {
        (false, false) => {
            // Before anything is made, so that nothing is made that would not be cleaned up.
            let mut finalizers = resource.finalizers().to_vec();
            finalizers.push(FINALIZER.into());
            set_finalizers(resource, context, finalizers).await?;
            resource.reconcile(context).await
        }
        (false, true) => resource.reconcile(context).await,
        (true, true) => {
            if !is_set(resource, ABANDON_ANNOTATION)
                && let Err(problem) = resource.clean_up(context).await
            {
                resource.report_clean_up(context, &problem).await?;
                return Err(problem);
            }
            let mut finalizers = resource.finalizers().to_vec();
            finalizers.retain(|finalizer| finalizer != FINALIZER);
            set_finalizers(resource, context, finalizers).await
        }
        (true, false) => Ok(()),
    }
}

fn is_set<K: ResourceExt>(resource: &K, annotation: &str) -> bool {
    resource
        .annotations()
        .get(annotation)
        .is_some_and(|value| value == "true")
}

/// Writes the finalizers if nobody changed the resource meanwhile. One that is gone needs none.
async fn set_finalizers<K: Managed>(resource: &K, context: &Context, finalizers: Vec<String>) -> Result<(), Problem> {
    let api = Api::<K>::namespaced(context.client.clone(), &resource.namespace().unwrap_or_default());
    let patch = json!({ "metadata": {
        "resourceVersion": resource.resource_version(),
        "uid": resource.uid(),
        "finalizers": finalizers,
    }});
    let parameters = PatchParams {
        field_manager: Some(MANAGER.into()),
        ..PatchParams::default()
    };
    match api.patch(&resource.name_any(), &parameters, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        // The watch brings the newer one.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            Err(Problem::Waiting("the newest version of the resource"))
        }
        Err(error) => Err(error.into()),
    }
}
