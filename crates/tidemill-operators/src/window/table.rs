//! Groups and their accumulators: an aggregate table, which marks its changed rows.

use super::Windowed;
use crate::aggregate::Cells;
use crate::groups::{BlockKeys, Groups};
use tidemill_state::{
    ByteReader, ChangeCount, Delta, DirtyStamps, SavedError, SavedKeys, StampedRows, Structure,
    row_of,
};

/// Groups and accumulators of one pane of one slice.
pub(super) struct AggregateTable {
    pub(super) groups: Groups,
    pub(super) cells: Cells,
    /// The largest time of each group's rows, where it is looked at; none for any group elsewhere.
    pub(super) latest: Vec<i64>,
    stamped: DirtyStamps,
    /// If some of its groups are not in memory: which are.
    partly: Option<ResidentGroups>,
}

/// The groups in memory of a table whose checkpoint has more.
struct ResidentGroups {
    /// By group: the number that it has in the whole table, and is saved under.
    numbers: Vec<u32>,
    /// The number of the next key that is new.
    next: u32,
}

impl AggregateTable {
    pub(super) fn new(plan: &Windowed) -> Self {
        Self {
            groups: Groups::new(&plan.keys),
            cells: Cells::new(&plan.aggregates),
            latest: Vec::new(),
            stamped: DirtyStamps::default(),
            partly: None,
        }
    }

    /// So many groups are where a checkpoint has them, and come when they are asked for.
    pub(super) fn begin_partly(&mut self, groups: u32) {
        self.partly = Some(ResidentGroups { numbers: Vec::new(), next: groups });
    }

    /// Returns true if all of its groups are in memory.
    pub(super) fn is_whole(&self) -> bool {
        self.partly.is_none()
    }

    /// Brings the groups of these rows into memory; those that are nowhere are new.
    pub(super) fn bring(
        &mut self,
        (saved, prefix, one): (&mut SavedKeys, &[u8], &mut Groups),
        (keys, hashes): (&BlockKeys, &[u64]),
        rows: &[u32],
    ) {
        let Self { groups, cells, latest, partly: Some(partly), .. } = self else { return };
        for row in rows.iter().map(|row| *row as usize) {
            if groups.find(keys, hashes, row).is_some() {
                continue;
            }
            let is_there =
                saved.find(prefix, keys.saved_hash(hashes, row), &mut |number, value| {
                    let mut from = ByteReader::new(value);
                    one.reset();
                    one.restore(0, &mut from)?;
                    one.restored()?;
                    if one.find(keys, hashes, row).is_none() {
                        return Ok(false);
                    }
                    let group = groups.moved(one, 0) as usize;
                    cells.resize(groups.len());
                    cells.restore(group, &mut from)?;
                    if !from.rest().is_empty() {
                        latest.resize(groups.len(), i64::MIN);
                        latest[group] = from.i64()?;
                    }
                    from.end()?;
                    partly.numbers.push(row_of(number)? as u32);
                    Ok(true)
                });
            if !is_there {
                groups.group(keys, hashes, row);
                partly.numbers.push(partly.next);
                partly.next += 1;
            }
        }
    }

    /// Takes over all groups of another table, which had some of this one's in memory: they are as
    /// they are there, and their changes are noted as there.
    pub(super) fn take_over(&mut self, mut other: Self) -> Result<(), SavedError> {
        let numbers = other.partly.take().map_or_else(Vec::new, |it| it.numbers);
        let (mut saved, mut moved) = (Vec::new(), Vec::with_capacity(numbers.len()));
        for (from, number) in numbers.iter().map(|it| *it as usize).enumerate() {
            if self.groups.moved(&other.groups, from) as usize != number {
                return Err(SavedError::new("a key has another number than where it was read"));
            }
            self.cells.resize(self.groups.len());
            saved.clear();
            other.cells.save(from, &mut saved);
            self.cells.restore(number, &mut ByteReader::new(&saved))?;
            if let Some(time) = other.latest.get(from) {
                self.latest.resize(self.groups.len(), i64::MIN);
                self.latest[number] = *time;
            }
            moved.push((number, *other.cells.stamp_of(from)));
        }
        let (stamped, mut rows) = self.rows();
        stamped.take_over(other.stamped, moved.into_iter(), &mut rows);
        Ok(())
    }

    /// Removes all groups; keeps the memory.
    pub(super) fn reset(&mut self) {
        self.groups.reset();
        self.cells.reset();
        self.latest.clear();
        self.stamped = DirtyStamps::default();
        self.partly = None;
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

    fn rows(&mut self) -> (&mut DirtyStamps, TableRows<'_>) {
        let Self { groups, cells, latest, stamped, partly } = self;
        let numbers = partly.as_ref().map(|it| &it.numbers[..]);
        (stamped, TableRows { groups, cells, latest, numbers })
    }
}

/// The groups of a table, as a checkpoint has them.
struct TableRows<'a> {
    groups: &'a Groups,
    cells: &'a mut Cells,
    latest: &'a [i64],
    numbers: Option<&'a [u32]>,
}

impl StampedRows for TableRows<'_> {
    fn rows(&self) -> usize {
        self.cells.groups()
    }

    fn are_alike(&self) -> bool {
        self.numbers.is_none() && self.cells.are_alike()
    }

    #[inline]
    fn stamp(&mut self, group: usize) -> &mut u64 {
        self.cells.stamp_of(group)
    }

    #[inline]
    fn prefetch_rest(&self, group: usize) {
        self.groups.prefetch(group);
    }

    #[inline]
    fn prefetch(&self, group: usize) {
        self.cells.prefetch(group as u32);
        self.groups.prefetch(group);
    }

    #[inline]
    fn write(&self, group: usize, out: &mut Vec<u8>) {
        self.groups.save(group, out);
        self.cells.save(group, out);
        if let Some(latest) = self.latest.get(group) {
            out.extend_from_slice(&latest.to_le_bytes());
        }
    }

    #[inline]
    fn number(&self, group: usize) -> usize {
        self.numbers.map_or(group, |numbers| numbers[group] as usize)
    }
}

impl Structure for AggregateTable {
    fn memory(&self) -> usize {
        let latest = self.latest.capacity() * size_of::<i64>();
        let numbers = self.partly.as_ref().map_or(0, |it| it.numbers.capacity() * size_of::<u32>());
        self.groups.memory() + self.cells.memory() + latest + self.stamped.memory() + numbers
    }

    fn track(&mut self) {
        self.stamped.track();
        self.cells.stamp();
    }

    fn freeze(&mut self) {
        self.stamped.freeze(self.cells.groups());
    }

    fn changed(&self) -> Option<ChangeCount> {
        let are_alike = self.is_whole() && self.cells.are_alike();
        are_alike.then(|| self.stamped.changed(self.cells.groups()))
    }

    fn freeze_all(&mut self) {
        self.stamped.freeze_all(self.cells.groups());
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
        let mut from = ByteReader::new(value);
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
