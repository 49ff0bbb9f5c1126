//! The groups of one slice, each with its best rows.

use super::write;
use crate::gather::{GATHERED_ROWS_MAX, Gather};
use crate::held::{Held, PieceId, RowCodec};
use arrow_array::RecordBatch;
use hashbrown::{HashTable, hash_table::Entry};
use std::cmp::Reverse;
use std::{collections::BinaryHeap, sync::Arc};
use tidemill_flow::{OperatorError, Output};
use tidemill_state::{Delta, Noted, Reader, SavedError, State, Structure, put_bytes, row_of};
use tidemill_types::Micros;

/// Groups from which the memory of all is estimated.
const GROUPS_LOOKED_AT: usize = 8;

/// The open groups of a slice.
pub(super) struct Groups {
    groups: HashTable<Group>,
    held: Held<()>,
    /// Whether groups are of windows, and come out when those close.
    windowed: bool,
    /// If so: end, first arrival and hash of every group, the earliest first. A group whose
    /// end has moved is here more than once; only the last end counts.
    due: BinaryHeap<Reverse<(i64, u64, u64)>>,
    arrived: u64,
    codec: Arc<RowCodec>,
    /// By number of the group: its hash; none if there is no such group.
    numbers: Vec<Option<u64>>,
    free: Vec<u32>,
    noted: Noted,
    /// Rows of the groups that were restored, and the group of each.
    restored: Vec<(Vec<u8>, u64, u32, Best)>,
}

struct Group {
    number: u32,
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
pub(super) struct RowsOf<'a> {
    groups: &'a mut Groups,
    batch: &'a RecordBatch,
    k: usize,
    /// The batch among the held ones, once a row of it is held.
    piece: Option<PieceId>,
}

impl Groups {
    /// No groups.
    pub(super) fn new(windowed: bool, codec: Arc<RowCodec>) -> Self {
        Self {
            groups: HashTable::new(),
            held: Held::default(),
            windowed,
            due: BinaryHeap::new(),
            arrived: 0,
            codec,
            numbers: Vec::new(),
            free: Vec::new(),
            noted: Noted::default(),
            restored: Vec::new(),
        }
    }

    /// A group is about to change or to go.
    fn change(&mut self, number: u32) {
        let Self { groups, held, codec, numbers, noted, .. } = self;
        noted.change(number as usize, |out| {
            write_group((groups, held, codec, numbers), number as usize, out)
        });
    }

    /// Takes rows of a batch; each group holds `k`.
    pub(super) fn rows_of<'a>(&'a mut self, batch: &'a RecordBatch, k: usize) -> RowsOf<'a> {
        RowsOf { groups: self, batch, k, piece: None }
    }

    /// Writes the groups whose rows lie before `limit`; all of them if that is the end of time.
    pub(super) fn complete(
        &mut self,
        limit: Micros,
        complete: &mut Gather,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        if self.windowed {
            let is_due = |end: i64| limit == Micros::MAX || end < limit.0;
            while self.due.peek().is_some_and(|Reverse((end, ..))| is_due(*end)) {
                let Some(Reverse((end, first, hash))) = self.due.pop() else { break };
                let is_it = |it: &Group| it.hash == hash && it.first == first && it.end == end;
                if let Some(number) = self.groups.find(hash, is_it).map(|it| it.number) {
                    self.change(number);
                }
                if let Ok(found) = self.groups.find_entry(hash, is_it) {
                    let group = found.remove().0;
                    self.numbers[group.number as usize] = None;
                    self.free.push(group.number);
                    give(&mut self.held, group, complete, output)?;
                }
            }
        } else if limit == Micros::MAX {
            let Self { groups, held, codec, numbers, noted, .. } = self;
            noted
                .clear(&mut |number, out| write_group((groups, held, codec, numbers), number, out));
            let mut groups: Vec<Group> = self.groups.drain().collect();
            groups.sort_unstable_by_key(|group| group.first);
            for group in groups {
                give(&mut self.held, group, complete, output)?;
            }
        }
        if self.groups.is_empty() {
            self.groups = HashTable::new();
            self.due = BinaryHeap::new();
            (self.numbers, self.free) = (Vec::new(), Vec::new());
        }
        self.held.tidy()
    }

    /// The slots of all rows and their places in their groups, group by group as these will come
    /// out.
    pub(super) fn ranked(&self) -> (Vec<u32>, Vec<u64>) {
        let mut groups: Vec<&Group> = self.groups.iter().collect();
        groups.sort_unstable_by_key(|it| (if self.windowed { it.end } else { 0 }, it.first));
        let best_first = |group: &&Group| {
            let mut best: Vec<&Best> = group.best.iter().collect();
            best.sort_unstable();
            best.into_iter().map(|it| it.slot).zip(1..).collect::<Vec<_>>()
        };
        groups.iter().flat_map(best_first).unzip()
    }

