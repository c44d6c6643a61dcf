//! The calls to the API server.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde_json::Value;

use super::super::status::{Resource, apply_body};
use super::entry::Job;
use crate::api::{GROUP, VERSION};

/// The field manager of the numbers; the controllers have another.
const FIELD_MANAGER: &str = "sqlstreams-statistics";
/// How long one call may take.
const TIME_LIMIT: Duration = Duration::from_secs(15);

/// How a call ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The resource as it is.
    Read { version: String, status: Value },
    /// The status was written; the version of the resource since.
    Written(String),
    /// The event was sent.
    Sent,
    /// Somebody else has changed the resource since it was seen.
    Outdated,
    /// The resource is not there, or another one has its name.
    Lost,
    /// It failed otherwise.
    Failed(String),
}

#[derive(Clone)]
pub(super) struct Calls {
    client: kube::Client,
}

impl Calls {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// Makes the call and gives back what it was made for.
    pub(super) async fn make(self, resource: Resource, job: Job) -> (Resource, Job, Outcome) {
        let result = tokio::time::timeout(TIME_LIMIT, async {
            match &job {
                Job::Read => self.read(&resource).await,
                Job::Write {
                    version,
                    numbers,
                    condition,
                } => {
                    let body = apply_body(&resource, version, numbers, condition.as_ref());
                    self.write(&resource, &body).await
                }
                Job::Event(count) => self.event(&resource, *count).await,
            }
        })
        .await;
        let outcome = match result {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Outcome::Lost,
            // A forced apply meets no other conflict than over the version.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Outcome::Outdated,
            Ok(Err(error)) => Outcome::Failed(error.to_string()),
            Err(_) => Outcome::Failed("the API server does not answer".into()),
        };
        (resource, job, outcome)
    }

    fn api(&self, resource: &Resource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &resource.namespace, &resource.kind.api_resource())
    }

    async fn read(&self, resource: &Resource) -> Result<Outcome, kube::Error> {
        Ok(match self.api(resource).get_opt(&resource.name).await? {
            Some(object) if object.metadata.uid.as_deref() == Some(&resource.uid.to_string()) => Outcome::Read {
                version: object.metadata.resource_version.unwrap_or_default(),
                status: object.data.get("status").cloned().unwrap_or_default(),
            },
            _ => Outcome::Lost,
        })
    }

    async fn write(&self, resource: &Resource, body: &Value) -> Result<Outcome, kube::Error> {
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let object = self
            .api(resource)
            .patch_status(&resource.name, &parameters, &Patch::Apply(body))
            .await?;
        Ok(Outcome::Written(object.metadata.resource_version.unwrap_or_default()))
    }

    async fn event(&self, resource: &Resource, count: i64) -> Result<Outcome, kube::Error> {
        let event = Event {
            type_: EventType::Warning,
            reason: "DeadLettered".into(),
            note: Some(match count {
                1 => "1 message became a dead letter".into(),
                _ => format!("{count} messages became dead letters"),
            }),
            action: "Deliver".into(),
            secondary: None,
        };
        let reference = ObjectReference {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some(resource.kind.name().into()),
            namespace: Some(resource.namespace.clone()),
            name: Some(resource.name.clone()),
            uid: Some(resource.uid.to_string()),
            ..ObjectReference::default()
        };
        // A recorder that is kept would count this one as another of the last, with the last's note.
        Recorder::new(self.client.clone(), Reporter::from("sqlstreams"))
            .publish(&event, &reference)
            .await?;
        Ok(Outcome::Sent)
    }
}
