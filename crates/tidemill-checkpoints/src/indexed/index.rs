//! Keys and where their values stand: what was flushed, sorted; and what came since, hashed.
//!
//! ```text
//! look for a key:   recent ─▶ frozen (being flushed) ─▶ base (as it is in the file)
//! ```
//!
//! Invariant: what is found first is the latest.

use super::format::{Covered, EntryPlace, INDEX_ENTRY_BYTES, IndexWriter, index_entry, read_index};
use crate::write_batch::DELETED;
use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table::Entry};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
    sync::Arc,
};

/// So many times what it has room for, a table grows at most, however many keys are to be expected:
/// those to come may be the same ones.
const GROWTH_MAX: u128 = 16;
/// But for so many keys room is made at once if they are expected: that is some megabytes, most of
/// which nobody touches if they do not come, and to move what is there costs more.
const ROOM_AT_ONCE: u128 = 1 << 20;

/// The index as it stands in its file.
pub(crate) struct IndexBase {
    bytes: Vec<u8>,
    /// Where each entry begins, in the order of the keys.
    entries: Vec<u64>,
}

/// Changes since, each key once.
pub(crate) struct RecentKeys {
    table: HashTable<TagSlot>,
    slots: Vec<RecentEntry>,
    keys: Vec<u8>,
    hasher: FixedState,
}

/// Where a slot is found: with a part of the key's hash, so that the table grows without a look at
/// slots and keys.
struct TagSlot {
    tag: u32,
    slot: u32,
}

/// As narrow as it can be: memory that is used for the first time is most of what opening takes.
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

/// All of it.
pub(crate) struct Index {
    base: Arc<IndexBase>,
    /// What is being flushed, and up to where that goes.
    frozen: Option<(Arc<RecentKeys>, Covered)>,
    recent: RecentKeys,
    /// Bytes of what was deleted since the last flush.
    freed_bytes: u64,
}

impl IndexBase {
    /// Takes a file's bytes; why they are none of an index, if so.
    pub(crate) fn read(bytes: Vec<u8>) -> Result<(Self, u64, Covered), &'static str> {
        let read = read_index(&bytes)?;
        let base = Self { bytes, entries: read.entries };
        if !base.iter().is_sorted_by(|a, b| a.0 < b.0) {
            return Err("its keys are not in order");
        }
        Ok((base, read.store, read.covered))
    }

    /// Of a store that holds nothing.
    pub(crate) fn empty(store: u64, covered: Covered) -> Self {
        let (bytes, entries) = IndexWriter::new(0, 0).finish(store, covered);
        Self { bytes, entries }
    }

    /// As it stands in its file.
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

    /// Entries from the first that is not before `from`.
    fn from(&self, from: &[u8]) -> impl Iterator<Item = (&[u8], EntryPlace)> {
        let first = self.entries.partition_point(|at| index_entry(&self.bytes, *at).0 < from);
        self.entries[first..].iter().map(|at| index_entry(&self.bytes, *at))
    }

    /// The files that hold something, and how many bytes of it.
    pub(crate) fn files(&self) -> BTreeMap<u64, u64> {
        let mut files = BTreeMap::new();
        for (_, place) in self.iter() {
            *files.entry(place.file).or_default() += place.bytes() as u64;
        }
        files
    }

    /// What these files hold.
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

    /// Without entries, and with room for as many.
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

    /// Makes room for `more` keys; if there is none, for as many as there will be at the end of
    /// `all` bytes, if they go on as the first `read` of them, within bounds.
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

    /// The place, or that it was deleted; none if nothing was said of the key.
    fn get(&self, key: &[u8]) -> Option<Option<EntryPlace>> {
        self.find(self.tag(key), key).map(|slot| self.slots[slot].place())
    }

    /// What was said of keys that begin so, in their order.
    fn sorted(&self, prefix: &[u8]) -> Vec<(&[u8], Option<EntryPlace>)> {
        let changes = self.slots.iter().map(|slot| self.change(slot));
        let mut all: Vec<_> = changes.filter(|(key, _)| key.starts_with(prefix)).collect();
        all.sort_unstable_by(|a, b| a.0.cmp(b.0));
        all
    }

    fn change(&self, slot: &RecentEntry) -> KeyChange<'_> {
        (self.key_of(slot), slot.place())
    }

    /// All slots in the order of their keys.
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

    /// Makes room for `more` keys that are about to be set, of a store that is being opened; `read` of
    /// `all` bytes behind the index have said what is set already.
    pub(crate) fn make_room(&mut self, more: usize, read_of_all: (u64, u64)) {
        self.recent.make_room(more, read_of_all);
    }

    /// Bytes of what was deleted since the last flush: files hold them until the next one.
    pub(crate) fn freed_bytes(&self) -> u64 {
        self.freed_bytes
    }

    /// How long the index was in its file, in bytes.
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

    /// Keys that begin so, in their order, with their places.
    pub(crate) fn with_prefix(&self, prefix: &[u8]) -> Vec<(Vec<u8>, EntryPlace)> {
        let frozen = self.frozen.as_ref().map(|(frozen, _)| frozen.sorted(prefix));
        let changes = merged(frozen.unwrap_or_default(), self.recent.sorted(prefix));
        let mut all = Vec::new();
        let base = self.base.from(prefix).take_while(|(key, _)| key.starts_with(prefix));
        merge(base, changes.into_iter(), |key, place| all.push((key.to_vec(), place)));
        all
    }

    /// As it stands in its file.
    pub(crate) fn base(&self) -> Arc<IndexBase> {
        Arc::clone(&self.base)
    }

    /// Sets aside what came since the last flush, so that it can be flushed while more comes; or
    /// what an earlier flush that failed had set aside.
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

    /// What was set aside is in the file, which is this; so many bytes had been freed by then.
    pub(crate) fn thaw(&mut self, base: IndexBase, freed_bytes: u64) {
        self.base = Arc::new(base);
        self.frozen = None;
        self.freed_bytes -= freed_bytes;
    }
}

/// An index that has what is in both.
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

/// Changes of both, those of `later` where both have a key.
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

/// Gives what is there of `base` once `changes` are made. Both are in the order of their keys.
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
