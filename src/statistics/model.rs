//! What is known of one installation.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use crate::database::statistics::{Counters, GroupCounters, Progress, StreamFacts, StreamIdentity};
use crate::database::{GroupId, StreamId};

/// What is known of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupNumbers {
    /// Who it is, and its exception counters.
    pub counters: GroupCounters,
    /// How far it has come, once that was looked up.
    pub progress: Option<Progress>,
}

/// What is known of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamNumbers {
    /// Who it is.
    pub identity: StreamIdentity,
    /// What it takes and keeps, once that was looked up.
    pub facts: Option<StreamFacts>,
    /// The greatest id that was drawn for a message, once that was looked up.
    pub last_id: Option<i64>,
}

/// All streams and groups of an installation, as last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    streams: BTreeMap<StreamId, StreamNumbers>,
    groups: BTreeMap<GroupId, GroupNumbers>,
    at: Timestamp,
}

/// What a look at the counters brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Groups that are new or changed.
    pub groups: BTreeSet<GroupId>,
    /// Streams that are new.
    pub new_streams: BTreeSet<StreamId>,
    /// Streams that are new or changed, those with changed, new or lost groups included.
    pub streams: BTreeSet<StreamId>,
}

impl Model {
    /// Takes the counters in, and forgets what is gone.
    pub fn counted(&mut self, counters: Counters) -> News {
        let mut news = News::default();
        if let Some(at) = counters.at {
            self.at = at;
        }
        let mut streams = std::mem::take(&mut self.streams);
        for identity in counters.streams {
            let id = identity.id;
            let old = streams.remove(&id);
            if old.is_none() {
                news.new_streams.insert(id);
            }
            if old.as_ref().is_none_or(|old| old.identity != identity) {
                news.streams.insert(id);
            }
            let facts = old.as_ref().and_then(|old| old.facts);
            let last_id = old.and_then(|old| old.last_id);
            self.streams.insert(
                id,
                StreamNumbers {
                    identity,
                    facts,
                    last_id,
                },
            );
        }
        let mut groups = std::mem::take(&mut self.groups);
        for counters in counters.groups {
            let id = counters.id;
            let old = groups.remove(&id);
            if old.as_ref().is_none_or(|old| old.counters != counters) {
                news.groups.insert(id);
                news.streams.insert(counters.stream);
            }
            let progress = old.and_then(|old| old.progress);
            self.groups.insert(id, GroupNumbers { counters, progress });
        }
        news.streams.extend(groups.values().map(|lost| lost.counters.stream));
        news
    }

    /// Takes in how far groups have come; returns the streams that are concerned.
    pub fn progressed(&mut self, progress: Vec<(GroupId, Progress)>) -> BTreeSet<StreamId> {
        let mut streams = BTreeSet::new();
        for (id, progress) in progress {
            if let Some(group) = self.groups.get_mut(&id) {
                group.progress = Some(progress);
                streams.insert(group.counters.stream);
            }
        }
        streams
    }

    /// Takes in what streams take and keep.
    pub fn found(&mut self, facts: Vec<(StreamId, StreamFacts)>) -> BTreeSet<StreamId> {
        let mut streams = BTreeSet::new();
        for (id, facts) in facts {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.facts = Some(facts);
                streams.insert(id);
            }
        }
        streams
    }

    /// Takes in the greatest id that was drawn for each stream.
    pub fn drew(&mut self, last_ids: &[(StreamId, i64)]) {
        for (id, last) in last_ids {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.last_id = Some(*last);
            }
        }
    }

    /// Groups whose progress may have moved since it was looked up, although their counters did
    /// not. A group that has finished the very last id that was drawn, and retries nothing, stays
    /// where it is until another id is drawn: none below can still appear, since groups do not
    /// pass an id that is not final.
    pub fn restless(&self) -> impl Iterator<Item = GroupId> {
        let settled = |group: &GroupNumbers| {
            let last_id = self.stream(group.counters.stream).and_then(|stream| stream.last_id);
            group.counters.exceptions.retrying() == 0
                && group.progress.is_some_and(|progress| {
                    progress.lag() == 0
                        && progress.committed == progress.claimed
                        && progress.claimed == progress.head
                        && last_id == Some(progress.head)
                })
        };
        self.groups()
            .filter(move |group| !settled(group))
            .map(|group| group.counters.id)
    }

    /// Every stream.
    pub fn streams(&self) -> impl Iterator<Item = &StreamNumbers> {
        self.streams.values()
    }

    /// Every group.
    pub fn groups(&self) -> impl Iterator<Item = &GroupNumbers> {
        self.groups.values()
    }

    /// One stream.
    #[must_use]
    pub fn stream(&self, id: StreamId) -> Option<&StreamNumbers> {
        self.streams.get(&id)
    }

    /// One group.
    #[must_use]
    pub fn group(&self, id: GroupId) -> Option<&GroupNumbers> {
        self.groups.get(&id)
    }

    /// The database's clock when it was last asked.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.at
    }
}
