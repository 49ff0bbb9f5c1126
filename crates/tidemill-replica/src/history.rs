//! The epochs of a virtual log's entries: a few numbers in place of one for each entry.
//!
//! Two copies that have entries of the same epoch at a position have the same entry there, as an
//! epoch has one leader, which writes each position once. Histories therefore say where two logs
//! part, which a high watermark does not (KIP-101, KIP-279).
//!
//! Invariants:
//! - Epochs and their first positions both ascend strictly.

use tidemill_types::{LogPosition, VirtualLogEpoch};

/// For each epoch the first position that it wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EpochHistory(Vec<(VirtualLogEpoch, LogPosition)>);

impl EpochHistory {
    /// Notes that entries from `from` on are of `epoch`. Entries at `from` and above that were
    /// noted before are replaced.
    pub fn begin(&mut self, epoch: VirtualLogEpoch, from: LogPosition) {
        self.truncate(from);
        if self.0.last().is_none_or(|(last, _)| *last != epoch) {
            self.0.push((epoch, from));
        }
    }

    /// Forgets entries at `to` and above.
    pub fn truncate(&mut self, to: LogPosition) {
        self.0.retain(|(_, from)| *from < to);
    }

    /// The epoch of the entry at a position, if the history reaches back to it.
    #[must_use]
    pub fn epoch_at(&self, position: LogPosition) -> Option<VirtualLogEpoch> {
        let after = self.0.partition_point(|(_, from)| *from <= position);
        Some(self.0[after.checked_sub(1)?].0)
    }

    /// The history of the entries from `from` to `to`, `to` excluded.
    #[must_use]
    pub fn slice(&self, from: LogPosition, to: LogPosition) -> Self {
        let mut slice = Self::default();
        if from < to {
            if let Some(epoch) = self.epoch_at(from) {
                slice.0.push((epoch, from));
            }
            slice.0.extend(self.0.iter().filter(|(_, first)| from < *first && *first < to));
        }
        slice
    }

    /// Takes over the entries of another history from `from` on.
    pub fn extend(&mut self, from: LogPosition, other: &Self, to: LogPosition) {
        self.truncate(from);
        for (epoch, first) in other.slice(from, to).0 {
            self.begin(epoch, first);
        }
    }

    /// The end of what two logs have in common from `from` on, at most `end`, which both reach.
    #[must_use]
    pub fn common_end(&self, other: &Self, from: LogPosition, end: LogPosition) -> LogPosition {
        let mut borders: Vec<LogPosition> =
            self.0.iter().chain(&other.0).map(|(_, p)| *p).collect();
        borders.push(from);
        borders.sort_unstable();
        let inside = |border: &LogPosition| from <= *border && *border < end;
        let parted = borders
            .into_iter()
            .filter(inside)
            .find(|border| self.epoch_at(*border) != other.epoch_at(*border));
        parted.unwrap_or(end.max(from))
    }

    /// The epochs with their first positions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (VirtualLogEpoch, LogPosition)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests;