    /// The rows that are held.
    pub(super) fn held_rows(&self) -> &Held<()> {
        &self.held
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }
}

/// Gives a group's rows, the best first, and lets go of them.
fn give(
    held: &mut Held<()>,
    group: Group,
    complete: &mut Gather,
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

/// Groups, their rows, how rows are written, and the hashes of the groups by number.
type Parts<'a> = (&'a HashTable<Group>, &'a Held<()>, &'a RowCodec, &'a [Option<u64>]);

/// Writes a group with its rows.
fn write_group((groups, held, codec, numbers): Parts<'_>, at: usize, out: &mut Vec<u8>) -> bool {
    let Some(hash) = numbers.get(at).copied().flatten() else { return false };
    let Some(group) = groups.find(hash, |it| it.number as usize == at) else { return false };
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

impl State for Groups {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }
}

impl Structure for Groups {
    fn memory(&self) -> usize {
        // As the first of them, which are any.
        let of = |group: &Group| {
            let values = group.best.iter().map(|best| best.value.len()).sum::<usize>();
            group.key.len() + group.best.capacity() * size_of::<Best>() + values
        };
        let some = self.groups.len().min(GROUPS_LOOKED_AT);
        let theirs = self.groups.iter().take(some).map(of).sum::<usize>();
        self.groups.allocation_size()
            + theirs * self.groups.len() / some.max(1)
            + self.held.memory(|()| 0)
            + self.due.capacity() * size_of::<Reverse<(i64, u64, u64)>>()
            + self.numbers.capacity() * size_of::<Option<u64>>()
            + self.noted.memory()
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let Self { groups, held, codec, numbers, noted, .. } = self;
        noted.drain(delta, most, &mut |number, out| {
            write_group((groups, held, codec, numbers), number, out)
        })
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let (number, mut from) = (row_of(key)?, Reader::new(value));
        for free in self.numbers.len()..number {
            self.numbers.push(None);
            self.free.push(free as u32);
        }
        let (hash, first, end) = (from.u64()?, from.u64()?, from.i64()?);
        let group = Group {
            number: number as u32,
            hash,
            key: from.sized()?.into(),
            first,
            end,
            best: BinaryHeap::new(),
        };
        self.arrived = self.arrived.max(first + 1);
        for _ in 0..from.u32()? {
            let arrival = from.u64()?;
            let best = Best { value: from.sized()?.into(), arrival, slot: 0 };
            self.restored.push((from.sized()?.to_vec(), hash, group.number, best));
            self.arrived = self.arrived.max(arrival + 1);
        }
        if self.windowed {
            self.due.push(Reverse((end, first, hash)));
        }
        self.groups.insert_unique(hash, group, |group| group.hash);
        self.numbers.push(Some(hash));
        from.end()
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        let (rows, owners): (Vec<Vec<u8>>, Vec<_>) = std::mem::take(&mut self.restored)
            .into_iter()
            .map(|(row, hash, number, best)| (row, (hash, number, best)))
            .unzip();
        if rows.is_empty() {
            return Ok(());
        }
        let piece = self.held.add(&self.codec.read(&rows)?);
        for (row, (hash, number, best)) in owners.into_iter().enumerate() {
            let slot = self.held.insert(piece, row, ());
            let group = self.groups.find_mut(hash, |it| it.number == number);
            group.expect("it was just restored").best.push(Best { slot, ..best });
        }
        Ok(())
    }
}

impl RowsOf<'_> {
    /// Takes a row: it is held if it is among the best of its group.
    pub(super) fn take(&mut self, it: Arrival<'_>) {
        let groups = &mut *self.groups;
        let arrival = groups.arrived;
        groups.arrived += 1;
        let same = |group: &Group| group.hash == it.hash && *group.key == *it.key;
        let known = groups.groups.find(it.hash, same).map(|group| {
            let is_later = groups.windowed && it.time > group.end;
            // A later row of the same value is worse.
            let is_better = group.best.len() < self.k
                || group.best.peek().is_some_and(|worst| *it.value < *worst.value);
            (group.number, is_later, is_better)
        });
        let (number, is_later, is_better) = known.unwrap_or_else(|| {
            (groups.free.pop().unwrap_or(groups.numbers.len() as u32), true, true)
        });
        if !is_later && !is_better {
            return;
        }
        groups.change(number);
        let group = match groups.groups.entry(it.hash, same, |group| group.hash) {
            Entry::Occupied(group) => group.into_mut(),
            Entry::Vacant(free) => {
                if groups.numbers.len() == number as usize {
                    groups.numbers.push(None);
                }
                groups.numbers[number as usize] = Some(it.hash);
                let (key, best) = (it.key.into(), BinaryHeap::new());
                let (hash, end) = (it.hash, it.time);
                free.insert(Group { number, hash, key, first: arrival, end, best }).into_mut()
            }
        };
        if groups.windowed && is_later {
            group.end = it.time;
            groups.due.push(Reverse((group.end, group.first, group.hash)));
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
