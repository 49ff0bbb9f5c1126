//! Groups and their accumulators: an aggregate table, which notes what changes in it.

use super::Windowed;
use crate::aggregate::Cells;
use crate::groups::Groups;
use tidemill_state::{Delta, Reader, SavedError, Stamped, StampedRows, Structure, row_of};

/// Groups and accumulators of one pane of one slice.
pub(super) struct Table {
    pub(super) groups: Groups,
    pub(super) cells: Cells,
    /// The largest time of each group's rows, where it is looked at; none for any group elsewhere.
    pub(super) latest: Vec<i64>,
    stamped: Stamped,
}

impl Table {
    pub(super) fn new(plan: &Windowed) -> Self {
        Self {
            groups: Groups::new(&plan.keys),
            cells: Cells::new(&plan.aggregates),
            latest: Vec::new(),
            stamped: Stamped::default(),
        }
    }

    /// Forgets everything; memory is kept.
    pub(super) fn reset(&mut self) {
        self.groups.reset();
        self.cells.reset();
        self.latest.clear();
        self.stamped = Stamped::default();
    }

    /// Adds the groups of panes.
    pub(super) fn add<'a>(
        &mut self,
        plan: &Windowed,
        panes: impl Iterator<Item = (&'a i64, &'a Self)>,
    ) {
        for (_, pane) in panes {
            for group in 0..pane.groups.len() {
                let to = self.groups.group_of(&pane.groups, group) as usize;
                self.cells.resize(self.groups.len());
                self.cells.merge(&plan.aggregates, to, &pane.cells, group);
            }
        }
    }

    /// Looks at the times of rows of these groups.
    pub(super) fn note_times(&mut self, times: impl Iterator<Item = i64>, groups: &[u32]) {
        self.latest.resize(self.groups.len(), i64::MIN);
        for (time, group) in times.zip(groups) {
            let latest = &mut self.latest[*group as usize];
            *latest = time.max(*latest);
        }
    }

    /// The accumulators of these groups are about to change; new groups get theirs.
    pub(super) fn change(&mut self, groups: &[u32]) {
        self.cells.resize(self.groups.len());
        let (stamped, mut rows) = self.rows();
        stamped.change_all(groups, &mut rows);
    }

    fn rows(&mut self) -> (&mut Stamped, Rows<'_>) {
        let Self { groups, cells, latest, stamped } = self;
        (stamped, Rows { groups, cells, latest })
    }
}

/// The groups of a table, as a checkpoint has them.
struct Rows<'a> {
    groups: &'a Groups,
    cells: &'a mut Cells,
    latest: &'a [i64],
}

impl StampedRows for Rows<'_> {
    fn rows(&self) -> usize {
        self.cells.groups()
    }

    #[inline]
    fn stamp(&mut self, group: usize) -> &mut u64 {
        self.cells.stamp_of(group)
    }

    #[inline]
    fn warm(&self, group: usize) -> u64 {
        self.cells.warm(group)
    }

    #[inline]
    fn warm_rest(&self, group: usize) -> u64 {
        self.groups.warm(group)
    }

    #[inline]
    fn write(&self, group: usize, out: &mut Vec<u8>) {
        self.groups.save(group, out);
        self.cells.save(group, out);
        if let Some(latest) = self.latest.get(group) {
            out.extend_from_slice(&latest.to_le_bytes());
        }
    }
}

impl Structure for Table {
    fn memory(&self) -> usize {
        let latest = self.latest.capacity() * size_of::<i64>();
        self.groups.memory() + self.cells.memory() + latest + self.stamped.memory()
    }

    fn track(&mut self) {
        self.stamped.track();
        self.cells.stamp();
    }

    fn freeze(&mut self) {
        self.stamped.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let (stamped, mut rows) = self.rows();
        stamped.drain(delta, most, &mut rows)
    }

    fn expect(&mut self, entries: usize) {
        self.groups.expect(entries);
        self.cells.expect(entries);
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let mut from = Reader::new(value);
        let group = row_of(key)?;
        self.groups.restore(group, &mut from)?;
        self.cells.resize(self.groups.len());
        self.cells.restore(group, &mut from)?;
        if !from.rest().is_empty() {
            self.latest.resize(self.groups.len(), i64::MIN);
            self.latest[group] = from.i64()?;
        }
        from.end()
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        self.cells.restored();
        self.groups.restored()
    }
}
