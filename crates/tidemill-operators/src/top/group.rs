//! The groups of one slice, each with its best rows.

use super::write;
use crate::row_picker::{GATHERED_ROWS_MAX, RowPicker};
use crate::row_store::{PieceId, RowCodec, RowStore};
use arrow_array::RecordBatch;
use std::cmp::Reverse;
use std::{collections::BinaryHeap, sync::Arc};
use tidemill_flow::{OperatorError, Output};
use tidemill_state::{
    ByteReader, Delta, DirtyRows, HashIndex, SavedError, State, Structure, prefetch, put_bytes,
    row_of, structure::sampled,
};
use tidemill_types::Micros;

/// The open groups of a slice.
pub(super) struct TopGroups {
    /// By number.
    groups: Vec<Option<TopGroup>>,
    /// The numbers of the groups, by the hashes of their keys.
    index: HashIndex,
    free: Vec<u32>,
    held: RowStore<()>,
    /// True if groups are of windows and come out when those close.
    windowed: bool,
    /// If so: end, first arrival and number of every group, the earliest first. A group whose
    /// end has moved is here more than once; only the last end counts.
    due: BinaryHeap<Reverse<(i64, u64, u32)>>,
    arrived: u64,
    codec: Arc<RowCodec>,
    noted: DirtyRows,
    /// Rows of the groups that were restored, and the group of each.
    restored: Vec<(Vec<u8>, u32, Best)>,
}

struct TopGroup {
    hash: u64,
    key: Box<[u8]>,
    /// The arrival of its first row.
    first: u64,
    /// The largest time of its rows.
    end: i64,
    /// Its best rows, the worst of them on top.
    best: BinaryHeap<Best>,
}

/// A row among the best: smaller values are better.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Best {
    value: Box<[u8]>,
    arrival: u64,
    slot: u32,
}

/// A row that comes.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) row: usize,
    pub(super) hash: u64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) time: i64,
}

/// Takes rows of one batch.
pub(super) struct GroupRows<'a> {
    groups: &'a mut TopGroups,
    batch: &'a RecordBatch,
    k: usize,
    /// The batch among the held ones, once a row of it is held.
    piece: Option<PieceId>,
}

impl TopGroups {
    /// No groups.
    pub(super) fn new(windowed: bool, codec: Arc<RowCodec>) -> Self {
        Self {
            groups: Vec::new(),
            index: HashIndex::default(),
            free: Vec::new(),
            held: RowStore::default(),
            windowed,
            due: BinaryHeap::new(),
            arrived: 0,
            codec,
            noted: DirtyRows::default(),
            restored: Vec::new(),
        }
    }

    /// A group is about to change or to go.
    fn change(&mut self, number: u32) {
        let Self { groups, held, codec, noted, .. } = self;
        noted.change(number as usize, |out| {
            write_group((groups, held, codec), number as usize, out)
        });
    }

