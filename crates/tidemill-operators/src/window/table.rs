//! Groups and their accumulators: an aggregate table, which notes what changes in it.

use super::Windowed;
use crate::aggregate::Cells;
use crate::groups::Groups;
use tidemill_flow::OperatorError;
use tidemill_state::{Delta, Noted, Reader, SavedError, Structure, row_of};

/// The key of what is saved besides the groups; longer than that of a group.
const LATEST: &[u8] = b"latest";

/// Groups and accumulators of one pane of one slice.
pub(super) struct Table {
    pub(super) groups: Groups,
    pub(super) cells: Cells,
    /// The largest time of its rows, where it is looked at.
    pub(super) latest: i64,
    /// As it was when the checkpoint under way began.
    frozen_latest: Option<i64>,
    saved_latest: i64,
    noted: Noted,
}

impl Table {
    pub(super) fn new(plan: &Windowed) -> Self {
        Self {
            groups: Groups::new(&plan.keys),
            cells: Cells::new(&plan.aggregates),
            latest: i64::MIN,
            frozen_latest: None,
            saved_latest: i64::MIN,
            noted: Noted::default(),
        }
    }

    /// Forgets everything; memory is kept.
    pub(super) fn reset(&mut self) {
        self.groups.reset();
        self.cells.reset();
        (self.latest, self.saved_latest, self.frozen_latest) = (i64::MIN, i64::MIN, None);
        self.noted = Noted::default();
    }

    /// Adds the groups of panes.
    pub(super) fn add<'a>(
        &mut self,
        plan: &Windowed,
        panes: impl Iterator<Item = (&'a i64, &'a Self)>,
    ) -> Result<(), OperatorError> {
        for (_, pane) in panes {
            for group in 0..pane.groups.len() {
                let to = self.groups.group_of(&pane.groups, group) as usize;
                self.cells.resize(self.groups.len());
                self.cells.merge(&plan.aggregates, to, &pane.cells, group)?;
            }
        }
        Ok(())
    }

    /// The accumulators of these groups are about to change; new groups have none yet.
    pub(super) fn change(&mut self, groups: &[u32]) {
        let table = (&self.groups, &self.cells);
        let warm = |group| table.0.warm(group) ^ table.1.warm(group);
        self.noted.change_all(groups, warm, |group, out| write_group(table, group, out));
    }
}

fn write_group((groups, cells): (&Groups, &Cells), group: usize, out: &mut Vec<u8>) -> bool {
    if group >= cells.groups() {
        return false;
    }
    groups.save(group, out);
    cells.save(group, out);
    true
}

impl Structure for Table {
    fn memory(&self) -> usize {
        self.groups.memory() + self.cells.memory() + self.noted.memory()
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
        if self.latest != self.saved_latest {
            self.saved_latest = self.latest;
            self.frozen_latest = Some(self.latest);
        }
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        if let Some(latest) = self.frozen_latest.take() {
            delta.put_with(LATEST, |out| out.extend_from_slice(&latest.to_le_bytes()));
        }
        let table = (&self.groups, &self.cells);
        self.noted.drain(delta, most, &mut |group, out| write_group(table, group, out))
    }

    fn expect(&mut self, entries: usize) {
        self.groups.expect(entries);
        self.cells.expect(entries);
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let mut from = Reader::new(value);
        if key == LATEST {
            self.latest = from.i64()?;
            self.saved_latest = self.latest;
            return from.end();
        }
        let group = row_of(key)?;
        self.groups.restore(group, &mut from)?;
        self.cells.resize(self.groups.len());
        self.cells.restore(group, &mut from)?;
        from.end()
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        self.cells.restored();
        self.groups.restored()
    }
}
