//! The index in memory: flushed keys are sorted, recent ones are hashed.
//!
//! ```text
//! look for a key:   recent ─▶ frozen (being flushed) ─▶ base (as it is in the file)
//! ```
//!
//! Invariant: the first hit is the latest.

use super::format::{Covered, EntryPlace, INDEX_ENTRY_BYTES, IndexWriter, index_entry, read_index};
use crate::write_batch::DELETED;
use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table::Entry};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
    sync::Arc,
};

/// The factor by which a table grows at most, however many keys are expected: the next keys may
/// repeat earlier ones.
const GROWTH_MAX: u128 = 16;
/// The expected keys for which memory is reserved at once. That is some megabytes, mostly untouched
/// if the keys do not come, and growing step by step costs more.
const ROOM_AT_ONCE: u128 = 1 << 20;

/// The index as in its file.
pub(crate) struct IndexBase {
    bytes: Vec<u8>,
    /// The start of each entry, in the order of the keys.
    entries: Vec<u64>,
}

/// The changes since the last flush, each key once.
pub(crate) struct RecentKeys {
    table: HashTable<TagSlot>,
    slots: Vec<RecentEntry>,
    keys: Vec<u8>,
    hasher: FixedState,
}

/// A slot of the hash table: a part of the key's hash, so that the table grows without reading
/// keys, and the number of the entry.
struct TagSlot {
    tag: u32,
    slot: u32,
}

/// A changed key. It is narrow, because first use of memory is most of the time of recovery.
struct RecentEntry {
    key_at: u64,
    key_bytes: u32,
    /// Or [`DELETED`].
    value_bytes: u32,
    file: u64,
    position: u64,
}

impl RecentEntry {
    #[inline]
    fn key<'a>(&self, keys: &'a [u8]) -> &'a [u8] {
        &keys[self.key_at as usize..][..self.key_bytes as usize]
    }

    fn place(&self) -> Option<EntryPlace> {
        let Self { file, position, key_bytes, value_bytes, .. } = *self;
        (value_bytes != DELETED).then_some(EntryPlace { file, position, key_bytes, value_bytes })
    }

    fn move_to(&mut self, place: Option<EntryPlace>) {
        let (file, position) = place.map_or((0, 0), |it| (it.file, it.position));
        (self.file, self.position) = (file, position);
        self.value_bytes = place.map_or(DELETED, |it| it.value_bytes);
    }
}

impl TagSlot {
    fn hash(&self) -> u64 {
        // The table looks at both ends of it.
        u64::from(self.tag) << 32 | u64::from(self.tag)
    }
}

/// The whole index.
pub(crate) struct Index {
    base: Arc<IndexBase>,
    /// The changes that are being flushed, and the end of their batches.
    frozen: Option<(Arc<RecentKeys>, Covered)>,
    recent: RecentKeys,
    /// The bytes deleted since the last flush.
    freed_bytes: u64,
}

impl IndexBase {
    /// Decodes the bytes of a file.
    pub(crate) fn read(bytes: Vec<u8>) -> Result<(Self, u64, Covered), &'static str> {
        let read = read_index(&bytes)?;
        let base = Self { bytes, entries: read.entries };
        if !base.iter().is_sorted_by(|a, b| a.0 < b.0) {
            return Err("its keys are not in order");
        }
        Ok((base, read.store, read.covered))
    }

    /// The index of an empty store.
    pub(crate) fn empty(store: u64, covered: Covered) -> Self {
        let (bytes, entries) = IndexWriter::new(0, 0).finish(store, covered);
        Self { bytes, entries }
    }

    /// The index as in its file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn get(&self, key: &[u8]) -> Option<EntryPlace> {
        let found = self.entries.binary_search_by(|at| index_entry(&self.bytes, *at).0.cmp(key));
        found.ok().map(|nth| index_entry(&self.bytes, self.entries[nth]).1)
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], EntryPlace)> {
        self.entries.iter().map(|at| index_entry(&self.bytes, *at))
    }

    /// The entries from the first key that is not before `from`.
    fn from(&self, from: &[u8]) -> impl Iterator<Item = (&[u8], EntryPlace)> {
        let first = self.entries.partition_point(|at| index_entry(&self.bytes, *at).0 < from);
        self.entries[first..].iter().map(|at| index_entry(&self.bytes, *at))
    }

    /// The files with live entries, and the live bytes of each.
    pub(crate) fn files(&self) -> BTreeMap<u64, u64> {
        let mut files = BTreeMap::new();
        for (_, place) in self.iter() {
            *files.entry(place.file).or_default() += place.bytes() as u64;
        }
        files
    }

    /// The live entries of these files.
    pub(crate) fn within(&self, files: &BTreeSet<u64>) -> Vec<(Vec<u8>, EntryPlace)> {
        let inside = self.iter().filter(|(_, place)| files.contains(&place.file));
        inside.map(|(key, place)| (key.to_vec(), place)).collect()
    }
}

