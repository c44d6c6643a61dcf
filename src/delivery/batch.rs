//! The messages of one claim, from reading to acknowledgement.

use std::time::{Duration, Instant};

use crate::database::ClaimId;
use crate::database::claims::{Rest, Settlement, Verdict};
use crate::database::instances::Claim;
use crate::database::message_log::StoredMessage;

/// An outcome waits no longer than this for the rest of its claim.
const PATIENCE: Duration = Duration::from_millis(500);

/// The messages of one claim. When some of them take long, the claim is split: what is done is
/// acknowledged and what is not goes on in claims of its own, the parts.
#[derive(Debug)]
pub(super) struct Batch {
    low: i64,
    high: i64,
    entries: Vec<Entry>,
    next: usize,
    parts: Vec<Part>,
    failures: Vec<Verdict>,
    waiting_since: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    id: i64,
    state: State,
}

#[derive(Debug)]
enum State {
    Pending(StoredMessage),
    Running,
    Done,
}

#[derive(Debug)]
struct Part {
    claim: Claim,
    /// Entries that are not done.
    open: usize,
    /// Entries that are done.
    done: usize,
    /// It is part of a settlement whose answer is awaited.
    settling: bool,
}

impl Batch {
    pub(super) fn new(claim: Claim, messages: Vec<StoredMessage>) -> Self {
        let entries: Vec<Entry> = messages
            .into_iter()
            .map(|message| Entry {
                id: message.id.0,
                state: State::Pending(message),
            })
            .collect();
        let part = Part {
            claim,
            open: entries.len(),
            done: 0,
            settling: false,
        };
        Self {
            low: claim.low,
            high: claim.high,
            entries,
            next: 0,
            parts: vec![part],
            failures: Vec::new(),
            waiting_since: None,
        }
    }

    /// How many messages nobody works on yet.
    pub(super) fn pending(&self) -> usize {
        self.entries.len() - self.next
    }

    /// The next message, and the number by which to [`Batch::finish`] it.
    pub(super) fn take(&mut self) -> Option<(usize, StoredMessage)> {
        let index = self.next;
        let entry = self.entries.get_mut(index)?;
        self.next += 1;
        match std::mem::replace(&mut entry.state, State::Running) {
            State::Pending(message) => Some((index, message)),
            state => {
                entry.state = state;
                None
            }
        }
    }

    /// A message is done. True where a part can be acknowledged now.
    pub(super) fn finish(&mut self, index: usize, failure: Option<Verdict>, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(index) else {
            return false;
        };
        entry.state = State::Done;
        self.failures.extend(failure);
        self.waiting_since.get_or_insert(now);
        let id = entry.id;
        for part in &mut self.parts {
            if part.claim.low <= id && id <= part.claim.high {
                // One that was split while the message ran is counted anew when the answer comes.
                part.open = part.open.saturating_sub(1);
                part.done += 1;
                return part.open == 0;
            }
        }
        false
    }

    /// Adds to `settlement` the parts that are done and, with `all` or when outcomes have waited
    /// long, those that are done in part.
    pub(super) fn collect(&mut self, all: bool, now: Instant, settlement: &mut Settlement) {
        let impatient = self
            .waiting_since
            .is_some_and(|since| now.duration_since(since) >= PATIENCE);
        let mut collected = false;
        for part in &mut self.parts {
            let split = part.open > 0;
            if part.settling || (split && !impatient && !all) || (split && part.done == 0 && !all) {
                continue;
            }
            let entries = within(&self.entries, part.claim);
            let rest = open_runs(entries, part.claim.takeover + 1);
            if let [one] = rest.as_slice()
                && part.done == 0
                && covers_all(entries, one)
            {
                // Nothing is done and nothing to be told apart.
                continue;
            }
            part.settling = true;
            collected = true;
            settlement.claims.push(part.claim.id);
            settlement.rest.extend(rest);
            let (low, high) = (part.claim.low, part.claim.high);
            let settled = self
                .failures
                .extract_if(.., |failure| low <= failure.message.0 && failure.message.0 <= high);
            settlement.failures.extend(settled);
        }
        if collected {
            self.waiting_since = None;
        }
    }

    /// What was collected is recorded; `rest` are the new claims, those of other batches among
    /// them.
    pub(super) fn settled(&mut self, rest: &[Claim], now: Instant) {
        self.parts.retain(|part| !part.settling);
        for claim in rest {
            if claim.low < self.low || claim.low > self.high {
                continue;
            }
            let entries = within(&self.entries, *claim);
            let done = entries
                .iter()
                .filter(|entry| matches!(entry.state, State::Done))
                .count();
            if done > 0 {
                self.waiting_since.get_or_insert(now);
            }
            self.parts.push(Part {
                claim: *claim,
                open: entries.len() - done,
                done,
                settling: false,
            });
        }
    }

    /// Whether all is recorded.
    pub(super) fn is_settled(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether outcomes wait to be recorded, or for an answer.
    pub(super) fn is_waiting(&self) -> bool {
        self.parts
            .iter()
            .any(|part| part.settling || part.open == 0 || part.done > 0)
    }

    /// The parts of which nothing is begun; they are no longer this batch's.
    pub(super) fn give_up_pending(&mut self) -> Vec<ClaimId> {
        let (entries, next) = (&self.entries, self.next);
        self.parts
            .extract_if(.., |part| {
                let first = entries.partition_point(|entry| entry.id < part.claim.low);
                !part.settling && part.open > 0 && first >= next
            })
            .map(|part| part.claim.id)
            .collect()
    }
}

/// The entries in the range of `claim`.
fn within(entries: &[Entry], claim: Claim) -> &[Entry] {
    let low = entries.partition_point(|entry| entry.id < claim.low);
    let high = entries.partition_point(|entry| entry.id <= claim.high);
    entries.get(low..high).unwrap_or_default()
}

/// The ranges of entries that are not done; what runs apart from what does not.
fn open_runs(entries: &[Entry], takeover: i32) -> Vec<Rest> {
    let mut runs: Vec<Rest> = Vec::new();
    let mut before = None;
    for entry in entries {
        let running = match entry.state {
            State::Done => None,
            State::Running => Some(true),
            State::Pending(_) => Some(false),
        };
        match (running, runs.last_mut()) {
            (None, _) => {}
            (Some(_), Some(run)) if before == running => run.high = entry.id,
            (Some(_), _) => runs.push(Rest {
                low: entry.id,
                high: entry.id,
                takeover,
            }),
        }
        before = running;
    }
    runs
}

fn covers_all(entries: &[Entry], run: &Rest) -> bool {
    let ids = |entry: Option<&Entry>| entry.map(|entry| entry.id);
    ids(entries.first()) == Some(run.low) && ids(entries.last()) == Some(run.high)
}
