//! A hash table that numbers byte keys in the order of their first appearance, made for more keys
//! than fit in the caches.
//!
//! ```text
//! hash ──▶ slots  ┊ word of the key, number ┊ …       one cache line, for keys of up to 23 bytes
//!                              │
//! number ──▶ keys, hashes ◀────┘                      in order of first appearance
//! ```
//!
//! - A key of up to 23 bytes is stored in its slot, so comparing it needs no second memory access.
//!   The slot of a longer key has its hash and its position.
//! - Open addressing with linear probing. A caller that knows the next keys prefetches their slots
//!   ([`KeyTable::prefetch`]).
//! - Clearing costs nothing: a slot of an earlier round counts as free.

use crate::prefetch;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// A key and its number, valid if `round` is the table's. Two of them fill a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct KeySlot {
    word: KeyWord,
    number: u32,
    round: u32,
}

/// A key of up to 23 bytes, padded with zeros, its length in the last byte; or the hash, the start
/// and the length of a longer key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KeyWord([u64; 3]);

/// The bytes of the longest key that is stored in its slot.
const SHORT_BYTES_MAX: usize = 23;

/// The length byte of a long key.
const LONG: u64 = u64::MAX << 56;

impl KeyWord {
    /// A key of up to 23 bytes.
    #[inline]
    fn short(key: &[u8]) -> Option<Self> {
        let length = key.len();
        // The last eight bytes, without those that the words before have.
        let last = |from: usize| -> Option<u64> {
            let last = u64::from_le_bytes(*key.last_chunk()?);
            Some(last.checked_shr(8 * (from + 8 - length) as u32).unwrap_or(0))
        };
        let [first, second, third] = match length {
            16..=SHORT_BYTES_MAX => {
                let (first, rest) = key.split_first_chunk()?;
                let second = u64::from_le_bytes(*rest.first_chunk()?);
                [u64::from_le_bytes(*first), second, last(16)?]
            }
            8..16 => [u64::from_le_bytes(*key.first_chunk()?), last(8)?, 0],
            4..8 => {
                let first = u64::from(u32::from_le_bytes(*key.first_chunk()?));
                let last = u64::from(u32::from_le_bytes(*key.last_chunk()?));
                [first | last << (8 * (length - 4)), 0, 0]
            }
            0..4 => [key.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)), 0, 0],
            _ => return None,
        };
        Some(Self([first, second, third | (length as u64) << 56]))
    }

    fn long(hash: u64, place: &Range<usize>) -> Self {
        Self([hash, place.start as u64, place.len() as u64 | LONG])
    }

    /// The start of a long key, if hash and length match.
    #[inline]
    fn start_of(self, hash: u64, length: usize) -> Option<usize> {
        (self.0[0] == hash && self.0[2] == length as u64 | LONG).then_some(self.0[1] as usize)
    }
}

/// Keys and their numbers, from 0. No key is removed except with all others.
#[derive(Debug)]
pub struct KeyTable {
    /// A power of two of them.
    slots: Vec<KeySlot>,
    held: usize,
    /// The current round, never 0: that is the round of an unused slot.
    round: u32,
    /// All keys, by number, one after the other.
    bytes: Vec<u8>,
    /// The end of each key in `bytes`.
    ends: Vec<usize>,
    hashes: Vec<u64>,
}

/// Slots of the smallest table.
const SLOTS_MIN: usize = 8;

/// The number of slots ahead at which a growing table prefetches the hash of a key.
const MOVED_AHEAD: usize = 16;

impl Default for KeyTable {
    fn default() -> Self {
        Self::new()
    }
}

/// The form of a key that is compared with slots.
#[derive(Clone, Copy)]
enum Sought<'a> {
    Short(KeyWord),
    /// With its hash.
    Long(&'a [u8], u64),
}

impl<'a> Sought<'a> {
    #[inline]
    fn new(key: &'a [u8], hash: u64) -> Self {
        KeyWord::short(key).map_or(Self::Long(key, hash), Self::Short)
    }

    #[inline]
    fn is(self, word: KeyWord, bytes: &[u8]) -> bool {
        match self {
            Self::Short(short) => short == word,
            Self::Long(key, hash) => word
                .start_of(hash, key.len())
                .is_some_and(|start| bytes[start..start + key.len()] == *key),
        }
    }
}