impl RecentKeys {
    fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self { table: HashTable::new(), slots: Vec::new(), keys: Vec::new(), hasher }
    }

    /// An empty table with the same capacity.
    fn emptied(&self) -> Self {
        Self {
            table: HashTable::with_capacity(self.slots.len()),
            slots: Vec::with_capacity(self.slots.len()),
            keys: Vec::with_capacity(self.keys.len()),
            hasher: self.hasher.clone(),
        }
    }

    fn key_of(&self, slot: &RecentEntry) -> &[u8] {
        slot.key(&self.keys)
    }

    fn set(&mut self, key: &[u8], place: Option<EntryPlace>) {
        let slot = u32::try_from(self.slots.len()).expect("it is flushed long before");
        let new = TagSlot { tag: self.tag(key), slot };
        let Self { table, slots, keys, .. } = self;
        let is_it = |it: &TagSlot| it.tag == new.tag && slots[it.slot as usize].key(keys) == key;
        match table.entry(new.hash(), is_it, TagSlot::hash) {
            Entry::Occupied(found) => slots[found.get().slot as usize].move_to(place),
            Entry::Vacant(free) => {
                let (key_at, key_bytes) = (keys.len() as u64, key.len() as u32);
                let mut slot =
                    RecentEntry { key_at, key_bytes, value_bytes: DELETED, file: 0, position: 0 };
                slot.move_to(place);
                slots.push(slot);
                keys.extend_from_slice(key);
                free.insert(new);
            }
        }
    }

    /// Makes room for `more` keys. A table that must grow reserves for the keys expected at the end
    /// of `all` bytes, judging from the first `read` of them, within bounds.
    fn make_room(&mut self, more: usize, (read, all): (u64, u64)) {
        let held = self.slots.len();
        if self.table.capacity() - self.table.len() >= more {
            return;
        }
        let expected = held as u128 * u128::from(all) / u128::from(read.max(1));
        let expected = expected.min((held as u128 * GROWTH_MAX).max(ROOM_AT_ONCE)) as usize;
        let more = more.max(expected.saturating_sub(held));
        self.table.reserve(more, TagSlot::hash);
        self.slots.reserve(more);
        self.keys.reserve(more * (self.keys.len() / held.max(1)));
    }

    fn tag(&self, key: &[u8]) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    fn find(&self, tag: u32, key: &[u8]) -> Option<usize> {
        let is_it = |found: &TagSlot| {
            found.tag == tag && self.key_of(&self.slots[found.slot as usize]) == key
        };
        let found = self.table.find(TagSlot { tag, slot: 0 }.hash(), is_it);
        found.map(|it| it.slot as usize)
    }

    /// The latest change of a key: its place, or `Some(None)` for a deletion; none if it did not
    /// change.
    fn get(&self, key: &[u8]) -> Option<Option<EntryPlace>> {
        self.find(self.tag(key), key).map(|slot| self.slots[slot].place())
    }

    /// The changes of keys with this prefix, in their order.
    fn sorted(&self, prefix: &[u8]) -> Vec<(&[u8], Option<EntryPlace>)> {
        let changes = self.slots.iter().map(|slot| self.change(slot));
        let mut all: Vec<_> = changes.filter(|(key, _)| key.starts_with(prefix)).collect();
        all.sort_unstable_by(|a, b| a.0.cmp(b.0));
        all
    }

    fn change(&self, slot: &RecentEntry) -> KeyChange<'_> {
        (self.key_of(slot), slot.place())
    }

    /// All entries in the order of their keys.
    fn in_order(&self) -> Vec<u32> {
        let mut slots: Vec<u32> = (0..self.slots.len() as u32).collect();
        let key = |slot: &u32| self.key_of(&self.slots[*slot as usize]);
        slots.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        slots
    }
}

impl Index {
    pub(crate) fn new(base: IndexBase, seed: u64) -> Self {
        Self { base: Arc::new(base), frozen: None, recent: RecentKeys::new(seed), freed_bytes: 0 }
    }

    pub(crate) fn set(&mut self, key: &[u8], place: Option<EntryPlace>) {
        if place.is_none()
            && let Some(before) = self.get(key)
        {
            self.freed_bytes += before.bytes() as u64;
        }
        self.recent.set(key, place);
    }

