//! Stream: a log of messages and the jobs that look after it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Adoption, DeletionPolicy, Duration, ObjectReference, Retry};

/// A stream of messages: an append-only log in Postgres, from which each ConsumerGroup is given
/// every message.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "sqlstreams.io",
    version = "v1alpha1",
    kind = "Stream",
    plural = "streams",
    shortname = "stm",
    category = "sqlstreams",
    namespaced,
    status = "StreamStatus",
    derive = "PartialEq",
    doc = "A stream of messages in Postgres.",
    printcolumn(
        name = "Stream ID",
        type_ = "integer",
        json_path = ".status.streamId",
        description = "Number in the names of the stream's tables"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Size",
        type_ = "string",
        json_path = ".status.size",
        description = "Room on disk"
    ),
    printcolumn(
        name = "Oldest",
        type_ = "date",
        json_path = ".status.oldestMessageTime",
        description = "Age of the oldest message kept"
    ),
    printcolumn(name = "Retention", type_ = "string", json_path = ".spec.retention.ttl"),
    printcolumn(name = "Groups", type_ = "integer", json_path = ".status.groupCount"),
    printcolumn(
        name = "Dead",
        type_ = "integer",
        json_path = ".status.dead",
        description = "Dead letters of all groups"
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
    validation = Rule::new("self.databaseRef.name == oldSelf.databaseRef.name").message("databaseRef cannot be changed: a stream does not move between databases").field_path(".databaseRef"),
    validation = Rule::new("has(self.streamName) == has(oldSelf.streamName) && (!has(self.streamName) || self.streamName == oldSelf.streamName)").message("streamName cannot be changed: create another Stream instead"),
    validation = Rule::new("self.partitionSize == oldSelf.partitionSize").message("partitionSize cannot be changed: the partitions of the log are cut by it").field_path(".partitionSize")
)]
pub struct StreamSpec {
    /// StreamDatabase that holds the stream.
    pub database_ref: ObjectReference,
    /// Name of the stream in the database, where it is unique; metadata.name where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[^\\s\\x00-\\x1f\\x7f]+$"))]
    pub stream_name: Option<String>,
    /// Ids in one partition of the log. Retention drops whole partitions.
    #[serde(default = "default_partition_size")]
    #[schemars(range(min = 1000, max = 1_000_000_000))]
    pub partition_size: i64,
    /// How long messages are kept.
    #[serde(default)]
    pub retention: Retention,
    /// When failed messages are tried again, for groups that do not say so themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What becomes of the tables when this resource is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// What is done when a stream of this name is there already.
    #[serde(default)]
    pub adoption: Adoption,
}

fn default_partition_size() -> i64 {
    1_000_000
}

/// How long messages are kept, and who drops them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// Age at which messages may be dropped, in whole partitions, once every group has finished
    /// them. Messages are kept for ever where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("!self.matches('^(0+(ms|s|m|h|d))+$')").message("ttl must be longer than nothing; leave it out to keep messages for ever"))]
    pub ttl: Option<Duration>,
    /// When the retention job runs, as a cron schedule in UTC; once an hour, at a minute spread by
    /// the name of the stream, where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 100),
        regex(
            pattern = "^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,-]+( +[0-9A-Za-z*/,?-]+){4})$"
        )
    )]
    pub schedule: Option<String>,
    /// Also drop what a group has not finished.
    #[serde(default)]
    pub drop_unconsumed: bool,
    /// How long an idempotency key is remembered.
    #[serde(default = "default_idempotency_key_ttl", rename = "idempotencyKeyTTL")]
    pub idempotency_key_ttl: Duration,
}

fn default_idempotency_key_ttl() -> Duration {
    Duration::from_secs(24 * 3600)
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            ttl: None,
            schedule: None,
            drop_unconsumed: false,
            idempotency_key_ttl: default_idempotency_key_ttl(),
        }
    }
}

/// What the operator found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamStatus {
    /// The generation of the spec that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, DatabaseReachable, Provisioned and RetentionHealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Number that Postgres gave the stream: its tables are message_log_ID and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<i64>,
    /// The log, for psql: schema and table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_log: Option<String>,
    /// Room on disk of all tables of the stream, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// When the oldest message that is kept was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_message_time: Option<Time>,
    /// Groups of the stream in the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_count: Option<i64>,
    /// Messages being retried, of all groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying: Option<i64>,
    /// Dead letters of all groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<i64>,
    /// One line for each group, by name; the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[schemars(length(max = 100))]
    pub groups: Vec<GroupSummary>,
}

/// How one group stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupSummary {
    /// Name of the group in the database.
    pub name: String,
    /// Messages that wait for the group or are being handled for the first time.
    pub lag: i64,
    /// Messages that failed and will be tried again.
    pub retrying: i64,
    /// Dead letters.
    pub dead: i64,
}

impl Stream {
    /// The name of the stream in the database.
    #[must_use]
    pub fn stream_name(&self) -> String {
        self.spec.stream_name.clone().unwrap_or_else(|| self.name_any())
    }
}
