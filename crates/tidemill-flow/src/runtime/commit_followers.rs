//! Sources that follow the commits of the results of their records.
//!
//! ```text
//! cuts of a source that follows ──▶ wait ──▶ sinks and dead letters have the cycle ──▶ told
//! ```
//!
//! The commit thread reports, so a source gets its positions in order. Cycles of a replay before
//! the last recorded one are not reported: an earlier life did that, though perhaps not for the
//! last one.

use super::cuts::slice_of;
use crate::source::{Position, SourceFactory};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tidemill_env::sync::Mutex;
use tidemill_types::{Cycle, SliceKey, StageIx};
use tidemill_wire::ledger::Cut;

#[cfg(test)]
mod tests;

/// Cuts that are not committed yet. At most as many cycles as a source may be ahead.
pub(crate) struct CommitFollowers {
    /// By stage; those that follow.
    sources: BTreeMap<StageIx, Arc<dyn SourceFactory>>,
    /// The first cycle that is reported.
    first: Cycle,
    slices: Mutex<BTreeMap<SliceKey, FollowedSlice>>,
}

#[derive(Default)]
struct FollowedSlice {
    cuts: VecDeque<(Cycle, u64)>,
    reported: Option<u64>,
}

impl CommitFollowers {
    /// Of these sources, from `first` on.
    pub(crate) fn new(
        sources: impl IntoIterator<Item = (StageIx, Arc<dyn SourceFactory>)>,
        first: Cycle,
    ) -> Self {
        let sources = sources.into_iter().filter(|(_, it)| it.follower().is_some()).collect();
        Self { sources, first, slices: Mutex::default() }
    }

    /// Returns true if no source follows.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// A source slice has cut a cycle.
    pub(crate) fn cut(&self, cycle: Cycle, cut: &Cut) {
        let slice = slice_of(cut);
        if cycle < self.first || !self.sources.contains_key(&slice.stage) {
            return;
        }
        let mut slices = self.slices.lock().expect("no panic while held");
        slices.entry(slice).or_default().cuts.push_back((cycle, cut.position));
    }

    /// All results of cycles up to this one are where they stay.
    pub(crate) fn committed(&self, upto: Cycle) {
        if self.is_empty() {
            return;
        }
        let mut due = Vec::new();
        {
            let mut slices = self.slices.lock().expect("no panic while held");
            for (key, slice) in &mut *slices {
                let count = slice.cuts.partition_point(|(cycle, _)| *cycle <= upto);
                let last = slice.cuts.drain(..count).next_back().map(|(_, position)| position);
                if let Some(position) = last.filter(|it| slice.reported != Some(*it)) {
                    slice.reported = Some(position);
                    due.push((*key, Position(position)));
                }
            }
        }
        for (key, position) in due {
            if let Some(source) = self.sources.get(&key.stage).and_then(|it| it.follower()) {
                source.committed(key.slice, position);
            }
        }
    }
}