    /// Makes room for `more` keys during recovery, which has read `read` of `all` bytes behind the
    /// index.
    pub(crate) fn make_room(&mut self, more: usize, read_of_all: (u64, u64)) {
        self.recent.make_room(more, read_of_all);
    }

    /// The bytes deleted since the last flush. Files hold them until the next one.
    pub(crate) fn freed_bytes(&self) -> u64 {
        self.freed_bytes
    }

    /// The length of the index file in bytes.
    pub(crate) fn base_bytes(&self) -> u64 {
        self.base.bytes.len() as u64
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<EntryPlace> {
        let frozen = || self.frozen.as_ref().and_then(|(frozen, _)| frozen.get(key));
        match self.recent.get(key).or_else(frozen) {
            Some(said) => said,
            None => self.base.get(key),
        }
    }

    /// The keys with this prefix, in their order, with their places.
    pub(crate) fn with_prefix(&self, prefix: &[u8]) -> Vec<(Vec<u8>, EntryPlace)> {
        let frozen = self.frozen.as_ref().map(|(frozen, _)| frozen.sorted(prefix));
        let changes = merged(frozen.unwrap_or_default(), self.recent.sorted(prefix));
        let mut all = Vec::new();
        let base = self.base.from(prefix).take_while(|(key, _)| key.starts_with(prefix));
        merge(base, changes.into_iter(), |key, place| all.push((key.to_vec(), place)));
        all
    }

    /// The index as in its file.
    pub(crate) fn base(&self) -> Arc<IndexBase> {
        Arc::clone(&self.base)
    }

    /// Freezes the changes since the last flush, so that they are flushed while others come; or
    /// returns those of an earlier flush that failed.
    pub(crate) fn freeze(
        &mut self,
        covered: Covered,
    ) -> (Arc<IndexBase>, Arc<RecentKeys>, Covered) {
        let recent = &mut self.recent;
        let (frozen, covered) = self.frozen.get_or_insert_with(|| {
            let emptied = recent.emptied();
            (Arc::new(std::mem::replace(recent, emptied)), covered)
        });
        (Arc::clone(&self.base), Arc::clone(frozen), *covered)
    }

    /// Replaces the frozen changes by the new index file, which frees `freed_bytes`.
    pub(crate) fn thaw(&mut self, base: IndexBase, freed_bytes: u64) {
        self.base = Arc::new(base);
        self.frozen = None;
        self.freed_bytes -= freed_bytes;
    }
}

/// Merges the index file and the frozen changes.
pub(crate) fn flushed(
    base: &IndexBase,
    frozen: &RecentKeys,
    store: u64,
    covered: Covered,
) -> IndexBase {
    let changes = frozen.in_order();
    let count = base.entries.len() + changes.len();
    let more = frozen.keys.len() + changes.len() * INDEX_ENTRY_BYTES;
    let mut writer = IndexWriter::new(count, base.bytes.len() + more);
    let changes = changes.iter().map(|slot| frozen.change(&frozen.slots[*slot as usize]));
    merge(base.iter(), changes, |key, place| writer.add(key, place));
    let (bytes, entries) = writer.finish(store, covered);
    IndexBase { bytes, entries }
}

type KeyChange<'a> = (&'a [u8], Option<EntryPlace>);

/// Merges two lists of changes; `later` wins.
fn merged<'a>(earlier: Vec<KeyChange<'a>>, later: Vec<KeyChange<'a>>) -> Vec<KeyChange<'a>> {
    if earlier.is_empty() {
        return later;
    }
    let mut all = Vec::with_capacity(earlier.len() + later.len());
    let mut earlier = earlier.into_iter().peekable();
    for change in later {
        while let Some(before) = earlier.next_if(|it| it.0 <= change.0) {
            if before.0 < change.0 {
                all.push(before);
            }
        }
        all.push(change);
    }
    all.extend(earlier);
    all
}

/// Applies changes to a base and hands over the result. Both come in the order of their keys.
fn merge<'a>(
    base: impl Iterator<Item = (&'a [u8], EntryPlace)>,
    changes: impl Iterator<Item = KeyChange<'a>>,
    mut give: impl FnMut(&[u8], EntryPlace),
) {
    let mut base = base.peekable();
    for (key, place) in changes {
        while let Some((before, place)) = base.next_if(|it| it.0 <= key) {
            if before < key {
                give(before, place);
            }
        }
        if let Some(place) = place {
            give(key, place);
        }
    }
    base.for_each(|(key, place)| give(key, place));
}
