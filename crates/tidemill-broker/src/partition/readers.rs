//! The visible part of a partition, for readers of all records and of committed ones (KIP-98), and
//! the wait for more.
//!
//! Invariant: the last stable offset is never below the first record of the log.

use super::{Partition, UNKNOWN, producer_ledger::ReaderTurn};
use crate::fetch_answer::Aborted;
use std::sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering};
use tidemill_log::{DataSubscription, OnData};
use tidemill_wire::kafka::ErrorCode;

/// The offset that nobody waits for: readers there are told when a streamlet ends.
const NEVER: i64 = i64::MAX - 1;

/// A reader that waits; it is forgotten when this is dropped.
pub(crate) struct Readable {
    _log: DataSubscription,
    stable: Option<(Weak<Partition>, ReaderTurn)>,
}

impl Readable {
    /// True if it waits for the end of a transaction. It is not woken by records meanwhile.
    pub(crate) fn is_held_back(&self) -> bool {
        self.stable.is_some()
    }
}

impl Drop for Readable {
    fn drop(&mut self) {
        if let Some((partition, turn)) = self.stable.take()
            && let Some(partition) = partition.upgrade()
        {
            partition.hold().ledger().forget(turn);
        }
    }
}

impl Partition {
    /// The offset after the last that readers of committed records may see: that of the first
    /// record of the oldest open transaction that is still there, or the high watermark. (KIP-98.)
    pub(crate) fn last_stable_offset(&self) -> Result<i64, ErrorCode> {
        // In this order: whatever is visible at this watermark was unstable before it was visible.
        let watermark = self.streamlet.high_watermark();
        let mut first = self.first_unstable.load(Ordering::SeqCst);
        if first == UNKNOWN {
            drop(self.open().map_err(|error| self.unknown(&error).code)?);
            first = self.first_unstable.load(Ordering::SeqCst);
        }
        Ok(self.within(first, watermark))
    }

    /// As [`Self::last_stable_offset`], for readers that do not depend on it: the high watermark
    /// until the history is loaded.
    pub(crate) fn known_stable_offset(&self) -> i64 {
        let watermark = self.streamlet.high_watermark();
        match self.first_unstable.load(Ordering::SeqCst) {
            UNKNOWN => watermark,
            first => self.within(first, watermark),
        }
    }

    /// Retention and clients delete records of open transactions too. The result is never below the
    /// start, so a reader finds a record there.
    fn within(&self, first_unstable: i64, watermark: i64) -> i64 {
        first_unstable.max(self.streamlet.start_offset()).min(watermark)
    }

    /// Calls `notice` once, when `offset` may be readable: an acknowledged record, or one below the
    /// last stable offset. It may call at once. Dropping the return value cancels.
    pub(crate) fn on_readable(&self, offset: i64, committed: bool, notice: OnData) -> Readable {
        if !committed || self.first_unstable.load(Ordering::SeqCst) > offset {
            return Readable { _log: self.streamlet.on_data(offset, notice), stable: None };
        }
        // Two may call: whoever is first does.
        let notice = Arc::new(Mutex::new(Some(notice)));
        let ring = move || {
            let notice = notice.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(notice) = notice {
                notice();
            }
        };
        let mut opened = self.hold();
        // Under the lock it may be another.
        let waits = self.first_unstable.load(Ordering::SeqCst) <= offset;
        let turn = waits.then(|| opened.ledger().wait(offset, Box::new(ring.clone())));
        drop(opened);
        let at = if waits { NEVER } else { offset };
        let stable = turn.map(|turn| (Weak::clone(&self.me), turn));
        Readable { _log: self.streamlet.on_data(at, Box::new(ring)), stable }
    }

    /// Aborted transactions with records from `from` up to, not including, `to`.
    pub(crate) fn aborted(&self, from: i64, to: i64) -> Vec<Aborted> {
        let mut opened = self.hold();
        let history = opened.ledger().history.as_ref();
        history.map(|it| it.stable().aborted(from, to)).unwrap_or_default()
    }
}
