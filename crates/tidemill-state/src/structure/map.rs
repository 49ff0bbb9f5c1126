//! A map: values by key.

use super::columns::{ColumnKind, TakeRow, kind_of, show};
use super::slab::Slab;
use super::{Plain, SavedRows, Structure};
use crate::HashIndex;
use crate::delta::{Delta, SavedError};
use foldhash::fast::FixedState;
use std::{
    borrow::Borrow,
    hash::{BuildHasher, Hash},
};

/// A map from keys to values. Its order follows from its content, so it is the same on every run.
#[derive(Debug)]
pub struct Map<K, V> {
    numbers: HashIndex,
    entries: Slab<(K, V)>,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self { numbers: HashIndex::default(), entries: Slab::default() }
    }
}

fn hash_of<Q: Hash + ?Sized>(key: &Q) -> u64 {
    FixedState::default().hash_one(key)
}

impl<K: Plain + Hash + Eq, V: Plain> Map<K, V> {
    /// The count of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The count of keys that fit without growing.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.numbers.capacity().max(self.entries.capacity())
    }

    /// Returns true if there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn find<Q>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (entries, hash) = (&self.entries, hash_of(key));
        self.numbers.find(hash, |it| entries.is(it, hash, |(held, _)| held.borrow() == key))
    }

    /// Prefetches the slot of a key, which [`Self::get`] reads first. A caller that knows the next
    /// keys does this some [`SLOTS_AHEAD`](crate::SLOTS_AHEAD) keys ahead, and
    /// [`Self::prefetch_entry`] later.
    #[inline]
    pub fn prefetch<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + ?Sized,
    {
        self.numbers.prefetch(hash_of(key));
    }

    /// Prefetches the entry of a key whose slot was prefetched some time before.
    #[inline]
    pub fn prefetch_entry<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + ?Sized,
    {
        if let Some(number) = self.numbers.find(hash_of(key), |_| true) {
            self.entries.prefetch(number);
        }
    }

    /// The stored key that is likely equal: it has the same hash, and is not compared. For
    /// prefetching the heap memory of keys, some time after [`Self::prefetch_entry`].
    #[inline]
    pub fn likely<Q>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
        Q: Hash + ?Sized,
    {
        let number = self.numbers.find(hash_of(key), |_| true)?;
        self.entries.in_memory(number).map(|(key, _)| key)
    }

    /// The value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.get(self.find(key)?).map(|(_, value)| value)
    }

    /// The value of a key, to be changed.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let number = self.find(key)?;
        self.entries.get_mut(number).map(|(_, value)| value)
    }

    /// The value of a key, to be changed. A new key gets `value` first.
    pub fn get_or_set_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let number = self.find(&key).unwrap_or_else(|| self.add(key, value()));
        self.entries.get_mut(number).map(|(_, value)| value).expect("it is there")
    }

    /// As [`Self::get_or_set_with`], with the default value.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or_set_with(key, V::default)
    }

    /// Sets the value of a key and returns the old one.
    pub fn set(&mut self, key: K, value: V) -> Option<V> {
        match self.get_mut(&key) {
            Some(held) => Some(std::mem::replace(held, value)),
            None => {
                self.add(key, value);
                None
            }
        }
    }

    fn add(&mut self, key: K, value: V) -> u32 {
        let hash = hash_of(&key);
        let number = self.entries.insert((key, value));
        self.numbers.insert(hash, number);
        number
    }

    /// Deletes a key and returns its value.
    pub fn delete<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let number = self.find(key)?;
        self.take(hash_of(key), number)
    }

    fn take(&mut self, hash: u64, number: u32) -> Option<V> {
        self.numbers.remove(hash, number);
        self.entries.remove(number).map(|(_, value)| value)
    }

    /// Deletes every entry for which `keeps` is false. Reads expired entries back.
    pub fn retain(&mut self, mut keeps: impl FnMut(&K, &V) -> bool) {
        let gone = self.entries.iter().filter(|(_, (key, value))| !keeps(key, value));
        let gone: Vec<(u64, u32)> = gone.map(|(number, (key, _))| (hash_of(key), number)).collect();
        for (hash, number) in gone {
            self.take(hash, number);
        }
    }

    /// Deletes everything.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.entries.clear();
    }

    /// All entries. Reads expired entries back.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(_, (key, value))| (key, value))
    }
}

impl<K: Plain + Hash + Eq, V: Plain> Structure for Map<K, V> {
    fn memory(&self) -> usize {
        self.numbers.memory() + self.entries.memory()
    }

    fn track(&mut self) {
        self.entries.track();
    }

    fn freeze(&mut self) {
        self.entries.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        self.entries.drain(delta, most)
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        self.entries.restore_with((key, value), |(key, _)| hash_of(key))
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        for number in self.entries.numbers() {
            let hash = self.entries.hash(number, |(key, _)| hash_of(key));
            self.numbers.insert(hash, number);
        }
        Ok(())
    }

    fn columns(&self) -> Vec<(&'static str, ColumnKind)> {
        vec![("key", kind_of::<K>()), ("value", kind_of::<V>())]
    }

    fn show(&self, take: &mut TakeRow<'_>) {
        self.entries.show(&mut |(key, value)| take(vec![show(key), show(value)]));
    }

    fn can_expire(&self) -> bool {
        true
    }

    fn expires(&mut self, saved: SavedRows) {
        self.entries.expires(saved);
    }

    fn begin_expiry(&mut self) {
        self.entries.begin_expiry();
    }

    fn expire(&mut self, most: &mut usize) -> bool {
        self.entries.expire(most, |(key, _)| hash_of(key))
    }
}
