//! What the writer knows of one resource, and what is to be done about it next.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::super::pace::{Change, Pace};
use super::super::status::{Kind, Numbers, WantedStatus};

/// A call to make for a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Job {
    /// Read the resource, to learn what its status shows.
    Read,
    /// Write its status.
    Write {
        /// The version of the resource that was seen last.
        version: String,
        numbers: Numbers,
        condition: Option<Condition>,
    },
    /// Send an event: so many messages became dead letters.
    Event(i64),
}

/// One resource. Holds no clock and no client.
#[derive(Debug)]
pub(super) struct Entry {
    wanted: WantedStatus,
    /// The version of the resource that was seen last; `None` where it is to be read.
    version: Option<String>,
    written: Option<Numbers>,
    conditions: Vec<Condition>,
    /// Dead letters when they were last looked at; none known before the first read.
    dead_seen: Option<i64>,
    /// Dead letters that no event has told of yet.
    buried: i64,
    gone: bool,
    pace: Pace,
}

impl Entry {
    pub(super) fn new(wanted: WantedStatus) -> Self {
        Self {
            wanted,
            version: None,
            written: None,
            conditions: Vec::new(),
            dead_seen: None,
            buried: 0,
            gone: false,
            pace: Pace::default(),
        }
    }

    /// Takes in what the resource should show from now on.
    pub(super) fn want(&mut self, wanted: WantedStatus) {
        self.wanted = wanted;
        self.note_dead();
    }

    fn note_dead(&mut self) {
        if let Some(seen) = self.dead_seen
            && let Some(dead) = self.wanted.numbers.dead()
        {
            self.buried += (dead - seen).max(0);
            self.dead_seen = Some(dead);
        }
    }

    fn change(&self) -> Change {
        self.wanted.numbers.change_since(self.written.as_ref())
    }

    fn tells_events(&self) -> bool {
        self.wanted.resource.kind == Kind::ConsumerGroup && self.buried > 0
    }

    /// When there is something to do; `None` where there is not.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        if self.gone {
            None
        } else if self.version.is_none() {
            Some(self.pace.read_at(now))
        } else {
            let event = self.tells_events().then(|| self.pace.event_at(now));
            let write = self.pace.write_at(now, self.change());
            event.into_iter().chain(write).min()
        }
    }

    /// What to do now; the status before the event.
    pub(super) fn job(&mut self, now: Instant, time: Timestamp) -> Option<Job> {
        if self.gone {
            return None;
        }
        let Some(version) = &self.version else {
            return Some(Job::Read);
        };
        if self.pace.write_at(now, self.change()).is_some_and(|at| at <= now) {
            let condition = self.wanted.condition.as_ref();
            Some(Job::Write {
                version: version.clone(),
                numbers: self.wanted.numbers.clone(),
                condition: condition.map(|condition| condition.over(&self.conditions, None, time)),
            })
        } else if self.tells_events() && self.pace.event_at(now) <= now {
            self.pace.event_sent(now);
            Some(Job::Event(std::mem::take(&mut self.buried)))
        } else {
            None
        }
    }

    /// The status was read. What was written before a restart need not be written again.
    pub(super) fn has_read(&mut self, version: String, status: &Value) {
        self.pace.answered();
        self.version = Some(version);
        self.conditions = serde_json::from_value(status["conditions"].clone()).unwrap_or_default();
        let numbers = Numbers::read(self.wanted.resource.kind, status);
        if self.dead_seen.is_none() {
            self.dead_seen = Some(numbers.dead().unwrap_or(0));
            self.note_dead();
        }
        let condition_holds = self.wanted.condition.as_ref().is_none_or(|wanted| {
            let fresh = wanted.over(&self.conditions, None, Timestamp::UNIX_EPOCH);
            self.conditions.contains(&fresh)
        });
        self.written = (condition_holds || numbers != self.wanted.numbers).then_some(numbers);
    }

    /// The status was written.
    pub(super) fn has_written(
        &mut self,
        now: Instant,
        version: String,
        numbers: Numbers,
        condition: Option<Condition>,
    ) {
        self.pace.written(now);
        self.version = Some(version);
        self.written = Some(numbers);
        self.conditions = condition.into_iter().collect();
    }

    /// Somebody else has changed the resource since it was seen.
    pub(super) fn outdated(&mut self) {
        self.version = None;
    }

    /// A call failed and is to be made again. Returns whether it is the first one in a row.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        self.pace.failed(now)
    }

    /// The resource is not there any more, or another one has its name.
    pub(super) fn lost(&mut self) {
        self.gone = true;
    }
}
