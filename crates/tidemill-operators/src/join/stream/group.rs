//! The rows of each key, in order of time and arrival.

use super::{StreamSide, WaitingRow};
use crate::row_store::RowStore;
use smallvec::SmallVec;
use tidemill_state::{KeyTable, prefetch, structure::sampled};

/// Keys without rows are kept while there are no more keys than this. Tests have few.
pub(super) const KEYS_KEPT: usize = if cfg!(test) { 4 } else { 1_024 };

/// The slots of the rows of one key, by side.
type KeyQueues = [TimeQueue; 2];

/// Slots of rows in order of time and arrival, of which the first goes. Most keys have few.
#[derive(Default)]
struct TimeQueue {
    slots: SmallVec<[u32; 4]>,
    /// The number of gone rows, which are taken out once they are half of all.
    gone: u32,
}

impl TimeQueue {
    #[inline]
    fn rows(&self) -> &[u32] {
        &self.slots[self.gone as usize..]
    }

    fn is_empty(&self) -> bool {
        self.rows().is_empty()
    }

    fn insert(&mut self, at: usize, slot: u32) {
        self.slots.insert(self.gone as usize + at, slot);
    }

    fn pop_front(&mut self) -> Option<u32> {
        let first = self.rows().first().copied()?;
        self.gone += 1;
        if self.gone as usize * 2 >= self.slots.len() {
            self.slots.drain(..self.gone as usize);
            self.gone = 0;
            if self.slots.len() * 4 < self.slots.capacity() {
                self.slots.shrink_to_fit();
            }
        }
        Some(first)
    }
}

/// Keys, by number, and their rows.
#[derive(Default)]
pub(super) struct KeyGroups {
    pub(super) keys: KeyTable,
    slots: Vec<KeyQueues>,
    /// Keys with rows.
    live: usize,
}

impl KeyGroups {
    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        let spilled = |it: &&TimeQueue| it.slots.spilled();
        let of = |group: usize| {
            let spilled = self.slots[group].iter().filter(spilled);
            spilled.map(|it| it.slots.capacity()).sum::<usize>() * size_of::<u32>()
        };
        self.keys.memory()
            + self.slots.capacity() * size_of::<KeyQueues>()
            + sampled(self.slots.len(), of)
    }

    /// The number of keys with rows.
    #[cfg(test)]
    pub(super) const fn live(&self) -> usize {
        self.live
    }

    /// The group of a key, which should get rows if it is new.
    #[inline]
    pub(super) fn of(&mut self, key: &[u8], hash: u64) -> u32 {
        let group = self.keys.find_or_add(key, hash);
        if self.slots.len() < self.keys.len() {
            self.slots.push(KeyQueues::default());
        }
        group
    }

    /// Asks for the rows of a group.
    #[inline]
    pub(super) fn prefetch(&self, group: u32) {
        prefetch(&self.slots, group as usize);
    }

    /// Prefetches the rows that a row meets in its group; the group itself should be in a cache by now.
    #[inline]
    pub(super) fn prefetch_rows(&self, group: u32, sides: &[StreamSide; 2], side: usize) {
        let slots = &self.slots[group as usize];
        if let Some(first) = slots[1 - side].rows().first() {
            sides[1 - side].held.prefetch(*first);
        }
        if let Some(last) = slots[side].rows().last() {
            sides[side].held.prefetch(*last);
        }
    }

    /// Puts into `met` the rows of the other side whose times are near enough, in order of arrival.
    pub(super) fn near(
        &self,
        (group, side): (u32, usize),
        held: &RowStore<WaitingRow>,
        (time, within): (i64, i64),
        met: &mut Vec<(u64, u32)>,
    ) {
        let slots = self.slots[group as usize][side].rows();
        let (first, last) = (time.saturating_sub(within), time.saturating_add(within));
        let from = slots.partition_point(|slot| held.data(*slot).time < first);
        met.clear();
        for slot in &slots[from..] {
            let (at, arrival) = place(held, *slot);
            if at > last {
                break;
            }
            met.push((arrival, *slot));
        }
        if !met.is_sorted() {
            met.sort_unstable();
        }
    }

    /// Takes a row into its group.
    pub(super) fn insert(
        &mut self,
        (group, side): (u32, usize),
        held: &RowStore<WaitingRow>,
        slot: u32,
    ) {
        let slots = &mut self.slots[group as usize];
        self.live += usize::from(slots.iter().all(TimeQueue::is_empty));
        let at = place(held, slot);
        let rows = slots[side].rows();
        let before = match rows.last() {
            Some(last) if place(held, *last) > at => {
                rows.partition_point(|other| place(held, *other) < at)
            }
            _ => rows.len(),
        };
        slots[side].insert(before, slot);
    }

    /// Takes a row out of its group. Rows go in the order that a group has them in, so it is the first.
    pub(super) fn remove(&mut self, (group, side): (u32, usize), slot: u32) {
        let slots = &mut self.slots[group as usize];
        let first = slots[side].pop_front();
        debug_assert_eq!(first, Some(slot), "rows go in the order of their group");
        self.live -= usize::from(slots.iter().all(TimeQueue::is_empty));
    }

    /// Forgets keys without rows, if they are many. The others have new numbers then.
    pub(super) fn forget(&mut self, sides: &mut [StreamSide; 2]) {
        if self.live > 0 && self.keys.len() <= KEYS_KEPT.max(self.live * 2) {
            return;
        }
        let Self { keys, slots, live } = std::mem::take(self);
        for (number, slots) in slots.into_iter().enumerate() {
            if slots.iter().all(TimeQueue::is_empty) {
                continue;
            }
            let group = self.keys.find_or_add(keys.key(number), keys.hash(number));
            for (side, slots) in sides.iter_mut().zip(&slots) {
                let rows = slots.rows().iter();
                rows.for_each(|slot| side.held.data_mut(*slot).group = Some(group));
            }
            self.slots.push(slots);
        }
        self.live = live;
    }
}

/// Where a row is among those of its key.
fn place(held: &RowStore<WaitingRow>, slot: u32) -> (i64, u64) {
    let waiting = held.data(slot);
    (waiting.time, waiting.arrival)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn a_queue_is_one(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..400)) {
            let (mut queue, mut model) = (TimeQueue::default(), VecDeque::new());
            for (slot, (comes, at)) in (0..).zip(steps) {
                if comes {
                    let at = at.index(model.len() + 1);
                    model.insert(at, slot);
                    queue.insert(at, slot);
                } else {
                    prop_assert_eq!(queue.pop_front(), model.pop_front());
                }
                prop_assert!(queue.rows().iter().eq(&model));
                prop_assert!(queue.slots.len() <= 2 * model.len().max(1));
            }
        }
    }
}
