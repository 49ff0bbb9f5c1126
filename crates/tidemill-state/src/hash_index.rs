//! An index from hashes to entry numbers, used by maps.
//!
//! - Open addressing with linear probing, eight slots a cache line. A slot holds half of a hash,
//!   which nearly always tells entries apart, so growing the table reads no entry.
//! - Removing a number leaves no gap: the slots behind it move up.

use crate::prefetch;

/// Numbers by their hashes. Several numbers may share a hash.
#[derive(Debug, Default)]
pub struct HashIndex {
    /// The slots, a power of two: half a hash, and the number plus one; 0 is a free slot.
    slots: Vec<u64>,
    held: usize,
}

/// The slots of the smallest table.
const SLOTS_MIN: usize = 8;

/// The half of a hash that a slot stores.
const fn half(hash: u64) -> u64 {
    hash as u32 as u64
}

const fn filled(hash: u64, number: u32) -> u64 {
    half(hash) << 32 | (number as u64 + 1)
}

const fn number_of(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

impl HashIndex {
    /// The count of numbers.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.held
    }

    /// Returns true if there is no number.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// The count of numbers that fit without growing.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.slots.len() / 4 * 3
    }

    /// The memory in bytes.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    /// Removes all numbers and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        self.held = 0;
    }

    #[inline]
    const fn home(&self, slot_hash: u64) -> usize {
        slot_hash as usize & self.slots.len().wrapping_sub(1)
    }

    /// Prefetches the slot of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.slots, self.home(half(hash)));
    }

    /// Finds the first number with this hash that satisfies `is`.
    #[inline]
    pub fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(half(hash));
        loop {
            match *self.slots.get(at)? {
                0 => return None,
                slot if slot >> 32 == half(hash) && is(number_of(slot)) => {
                    return Some(number_of(slot));
                }
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Adds a number, which must be new.
    pub fn insert(&mut self, hash: u64, number: u32) {
        // At most three quarters are taken, so that there is a free slot behind every one.
        if (self.held + 1) * 4 > self.slots.len() * 3 {
            let size = (self.slots.len() * 2).max(SLOTS_MIN);
            let before = std::mem::replace(&mut self.slots, vec![0; size]);
            before.into_iter().filter(|slot| *slot != 0).for_each(|slot| self.put(slot));
        }
        self.put(filled(hash, number));
        self.held += 1;
    }

    fn put(&mut self, slot: u64) {
        let mut at = self.home(slot >> 32);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
    }

    /// Removes a number; returns false if it was not there.
    pub fn remove(&mut self, hash: u64, number: u32) -> bool {
        let (wanted, mask) = (filled(hash, number), self.slots.len().wrapping_sub(1));
        let mut free = self.home(half(hash));
        loop {
            match self.slots.get(free) {
                None | Some(0) => return false,
                Some(slot) if *slot == wanted => break,
                Some(_) => free = (free + 1) & mask,
            }
        }
        let mut next = (free + 1) & mask;
        while self.slots[next] != 0 {
            // It may stand in the free slot if that is not before where its search begins.
            let home = self.home(self.slots[next] >> 32);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(free) & mask {
                self.slots[free] = self.slots[next];
                free = next;
            }
            next = (next + 1) & mask;
        }
        self.slots[free] = 0;
        self.held -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Hashes of which many are alike, or begin their search at the end of the table.
        #[test]
        fn numbers_are_found_by_their_hashes_until_they_are_taken_out(
            steps in prop::collection::vec((any::<bool>(), 0..40_u64, any::<prop::sample::Index>()), 0..500),
        ) {
            let (mut numbers, mut model) = (HashIndex::default(), Vec::new());
            for (number, (comes, hash, any)) in (0..).zip(steps) {
                let hash = (hash % 5) << 32 | (hash | 0xffff_fff8);
                numbers.prefetch(hash);
                if comes || model.is_empty() {
                    numbers.insert(hash, number);
                    model.push((hash, number));
                } else {
                    let (hash, number) = model.swap_remove(any.index(model.len()));
                    prop_assert!(numbers.remove(hash, number));
                    prop_assert!(!numbers.remove(hash, number));
                }
                prop_assert_eq!(numbers.len(), model.len());
                for (hash, number) in &model {
                    prop_assert_eq!(numbers.find(*hash, |it| it == *number), Some(*number));
                }
                prop_assert_eq!(numbers.find(3, |_| true), None);
            }
            numbers.clear();
            prop_assert!(numbers.is_empty());
            prop_assert!(model.iter().all(|(hash, _)| numbers.find(*hash, |_| true).is_none()));
        }
    }
}
