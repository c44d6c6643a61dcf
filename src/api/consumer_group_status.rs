//! What the operator found of a ConsumerGroup.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Duration, Jitter};

/// What the operator found. Numbers are refreshed every few seconds where they change, and within
/// two seconds where there is a new dead letter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerGroupStatus {
    /// The generation of the spec that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, DatabaseReachable, Provisioned, WorkersAvailable and NoDeadLetters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Number that Postgres gave the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<i64>,
    /// Number that Postgres gave the group, for psql.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_id: Option<i64>,
    /// Worker pods that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Worker pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Label selector of the worker pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Messages that wait for the group or are being handled for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<i64>,
    /// Messages of these that a worker has claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inflight: Option<i64>,
    /// Messages that failed and will be tried again, those of a redrive included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying: Option<i64>,
    /// Messages for which automatic retries have stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<i64>,
    /// When the oldest of the retried messages failed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_unresolved_time: Option<Time>,
    /// When the next message is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_time: Option<Time>,
    /// The retry policy in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicyStatus>,
}

/// The retry policy in force, with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicyStatus {
    /// Retries after the first attempt.
    pub max_retries: u32,
    /// Ceiling of the delay before the first retry.
    pub initial_delay: Duration,
    /// The ceiling grows up to this.
    pub max_delay: Duration,
    /// What the ceiling is multiplied by for each further retry.
    pub factor: u32,
    /// How the delay is drawn from the ceiling.
    pub jitter: Jitter,
    /// What these mean for a message that keeps failing, in words.
    pub schedule: String,
}
