//! What a run of the retention job tells: kept in `stream_config.retention_report`.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Blocker;

/// The most partitions that a report names.
const MAX_NAMED: usize = 100;

/// A partition of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedPartition {
    /// Name of the table.
    pub name: String,
    /// First id that it was for.
    pub low: i64,
    /// Last id that it was for.
    pub high: i64,
    /// Bytes on disk.
    pub size_bytes: i64,
}

/// A group that keeps expired messages from being dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// Name of the group.
    pub group: String,
    /// What it has not finished.
    pub reason: String,
    /// Since when runs have found the group in the way.
    pub since: Timestamp,
}

/// What a run did, and what kept it from doing more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// When the run began.
    pub ran_at: Timestamp,
    /// What was dropped, oldest first; the last 100.
    pub dropped: Vec<DroppedPartition>,
    /// Groups that keep the oldest expired partition.
    pub behind: Vec<Behind>,
    /// Whether an open transaction of a producer, or a dump, kept the lock that dropping needs.
    #[serde(default)]
    pub locked_out: bool,
    /// Rows removed that belonged to dropped messages, and expired idempotency keys.
    #[serde(default)]
    pub swept: i64,
}

impl Report {
    /// The report of a run that has done nothing yet.
    #[must_use]
    pub fn new(ran_at: Timestamp) -> Self {
        Self {
            ran_at,
            dropped: Vec::new(),
            behind: Vec::new(),
            locked_out: false,
            swept: 0,
        }
    }

    /// Notes who is in the way; since when, goes on from the report before for a group that was
    /// in the way then.
    pub fn block(&mut self, blockers: Vec<Blocker>, before: Option<&Self>) {
        self.behind = blockers
            .into_iter()
            .map(|Blocker { group, reason }| {
                let since = before
                    .and_then(|before| before.behind.iter().find(|behind| behind.group == group))
                    .map_or(self.ran_at, |behind| behind.since);
                Behind { group, reason, since }
            })
            .collect();
    }

    /// Notes a partition that was dropped.
    pub fn dropped(&mut self, partition: DroppedPartition) {
        if self.dropped.len() == MAX_NAMED {
            self.dropped.remove(0);
        }
        self.dropped.push(partition);
    }
}
