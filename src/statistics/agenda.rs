//! What is to be asked of a database next. One thing at a time, and the counters come first: a new
//! dead letter must not wait behind a round through all groups.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::model::{Model, News};
use crate::database::{GroupId, StreamId};

/// How often the counters are read.
const COUNTERS: Duration = Duration::from_secs(1);
/// How often it is looked up whether a log needs more partitions.
const PARTITIONS: Duration = Duration::from_secs(1);
/// How often it is looked up how far the groups have come that are at work.
const PROGRESS: Duration = Duration::from_secs(5);
/// How often it is looked up how far every group has come, and what every stream takes and keeps.
const EVERYTHING: Duration = Duration::from_secs(60);
/// How many groups or streams are looked up at once.
const CHUNK: usize = 20;
/// A database that answers slowly is asked less often: at least this many times the time it took
/// passes between two looks at the counters.
const REST: u32 = 4;

/// Something to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the exception counters of all groups.
    Counters,
    /// Make partitions for the logs that have grown.
    Partitions,
    /// Look up how far these groups have come.
    Progress(Vec<GroupId>),
    /// Look up what these streams take and keep.
    Facts(Vec<StreamId>),
    /// Fold the rows of the counters.
    Compact,
    /// Nothing before this time.
    Wait(Instant),
}

/// The list of what is to be asked. Holds no clock: the time is handed in.
#[derive(Debug)]
pub struct Agenda {
    counters_at: Instant,
    partitions_at: Instant,
    progress_at: Instant,
    everything_at: Instant,
    compact: bool,
    changed: BTreeSet<GroupId>,
    groups: BTreeSet<GroupId>,
    streams: BTreeSet<StreamId>,
}

impl Agenda {
    /// Everything is to be asked at once.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            counters_at: now,
            partitions_at: now,
            progress_at: now,
            everything_at: now,
            compact: false,
            changed: BTreeSet::new(),
            groups: BTreeSet::new(),
            streams: BTreeSet::new(),
        }
    }

    /// What to do now. It counts as done: after a failure, the round comes again when it is due.
    pub fn next(&mut self, now: Instant) -> Action {
        if self.counters_at <= now {
            self.counters_at = now + COUNTERS;
            Action::Counters
        } else if self.partitions_at <= now {
            self.partitions_at = now + PARTITIONS;
            Action::Partitions
        } else if !self.changed.is_empty() {
            let chunk = take(&mut self.changed);
            for group in &chunk {
                self.groups.remove(group);
            }
            Action::Progress(chunk)
        } else if !self.groups.is_empty() {
            Action::Progress(take(&mut self.groups))
        } else if !self.streams.is_empty() {
            Action::Facts(take(&mut self.streams))
        } else if self.compact {
            self.compact = false;
            Action::Compact
        } else {
            Action::Wait(self.counters_at.min(self.partitions_at))
        }
    }

    /// The counters were read in the time since `began`.
    pub fn counted(&mut self, began: Instant, now: Instant, model: &Model, news: &News, compact: bool) {
        self.counters_at = (began + COUNTERS).max(now + REST * (now - began));
        self.compact |= compact;
        self.changed.extend(&news.groups);
        self.streams.extend(&news.new_streams);
        if self.progress_at <= now {
            self.progress_at = now + PROGRESS;
            self.groups.extend(model.restless());
        }
        if self.everything_at <= now {
            self.everything_at = now + EVERYTHING;
            self.groups.extend(model.groups().map(|group| group.counters.id));
            self.streams.extend(model.streams().map(|stream| stream.identity.id));
        }
    }

    /// It was looked up in the time since `began` whether logs need more partitions.
    pub fn topped_up(&mut self, began: Instant, now: Instant) {
        self.partitions_at = (began + PARTITIONS).max(now + REST * (now - began));
    }

    /// The database did not answer: nothing is asked before `until`, then everything.
    pub fn failed(&mut self, until: Instant) {
        *self = Self::new(until);
    }
}

fn take<T: Ord + Copy>(set: &mut BTreeSet<T>) -> Vec<T> {
    let chunk: Vec<T> = set.iter().copied().take(CHUNK).collect();
    for item in &chunk {
        set.remove(item);
    }
    chunk
}