    /// The number of the group of a key.
    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let of = |number: u32| self.groups[number as usize].as_ref();
        self.index.find(hash, |it| of(it).is_some_and(|it| it.hash == hash && *it.key == *key))
    }

    /// Prefetches the slot of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Prefetches the group of a hash, whose slot [`Self::prefetch`] has fetched.
    #[inline]
    pub(super) fn prefetch_group(&self, hash: u64) {
        if let Some(number) = self.index.find(hash, |_| true) {
            let place = number as usize;
            prefetch(&self.groups, place);
            // It may stand on two lines.
            prefetch(&self.groups, place + 1);
        }
    }

    /// Prefetches the rows that a row of this hash is compared with; [`Self::prefetch_group`] came before.
    #[inline]
    pub(super) fn prefetch_best(&self, hash: u64) {
        if let Some(number) = self.index.find(hash, |_| true)
            && let Some(group) = &self.groups[number as usize]
        {
            prefetch(&group.key, 0);
            prefetch(group.best.as_slice(), 0);
        }
    }

    /// Takes rows of a batch; each group holds `k`.
    pub(super) fn rows_of<'a>(&'a mut self, batch: &'a RecordBatch, k: usize) -> GroupRows<'a> {
        GroupRows { groups: self, batch, k, piece: None }
    }

    /// Writes the groups whose rows lie before `limit`; all of them if that is the end of time.
    pub(super) fn complete(
        &mut self,
        limit: Micros,
        complete: &mut RowPicker,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        if self.windowed {
            let is_due = |end: i64| limit == Micros::MAX || end < limit.0;
            while self.due.peek().is_some_and(|Reverse((end, ..))| is_due(*end)) {
                let Some(Reverse((end, first, number))) = self.due.pop() else { break };
                let is_it = |it: &mut TopGroup| it.first == first && it.end == end;
                if !self.groups[number as usize].as_mut().is_some_and(is_it) {
                    continue;
                }
                self.change(number);
                if let Some(group) = self.groups[number as usize].take() {
                    self.index.remove(group.hash, number);
                    self.free.push(number);
                    give(&mut self.held, group, complete, output)?;
                }
            }
        } else if limit == Micros::MAX {
            let Self { groups, held, codec, noted, .. } = self;
            noted.clear(&mut |number, out| write_group((groups, held, codec), number, out));
            let mut groups: Vec<TopGroup> = self.groups.drain(..).flatten().collect();
            self.index.clear();
            groups.sort_unstable_by_key(|group| group.first);
            for group in groups {
                give(&mut self.held, group, complete, output)?;
            }
        }
        if self.index.is_empty() {
            (self.groups, self.free) = (Vec::new(), Vec::new());
            (self.index, self.due) = (HashIndex::default(), BinaryHeap::new());
        }
        self.held.tidy()
    }

    /// The slots of all rows and their places in their groups, group by group as these will come
    /// out.
    pub(super) fn ranked(&self) -> (Vec<u32>, Vec<u64>) {
        let mut groups: Vec<&TopGroup> = self.groups.iter().flatten().collect();
        groups.sort_unstable_by_key(|it| (if self.windowed { it.end } else { 0 }, it.first));
        let best_first = |group: &&TopGroup| {
            let mut best: Vec<&Best> = group.best.iter().collect();
            best.sort_unstable();
            best.into_iter().map(|it| it.slot).zip(1..).collect::<Vec<_>>()
        };
        groups.iter().flat_map(best_first).unzip()
    }

    /// The stored rows.
    pub(super) fn held_rows(&self) -> &RowStore<()> {
        &self.held
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }
}

/// Gives a group's rows, the best first, and lets go of them.
fn give(
    held: &mut RowStore<()>,
    group: TopGroup,
    complete: &mut RowPicker,
    output: &mut Output,
) -> Result<(), OperatorError> {
    for best in group.best.into_sorted_vec() {
        complete.pick_held(held, best.slot);
        if complete.len() >= GATHERED_ROWS_MAX {
            write(complete, output)?;
        }
        held.remove(best.slot);
    }
    Ok(())
}

/// Writes a group with its rows.
fn write_group(
    (groups, held, codec): (&[Option<TopGroup>], &RowStore<()>, &RowCodec),
    number: usize,
    out: &mut Vec<u8>,
) -> bool {
    let Some(group) = groups.get(number).and_then(Option::as_ref) else { return false };
    for number in [group.hash, group.first, group.end as u64] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    put_bytes(out, &group.key);
    out.extend_from_slice(&(group.best.len() as u32).to_le_bytes());
    let mut row = Vec::new();
    for best in &group.best {
        out.extend_from_slice(&best.arrival.to_le_bytes());
        put_bytes(out, &best.value);
        row.clear();
        held.save(best.slot, codec, &mut row);
        put_bytes(out, &row);
    }
    true
}

impl State for TopGroups {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }
}

