//! What one instance holds: messages to hand out, and outcomes to record.
//!
//! The claimer puts messages on the board, slots take them and put back what became of them, and
//! the settler records that. All of it is in memory and short; nothing waits while it holds the
//! lock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use uuid::Uuid;

use super::batch::Batch;
use super::holdings::{Holdings, Place, Ticket};
use crate::database::claims::{Settled, Settlement, Verdict};
use crate::database::exceptions::DueException;
use crate::database::instances::Claim;
use crate::database::message_log::StoredMessage;
use crate::database::{ClaimId, MessageId};

/// At most so many claims are held, lest a slow one make all settlements long.
const MOST_BATCHES: usize = 256;

#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<Holdings>,
    concurrency: usize,
    work: Notify,
    /// Wakes the claimer: there may be room.
    pub(super) room: Notify,
    /// Wakes the settler: there may be something to record.
    pub(super) outcomes: Notify,
}

impl Board {
    pub(super) fn new(stream_uid: Uuid, concurrency: usize) -> Self {
        Self {
            state: Mutex::new(Holdings::new(stream_uid, concurrency)),
            concurrency,
            work: Notify::new(),
            room: Notify::new(),
            outcomes: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Holdings> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages there is room for. None, until half of what is held is handed out.
    pub(super) fn room(&self) -> usize {
        let state = self.lock();
        if state.closed || state.batches.len() >= MOST_BATCHES {
            return 0;
        }
        let most = state.pace.messages() + self.concurrency.saturating_sub(state.running);
        let pending = state.pending();
        if pending * 2 > most { 0 } else { most - pending }
    }

    /// Claims whose messages are still to be read.
    pub(super) fn add_unread(&self, claims: impl IntoIterator<Item = Claim>) {
        self.lock().unread.extend(claims);
        self.room.notify_one();
    }

    /// The claim to read next. It stays the next until [`Board::add_batch`] or
    /// [`Board::split_unread`].
    pub(super) fn next_unread(&self) -> Option<Claim> {
        let mut state = self.lock();
        let next = state.unread.first().copied();
        state.reading = next.map(|claim| claim.id);
        next
    }

    /// Replaces the claim to read next by its parts.
    pub(super) fn split_unread(&self, parts: &[Claim]) {
        let mut state = self.lock();
        state.reading = parts.first().map(|part| part.id);
        let replaced = state.unread.len().min(1);
        state.unread.splice(..replaced, parts.iter().copied());
    }

    /// The claimer has ended.
    pub(super) fn claiming_ended(&self) {
        let mut state = self.lock();
        state.reading = None;
        state.claiming = false;
        drop(state);
        self.outcomes.notify_one();
    }

    /// Takes in the messages of the claim that is the next to read.
    pub(super) fn add_batch(&self, claim: Claim, messages: Vec<StoredMessage>) {
        let mut state = self.lock();
        state.reading = None;
        if !state.unread.is_empty() {
            state.unread.remove(0);
        }
        state.last_batch += 1;
        let number = state.last_batch;
        let empty = messages.is_empty();
        if !empty {
            state.fresh.push_back(number);
            state.fresh_pending += messages.len();
        }
        state.batches.insert(number, Batch::new(claim, messages));
        drop(state);
        if empty {
            self.outcomes.notify_one();
        } else {
            self.work.notify_one();
        }
    }

    /// Takes in messages whose next attempt is due.
    pub(super) fn add_exceptions(&self, exceptions: impl IntoIterator<Item = (DueException, StoredMessage)>) {
        let mut state = self.lock();
        for (exception, message) in exceptions {
            state.held_exceptions.insert(exception.message);
            if state.closed {
                state.release(exception.message, Duration::ZERO);
            } else {
                state.due.push_back((exception, message));
            }
        }
        drop(state);
        self.work.notify_one();
        self.outcomes.notify_one();
    }

    /// Gives exceptions back that were claimed and not read.
    pub(super) fn release(&self, messages: impl IntoIterator<Item = MessageId>, delay: Duration) {
        let mut state = self.lock();
        for message in messages {
            state.release(message, delay);
        }
        drop(state);
        self.outcomes.notify_one();
    }

    /// Waits for the next message; `None` once the board is closed.
    pub(super) async fn next(&self) -> Option<Ticket> {
        loop {
            if let Some(next) = self.try_next() {
                return next;
            }
            let notified = self.work.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            // What came before the call to enable.
            if let Some(next) = self.try_next() {
                return next;
            }
            notified.await;
        }
    }

    fn try_next(&self) -> Option<Option<Ticket>> {
        let mut state = self.lock();
        if state.closed {
            return Some(None);
        }
        let ticket = state.take()?;
        state.running += 1;
        let pending = state.pending();
        let wanted = pending * 2 <= state.pace.messages() + self.concurrency.saturating_sub(state.running);
        drop(state);
        if pending > 0 {
            self.work.notify_one();
        }
        if wanted {
            self.room.notify_one();
        }
        Some(Some(ticket))
    }

    /// Puts back what became of a message; `None` for a first attempt that succeeded.
    pub(super) fn finish(&self, place: Place, verdict: Option<Verdict>, took: Duration) {
        let now = Instant::now();
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        state.pace.learn(took);
        let settle = match place {
            Place::Claim { batch, index } => state
                .batches
                .get_mut(&batch)
                .is_some_and(|batch| batch.finish(index, verdict, now)),
            Place::Exception => {
                if let Some(verdict) = verdict {
                    state.held_exceptions.remove(&verdict.message);
                    state.exception_outcomes.push(verdict);
                }
                true
            }
        };
        let room = state.pending() == 0;
        let settle = settle || state.closed;
        drop(state);
        if settle {
            self.outcomes.notify_one();
        }
        if room {
            self.room.notify_one();
        }
    }

    /// What is to be recorded now. The answer goes to [`Board::settled`] before this is called
    /// again.
    pub(super) fn collect(&self) -> Settlement {
        let now = Instant::now();
        let mut state = self.lock();
        let state = &mut *state;
        let mut settlement = Settlement {
            exceptions: std::mem::take(&mut state.exception_outcomes),
            ..Settlement::default()
        };
        for batch in state.batches.values_mut() {
            batch.collect(state.closed, now, &mut settlement);
        }
        state.settling = !settlement.is_empty();
        settlement
    }

    /// What [`Board::collect`] gave is recorded.
    pub(super) fn settled(&self, settled: &Settled) {
        let now = Instant::now();
        let mut state = self.lock();
        state.settling = false;
        state.batches.retain(|_, batch| {
            batch.settled(&settled.rest, now);
            !batch.is_settled()
        });
        drop(state);
        self.room.notify_one();
    }

    /// Nothing more is handed out or taken in. Exceptions that nobody works on are given back.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        while let Some((exception, _)) = state.due.pop_front() {
            state.release(exception.message, Duration::ZERO);
        }
        drop(state);
        self.work.notify_waiters();
        self.outcomes.notify_one();
    }

    /// Of a closed board the claims, or parts of claims, that nobody works on.
    pub(super) fn give_up_pending(&self) -> Vec<ClaimId> {
        let mut state = self.lock();
        if !state.closed {
            return Vec::new();
        }
        let state = &mut *state;
        let mut claims: Vec<ClaimId> = state
            .unread
            .extract_if(.., |claim| Some(claim.id) != state.reading)
            .map(|claim| claim.id)
            .collect();
        state.batches.retain(|_, batch| {
            claims.extend(batch.give_up_pending());
            !batch.is_settled()
        });
        claims
    }

    /// The handlers were stopped: the exceptions that they worked on are given back.
    pub(super) fn stopped(&self) {
        let mut state = self.lock();
        for message in std::mem::take(&mut state.held_exceptions) {
            state.release(message, Duration::ZERO);
        }
        drop(state);
        self.outcomes.notify_one();
    }

    /// Whether no outcome waits to be recorded.
    pub(super) fn is_settled(&self) -> bool {
        let state = self.lock();
        !state.settling && state.exception_outcomes.is_empty() && !state.batches.values().any(Batch::is_waiting)
    }
}
