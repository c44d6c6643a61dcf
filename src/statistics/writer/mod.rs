//! Writes the numbers into the status of the resources.
//!
//! The controllers own the other fields of the status; each side applies its own with a field
//! manager of its own. So many calls at most are made at once, one at a time for each resource.

mod calls;
mod entry;

use std::collections::{BTreeSet, HashMap};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::status::{Resource, WantedStatus};
use calls::{Calls, Outcome};
use entry::{Entry, Job};

/// The most calls at once.
const MAX_CALLS: usize = 8;

/// What the writer is told.
#[derive(Debug)]
pub(super) enum Message {
    /// These resources should show this from now on.
    Wanted(Vec<WantedStatus>),
    /// These are no concern of the writer any more.
    Forget(Vec<Resource>),
}

/// Writes until the sender is dropped.
pub(super) async fn run(client: kube::Client, mut messages: mpsc::Receiver<Message>) {
    let mut writer = Writer {
        calls: Calls::new(client),
        entries: HashMap::new(),
        busy: BTreeSet::new(),
        schedule: BTreeSet::new(),
        scheduled: HashMap::new(),
    };
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < MAX_CALLS
            && let Some(call) = writer.next(Instant::now())
        {
            running.push(call);
        }
        // With every slot taken, only the end of a call can change anything.
        let wake = (running.len() < MAX_CALLS)
            .then(|| writer.schedule.first().map(|(at, _)| *at))
            .flatten();
        tokio::select! {
            message = messages.recv() => match message {
                Some(message) => writer.take(message),
                None => return,
            },
            Some((resource, job, outcome)) = running.next() => writer.finished(&resource, job, outcome),
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
        }
    }
}

struct Writer {
    calls: Calls,
    entries: HashMap<Resource, Entry>,
    /// Resources for which a call is being made.
    busy: BTreeSet<Resource>,
    /// The others that have something to do, by when.
    schedule: BTreeSet<(Instant, Resource)>,
    scheduled: HashMap<Resource, Instant>,
}

type Call = BoxFuture<'static, (Resource, Job, Outcome)>;

impl Writer {
    fn take(&mut self, message: Message) {
        match message {
            Message::Wanted(all) => {
                for wanted in all {
                    let resource = wanted.resource.clone();
                    match self.entries.get_mut(&resource) {
                        Some(entry) => entry.want(wanted),
                        None => {
                            self.entries.insert(resource.clone(), Entry::new(wanted));
                        }
                    }
                    self.plan(&resource);
                }
            }
            Message::Forget(all) => {
                for resource in all {
                    self.entries.remove(&resource);
                    self.plan(&resource);
                }
            }
        }
    }

    /// Puts the resource on the schedule, or takes it off.
    fn plan(&mut self, resource: &Resource) {
        if let Some(at) = self.scheduled.remove(resource) {
            self.schedule.remove(&(at, resource.clone()));
        }
        if !self.busy.contains(resource)
            && let Some(at) = self.entries.get(resource).and_then(|entry| entry.due(Instant::now()))
        {
            self.schedule.insert((at, resource.clone()));
            self.scheduled.insert(resource.clone(), at);
        }
    }

    /// The next call that is due.
    fn next(&mut self, now: Instant) -> Option<Call> {
        while self.schedule.first().is_some_and(|(at, _)| *at <= now) {
            let (_, resource) = self.schedule.pop_first()?;
            self.scheduled.remove(&resource);
            if let Some(job) = self
                .entries
                .get_mut(&resource)
                .and_then(|entry| entry.job(now, Timestamp::now()))
            {
                self.busy.insert(resource.clone());
                return Some(Box::pin(self.calls.clone().make(resource, job)));
            }
        }
        None
    }

    fn finished(&mut self, resource: &Resource, job: Job, outcome: Outcome) {
        self.busy.remove(resource);
        let now = Instant::now();
        if let Some(entry) = self.entries.get_mut(resource) {
            match (outcome, job) {
                (Outcome::Read { version, status }, _) => entry.has_read(version, &status),
                (Outcome::Written(version), Job::Write { numbers, condition, .. }) => {
                    entry.has_written(now, version, numbers, condition);
                }
                (Outcome::Written(_) | Outcome::Sent, _) => {}
                (Outcome::Outdated, _) => entry.outdated(),
                (Outcome::Lost, _) => {
                    debug!(%resource, "the resource is gone, its numbers are not written any more");
                    entry.lost();
                }
                (Outcome::Failed(error), Job::Event(_)) => warn!(%resource, %error, "an event could not be sent"),
                (Outcome::Failed(error), _) => {
                    if entry.failed(now) {
                        warn!(%resource, %error, "the status could not be written; trying again");
                    }
                }
            }
        }
        self.plan(resource);
    }
}
