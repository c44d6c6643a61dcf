//! What every reconcile has at hand.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use k8s_openapi::api::core::v1::Secret;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource, ResourceExt};
use uuid::Uuid;

use super::databases::Databases;
use super::error::Problem;
use super::requeue::Failures;
use crate::api::TAKE_OVER_ANNOTATION;
use crate::database::ownership::Owner;

/// The name under which the operator applies fields and reports Events.
pub(crate) const MANAGER: &str = "sqlstreams";

/// What the pods that the operator makes run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Reference of the image that holds this same program.
    pub reference: String,
    /// `Always`, `IfNotPresent`, `Never`, or Kubernetes' own choice.
    pub pull_policy: Option<String>,
}

/// What every reconcile has at hand.
pub(crate) struct Context {
    pub(crate) client: Client,
    /// Tells this cluster from others that use the same database.
    pub(crate) cluster_id: String,
    pub(crate) image: Image,
    pub(crate) databases: Databases,
    pub(crate) failures: Failures,
    pub(crate) metrics: super::metrics::Metrics,
    pub(crate) statistics: crate::statistics::Metrics,
    recorder: Recorder,
}

impl Context {
    pub(crate) fn new(
        client: Client,
        cluster_id: String,
        image: Image,
        metrics: super::metrics::Metrics,
        statistics: crate::statistics::Metrics,
    ) -> Self {
        let reporter = Reporter {
            controller: "sqlstreams.io/operator".into(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            cluster_id,
            image,
            databases: Databases::default(),
            failures: Failures::default(),
            metrics,
            statistics,
        }
    }

    /// Reports an Event. One that cannot be written is not worth failing for.
    pub(crate) async fn report<K>(&self, resource: &K, warning: bool, reason: &str, action: &str, note: String)
    where
        K: Resource<DynamicType = ()>,
    {
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.into(),
            note: Some(note.chars().take(1000).collect()),
            action: action.into(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &resource.object_ref(&())).await {
            tracing::debug!(%error, "an Event was not written");
        }
    }
}

/// The resource as an owner of things in Postgres.
pub(crate) fn owner<K: ResourceExt>(resource: &K, cluster_id: &str) -> Result<Owner, Problem> {
    let uid = resource.uid().unwrap_or_default();
    Ok(Owner {
        uid: Uuid::from_str(&uid).map_err(|_| Problem::Undecodable("metadata.uid is no UUID".into()))?,
        reference: format!("{}/{}", resource.namespace().unwrap_or_default(), resource.name_any()),
        cluster_id: cluster_id.into(),
    })
}

/// The lost owner that the resource may take over from.
pub(crate) fn take_over_from<K: ResourceExt>(resource: &K) -> Result<Option<Uuid>, Problem> {
    resource
        .annotations()
        .get(TAKE_OVER_ANNOTATION)
        .map(|uid| {
            Uuid::from_str(uid).map_err(|_| {
                Problem::invalid(format!(
                    "the annotation {TAKE_OVER_ANNOTATION} must be the UID of the lost owner"
                ))
            })
        })
        .transpose()
}

/// The keys of a Secret, and its version.
pub(crate) async fn read_secret(
    client: &Client,
    namespace: &str,
    name: &str,
    condition: &'static str,
) -> Result<(BTreeMap<String, Vec<u8>>, String), Problem> {
    let secret = Api::<Secret>::namespaced(client.clone(), namespace)
        .get_opt(name)
        .await?
        .ok_or_else(|| Problem::Reported {
            condition,
            reason: "SecretNotFound",
            message: format!("Secret {name} does not exist in namespace {namespace}; create it or correct its name"),
        })?;
    let version = format!(
        "{}/{}",
        secret.uid().unwrap_or_default(),
        secret.resource_version().unwrap_or_default()
    );
    let keys = secret
        .data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect();
    Ok((keys, version))
}
