//! The panes that a slice holds.

use crate::groups::Groups;
use crate::window::{Prepared, Windowed, spans::Spans, table::AggregateTable};
use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tidemill_flow::{Block, Selection};
use tidemill_state::{BeforeImages, ChangeCount, Delta, SavedError, SavedKeys, State, Structure};
use tidemill_types::Micros;

/// Rows of a pane that goes that are put aside at once: less than a piece.
const ROWS_AT_ONCE: usize = if cfg!(test) { 3 } else { 1_024 };
/// Emptied tables kept by a slice, at most.
const SPARE_MAX: usize = 4;

/// Panes of one slice, by end.
pub(super) struct Panes {
    plan: Arc<Windowed>,
    pub(super) open: BTreeMap<i64, AggregateTable>,
    spare: Vec<AggregateTable>,
    /// Changes are noted, for checkpoints.
    is_tracked: bool,
    /// Panes that went since the last checkpoint began.
    gone: Vec<i64>,
    /// The pane that is taken back now.
    restored: Option<(i64, AggregateTable)>,
    /// Groups that are still to be taken back, about.
    expected: usize,
    /// Panes that had gone when the checkpoint under way began, and the contents of those that went since.
    frozen: BeforeImages,
    /// If groups are still to be read back: where they are.
    by_key: Option<KeyRecovery>,
}

/// Groups by the end of their pane: the hashes of their keys.
pub(super) type WantedKeys = BTreeMap<i64, BTreeSet<u64>>;

/// The groups of panes that are not in memory.
struct KeyRecovery {
    saved: SavedKeys,
    /// By end of the pane: how many groups of it are saved.
    panes: BTreeMap<i64, u32>,
    /// The one that was read last.
    one: Groups,
}

impl Panes {
    pub(super) fn new(plan: &Arc<Windowed>) -> Self {
        Self {
            plan: Arc::clone(plan),
            open: BTreeMap::new(),
            spare: Vec::new(),
            is_tracked: false,
            gone: Vec::new(),
            restored: None,
            expected: 0,
            frozen: BeforeImages::default(),
            by_key: None,
        }
    }

    /// The pane that ends there, opened if it was not.
    pub(super) fn table(&mut self, pane_end: i64) -> &mut AggregateTable {
        let (spare, plan, is_tracked) = (&mut self.spare, &self.plan, self.is_tracked);
        self.open.entry(pane_end).or_insert_with(|| opened(spare, plan, is_tracked))
    }

    /// The same, with the groups of these rows in memory.
    pub(super) fn table_of(
        &mut self,
        pane_end: i64,
        (block, prepared): (&Block, &Prepared),
        rows: &[u32],
    ) -> &mut AggregateTable {
        if self.by_key.is_some() {
            self.bring(pane_end, (block, prepared), rows);
        }
        self.table(pane_end)
    }

    /// Adds the groups of these rows that are to be read back, if there are some.
    pub(super) fn want(
        &self,
        (block, prepared): (&Block, &Prepared),
        rows: Selection<'_>,
        pane_end: impl Fn(usize) -> i64,
        wanted: &mut WantedKeys,
    ) {
        let Self { open, by_key: Some(KeyRecovery { panes, .. }), .. } = self else { return };
        let (keys, hashes) = (&prepared.keys, prepared.hashes(block));
        rows.for_each(|row| {
            let end = pane_end(row);
            let is_here = |table: &AggregateTable| table.groups.find(keys, hashes, row).is_some();
            if panes.contains_key(&end) && !open.get(&end).is_some_and(is_here) {
                wanted.entry(end).or_default().insert(keys.saved_hash(hashes, row));
            }
        });
    }

    /// These groups are about to be asked for; whether they will be read one by one.
    pub(super) fn ask(&mut self, wanted: WantedKeys) -> bool {
        let Some(KeyRecovery { saved, .. }) = &mut self.by_key else { return true };
        if saved.are_too_many(wanted.values().map(BTreeSet::len).sum()) {
            return false;
        }
        for (end, hashes) in wanted {
            saved.ask(&pane_key(end), hashes.into_iter().collect());
        }
        true
    }

    #[cold]
    fn bring(&mut self, pane_end: i64, (block, prepared): (&Block, &Prepared), rows: &[u32]) {
        let Self { open, spare, plan, is_tracked, by_key: Some(by_key), .. } = self else { return };
        let KeyRecovery { saved, panes, one } = by_key;
        let table = open.entry(pane_end).or_insert_with(|| {
            let mut table = opened(spare, plan, *is_tracked);
            panes.get(&pane_end).into_iter().for_each(|groups| table.begin_partly(*groups));
            table
        });
        let keys = (&prepared.keys, prepared.hashes(block));
        table.bring((saved, &pane_key(pane_end), one), keys, rows);
    }

    /// All of a pane was taken back.
    fn put_back(&mut self) -> Result<(), SavedError> {
        if let Some((pane_end, mut table)) = self.restored.take() {
            table.restored()?;
            self.open.insert(pane_end, table);
        }
        Ok(())
    }

