//! The groups of one slice, each with its best rows.

use super::write;
use crate::gather::{GATHERED_ROWS_MAX, Gather};
use crate::held::{Held, PieceId};
use arrow_array::RecordBatch;
use hashbrown::{HashTable, hash_table::Entry};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tidemill_flow::{OperatorError, Output};
use tidemill_types::Micros;

/// The open groups of a slice.
#[derive(Default)]
pub(super) struct Groups {
    groups: HashTable<Group>,
    held: Held<()>,
    /// Whether groups are of windows, and come out when those close.
    windowed: bool,
    /// If so: end, first arrival and hash of every group, the earliest first. A group whose
    /// end has moved is here more than once; only the last end counts.
    due: BinaryHeap<Reverse<(i64, u64, u64)>>,
    arrived: u64,
}

struct Group {
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
    pub(super) fn new(windowed: bool) -> Self {
        Self { windowed, ..Self::default() }
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
                if let Ok(found) = self.groups.find_entry(hash, is_it) {
                    give(&mut self.held, found.remove().0, complete, output)?;
                }
            }
        } else if limit == Micros::MAX {
            let mut groups: Vec<Group> = self.groups.drain().collect();
            groups.sort_unstable_by_key(|group| group.first);
            for group in groups {
                give(&mut self.held, group, complete, output)?;
            }
        }
        if self.groups.is_empty() {
            self.groups = HashTable::new();
            self.due = BinaryHeap::new();
        }
        self.held.tidy()
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

impl RowsOf<'_> {
    /// Takes a row: it is held if it is among the best of its group.
    pub(super) fn take(&mut self, it: Arrival<'_>) {
        let groups = &mut *self.groups;
        let arrival = groups.arrived;
        groups.arrived += 1;
        let same = |group: &Group| group.hash == it.hash && *group.key == *it.key;
        let group = match groups.groups.entry(it.hash, same, |group| group.hash) {
            Entry::Occupied(known) => {
                let group = known.into_mut();
                if groups.windowed && it.time > group.end {
                    group.end = it.time;
                    groups.due.push(Reverse((group.end, group.first, group.hash)));
                }
                group
            }
            Entry::Vacant(free) => {
                if groups.windowed {
                    groups.due.push(Reverse((it.time, arrival, it.hash)));
                }
                let (key, best) = (it.key.into(), BinaryHeap::new());
                let group = Group { hash: it.hash, key, first: arrival, end: it.time, best };
                free.insert(group).into_mut()
            }
        };
        if group.best.len() >= self.k {
            // A later row of the same value is worse.
            match group.best.peek_mut() {
                Some(worst) if *it.value < *worst.value => {
                    groups.held.remove(worst.slot);
                    std::collections::binary_heap::PeekMut::pop(worst);
                }
                _ => return,
            }
        }
        let piece = *self.piece.get_or_insert_with(|| groups.held.add(self.batch));
        let slot = groups.held.insert(piece, it.row, ());
        group.best.push(Best { value: it.value.into(), arrival, slot });
    }
}
