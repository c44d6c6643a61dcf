//! What the status of each resource should show, computed without a client.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::model::{GroupNumbers, Model};
use super::pace::Change;
use crate::api::conditions::{NO_DEAD_LETTERS, Wanted};
use crate::api::{ConsumerGroup, ConsumerGroupStatus, GROUP, GroupSummary, Stream, StreamStatus, VERSION};
use crate::database::ownership::Owner;
use crate::database::statistics::StreamFacts;
use crate::database::{Schema, StreamId};

/// The most lines for groups that a Stream shows.
const MAX_GROUPS: usize = 100;

/// The kinds that show numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A ConsumerGroup.
    ConsumerGroup,
    /// A Stream.
    Stream,
}

impl Kind {
    /// The kind as manifests name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ConsumerGroup => "ConsumerGroup",
            Self::Stream => "Stream",
        }
    }

    /// What the API server needs to know of it.
    #[must_use]
    pub fn api_resource(self) -> kube::api::ApiResource {
        match self {
            Self::ConsumerGroup => kube::api::ApiResource::erase::<ConsumerGroup>(&()),
            Self::Stream => kube::api::ApiResource::erase::<Stream>(&()),
        }
    }
}

/// One resource, and no other of the same name that comes after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: Uuid,
}

/// Whose resources are written to.
#[derive(Clone, Copy, Debug)]
pub struct Home<'a> {
    /// Id of the cluster.
    pub cluster: &'a str,
    /// Namespace of the StreamDatabase.
    pub namespace: &'a str,
}

impl Resource {
    /// The resource that an owner column names; `None` where it is not of this cluster and of the
    /// namespace of its StreamDatabase. Whoever owns the database can write anything there, and must
    /// reach nothing beyond his own namespace by it.
    #[must_use]
    pub fn of_owner(kind: Kind, owner: Option<&Owner>, home: Home<'_>) -> Option<Self> {
        let owner = owner.filter(|owner| owner.cluster_id == home.cluster)?;
        let (namespace, name) = owner
            .reference
            .split_once('/')
            .filter(|(namespace, _)| *namespace == home.namespace)?;
        Some(Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            uid: owner.uid,
        })
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind.name(), self.namespace, self.name)
    }
}

/// The part of a status that is numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Of a ConsumerGroup; every field that is not a number is empty.
    Group(Box<ConsumerGroupStatus>),
    /// Of a Stream, likewise.
    Stream(Box<StreamStatus>),
}

impl Numbers {
    /// The numbers out of a status as it is.
    #[must_use]
    pub fn read(kind: Kind, status: &Value) -> Self {
        match kind {
            Kind::ConsumerGroup => {
                let status: ConsumerGroupStatus = serde_json::from_value(status.clone()).unwrap_or_default();
                Self::Group(Box::new(ConsumerGroupStatus {
                    lag: status.lag,
                    inflight: status.inflight,
                    retrying: status.retrying,
                    dead: status.dead,
                    oldest_unresolved_time: status.oldest_unresolved_time,
                    next_retry_time: status.next_retry_time,
                    ..ConsumerGroupStatus::default()
                }))
            }
            Kind::Stream => {
                let status: StreamStatus = serde_json::from_value(status.clone()).unwrap_or_default();
                Self::Stream(Box::new(StreamStatus {
                    size: status.size,
                    oldest_message_time: status.oldest_message_time,
                    group_count: status.group_count,
                    retrying: status.retrying,
                    dead: status.dead,
                    groups: status.groups,
                    ..StreamStatus::default()
                }))
            }
        }
    }

    /// Dead letters; `None` where the status does not say.
    #[must_use]
    pub fn dead(&self) -> Option<i64> {
        match self {
            Self::Group(status) => status.dead,
            Self::Stream(status) => status.dead,
        }
    }

    /// How these differ from what was written; from nothing, where nothing was.
    #[must_use]
    pub fn change_since(&self, written: Option<&Self>) -> Change {
        match written {
            Some(written) if written == self => Change::Nothing,
            _ if self.dead() > written.and_then(Self::dead).or(Some(0)) => Change::MoreDead,
            _ => Change::Numbers,
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Group(status) => json!(status),
            Self::Stream(status) => json!(status),
        }
    }
}

/// What one resource should show.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedStatus {
    /// Which resource.
    pub resource: Resource,
    /// Its numbers.
    pub numbers: Numbers,
    /// Its condition about dead letters, where it has one.
    pub condition: Option<Wanted>,
}