    /// A pane is not open any more.
    pub(super) fn let_go(&mut self, pane_end: i64, mut table: AggregateTable) {
        debug_assert!(table.is_whole(), "all of a pane is in memory when it closes");
        if self.is_tracked {
            let key = pane_key(pane_end);
            while !self.frozen.within(&key, |delta| table.drain(delta, ROWS_AT_ONCE)) {}
            self.gone.push(pane_end);
        }
        self.give_back(table);
    }

    /// The checkpoint that begins says which panes went.
    fn clear_gone(&mut self) {
        for pane_end in self.gone.drain(..) {
            self.frozen.clear(&pane_key(pane_end));
        }
    }

    /// An empty table.
    pub(super) fn spare(&mut self) -> AggregateTable {
        self.spare.pop().unwrap_or_else(|| AggregateTable::new(&self.plan))
    }

    /// The ends of the windows that close between two watermarks and have rows.
    pub(super) fn closing(&self, spans: &Spans, between: (Micros, Micros)) -> BTreeSet<i64> {
        let mut ends = BTreeSet::new();
        for pane_end in self.open.keys() {
            spans.closing(*pane_end, between, &mut ends);
        }
        ends
    }

    /// A table is not needed any more.
    pub(super) fn give_back(&mut self, mut table: AggregateTable) {
        if self.spare.len() < SPARE_MAX {
            table.reset();
            self.spare.push(table);
        }
    }
}

/// An empty table for a pane.
fn opened(spare: &mut Vec<AggregateTable>, plan: &Windowed, is_tracked: bool) -> AggregateTable {
    let mut table = spare.pop().unwrap_or_else(|| AggregateTable::new(plan));
    if is_tracked {
        table.track();
    }
    table
}

/// The end of a pane, as bytes in the same order.
fn pane_key(pane_end: i64) -> [u8; 8] {
    (pane_end ^ i64::MIN).to_be_bytes()
}

/// The end of the pane that bytes are of; none if they are no pane's.
fn pane_of(prefix: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(prefix.try_into().ok()?) ^ i64::MIN)
}

impl State for Panes {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }

    fn read_by_key(&mut self, saved: SavedKeys) {
        let pane = |(prefix, groups): (Vec<u8>, u32)| Some((pane_of(&prefix)?, groups));
        let panes = saved.parts().into_iter().filter_map(pane).collect();
        self.by_key = Some(KeyRecovery { saved, panes, one: Groups::new(&self.plan.keys) });
    }

    fn complete(&mut self, saved: Box<dyn State>) -> Result<(), SavedError> {
        let saved: Box<dyn Any> = saved;
        let saved = saved.downcast::<Self>().map_err(|_| SavedError::new("another state"))?;
        let Self { open, spare, gone, frozen, .. } = std::mem::replace(self, *saved);
        (self.spare, self.gone, self.frozen) = (spare, gone, frozen);
        for (pane_end, table) in open {
            if table.is_whole() {
                // Nothing of it was saved when the job went on.
                self.open.insert(pane_end, table);
                continue;
            }
            let whole = self.open.get_mut(&pane_end);
            let none = || SavedError::new("a pane is not there any more");
            whole.ok_or_else(none)?.take_over(table)?;
        }
        Ok(())
    }
}

impl Structure for Panes {
    fn memory(&self) -> usize {
        let tables =
            self.open.values().chain(&self.spare).map(AggregateTable::memory).sum::<usize>();
        tables + self.frozen.memory() + self.gone.capacity() * size_of::<i64>()
    }

    fn track(&mut self) {
        self.is_tracked = true;
    }

    fn freeze(&mut self) {
        self.clear_gone();
        self.open.values_mut().for_each(AggregateTable::freeze);
    }

    fn changed(&self) -> Option<ChangeCount> {
        if self.by_key.is_some() {
            return None;
        }
        self.open.values().try_fold(ChangeCount::default(), |sum, it| Some(sum + it.changed()?))
    }

    fn freeze_all(&mut self) {
        self.clear_gone();
        self.open.values_mut().for_each(AggregateTable::freeze_all);
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let end = delta.len().saturating_add(most);
        if !self.frozen.drain(delta, most) {
            return false;
        }
        // Its memory goes: what is put aside of the panes that are open, their tables hold.
        self.frozen = BeforeImages::default();
        self.open.iter_mut().all(|(pane_end, table)| {
            let most = end.saturating_sub(delta.len());
            delta.within(&pane_key(*pane_end), |delta| table.drain(delta, most))
        })
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let (pane, row) = key.split_first_chunk().ok_or_else(|| SavedError::new("no pane"))?;
        let pane_end = i64::from_be_bytes(*pane) ^ i64::MIN;
        self.expected = self.expected.saturating_sub(1);
        match &mut self.restored {
            // They come pane by pane.
            Some((end, table)) if *end == pane_end => table.restore(row, value),
            _ => {
                self.put_back()?;
                let mut table = opened(&mut self.spare, &self.plan, self.is_tracked);
                table.expect(self.expected + 1);
                let restored = table.restore(row, value);
                self.restored = Some((pane_end, table));
                restored
            }
        }
    }

    fn expect(&mut self, entries: usize) {
        self.expected = entries;
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        self.put_back()
    }
}
