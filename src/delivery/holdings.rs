//! The messages and outcomes that an instance holds, and which message is handed out next.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use uuid::Uuid;

use super::batch::Batch;
use super::message::Message;
use super::pace::Pace;
use crate::database::claims::{Fate, Verdict};
use crate::database::exceptions::DueException;
use crate::database::instances::Claim;
use crate::database::message_log::StoredMessage;
use crate::database::{ClaimId, MessageId};

/// A message handed to a slot.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) message: Message,
    /// Attempts before this one, in this run.
    pub(super) attempts: u32,
    pub(super) place: Place,
}

/// Where the message of a [`Ticket`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A claim.
    Claim {
        /// Number of the batch.
        batch: u64,
        /// Number of the message in it.
        index: usize,
    },
    /// The exception queue.
    Exception,
}

#[derive(Debug)]
pub(super) struct Holdings {
    pub(super) stream_uid: Uuid,
    pub(super) batches: BTreeMap<u64, Batch>,
    pub(super) last_batch: u64,
    /// Batches with messages that nobody works on yet, in the order of claiming. Here is the place
    /// to hold messages back whose key is being worked on.
    pub(super) fresh: VecDeque<u64>,
    pub(super) fresh_pending: usize,
    pub(super) due: VecDeque<(DueException, StoredMessage)>,
    /// Exceptions whose outcome is not known yet.
    pub(super) held_exceptions: HashSet<MessageId>,
    pub(super) exception_outcomes: Vec<Verdict>,
    pub(super) unread: Vec<Claim>,
    /// The claim whose messages are being read.
    pub(super) reading: Option<ClaimId>,
    pub(super) claiming: bool,
    pub(super) running: usize,
    pub(super) due_is_next: bool,
    pub(super) settling: bool,
    pub(super) closed: bool,
    pub(super) pace: Pace,
}

impl Holdings {
    pub(super) fn new(stream_uid: Uuid, concurrency: usize) -> Self {
        Self {
            stream_uid,
            batches: BTreeMap::new(),
            last_batch: 0,
            fresh: VecDeque::new(),
            fresh_pending: 0,
            due: VecDeque::new(),
            held_exceptions: HashSet::new(),
            exception_outcomes: Vec::new(),
            unread: Vec::new(),
            reading: None,
            claiming: true,
            running: 0,
            due_is_next: false,
            settling: false,
            closed: false,
            pace: Pace::new(concurrency),
        }
    }

    pub(super) fn pending(&self) -> usize {
        self.fresh_pending + self.due.len()
    }

    /// By turns a due message and a fresh one, where there are both.
    pub(super) fn take(&mut self) -> Option<Ticket> {
        self.due_is_next = !self.due_is_next;
        if self.due_is_next {
            self.take_due().or_else(|| self.take_fresh())
        } else {
            self.take_fresh().or_else(|| self.take_due())
        }
    }

    fn take_due(&mut self) -> Option<Ticket> {
        let (exception, stored) = self.due.pop_front()?;
        let count = |number: i32| u32::try_from(number).unwrap_or(0);
        let attempts = count(exception.attempts);
        Some(Ticket {
            message: Message::new(self.stream_uid, stored, count(exception.prior_attempts) + attempts + 1),
            attempts,
            place: Place::Exception,
        })
    }

    fn take_fresh(&mut self) -> Option<Ticket> {
        let number = *self.fresh.front()?;
        let batch = self.batches.get_mut(&number)?;
        let (index, stored) = batch.take()?;
        if batch.pending() == 0 {
            self.fresh.pop_front();
        }
        self.fresh_pending = self.fresh_pending.saturating_sub(1);
        Some(Ticket {
            message: Message::new(self.stream_uid, stored, 1),
            attempts: 0,
            place: Place::Claim { batch: number, index },
        })
    }

    pub(super) fn release(&mut self, message: MessageId, delay: Duration) {
        self.held_exceptions.remove(&message);
        self.exception_outcomes.push(Verdict {
            message,
            fate: Fate::Released,
            attempt: 0,
            error: None,
            fingerprint: None,
            delay_ms: i64::try_from(delay.as_millis()).unwrap_or(i64::MAX),
            duration_us: 0,
            destination: None,
        });
    }
}
