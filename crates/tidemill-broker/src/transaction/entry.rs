//! One transactional id in the coordinator's memory.
//!
//! ```text
//! gate    held while a decision is made and stored: one change at a time
//! state   the state in force, which appends check
//! ```
//!
//! Markers are on their way while a transaction is prepared: `left` are the partitions and groups
//! that have none yet, `in_flight` those whose marker is being made durable.

use super::state::{Transaction, TransactionError};
use crate::producer::state::signed;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tidemill_wire::transactions::{TransactionPartition, TransactionPhase as Phase};
use tokio::sync::oneshot;

/// A target of a transaction's markers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MarkerTarget {
    Partition(TransactionPartition),
    /// A group, whose offsets the transaction holds.
    Group(String),
}

/// A transactional id.
pub(crate) struct TransactionEntry {
    pub(crate) id: String,
    /// One change at a time; given back when the store has answered.
    pub(super) gate: Arc<tokio::sync::Mutex<()>>,
    held: Mutex<EntryState>,
}

/// The state of an entry.
pub(super) struct EntryState {
    /// None: it is being made, or it is gone.
    pub(super) transaction: Option<Transaction>,
    /// It was taken out of the coordinator: look it up again.
    pub(super) is_gone: bool,
    /// The store has it as prepared, and all markers are durable.
    pub(super) unsaved: bool,
    /// When an open transaction is aborted, by the monotonic clock.
    pub(super) deadline_ms: Option<u64>,
    /// When it was last changed, by the monotonic clock; below 0 if that was long before the node
    /// started.
    pub(super) used_ms: i64,
    /// The newest connection over which something was added to this transaction with protocol 1.
    pub(super) newest: u64,
    pub(super) left: BTreeSet<MarkerTarget>,
    pub(super) in_flight: BTreeSet<MarkerTarget>,
    /// Some markers may have been written before the node was started again.
    pub(super) again: bool,
    /// A failure to write markers was said.
    pub(super) warned: bool,
    waiting: Vec<oneshot::Sender<()>>,
}

impl TransactionEntry {
    pub(super) fn new(id: &str, now_ms: u64) -> Arc<Self> {
        let held = EntryState {
            transaction: None,
            is_gone: false,
            unsaved: false,
            deadline_ms: None,
            used_ms: signed(now_ms),
            newest: 0,
            left: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            again: false,
            warned: false,
            waiting: Vec::new(),
        };
        Arc::new(Self { id: id.to_owned(), gate: Arc::default(), held: Mutex::new(held) })
    }

    /// A transactional id as it is in the store. `passed_ms` is how long ago it was changed, by
    /// the wall clock.
    pub(super) fn stored(
        id: &str,
        transaction: Transaction,
        now_ms: u64,
        wall_ms: i64,
    ) -> Arc<Self> {
        let entry = Self::new(id, now_ms);
        {
            let mut held = entry.held();
            let passed = |since: i64| u64::try_from(wall_ms.saturating_sub(since)).unwrap_or(0);
            held.used_ms = signed(now_ms).saturating_sub(signed(passed(transaction.changed_ms)));
            if transaction.phase == Phase::Ongoing {
                let timeout_ms = u64::try_from(transaction.timeout_ms).unwrap_or(0);
                let left_ms = timeout_ms.saturating_sub(passed(transaction.began_ms));
                held.deadline_ms = Some(now_ms + left_ms);
            }
            if transaction.prepared_commit().is_some() {
                held.left = marks(&transaction);
                held.again = true;
            }
            held.transaction = Some(transaction);
            held.complete_if_marked();
        }
        entry
    }

    pub(super) fn held(&self) -> MutexGuard<'_, EntryState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store has `next`: it counts.
    pub(super) fn apply(&self, next: Transaction, now_ms: u64) {
        let mut held = self.held();
        let was_ongoing = held.transaction.as_ref().is_some_and(|it| it.phase == Phase::Ongoing);
        held.used_ms = signed(now_ms);
        held.unsaved = false;
        match next.phase {
            Phase::Ongoing if !was_ongoing => {
                let timeout_ms = u64::try_from(next.timeout_ms).unwrap_or(0);
                held.deadline_ms = Some(now_ms + timeout_ms);
            }
            Phase::Ongoing => {}
            _ => held.deadline_ms = None,
        }
        if next.prepared_commit().is_some() {
            held.left = marks(&next);
            held.in_flight.clear();
            held.again = false;
            held.warned = false;
        }
        held.transaction = Some(next);
        let woken = held.complete_if_marked();
        drop(held);
        woken.into_iter().for_each(ring);
    }

    /// A marker is durable, or will not be now. True: it is the first failure.
    pub(super) fn marked(&self, place: &MarkerTarget, durable: bool) -> bool {
        let mut held = self.held();
        held.in_flight.remove(place);
        let mut woken = Vec::new();
        let mut first = false;
        if durable {
            held.left.remove(place);
            woken = held.complete_if_marked();
        } else {
            first = !held.warned;
            held.warned = true;
        }
        drop(held);
        woken.into_iter().for_each(ring);
        first
    }

    /// Resolves when the transaction that is being ended has ended; at once if there is none.
    pub(super) fn ended(&self) -> oneshot::Receiver<()> {
        let (done, waits) = oneshot::channel();
        let mut held = self.held();
        if held.transaction.as_ref().is_some_and(|it| it.prepared_commit().is_some()) {
            held.waiting.retain(|it| !it.is_closed());
            held.waiting.push(done);
        } else {
            let _now = done.send(());
        }
        waits
    }
}

impl EntryState {
    /// Something is added with protocol 1.
    pub(super) fn added_over(&mut self, connection: u64) {
        let begins = self.transaction.as_ref().is_none_or(|it| it.phase != Phase::Ongoing);
        self.newest = if begins { connection } else { self.newest.max(connection) };
    }

    /// Refuses an end over an older connection than that of the last addition: the producer gave
    /// that connection up. With protocol 1 epochs stay, so nothing else tells a late end from a
    /// current one (K1).
    pub(super) fn check_end(&self, connection: u64) -> Result<(), TransactionError> {
        if connection < self.newest { Err(TransactionError::Busy) } else { Ok(()) }
    }

    /// True if it has no transaction, or one that has ended.
    pub(super) fn is_at_rest(&self) -> bool {
        let transaction = self.transaction.as_ref();
        transaction.is_none_or(|it| it.phase != Phase::Ongoing && it.prepared_commit().is_none())
    }

    /// Completes the transaction if all markers are durable, though the store still has it as
    /// prepared. Returns the requests that wait for it.
    fn complete_if_marked(&mut self) -> Vec<oneshot::Sender<()>> {
        let Some(transaction) = &self.transaction else { return Vec::new() };
        if transaction.prepared_commit().is_none() || !self.left.is_empty() {
            return Vec::new();
        }
        self.transaction = Some(transaction.completed());
        self.unsaved = true;
        std::mem::take(&mut self.waiting)
    }
}

/// All that a transaction's end is written to.
fn marks(transaction: &Transaction) -> BTreeSet<MarkerTarget> {
    let partitions = transaction.partitions.iter().map(|it| MarkerTarget::Partition(*it));
    partitions.chain(transaction.groups.iter().map(|it| MarkerTarget::Group(it.clone()))).collect()
}

fn ring(waiting: oneshot::Sender<()>) {
    let _gone = waiting.send(());
}
