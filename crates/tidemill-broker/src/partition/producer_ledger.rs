//! The history of a partition behind its lock, with the readers that wait for it.
//!
//! ```text
//! append of a producer ─┐                    a marker is visible ─▶ due ─▶ settle
//! marker ───────────────┤ ledger: one at a time                             │
//! reader of committed ──┘                    readers that waited ◀──────────┘
//! ```
//!
//! A marker becomes visible in a notification of the log, which may come while this very thread
//! appends under the lock. So the notification only sets a flag. The next thread that can take the
//! lock does the work, at the latest the one that releases it.
//!
//! Lock order: ledger, then the log's own and that of a transactional id. No notice is given while
//! the ledger is held.

use super::{Partition, history::History, snapshot::HistoryImage};
use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError, TryLockError, atomic::Ordering},
};
use tidemill_log::OnData;

/// The place of a waiting reader: offset, then order of arrival.
pub(super) type ReaderTurn = (i64, u64);

/// The history of a partition and its waiting readers.
#[derive(Default)]
pub(super) struct ProducerLedger {
    /// None: nobody needed it so far.
    pub(super) history: Option<History>,
    /// Readers of committed records that wait for a transaction to end.
    waiting: BTreeMap<ReaderTurn, OnData>,
    next_turn: u64,
    /// All records below this offset are in the store.
    pub(super) stored_upto: i64,
    /// Markers of aborted transactions that the store has and no longer needs.
    pub(super) obsolete: Vec<i64>,
    /// To be stored once all of it is visible.
    pub(super) image: Option<HistoryImage>,
}

/// The ledger of a partition, under its lock.
pub(super) struct LedgerGuard<'a> {
    partition: &'a Partition,
    /// None while it is put down.
    ledger: Option<MutexGuard<'a, ProducerLedger>>,
}

impl Drop for LedgerGuard<'_> {
    fn drop(&mut self) {
        self.ledger = None;
        if self.partition.due.load(Ordering::SeqCst) {
            self.partition.settle();
        }
    }
}

impl LedgerGuard<'_> {
    pub(super) fn ledger(&mut self) -> &mut ProducerLedger {
        self.ledger.as_mut().expect("until it is dropped")
    }

    /// The history, which [`Partition::open`] has made sure of.
    pub(super) fn history(&mut self) -> &mut History {
        self.ledger().history.get_or_insert_default()
    }

    /// Tells readers without the lock how far they may see.
    pub(super) fn publish(&mut self) {
        let first = self.history().stable().first_unstable();
        self.partition.first_unstable.store(first.unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl ProducerLedger {
    /// A reader waits for a transaction to end.
    pub(super) fn wait(&mut self, offset: i64, notice: OnData) -> ReaderTurn {
        self.next_turn += 1;
        let turn = (offset, self.next_turn);
        self.waiting.insert(turn, notice);
        turn
    }

    pub(super) fn forget(&mut self, turn: ReaderTurn) {
        self.waiting.remove(&turn);
    }

    /// Readers that wait for an offset below this.
    fn take_below(&mut self, offset: i64) -> Vec<OnData> {
        let later = self.waiting.split_off(&(offset, 0));
        std::mem::replace(&mut self.waiting, later).into_values().collect()
    }
}

impl Partition {
    /// Locks the ledger as it is.
    pub(super) fn hold(&self) -> LedgerGuard<'_> {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        LedgerGuard { partition: self, ledger: Some(ledger) }
    }

    /// A marker became visible, or may have.
    pub(super) fn landed(&self) {
        self.due.store(true, Ordering::SeqCst);
        self.settle();
    }

    /// Does the due work, unless another thread holds the lock: that one does it then.
    pub(super) fn settle(&self) {
        loop {
            let mut ledger = match self.ledger.try_lock() {
                Ok(ledger) => ledger,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            self.due.store(false, Ordering::SeqCst);
            let mut woken = Vec::new();
            if let Some(history) = &mut ledger.history {
                history.pass(self.streamlet.high_watermark());
                let first = history.stable().first_unstable().unwrap_or(i64::MAX);
                self.first_unstable.store(first, Ordering::SeqCst);
                woken = ledger.take_below(first);
            }
            drop(ledger);
            woken.into_iter().for_each(|notice| notice());
            if !self.due.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}
