//! A hash table from 64-bit keys to group numbers, for tables that are larger than the caches.
//!
//! - Open addressing with linear probing: a look-up is one cache line nearly always.
//! - The slots of the keys that come next are asked for before any is compared
//!   ([`IntTable::prefetch`]), so that their cache misses happen at once, and while others are looked
//!   up, and not one after the other, each behind a branch that could not be foretold.
//! - Emptying costs nothing: a slot of an earlier round counts as free.

use tidemill_state::prefetch;

/// A key and its group, if `round` is the table's.
#[derive(Clone, Copy, Debug, Default)]
struct IntSlot {
    key: i64,
    group: u32,
    round: u32,
}

/// Keys and their groups. No group is removed but with all others.
#[derive(Debug)]
pub(super) struct IntTable {
    /// A power of two of them.
    slots: Vec<IntSlot>,
    held: usize,
    /// Never 0, which is the round of a slot that was never used.
    round: u32,
}

/// Slots of the smallest table.
const SLOTS_MIN: usize = 16;

impl IntTable {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), held: 0, round: 1 }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<IntSlot>()
    }

    /// Removes all keys; keeps the memory.
    pub(super) fn clear(&mut self) {
        self.held = 0;
        self.round = self.round.checked_add(1).unwrap_or_else(|| {
            self.slots.fill(IntSlot::default());
            1
        });
    }

    /// Asks for the slot of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let mask = self.slots.len().wrapping_sub(1);
        prefetch(&self.slots, hash as usize & mask);
    }

    /// The group of a key. A new key gets `next`, and `hash_of` says the hash of a key held.
    #[inline]
    pub(super) fn get_or_insert(
        &mut self,
        (key, hash): (i64, u64),
        next: u32,
        hash_of: impl Fn(i64) -> u64,
    ) -> u32 {
        // At most three quarters are taken, so that there is a free slot behind every key.
        if (self.held + 1) * 4 > self.slots.len() * 3 {
            self.grow(hash_of);
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.round != self.round {
                *slot = IntSlot { key, group: next, round: self.round };
                self.held += 1;
                return next;
            }
            if slot.key == key {
                return slot.group;
            }
            at = (at + 1) & mask;
        }
    }

    /// The group of a known key.
    pub(super) fn get(&self, key: i64, hash: u64) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.round != self.round {
                return None;
            }
            if slot.key == key {
                return Some(slot.group);
            }
            at = (at + 1) & mask;
        }
    }

    /// Reserves memory for a total number of keys.
    pub(super) fn reserve(&mut self, keys: usize, hash_of: impl Fn(i64) -> u64) {
        // As many as growing step by step would have come to.
        let size = (keys * 4).div_ceil(3).next_power_of_two();
        if keys > 0 && size > self.slots.len() {
            self.resize(size.max(SLOTS_MIN), hash_of);
        }
    }

    #[cold]
    fn grow(&mut self, hash_of: impl Fn(i64) -> u64) {
        self.resize((self.slots.len() * 2).max(SLOTS_MIN), hash_of);
    }

    fn resize(&mut self, size: usize, hash_of: impl Fn(i64) -> u64) {
        let before = std::mem::replace(&mut self.slots, vec![IntSlot::default(); size]);
        let mask = size - 1;
        for slot in before.into_iter().filter(|slot| slot.round == self.round) {
            let mut at = hash_of(slot.key) as usize & mask;
            while self.slots[at].round == self.round {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }
}