/// What the resources of these streams and of their groups should show, as far as they are of this
/// cluster. What has not been looked up yet is left out.
#[must_use]
pub fn wanted(model: &Model, streams: &BTreeSet<StreamId>, home: Home<'_>, schema: &Schema) -> Vec<WantedStatus> {
    let mut all = Vec::new();
    let mut of_stream: Vec<Vec<&GroupNumbers>> = vec![Vec::new(); streams.len()];
    let order: Vec<StreamId> = streams.iter().copied().collect();
    for group in model.groups() {
        let Ok(place) = order.binary_search(&group.counters.stream) else {
            continue;
        };
        of_stream[place].push(group);
        if let Some(resource) = Resource::of_owner(Kind::ConsumerGroup, group.counters.owner.as_ref(), home)
            && let Some(numbers) = group_numbers(group)
        {
            all.push(WantedStatus {
                resource,
                numbers,
                condition: Some(no_dead_letters(group, schema)),
            });
        }
    }
    for (id, groups) in order.into_iter().zip(of_stream) {
        if let Some(stream) = model.stream(id)
            && let Some(resource) = Resource::of_owner(Kind::Stream, stream.identity.owner.as_ref(), home)
            && let Some(facts) = stream.facts
        {
            all.push(WantedStatus {
                resource,
                numbers: stream_numbers(facts, groups),
                condition: None,
            });
        }
    }
    all
}

/// The body of the server-side apply: the numbers, the condition, and nothing of other managers.
/// It counts only while the resource is as it was in `version`.
#[must_use]
pub fn apply_body(resource: &Resource, version: &str, numbers: &Numbers, condition: Option<&Condition>) -> Value {
    let mut status = numbers.to_value();
    if let Some(condition) = condition {
        status["conditions"] = json!([condition]);
    }
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": resource.kind.name(),
        // A UID here would not keep the API server from writing to another object of the same name:
        // it takes no notice of one in a status.
        "metadata": {
            "namespace": resource.namespace,
            "name": resource.name,
            "resourceVersion": version,
        },
        "status": status,
    })
}

fn group_numbers(group: &GroupNumbers) -> Option<Numbers> {
    let progress = group.progress?;
    let exceptions = group.counters.exceptions;
    Some(Numbers::Group(Box::new(ConsumerGroupStatus {
        lag: Some(progress.lag()),
        inflight: Some(progress.inflight),
        retrying: Some(exceptions.retrying()),
        dead: Some(exceptions.dead),
        oldest_unresolved_time: time(progress.oldest_unresolved_at),
        next_retry_time: time(progress.next_attempt_at),
        ..ConsumerGroupStatus::default()
    })))
}

fn no_dead_letters(group: &GroupNumbers, schema: &Schema) -> Wanted {
    let GroupNumbers { counters, .. } = group;
    match counters.exceptions.dead {
        0 => Wanted::holds(NO_DEAD_LETTERS, "NoDeadLetters", "No message of the group is dead."),
        dead => Wanted::fails(
            NO_DEAD_LETTERS,
            "DeadLetters",
            format!(
                "{dead} {} dead. To see why: SELECT error_fingerprint, count(*) FROM {schema}.exception_queue_{} \
                 WHERE consumer_group_id = {} AND status = 'dead' GROUP BY 1 ORDER BY 2 DESC",
                if dead == 1 { "message is" } else { "messages are" },
                counters.stream,
                counters.id,
            ),
        ),
    }
}

fn stream_numbers(facts: StreamFacts, mut groups: Vec<&GroupNumbers>) -> Numbers {
    groups.sort_by(|a, b| a.counters.name.cmp(&b.counters.name));
    let sum = |of: fn(&GroupNumbers) -> i64| Some(groups.iter().map(|group| of(group)).sum());
    Numbers::Stream(Box::new(StreamStatus {
        size: Some(human_size(facts.size_bytes)),
        oldest_message_time: time(facts.oldest_message_at),
        group_count: i64::try_from(groups.len()).ok(),
        retrying: sum(|group| group.counters.exceptions.retrying()),
        dead: sum(|group| group.counters.exceptions.dead),
        groups: groups
            .iter()
            .take(MAX_GROUPS)
            .map(|group| GroupSummary {
                name: group.counters.name.clone(),
                lag: group.progress.map_or(0, |progress| progress.lag()),
                retrying: group.counters.exceptions.retrying(),
                dead: group.counters.exceptions.dead,
            })
            .collect(),
        ..StreamStatus::default()
    }))
}

/// Whole seconds, as the API server keeps them: else what was read would never equal what is wanted.
fn time(at: Option<Timestamp>) -> Option<Time> {
    at.and_then(|at| Timestamp::from_second(at.as_second()).ok()).map(Time)
}

/// A size on disk for people, in binary units: `512 B`, `16.0 KiB`, `1.2 GiB`.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn human_size(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be rounded up to 1024.0 is 1.0 of the next unit.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}
