//! ConsumerGroup: who is given the messages of a stream, and how hard it is tried.

use kube::{CustomResource, KubeSchema, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Adoption, ConsumerGroupStatus, DeletionPolicy, Handler, ObjectReference, Retry, WorkerSettings};

/// A group of workers that give every message of a stream to a handler. What one group does with
/// a message is its own affair: other groups neither see it nor wait for it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "sqlstreams.io",
    version = "v1alpha1",
    kind = "ConsumerGroup",
    plural = "consumergroups",
    shortname = "cg",
    category = "sqlstreams",
    namespaced,
    status = "ConsumerGroupStatus",
    derive = "PartialEq",
    doc = "A group of workers that give every message of a stream to a handler.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Stream", type_ = "string", json_path = ".spec.streamRef.name"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(
        name = "Lag",
        type_ = "integer",
        json_path = ".status.lag",
        description = "Messages that wait or are being handled for the first time"
    ),
    printcolumn(
        name = "Retrying",
        type_ = "integer",
        json_path = ".status.retrying",
        description = "Messages that failed and will be tried again"
    ),
    printcolumn(
        name = "Dead",
        type_ = "integer",
        json_path = ".status.dead",
        description = "Messages for which automatic retries have stopped"
    ),
    printcolumn(
        name = "Next Retry",
        type_ = "string",
        json_path = ".status.nextRetryTime",
        priority = "1"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.streamRef.name == oldSelf.streamRef.name").message("streamRef cannot be changed: create another ConsumerGroup instead").field_path(".streamRef"),
    validation = Rule::new("has(self.groupName) == has(oldSelf.groupName) && (!has(self.groupName) || self.groupName == oldSelf.groupName)").message("groupName cannot be changed: create another ConsumerGroup instead"),
    validation = Rule::new("self.startFrom == oldSelf.startFrom").message("startFrom counts only when the group is created and cannot be changed").field_path(".startFrom")
)]
pub struct ConsumerGroupSpec {
    /// Stream whose messages the group is given.
    pub stream_ref: ObjectReference,
    /// Name of the group in the database, unique in its stream; metadata.name where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[^\\s\\x00-\\x1f\\x7f]+$"))]
    pub group_name: Option<String>,
    /// The first message that the group is given. It counts only when the group is created in the
    /// database.
    #[serde(default)]
    pub start_from: StartFrom,
    /// Who is given the messages.
    pub handler: Handler,
    /// Workers that run at once.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// Messages that one worker has handled at once.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: u32,
    /// When a failed message is tried again.
    #[serde(default)]
    pub retry: Retry,
    /// The pods that deliver.
    #[serde(default)]
    pub worker: WorkerSettings,
    /// Stops delivery. Messages wait, and retention waits for them.
    #[serde(default)]
    pub suspend: bool,
    /// What becomes of the group's position and dead letters when this resource is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// What is done when a group of this name is there already.
    #[serde(default)]
    pub adoption: Adoption,
}

fn default_replicas() -> i32 {
    1
}

fn default_concurrency() -> u32 {
    10
}

/// A place in the stream by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum StartAt {
    /// The oldest message that is kept.
    Beginning,
    /// Messages published from now on.
    Latest,
}

/// The first message that a group is given: exactly one of the fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.at), has(self.messageId), has(self.time)].filter(x, x).size() == 1").message("startFrom needs exactly one of at, messageId and time"))]
pub struct StartFrom {
    /// A place by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<StartAt>,
    /// The message with this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub message_id: Option<i64>,
    /// The first message published at or after this time, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
}

impl Default for StartFrom {
    fn default() -> Self {
        Self {
            at: Some(StartAt::Beginning),
            message_id: None,
            time: None,
        }
    }
}

impl ConsumerGroup {
    /// The name of the group in the database.
    #[must_use]
    pub fn group_name(&self) -> String {
        self.spec.group_name.clone().unwrap_or_else(|| self.name_any())
    }
}
