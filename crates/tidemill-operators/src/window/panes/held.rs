//! The panes that a slice holds.

use crate::window::{Windowed, spans::Spans, table::Table};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tidemill_state::{Delta, SavedError, State, Structure};
use tidemill_types::Micros;

/// Emptied tables kept by a slice, at most.
const SPARE_MAX: usize = 4;

/// Panes of one slice, by end.
pub(super) struct Panes {
    plan: Arc<Windowed>,
    pub(super) open: BTreeMap<i64, Table>,
    spare: Vec<Table>,
    /// Changes are noted, for checkpoints.
    is_tracked: bool,
    /// Panes that went since the last checkpoint began.
    gone: Vec<i64>,
    /// The pane that is taken back now.
    restored: Option<(i64, Table)>,
    /// Groups that are still to be taken back, about.
    expected: usize,
    /// Panes that had gone when the one under way began, and what those that went since held then.
    frozen: Delta,
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
            frozen: Delta::default(),
        }
    }

    /// The pane that ends there, opened if it was not.
    pub(super) fn table(&mut self, pane_end: i64) -> &mut Table {
        let (spare, plan, is_tracked) = (&mut self.spare, &self.plan, self.is_tracked);
        self.open.entry(pane_end).or_insert_with(|| opened(spare, plan, is_tracked))
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
    pub(super) fn let_go(&mut self, pane_end: i64, mut table: Table) {
        if self.is_tracked {
            self.frozen.within(&pane_key(pane_end), |delta| table.drain(delta, usize::MAX));
            self.gone.push(pane_end);
        }
        self.give_back(table);
    }

    /// An empty table.
    pub(super) fn spare(&mut self) -> Table {
        self.spare.pop().unwrap_or_else(|| Table::new(&self.plan))
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
    pub(super) fn give_back(&mut self, mut table: Table) {
        if self.spare.len() < SPARE_MAX {
            table.reset();
            self.spare.push(table);
        }
    }
}

/// An empty table for a pane.
fn opened(spare: &mut Vec<Table>, plan: &Windowed, is_tracked: bool) -> Table {
    let mut table = spare.pop().unwrap_or_else(|| Table::new(plan));
    if is_tracked {
        table.track();
    }
    table
}

/// The end of a pane, as bytes in the same order.
fn pane_key(pane_end: i64) -> [u8; 8] {
    (pane_end ^ i64::MIN).to_be_bytes()
}

impl State for Panes {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }
}

impl Structure for Panes {
    fn memory(&self) -> usize {
        let tables = self.open.values().chain(&self.spare).map(Table::memory).sum::<usize>();
        tables + self.frozen.memory() + self.gone.capacity() * size_of::<i64>()
    }

    fn track(&mut self) {
        self.is_tracked = true;
    }

    fn freeze(&mut self) {
        for pane_end in self.gone.drain(..) {
            self.frozen.clear(&pane_key(pane_end));
        }
        self.open.values_mut().for_each(Table::freeze);
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let end = delta.len().saturating_add(most);
        if !delta.take_from(&mut self.frozen, most) {
            return false;
        }
        // Its memory goes: what is put aside of the panes that are open, their tables hold.
        self.frozen = Delta::default();
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
