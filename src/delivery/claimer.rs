//! Claims messages while there is room for them on the board.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::link::{Activity, Link};
use super::lost::{Backoff, Lost};
use super::metrics::Metrics;
use crate::database::claims::{Fence, Rest, Settlement};
use crate::database::exceptions::DueException;
use crate::database::instances::{Claim, Instance};
use crate::database::{CallError, MessageId};

/// How many bytes of payloads are read at once, as they are stored.
const READ_BYTES: i64 = 16 << 20;
/// The shortest wait between two looks for new messages.
const SHORTEST_WAIT: Duration = Duration::from_millis(2);
/// The longest wait between two looks, once nothing has come for a while.
const LONGEST_WAIT: Duration = Duration::from_millis(200);
/// The longest wait while messages are there that are not final yet.
const FENCE_WAIT: Duration = Duration::from_millis(50);
/// The shortest time between two looks for messages that are due again.
const EXCEPTIONS_EVERY: Duration = Duration::from_millis(50);
/// After how long to look again for a message whose log row is gone: by then its exception is
/// swept away too.
const GONE_DELAY: Duration = Duration::from_secs(60);

/// Claims for one instance.
pub(super) struct Claimer {
    pub(super) instance: Instance,
    pub(super) board: Arc<Board>,
    pub(super) link: Arc<Link>,
    pub(super) metrics: Metrics,
    pub(super) stop: CancellationToken,
}

/// What the claimer remembers from one round to the next.
struct Memory {
    fence: Fence,
    /// Exceptions that are claimed and not read yet.
    unread_exceptions: Vec<DueException>,
    last_look_for_exceptions: Option<Instant>,
    /// By turns, where there is room for few: otherwise one kind would take all of it.
    exceptions_first: bool,
    last_found: Instant,
}

/// How a round of claiming ended.
struct Round {
    found: bool,
    /// There is probably more.
    more: bool,
}

impl Claimer {
    /// Claims until it is stopped, which gives `None`.
    pub(super) async fn run(self) -> Option<Lost> {
        let mut memory = Memory {
            fence: Fence::default(),
            unread_exceptions: Vec::new(),
            last_look_for_exceptions: None,
            exceptions_first: true,
            last_found: Instant::now(),
        };
        let mut backoff = Backoff::new();
        while !self.stop.is_cancelled() {
            if self.board.room() == 0 {
                self.pause(self.board.room.notified(), LONGEST_WAIT).await;
                continue;
            }
            match self.round(&mut memory).await {
                Ok(round) => {
                    self.link.answered(Activity::Claim);
                    backoff.succeeded();
                    if round.found {
                        memory.last_found = Instant::now();
                    }
                    if !round.more {
                        self.pause(std::future::pending(), wait(&memory)).await;
                    }
                }
                Err(error) => {
                    memory.fence = Fence::default();
                    self.link.failed(Activity::Claim, error.fault());
                    if let Some(lost) = Lost::from_error(&error) {
                        return Some(lost);
                    }
                    tokio::select! {
                        () = self.stop.cancelled() => {}
                        () = backoff.wait() => {}
                    }
                }
            }
        }
        // What is claimed and not read is given back.
        let unread = memory.unread_exceptions.iter().map(|exception| exception.message);
        self.board.release(unread, Duration::ZERO);
        self.board.claiming_ended();
        None
    }