impl KeyTable {
    /// A table without keys, and without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            slots: Vec::new(),
            held: 0,
            round: 1,
            bytes: Vec::new(),
            ends: Vec::new(),
            hashes: Vec::new(),
        }
    }

    /// The memory in bytes.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<KeySlot>()
            + self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.hashes.capacity() * size_of::<u64>()
    }

    /// The count of numbers.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no number.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes all keys and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
        self.forget_slots();
    }

    /// The key of a number.
    ///
    /// # Panics
    /// The number was not given.
    #[inline]
    #[must_use]
    pub fn key(&self, number: usize) -> &[u8] {
        &self.bytes[self.place(number)]
    }

    /// The hash with which a number was given.
    ///
    /// # Panics
    /// The number was not given.
    #[inline]
    #[must_use]
    pub fn hash(&self, number: usize) -> u64 {
        self.hashes[number]
    }

    fn place(&self, number: usize) -> Range<usize> {
        number.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[number]
    }

    /// Prefetches the slot of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.slots, self.home(hash));
    }

    /// Prefetches the bytes of a long key. The slots of its hash should be in a cache by now. Does
    /// nothing for a short key.
    #[inline]
    pub fn prefetch_long(&self, key: &[u8], hash: u64) {
        if key.len() <= SHORT_BYTES_MAX || self.slots.is_empty() {
            return;
        }
        let mut at = self.home(hash);
        while self.slots[at].round == self.round {
            if let Some(start) = self.slots[at].word.start_of(hash, key.len()) {
                prefetch(&self.bytes, start);
                // It may stand on two lines.
                prefetch(&self.bytes, start + key.len() - 1);
                return;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Prefetches the memory that [`Self::key`] and [`Self::hash`] read.
    #[inline]
    pub fn prefetch_number(&self, number: usize) {
        prefetch(&self.ends, number);
        prefetch(&self.hashes, number);
    }

    /// The slot at which the search for a hash begins. The highest bits of a hash tell slices
    /// apart, so the lowest are used.
    #[inline]
    const fn home(&self, hash: u64) -> usize {
        hash as usize & self.slots.len().wrapping_sub(1)
    }

    /// The number of a key.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8], hash: u64) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let slot = &self.slots[self.search(Sought::new(key, hash), hash)];
        (slot.round == self.round).then_some(slot.number)
    }

    /// The number of a key, which is the next free one for a new key. Equal keys must have equal
    /// hashes.
    ///
    /// # Panics
    /// There are 2³² numbers.
    #[inline]
    pub fn find_or_add(&mut self, key: &[u8], hash: u64) -> u32 {
        self.make_room();
        let sought = Sought::new(key, hash);
        let at = self.search(sought, hash);
        let slot = &self.slots[at];
        if slot.round == self.round {
            return slot.number;
        }
        let number = self.push(key, hash);
        self.put(at, self.word(sought, number as usize), number);
        number
    }

    /// Gives a key the next number. [`Self::find`] does not see the key before [`Self::index`].
    ///
    /// # Panics
    /// There are 2³² numbers.
    pub fn push(&mut self, key: &[u8], hash: u64) -> u32 {
        let number = u32::try_from(self.ends.len()).expect("fewer than 2^32 keys");
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
        number
    }

    /// Reserves memory for about this many pushes.
    pub fn reserve(&mut self, keys: usize) {
        self.ends.reserve_exact(keys);
        self.hashes.reserve_exact(keys);
    }

    /// Frees memory beyond that of this many keys.
    pub fn shrink_to(&mut self, keys: usize) {
        self.ends.shrink_to(keys);
        self.hashes.shrink_to(keys);
    }

    /// Indexes all pushed keys except `unfound`, in a table of the final size. Returns false if a
    /// key is there twice.
    #[must_use]
    pub fn index(&mut self, unfound: Option<u32>) -> bool {
        self.forget_slots();
        // As many as growing step by step would have come to.
        let size = (self.len() * 4).div_ceil(3).next_power_of_two().max(SLOTS_MIN);
        if size > self.slots.len() {
            self.slots = vec![KeySlot::default(); size];
        }
        for number in 0..self.ends.len() {
            if let Some(ahead) = self.hashes.get(number + MOVED_AHEAD) {
                self.prefetch(*ahead);
            }
            if unfound == Some(number as u32) {
                continue;
            }
            let hash = self.hashes[number];
            let sought = Sought::new(self.key(number), hash);
            let (at, word) = (self.search(sought, hash), self.word(sought, number));
            if self.slots[at].round == self.round {
                return false;
            }
            self.put(at, word, number as u32);
        }
        true
    }

    /// The slot of a key, or the free slot where it would be. At least one slot is always free.
    #[inline]
    fn search(&self, sought: Sought<'_>, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.round != self.round || sought.is(slot.word, &self.bytes) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// The word of a key in its slot.
    #[inline]
    fn word(&self, sought: Sought<'_>, number: usize) -> KeyWord {
        match sought {
            Sought::Short(word) => word,
            Sought::Long(_, hash) => KeyWord::long(hash, &self.place(number)),
        }
    }

    #[inline]
    fn put(&mut self, at: usize, word: KeyWord, number: u32) {
        self.slots[at] = KeySlot { word, number, round: self.round };
        self.held += 1;
    }

    fn forget_slots(&mut self) {
        self.held = 0;
        self.round = self.round.checked_add(1).unwrap_or_else(|| {
            self.slots.fill(KeySlot::default());
            1
        });
    }

    /// Makes room for one more key. At most three quarters of the slots are taken, so that a search
    /// always ends.
    #[inline]
    fn make_room(&mut self) {
        if (self.held + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(SLOTS_MIN);
        let before = std::mem::replace(&mut self.slots, vec![KeySlot::default(); size]);
        for (index, slot) in before.iter().enumerate() {
            if let Some(ahead) = before.get(index + MOVED_AHEAD) {
                prefetch(&self.hashes, ahead.number as usize);
            }
            if slot.round != self.round {
                continue;
            }
            let mut at = self.home(self.hashes[slot.number as usize]);
            while self.slots[at].round == self.round {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = *slot;
        }
    }
}
