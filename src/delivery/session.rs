//! The life of one registered instance: from its registration until it is drained or lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::claimer::Claimer;
use super::handler::Handler;
use super::link::Link;
use super::lost::Lost;
use super::settler::Settler;
use super::slot::{self, Shop};
use super::worker::WorkerSettings;
use super::{lease, upkeep};
use crate::database::instances::Instance;

/// How long a last attempt to record outcomes may take after the grace period.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// One instance at work.
pub(super) struct Session<H> {
    instance: Instance,
    board: Arc<Board>,
    /// All of these end only when the instance is lost, but for the claimer.
    tasks: JoinSet<Option<Lost>>,
    slots: JoinSet<()>,
    shop: Arc<Shop<H>>,
}

impl<H: Handler> Session<H> {
    /// Starts to work with an instance that was asked for at `registered`.
    pub(super) fn start(
        instance: Instance,
        registered: Instant,
        settings: &WorkerSettings,
        shop: Arc<Shop<H>>,
        link: &Arc<Link>,
        stop: &CancellationToken,
    ) -> Self {
        let board = Arc::new(Board::new(instance.stream_uid(), settings.concurrency));
        let mut session = Self {
            instance: instance.clone(),
            board: Arc::clone(&board),
            tasks: JoinSet::new(),
            slots: JoinSet::new(),
            shop,
        };
        let metrics = &session.shop.metrics;
        let claimer = Claimer {
            instance: instance.clone(),
            board: Arc::clone(&board),
            link: Arc::clone(link),
            metrics: metrics.clone(),
            stop: stop.clone(),
        };
        let settler = Settler {
            instance: instance.clone(),
            board: Arc::clone(&board),
            link: Arc::clone(link),
            metrics: metrics.clone(),
            stream: settings.stream.clone(),
            group: settings.group.clone(),
        };
        let tasks = &mut session.tasks;
        tasks.spawn(lease::keep(
            instance.clone(),
            settings.lease,
            registered,
            Arc::clone(link),
        ));
        tasks.spawn(settler.run());
        tasks.spawn(claimer.run());
        let take_over = lease::take_over(instance.clone(), Arc::clone(&board), Arc::clone(link), metrics.clone());
        let upkeep = upkeep::run(instance, Arc::clone(link));
        // When the worker is to stop, it takes over nothing more.
        tasks.spawn(until_stopped(take_over, stop.clone()));
        tasks.spawn(until_stopped(upkeep, stop.clone()));
        for _ in 0..settings.concurrency {
            session
                .slots
                .spawn(slot::run(Arc::clone(&board), Arc::clone(&session.shop)));
        }
        session
    }

    /// Works until the instance is lost; `None` when it was stopped, and drained.
    pub(super) async fn run(mut self, stop: &CancellationToken, grace: Duration) -> Option<Lost> {
        let lost = tokio::select! {
            lost = first_loss(&mut self.tasks) => Some(lost),
            () = stop.cancelled() => self.drain(grace).await,
        };
        // Handlers first: what they do after the lease has ended, somebody else does as well.
        self.slots.shutdown().await;
        self.tasks.shutdown().await;
        if !matches!(lost, Some(Lost::Fenced)) {
            // So that nobody has to wait for the lease to expire.
            let _ = timeout(LAST_WORDS, self.instance.end()).await;
        }
        lost
    }

    /// Finishes what handlers work on, gives back the rest.
    async fn drain(&mut self, grace: Duration) -> Option<Lost> {
        self.board.close();
        let finish = async { while self.slots.join_next().await.is_some() {} };
        tokio::select! {
            lost = first_loss(&mut self.tasks) => return Some(lost),
            () = finish => {}
            () = sleep(grace) => tracing::warn!("the grace period is over; what handlers still work on is given back"),
        }
        self.slots.shutdown().await;
        self.board.stopped();
        let settle = async {
            while !self.board.is_settled() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            lost = first_loss(&mut self.tasks) => Some(lost),
            () = settle => None,
            () = sleep(LAST_WORDS) => {
                tracing::warn!("not all outcomes could be recorded; these messages will be delivered again");
                None
            }
        }
    }
}

/// Waits for a task that says that the instance is lost.
async fn first_loss(tasks: &mut JoinSet<Option<Lost>>) -> Lost {
    loop {
        match tasks.join_next().await {
            Some(Ok(Some(lost))) => return lost,
            Some(Ok(None)) => {}
            Some(Err(error)) => return panicked(&error),
            None => return std::future::pending().await,
        }
    }
}

fn panicked(error: &JoinError) -> Lost {
    tracing::error!(task = %error.id(), "a task of the worker panicked");
    Lost::Panicked
}

async fn until_stopped(work: impl Future<Output = Option<Lost>>, stop: CancellationToken) -> Option<Lost> {
    stop.run_until_cancelled_owned(work).await.flatten()
}
