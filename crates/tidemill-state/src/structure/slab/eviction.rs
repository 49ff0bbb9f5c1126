//! The evicted values of a slab: their hashes, and values read back for a reader.

use crate::structure::{Expiry, Plain, beside, read_plain};
use hashbrown::HashMap;
use std::cell::{Cell, OnceCell};

/// The values that left memory.
#[derive(Debug)]
pub(super) struct EvictedValues<T> {
    pub(super) expiry: Expiry,
    rows: HashMap<u32, EvictedRow<T>>,
    /// An estimate of the bytes of the values that were read back.
    revived_bytes: Cell<usize>,
}

#[derive(Debug)]
struct EvictedRow<T> {
    hash: u64,
    /// The value, once a reader needed it.
    revived: OnceCell<Box<T>>,
}

impl<T: Plain> EvictedValues<T> {
    pub(super) fn new(expiry: Expiry) -> Self {
        Self { expiry, rows: HashMap::new(), revived_bytes: Cell::new(0) }
    }

    pub(super) fn memory(&self) -> usize {
        self.expiry.memory() + self.rows.allocation_size() + self.revived_bytes.get()
    }

    /// Returns true if the value is evicted.
    pub(super) fn has(&self, row: u32) -> bool {
        self.rows.contains_key(&row)
    }

    /// The hash of an evicted value.
    pub(super) fn hash(&self, row: u32) -> Option<u64> {
        self.rows.get(&row).map(|it| it.hash)
    }

    /// Reads a value for a use.
    pub(super) fn get(&self, row: u32) -> Option<&T> {
        let it = self.rows.get(&row)?;
        self.expiry.uses(row as usize);
        Some(it.revived.get_or_init(|| {
            let value: T = self.expiry.revive(row as usize, read_plain);
            self.revived_bytes.update(|bytes| bytes + size_of::<T>() + beside(&value));
            Box::new(value)
        }))
    }

    /// Hands a value to `look`, for a snapshot; none if it is not evicted.
    pub(super) fn show<R>(&self, row: u32, look: impl FnOnce(&T) -> R) -> Option<R> {
        let it = self.rows.get(&row)?;
        Some(match it.revived.get() {
            Some(value) => look(value),
            None => look(&self.expiry.look_at::<T>(row as usize, read_plain)),
        })
    }

    /// Moves a value back into memory.
    pub(super) fn take(&mut self, row: u32) -> Option<T> {
        if !self.has(row) {
            return None;
        }
        // What cannot be read stays away.
        self.get(row);
        let value = *self.rows.remove(&row)?.revived.take()?;
        self.forget(&value);
        self.expiry.came_back();
        Some(value)
    }

    /// Evicts a value with this hash.
    pub(super) fn leave(&mut self, row: u32, hash: u64) {
        self.rows.insert(row, EvictedRow { hash, revived: OnceCell::new() });
        self.expiry.left();
    }

    /// Evicts a value again that was only read.
    pub(super) fn leave_again(&mut self, row: u32) {
        let value = self.rows.get_mut(&row).and_then(|it| it.revived.take());
        value.into_iter().for_each(|value| self.forget(&value));
    }

    fn forget(&self, value: &T) {
        let bytes = size_of::<T>() + beside(value);
        self.revived_bytes.update(|held| held.saturating_sub(bytes));
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.revived_bytes.set(0);
        self.expiry.clear();
    }
}
