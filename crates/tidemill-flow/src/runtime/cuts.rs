//! Gathers the cuts of all source slices into whole ledger entries, in the order of cycles.

use std::collections::BTreeMap;
use tidemill_types::{Cycle, Micros, SliceId, SliceKey, StageIx};
use tidemill_wire::ledger::{Cut, LedgerEntry};

#[cfg(test)]
mod tests;

/// Cuts on their way to the ledger. No I/O.
#[derive(Debug)]
pub(crate) struct Cuts {
    /// By source slice: the last cycle that it has cut; the end of time once it has ended.
    last: BTreeMap<SliceKey, LastCut>,
    open: BTreeMap<Cycle, (Micros, Vec<(Cut, Micros)>)>,
    /// Entries hold the watermarks.
    is_marked: bool,
    /// The last cycle that every slice has cut.
    complete: Cycle,
    /// The last cycle that any slice has cut.
    newest: Cycle,
}

/// The last cut of a source slice.
#[derive(Clone, Copy, Debug)]
struct LastCut {
    cycle: Cycle,
    position: u64,
}

impl LastCut {
    /// Goes on to the next cut.
    ///
    /// # Panics
    /// Panics if it is out of turn: an error of the engine.
    fn advance(&mut self, cycle: Cycle, cut: &Cut) {
        assert_eq!(self.cycle.next(), cycle, "a source slice cuts every cycle once, in order");
        debug_assert!(self.position <= cut.position, "a cut is not before the last one: {cut:?}");
        self.cycle = if cut.ended { EVER } else { cycle };
        self.position = cut.position;
    }
}

const EVER: Cycle = Cycle(u64::MAX);

/// The source slice of a cut.
pub(crate) fn slice_of(cut: &Cut) -> SliceKey {
    SliceKey::new(StageIx(cut.source), SliceId(cut.slice))
}

impl Cuts {
    /// Waits for these source slices, which have cut everything up to `before`; some had ended.
    pub(crate) fn new(
        slices: impl IntoIterator<Item = SliceKey>,
        before: Cycle,
        has_ended: impl Fn(SliceKey) -> bool,
    ) -> Self {
        let last = |slice| {
            let cycle = if has_ended(slice) { EVER } else { before };
            (slice, LastCut { cycle, position: 0 })
        };
        let last = slices.into_iter().map(last).collect();
        let open = BTreeMap::new();
        Self { last, open, is_marked: false, complete: before, newest: before }
    }

    /// The same cuts, with watermarks in their entries or without.
    pub(crate) fn marked(self, is_marked: bool) -> Self {
        Self { is_marked, ..self }
    }

    /// Adds a source slice, whose first cut is of the cycle after `before`. No source has begun
    /// that cycle.
    pub(crate) fn add_slice(&mut self, slice: SliceKey, before: Cycle) {
        self.last.insert(slice, LastCut { cycle: before, position: 0 });
    }

    /// Notes one cut that no ledger will hold.
    ///
    /// # Panics
    /// Panics if a slice cuts a cycle out of turn: an error of the engine.
    pub(crate) fn note(&mut self, cycle: Cycle, cut: Cut) {
        let last = self.last.get_mut(&slice_of(&cut)).expect("a slice of this job");
        last.advance(cycle, &cut);
        self.newest = self.newest.max(cycle);
        let all = self.last_of_all();
        self.complete = self.complete.max(all.min(self.newest));
    }

    /// The last cycle that every slice has cut; the end of time if all have ended.
    fn last_of_all(&self) -> Cycle {
        self.last.values().map(|it| it.cycle).min().unwrap_or(EVER)
    }

    /// The last cycle that every slice has cut.
    pub(crate) fn complete(&self) -> Cycle {
        self.complete
    }

    /// Takes one cut, with the watermark there.
    ///
    /// # Panics
    /// Panics if a slice cuts a cycle out of turn: an error of the engine.
    pub(crate) fn add(&mut self, (cycle, time): (Cycle, Micros), cut: Cut, watermark: Micros) {
        let last = self.last.get_mut(&slice_of(&cut)).expect("a slice of this job");
        last.advance(cycle, &cut);
        self.open.entry(cycle).or_insert((time, Vec::new())).1.push((cut, watermark));
    }

    /// Takes out the entries that have become whole.
    pub(crate) fn take(&mut self) -> Vec<LedgerEntry> {
        let all = self.last_of_all();
        let mut whole = Vec::new();
        while let Some(first) = self.open.first_entry().filter(|first| *first.key() <= all) {
            let (cycle, (time, mut cuts)) = first.remove_entry();
            assert_eq!(self.complete.next(), cycle, "the ledger has no gap");
            self.complete = cycle;
            cuts.sort_by_key(|(cut, _)| slice_of(cut));
            let (cuts, watermarks) = cuts.into_iter().unzip();
            whole.push(match self.is_marked {
                true => LedgerEntry::Marked { cycle, time, cuts, watermarks },
                false => LedgerEntry::Cycle { cycle, time, cuts },
            });
        }
        whole
    }
}
