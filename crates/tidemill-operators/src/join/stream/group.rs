//! The rows of one key, in order of time and arrival.

use super::Waiting;
use crate::held::Held;
use hashbrown::{HashTable, hash_table::Entry};
use std::collections::VecDeque;
use std::sync::Arc;

/// The rows of one key, by side, in order of time and arrival.
pub(super) struct Group {
    pub(super) hash: u64,
    pub(super) key: Arc<[u8]>,
    pub(super) slots: [VecDeque<u32>; 2],
}

/// The group of a key.
pub(super) fn group_of<'a>(
    groups: &'a mut HashTable<Group>,
    hash: u64,
    key: &[u8],
) -> &'a mut Group {
    let same = |group: &Group| group.hash == hash && *group.key == *key;
    match groups.entry(hash, same, |group| group.hash) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(free) => {
            let slots = Default::default();
            free.insert(Group { hash, key: key.into(), slots }).into_mut()
        }
    }
}

/// Where a row is among those of its key.
pub(super) fn place(held: &Held<Waiting>, slot: u32) -> (i64, u64) {
    let waiting = held.data(slot);
    (waiting.time, waiting.arrival)
}

/// Puts into `met` the rows of a group whose times are near enough, in order of arrival.
pub(super) fn near(
    slots: &VecDeque<u32>,
    held: &Held<Waiting>,
    (time, within): (i64, i64),
    met: &mut Vec<(u64, u32)>,
) {
    let (first, last) = (time.saturating_sub(within), time.saturating_add(within));
    let from = slots.partition_point(|slot| held.data(*slot).time < first);
    met.clear();
    for slot in slots.range(from..) {
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

/// Takes a slot out of the group of its key; the group goes with its last row. Rows go in the order
/// that a group has them in, so it is the first.
pub(super) fn forget(groups: &mut HashTable<Group>, hash: u64, side: usize, slot: u32) {
    let holds = |group: &Group| group.hash == hash && group.slots[side].front() == Some(&slot);
    let Ok(mut found) = groups.find_entry(hash, holds) else { return };
    let slots = &mut found.get_mut().slots;
    slots[side].pop_front();
    if slots.iter().all(VecDeque::is_empty) {
        found.remove();
    }
}