impl Structure for TopGroups {
    fn memory(&self) -> usize {
        let of = |number: usize| {
            self.groups[number].as_ref().map_or(0, |group| {
                let values = group.best.iter().map(|best| best.value.len()).sum::<usize>();
                group.key.len() + group.best.capacity() * size_of::<Best>() + values
            })
        };
        self.groups.capacity() * size_of::<Option<TopGroup>>()
            + sampled(self.groups.len(), of)
            + self.index.memory()
            + self.held.memory(|()| 0)
            + self.due.capacity() * size_of::<Reverse<(i64, u64, u32)>>()
            + self.noted.memory()
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let Self { groups, held, codec, noted, .. } = self;
        noted.drain(delta, most, &mut |number, out| write_group((groups, held, codec), number, out))
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let (number, mut from) = (row_of(key)?, ByteReader::new(value));
        for free in self.groups.len()..number {
            self.groups.push(None);
            self.free.push(free as u32);
        }
        let number = number as u32;
        let (hash, first, end) = (from.u64()?, from.u64()?, from.i64()?);
        let (key, best) = (from.sized()?.into(), BinaryHeap::new());
        self.groups.push(Some(TopGroup { hash, key, first, end, best }));
        self.index.insert(hash, number);
        self.arrived = self.arrived.max(first + 1);
        for _ in 0..from.u32()? {
            let arrival = from.u64()?;
            let best = Best { value: from.sized()?.into(), arrival, slot: 0 };
            self.restored.push((from.sized()?.to_vec(), number, best));
            self.arrived = self.arrived.max(arrival + 1);
        }
        if self.windowed {
            self.due.push(Reverse((end, first, number)));
        }
        from.end()
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        let (rows, owners): (Vec<Vec<u8>>, Vec<_>) = std::mem::take(&mut self.restored)
            .into_iter()
            .map(|(row, number, best)| (row, (number, best)))
            .unzip();
        if rows.is_empty() {
            return Ok(());
        }
        let piece = self.held.add(&self.codec.read(&rows)?);
        for (row, (number, best)) in owners.into_iter().enumerate() {
            let slot = self.held.insert(piece, row, ());
            let group = self.groups[number as usize].as_mut();
            group.expect("it was just restored").best.push(Best { slot, ..best });
        }
        Ok(())
    }
}

impl GroupRows<'_> {
    /// The groups that rows go to.
    pub(super) fn groups(&self) -> &TopGroups {
        self.groups
    }

    /// Takes a row and stores it if it is among the best of its group.
    pub(super) fn take(&mut self, it: Arrival<'_>) {
        let groups = &mut *self.groups;
        let arrival = groups.arrived;
        groups.arrived += 1;
        let known = groups.find(it.hash, it.key);
        let (number, is_later, is_better) = match known {
            Some(number) => {
                let group = groups.groups[number as usize].as_ref().expect("it was found");
                // A later row of the same value is worse.
                let is_better = group.best.len() < self.k
                    || group.best.peek().is_some_and(|worst| *it.value < *worst.value);
                (number, groups.windowed && it.time > group.end, is_better)
            }
            None => (groups.free.pop().unwrap_or(groups.groups.len() as u32), true, true),
        };
        if !is_later && !is_better {
            return;
        }
        groups.change(number);
        if known.is_none() {
            if groups.groups.len() == number as usize {
                groups.groups.push(None);
            }
            groups.index.insert(it.hash, number);
        }
        let group = groups.groups[number as usize].get_or_insert_with(|| {
            let (key, best) = (it.key.into(), BinaryHeap::new());
            TopGroup { hash: it.hash, key, first: arrival, end: it.time, best }
        });
        if groups.windowed && is_later {
            group.end = it.time;
            groups.due.push(Reverse((group.end, group.first, number)));
        }
        if !is_better {
            return;
        }
        if group.best.len() >= self.k
            && let Some(worst) = group.best.pop()
        {
            groups.held.remove(worst.slot);
        }
        let piece = *self.piece.get_or_insert_with(|| groups.held.add(self.batch));
        let slot = groups.held.insert(piece, it.row, ());
        group.best.push(Best { value: it.value.into(), arrival, slot });
    }
}