    async fn pause(&self, early: impl Future<Output = ()>, time: Duration) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = early => {}
            () = sleep(time) => {}
        }
    }

    async fn round(&self, memory: &mut Memory) -> Result<Round, CallError> {
        // What is held already comes first.
        if !memory.unread_exceptions.is_empty() {
            self.read_exceptions(memory).await?;
        }
        if let Some(claim) = self.board.next_unread() {
            self.read(claim).await?;
            return Ok(Round {
                found: true,
                more: true,
            });
        }
        let mut due = 0;
        if memory.exceptions_first {
            due = self.claim_exceptions(memory).await?;
        }
        let room = self
            .board
            .room()
            .saturating_sub(usize::from(due > 0 && self.board.room() == 1));
        let fresh = match i64::try_from(room).unwrap_or(i64::MAX) {
            0 => None,
            limit => self
                .claim_messages(memory, limit)
                .await?
                .map(|claim| claim.high - claim.low + 1 >= limit),
        };
        if !memory.exceptions_first && due == 0 {
            due = self.claim_exceptions(memory).await?;
        }
        if due > 0 || fresh.is_some() {
            memory.exceptions_first = fresh.is_some();
        }
        Ok(Round {
            found: due > 0 || fresh.is_some(),
            more: fresh == Some(true),
        })
    }

    async fn claim_messages(&self, memory: &mut Memory, limit: i64) -> Result<Option<Claim>, CallError> {
        let claim = self.instance.claim_messages(&mut memory.fence, limit).await?;
        if let Some(claim) = claim {
            self.metrics.claimed();
            self.board.add_unread([claim]);
            // Or one that was taken over meanwhile; then this one follows.
            if let Some(next) = self.board.next_unread() {
                self.read(next).await?;
            }
        }
        Ok(claim)
    }

    /// Reads the messages of the claim that the board has as its next one. Where they are too many
    /// bytes, the claim is split.
    async fn read(&self, claim: Claim) -> Result<(), CallError> {
        let page = self.instance.read_range(claim.low, claim.high, READ_BYTES).await?;
        let Some(first_left) = page.left_out.first() else {
            self.board.add_batch(claim, page.messages);
            return Ok(());
        };
        let part = |low, high| Rest {
            low,
            high,
            takeover: claim.takeover + 1,
        };
        let settlement = Settlement {
            claims: vec![claim.id],
            rest: vec![part(claim.low, first_left.0 - 1), part(first_left.0, claim.high)],
            ..Settlement::default()
        };
        let settled = self.instance.settle(&settlement).await?;
        self.board.split_unread(&settled.rest);
        if let Some(part) = settled.rest.first() {
            self.board.add_batch(*part, page.messages);
        }
        Ok(())
    }

    /// Returns how many were found.
    async fn claim_exceptions(&self, memory: &mut Memory) -> Result<usize, CallError> {
        let room = self.board.room();
        let looked_lately = memory
            .last_look_for_exceptions
            .is_some_and(|last| last.elapsed() < EXCEPTIONS_EVERY);
        if room == 0 || looked_lately {
            return Ok(0);
        }
        // Half of the room is left to fresh messages.
        let limit = i64::try_from(room.div_ceil(2)).unwrap_or(i64::MAX);
        let due = self.instance.claim_exceptions(limit).await?;
        let found = due.len();
        // Where there were as many as asked for, there are more.
        memory.last_look_for_exceptions = (i64::try_from(found) != Ok(limit)).then(Instant::now);
        if found > 0 {
            self.metrics.exceptions_claimed(found);
            memory.unread_exceptions = due;
            self.read_exceptions(memory).await?;
        }
        Ok(found)
    }

    async fn read_exceptions(&self, memory: &mut Memory) -> Result<(), CallError> {
        let ids: Vec<MessageId> = memory.unread_exceptions.iter().map(|due| due.message).collect();
        let page = self.instance.read_messages(&ids, READ_BYTES).await?;
        let mut due: HashMap<MessageId, DueException> = memory
            .unread_exceptions
            .drain(..)
            .map(|due| (due.message, due))
            .collect();
        self.board.release(
            page.left_out.iter().copied().filter(|id| due.remove(id).is_some()),
            Duration::ZERO,
        );
        let found: Vec<_> = page
            .messages
            .into_iter()
            .filter_map(|message| due.remove(&message.id).map(|due| (due, message)))
            .collect();
        self.board.add_exceptions(found);
        self.board.release(due.into_keys(), GONE_DELAY);
        Ok(())
    }
}

/// A quarter of the time for which nothing has come, so that the wait for a message is in
/// proportion to how seldom they are, and an idle group costs next to nothing.
fn wait(memory: &Memory) -> Duration {
    let longest = if memory.fence.waits() { FENCE_WAIT } else { LONGEST_WAIT };
    (memory.last_found.elapsed() / 4).clamp(SHORTEST_WAIT, longest)
}
