//! The leader epochs of a streamlet: under which epoch each offset was given out.
//!
//! ```text
//! offset   0 ──────────── 900 ────────── 1200 ───▶ end of the log
//! epoch    0               3              4           end of epoch 0: 900, of 1 and 2: 900,
//!                                                     of 3: 1200, of 4: the end of the log
//! ```
//!
//! Two logs that agree on the epoch of their last record agree on all records up to it (KIP-101,
//! "Use Leader Epoch rather than High Watermark for Truncation"). Plain values: no lock, no disk.
//!
//! Invariants: epochs and their first offsets grow together; the highest epoch never goes back, not
//! by a truncation either.

use tidemill_types::{LeaderEpoch, Offset};

#[cfg(test)]
mod tests;

/// An epoch, and the first offset that was given out under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Its first offset.
    pub start: Offset,
}

/// An epoch, and the offset after its last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The first offset of the next epoch, or the end of the log.
    pub end: Offset,
}

/// The epoch is over: a later one was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leader epoch {epoch} is over: the newest is {newest}")]
pub struct EpochOver {
    /// The refused epoch.
    pub epoch: LeaderEpoch,
    /// The newest epoch that is known.
    pub newest: LeaderEpoch,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EpochHistory {
    starts: Vec<EpochStart>,
    /// No leader of an epoch below is followed. The newest of `starts`, or a later one that has no
    /// record here.
    highest: LeaderEpoch,
}

impl Default for EpochHistory {
    /// Of a new streamlet, and of one that is older than epochs: all offsets are of epoch 0.
    fn default() -> Self {
        let first = EpochStart { epoch: LeaderEpoch(0), start: Offset(0) };
        Self { starts: vec![first], highest: first.epoch }
    }
}

impl EpochHistory {
    /// The epochs that have records, or will, in their order.
    pub(crate) fn starts(&self) -> &[EpochStart] {
        &self.starts
    }

    /// The newest epoch that is known.
    pub(crate) fn highest(&self) -> LeaderEpoch {
        self.highest
    }

    /// The epoch of the last record; none if all records were truncated.
    pub(crate) fn newest(&self) -> Option<LeaderEpoch> {
        self.starts.last().map(|it| it.epoch)
    }

    /// The records from `start`, the end of the log, on are of this epoch, which takes the place of
    /// epochs that got no record. A copy hears of its leader's epoch before it has the records of
    /// earlier ones, so it may be below the highest.
    pub(crate) fn begin(&mut self, epoch: LeaderEpoch, start: Offset) -> Result<(), EpochOver> {
        if let Some(newest) = self.newest().filter(|newest| epoch <= *newest) {
            return Err(EpochOver { epoch, newest });
        }
        self.starts.retain(|it| it.start < start);
        self.starts.push(EpochStart { epoch, start });
        self.highest = self.highest.max(epoch);
        Ok(())
    }

    /// A leader of this epoch is known: none of an earlier one is followed any more.
    pub(crate) fn observe(&mut self, epoch: LeaderEpoch) -> Result<(), EpochOver> {
        if epoch < self.highest {
            return Err(EpochOver { epoch, newest: self.highest });
        }
        self.highest = epoch;
        Ok(())
    }

    /// Records from `end` on are gone.
    pub(crate) fn truncate(&mut self, end: Offset) {
        self.starts.retain(|it| it.start < end);
    }

    /// True if an epoch begins at `end` or after it.
    pub(crate) fn begins_from(&self, end: Offset) -> bool {
        self.starts.last().is_some_and(|it| it.start >= end)
    }

    /// Records below `start` are gone: epochs that ended there are forgotten.
    pub(crate) fn forget_below(&mut self, start: Offset) {
        let keep = self.starts.partition_point(|it| it.start <= start).saturating_sub(1);
        self.starts.drain(..keep);
    }

    /// The epoch of the record at `offset`: that of the newest epoch if there is no such record yet.
    pub(crate) fn epoch_at(&self, offset: Offset) -> LeaderEpoch {
        let index = self.starts.partition_point(|it| it.start <= offset).saturating_sub(1);
        self.starts.get(index).map_or(self.highest, |it| it.epoch)
    }

    /// The largest epoch that is not above `asked`, and where it ends; `end` is that of the log.
    /// Below all known epochs it is `asked` itself, which ends where the first known one begins.
    /// None if `asked` is above all that is known (KIP-279, KIP-320).
    pub(crate) fn end_of(&self, asked: LeaderEpoch, end: Offset) -> Option<EpochEnd> {
        if asked > self.highest || asked < LeaderEpoch(0) {
            return None;
        }
        let after = self.starts.partition_point(|it| it.epoch <= asked);
        let end = self.starts.get(after).map_or(end, |next| next.start);
        match after.checked_sub(1) {
            // The newest epoch has no record here; its end is that of the log all the same.
            _ if asked == self.highest => Some(EpochEnd { epoch: asked, end }),
            Some(floor) => Some(EpochEnd { epoch: self.starts[floor].epoch, end }),
            None => Some(EpochEnd { epoch: asked, end }),
        }
    }
}
