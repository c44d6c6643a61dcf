//! The ServiceAccount and the Deployment of the workers. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, PodSpec, PodTemplateSpec,
    Probe, ServiceAccount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Resource, ResourceExt};

use super::handlers::{self, some};
use super::validate::{Valid, WORKER_PORT};
use crate::api::{ConsumerGroup, Duration, Stream, StreamDatabase, WorkerSettings};
use crate::controllers::context::Image;
use crate::controllers::names::child_name;
use crate::controllers::pods;

/// The labels of a Deployment's pods end up in names that are bounded so.
const DEPLOYMENT_NAME: usize = 52;
/// How much longer Kubernetes waits for a pod than the worker says it takes.
const GRACE_MARGIN_SECONDS: i64 = 15;
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
const DEFAULT_LEASE: Duration = Duration::from_secs(15);
const DEFAULT_CONNECTIONS: u32 = 4;

/// What runs for a group.
pub(super) struct Workers {
    /// None where the resource names one of its own.
    pub(super) service_account: Option<ServiceAccount>,
    pub(super) deployment: Deployment,
}

/// The name of the Deployment and of the ServiceAccount.
pub(super) fn name(group: &ConsumerGroup) -> String {
    child_name(&group.name_any(), "worker", DEPLOYMENT_NAME)
}

/// How many workers are asked for.
pub(super) fn replicas(group: &ConsumerGroup) -> i32 {
    if group.spec.suspend { 0 } else { group.spec.replicas }
}

/// The label selector of the pods, as text.
pub(super) fn selector(group: &ConsumerGroup) -> String {
    let labels: Vec<_> = selector_labels(group)
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.join(",")
}

fn selector_labels(group: &ConsumerGroup) -> BTreeMap<String, String> {
    let mut labels = pods::labels(group, "worker");
    labels.retain(|key, _| key != "app.kubernetes.io/managed-by");
    labels
}

/// What the workers of a group need to know.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) group: &'a ConsumerGroup,
    pub(super) stream: &'a Stream,
    pub(super) database: &'a StreamDatabase,
    pub(super) valid: &'a Valid,
    pub(super) image: &'a Image,
}

/// All that runs for the group.
pub(super) fn workers(plan: Plan<'_>) -> Workers {
    let group = plan.group;
    let metadata = ObjectMeta {
        name: Some(name(group)),
        namespace: group.namespace(),
        labels: Some(pods::labels(group, "worker")),
        owner_references: group.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    let own_account = ServiceAccount {
        metadata: metadata.clone(),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    };
    Workers {
        service_account: group.spec.worker.service_account_name.is_none().then_some(own_account),
        deployment: Deployment {
            metadata,
            spec: Some(DeploymentSpec {
                replicas: Some(replicas(group)),
                selector: LabelSelector {
                    match_labels: Some(selector_labels(group)),
                    match_expressions: None,
                },
                template: pod(plan),
                ..DeploymentSpec::default()
            }),
            status: None,
        },
    }
}

fn pod(plan: Plan<'_>) -> PodTemplateSpec {
    let Plan {
        group,
        stream,
        database,
        valid,
        image,
    } = plan;
    let WorkerSettings {
        resources,
        grace_period,
        lease,
        connections,
        service_account_name,
        image_pull_secrets,
        pod_labels,
        pod_annotations,
        node_selector,
        tolerations,
        affinity,
        topology_spread_constraints,
        volumes: handler_volumes,
    } = group.spec.worker.clone();
    let secret = database
        .spec
        .worker_secret_ref
        .as_ref()
        .unwrap_or(&database.spec.secret_ref);
    let access = pods::database_access(database, &secret.name);
    let grace = grace_period.unwrap_or(DEFAULT_GRACE);

    let mut arguments = access.arguments;
    arguments.push(format!("--stream={}", stream.stream_name()));
    arguments.push(format!("--group={}", group.group_name()));
    let source = format!(
        "/namespaces/{}/streams/{}",
        group.namespace().unwrap_or_default(),
        stream.name_any()
    );
    arguments.extend(handlers::arguments(&group.spec.handler, &source));
    arguments.push(format!("--concurrency={}", group.spec.concurrency));
    arguments.extend(retry_arguments(valid));
    arguments.push(format!("--lease={}", lease.unwrap_or(DEFAULT_LEASE)));
    arguments.push(format!("--grace-period={grace}"));
    arguments.push(format!("--connections={}", connections.unwrap_or(DEFAULT_CONNECTIONS)));

    let own = match &group.spec.handler.sdk {
        Some(program) => handlers::as_worker(program.clone(), arguments, access.mounts),
        None => {
            arguments.insert(0, "worker".into());
            pods::own_container("worker", image, arguments, access.mounts)
        }
    };
    let mut containers = vec![Container {
        env: Some(own.env.into_iter().flatten().chain([pod_name()]).collect()),
        ports: Some(vec![ContainerPort {
            name: Some("http".into()),
            container_port: i32::from(WORKER_PORT),
            ..ContainerPort::default()
        }]),
        liveness_probe: Some(probe("/healthz", 10, 3)),
        readiness_probe: Some(probe("/readyz", 2, 2)),
        resources: resources.or(own.resources),
        ..own
    }];
    containers.extend(group.spec.handler.container.clone().map(handlers::beside_worker));

    let mut labels = pod_labels;
    labels.extend(pods::labels(group, "worker"));
    let mut volumes = access.volumes;
    volumes.extend(handler_volumes);
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: some(pod_annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            service_account_name: Some(service_account_name.unwrap_or_else(|| name(group))),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            security_context: Some(pods::restricted_pod()),
            termination_grace_period_seconds: Some(seconds(grace).saturating_add(GRACE_MARGIN_SECONDS)),
            containers,
            volumes: Some(volumes),
            image_pull_secrets: some(image_pull_secrets),
            node_selector: some(node_selector),
            tolerations: some(tolerations),
            affinity,
            topology_spread_constraints: some(topology_spread_constraints),
            ..PodSpec::default()
        }),
    }
}

fn retry_arguments(valid: &Valid) -> [String; 5] {
    let retry = &valid.retry;
    let jitter = clap::ValueEnum::to_possible_value(&retry.jitter);
    [
        format!("--max-retries={}", retry.max_retries),
        format!("--initial-delay={}", Duration::from(retry.initial_delay)),
        format!("--max-delay={}", Duration::from(retry.max_delay)),
        format!("--factor={}", retry.factor),
        format!(
            "--jitter={}",
            jitter.as_ref().map_or("full", |jitter| jitter.get_name())
        ),
    ]
}

fn pod_name() -> EnvVar {
    EnvVar {
        name: "SQLSTREAMS_INSTANCE_NAME".into(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".into()),
                field_path: "metadata.name".into(),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn probe(path: &str, period_seconds: i32, failure_threshold: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::String("http".into()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        failure_threshold: Some(failure_threshold),
        ..Probe::default()
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(std::time::Duration::from(duration).as_secs()).unwrap_or(i64::MAX)
}
