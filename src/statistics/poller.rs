//! Looks after the numbers of one database.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::agenda::{Action, Agenda};
use super::metrics::{DatabaseMetrics, Metrics};
use super::model::Model;
use super::status::{Home, Kind, Resource, WantedStatus, wanted};
use super::writer::{self, Message};
use crate::database::partitions::{self, Growth};
use crate::database::{Database, DatabaseError, GroupId, StreamId, statistics};

/// How long one question may take before the database counts as unreachable.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The pause after a first failure; doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Whose numbers are looked after, and for whom.
#[derive(Clone)]
pub struct Watched {
    /// The installation.
    pub database: Database,
    /// Namespace of the StreamDatabase, for metrics and the log.
    pub namespace: String,
    /// Name of the StreamDatabase, likewise.
    pub name: String,
    /// Only resources of this cluster are written to.
    pub cluster_id: String,
    /// The API server.
    pub client: kube::Client,
    /// Where gauges are set.
    pub metrics: Metrics,
}

impl Watched {
    fn home(&self) -> Home<'_> {
        Home {
            cluster: &self.cluster_id,
            namespace: &self.namespace,
        }
    }
}

/// Reads the numbers of one database, never more than one query at a time, and keeps status,
/// events and metrics up to date with them. Ends when cancelled; its gauges go away then. A
/// database that does not answer is logged once for each reason and asked again ever less often.
pub async fn watch(watched: Watched, cancel: CancellationToken) {
    let (sender, receiver) = mpsc::channel(16);
    let client = watched.client.clone();
    let poll = Poller::new(watched, sender).run();
    tokio::select! {
        () = cancel.cancelled() => {}
        ((), ()) = async { tokio::join!(poll, writer::run(client, receiver)) } => {}
    }
}

struct Poller {
    watched: Watched,
    gauges: DatabaseMetrics,
    model: Model,
    agenda: Agenda,
    sender: mpsc::Sender<Message>,
    growth: HashMap<StreamId, Growth>,
    /// What the writer was told last.
    told: HashMap<Resource, WantedStatus>,
    failures: u32,
    reason: Option<&'static str>,
}

impl Poller {
    fn new(watched: Watched, sender: mpsc::Sender<Message>) -> Self {
        Self {
            gauges: watched.metrics.database(&watched.namespace, &watched.name),
            watched,
            model: Model::default(),
            agenda: Agenda::new(Instant::now()),
            sender,
            growth: HashMap::new(),
            told: HashMap::new(),
            failures: 0,
            reason: None,
        }
    }

    async fn run(mut self) {
        loop {
            let action = self.agenda.next(Instant::now());
            if let Action::Wait(until) = action {
                tokio::time::sleep_until(until).await;
                continue;
            }
            let result = match tokio::time::timeout(TIME_LIMIT, self.ask(&action)).await {
                Ok(result) => result,
                Err(_) => Err(DatabaseError::Unreachable("no answer within the time limit".into())),
            };
            match result {
                Ok(streams) => {
                    self.answered();
                    self.tell(&streams).await;
                }
                Err(error) => self.failed(&error),
            }
        }
    }

    /// Puts one question and takes the answer in; returns the streams that are concerned.
    async fn ask(&mut self, action: &Action) -> Result<BTreeSet<StreamId>, DatabaseError> {
        let database = &self.watched.database;
        match action {
            Action::Counters => {
                let began = Instant::now();
                let counters = statistics::counters(database).await?;
                let compact = counters.wants_compaction();
                let news = self.model.counted(counters);
                self.agenda.counted(began, Instant::now(), &self.model, &news, compact);
                self.gauges.read();
                self.gauges.retain(|group| self.model.group(group).is_some());
                self.show(news.groups.iter().copied());
                Ok(news.streams)
            }
            Action::Partitions => {
                let began = Instant::now();
                self.top_up().await?;
                self.agenda.topped_up(began, Instant::now());
                Ok(BTreeSet::new())
            }
            Action::Progress(groups) => {
                let progress = statistics::progress(database, groups).await?;
                let streams = self.model.progressed(progress);
                self.show(groups.iter().copied());
                Ok(streams)
            }
            Action::Facts(streams) => {
                let facts = statistics::stream_facts(database, streams).await?;
                Ok(self.model.found(facts))
            }
            Action::Compact => {
                statistics::compact(database).await?;
                Ok(BTreeSet::new())
            }
            Action::Wait(_) => Ok(BTreeSet::new()),
        }
    }

    /// Workers make partitions too, but not every stream has one that runs.
    async fn top_up(&mut self) -> Result<(), DatabaseError> {
        let database = &self.watched.database;
        let last_ids = partitions::last_ids(database).await?;
        self.model.drew(&last_ids);
        let streams: BTreeSet<StreamId> = last_ids.iter().map(|(stream, _)| *stream).collect();
        self.growth.retain(|stream, _| streams.contains(stream));
        for (stream, id) in last_ids {
            let growth = self.growth.entry(stream).or_default();
            if growth.last_id() != Some(id) {
                let ahead = growth.ahead(id, Instant::now());
                partitions::ensure(database, stream, ahead).await?;
            }
        }
        Ok(())
    }

    fn show(&mut self, groups: impl Iterator<Item = GroupId>) {
        for id in groups {
            if let Some(group) = self.model.group(id)
                && let Some(stream) = self.model.stream(group.counters.stream)
            {
                self.gauges.set(&stream.identity.name, group, self.model.at());
            }
        }
    }

    /// Tells the writer what has changed.
    async fn tell(&mut self, streams: &BTreeSet<StreamId>) {
        if streams.is_empty() {
            return;
        }
        let mut changed = Vec::new();
        for wanted in wanted(&self.model, streams, self.watched.home(), &self.watched.database.schema) {
            if self.told.get(&wanted.resource) != Some(&wanted) {
                self.told.insert(wanted.resource.clone(), wanted.clone());
                changed.push(wanted);
            }
        }
        let gone = self.gone();
        // The writer ends only after this side.
        if !gone.is_empty() {
            let _ = self.sender.send(Message::Forget(gone)).await;
        }
        if !changed.is_empty() {
            let _ = self.sender.send(Message::Wanted(changed)).await;
        }
    }

    fn gone(&mut self) -> Vec<Resource> {
        let home = self.watched.home();
        let groups = self
            .model
            .groups()
            .filter_map(|group| Resource::of_owner(Kind::ConsumerGroup, group.counters.owner.as_ref(), home));
        let streams = self
            .model
            .streams()
            .filter_map(|stream| Resource::of_owner(Kind::Stream, stream.identity.owner.as_ref(), home));
        let there: HashSet<Resource> = groups.chain(streams).collect();
        let gone: Vec<Resource> = self
            .told
            .keys()
            .filter(|told| !there.contains(*told))
            .cloned()
            .collect();
        for resource in &gone {
            self.told.remove(resource);
        }
        gone
    }

    fn answered(&mut self) {
        self.failures = 0;
        if self.reason.take().is_some() {
            let Watched { namespace, name, .. } = &self.watched;
            info!(
                namespace,
                database = name,
                "the numbers of the database can be read again"
            );
        }
    }

    fn failed(&mut self, error: &DatabaseError) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LAST_PAUSE);
        self.failures += 1;
        self.agenda.failed(Instant::now() + pause);
        if self.reason != Some(error.reason()) {
            self.reason = Some(error.reason());
            let Watched { namespace, name, .. } = &self.watched;
            warn!(namespace, database = name, reason = error.reason(), %error, "the numbers of the database cannot be read");
        }
    }
}
