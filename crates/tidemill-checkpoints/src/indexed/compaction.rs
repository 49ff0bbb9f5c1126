//! Compaction: the live entries of sparse files are written again at the end, and the next flush
//! removes those files.
//!
//! Invariant: a change made during compaction is kept.

use super::{
    FILE_HEAD_BYTES, IndexedStore, data_path, format::EntryPlace, read_window::ReadWindow,
};
use crate::{BackendError, WriteBatch, error::at};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::PoisonError,
};

/// The divisor of the live share: a file is compacted when at most a fourth of it is live.
const LIVE_SHARE: u64 = 4;
/// The bytes rewritten in one batch: commits wait for its append and its sync.
const BATCH_BYTES: usize = 8 << 20;
/// The bytes read together: live entries are close enough, and the rest is not read again.
const WINDOW_BYTES: usize = 1 << 20;

impl IndexedStore {
    /// Compacts some of the files below `until`; `live` has the live bytes of each. Rewrites at
    /// most one file's worth, and reads at most half of the bytes written since the last time, so
    /// that commits keep most of the disk's bandwidth.
    pub(super) fn compact(
        &self,
        live: &BTreeMap<u64, u64>,
        until: u64,
    ) -> Result<(), BackendError> {
        let (mut sparse, mut room) = (BTreeSet::new(), self.file_bytes_max());
        let mut looks = self.options.flush_bytes.0 / 2;
        for (number, bytes) in live.range(..until) {
            let path = data_path(&self.folder, *number);
            let length = self.file(*number).and_then(|it| it.length()).map_err(at(&path))?;
            let is_sparse = bytes * LIVE_SHARE <= length.saturating_sub(FILE_HEAD_BYTES as u64);
            if is_sparse && *bytes <= room && length <= looks {
                room -= bytes;
                looks -= length;
                sparse.insert(*number);
            }
        }
        if sparse.is_empty() {
            return Ok(());
        }
        let base = self.index.read().unwrap_or_else(PoisonError::into_inner).base();
        let mut entries = base.within(&sparse);
        // As they stand in the files.
        entries.sort_unstable_by_key(|(_, place)| (place.file, place.position));
        let mut entries = entries.as_slice();
        while !entries.is_empty() {
            let mut bytes = 0;
            let fits = |(_, place): &&(Vec<u8>, EntryPlace)| {
                bytes += place.bytes();
                bytes <= BATCH_BYTES
            };
            let count = entries.iter().take_while(fits).count().max(1);
            self.write_again(&entries[..count])?;
            entries = &entries[count..];
        }
        Ok(())
    }

    /// Writes entries at the end, except those that have moved meanwhile.
    pub(super) fn write_again(
        &self,
        entries: &[(Vec<u8>, EntryPlace)],
    ) -> Result<(), BackendError> {
        let is_there = |(key, place): &&(Vec<u8>, EntryPlace)| {
            self.index.read().unwrap_or_else(PoisonError::into_inner).get(key) == Some(*place)
        };
        let mut live = Vec::with_capacity(entries.len());
        let mut window = ReadWindow::default();
        for entry in entries.iter().filter(is_there) {
            let (key, place) = entry;
            let path = data_path(&self.folder, place.file);
            let file = self.file(place.file).map_err(at(&path))?;
            let found = window
                .get(&*file, (place.file, place.position), place.bytes(), WINDOW_BYTES)
                .map_err(at(&path))?;
            self.check(key, *place, found)?;
            let value = &found[place.bytes() - place.value_bytes as usize..];
            live.push((entry, Bytes::copy_from_slice(value)));
        }
        let mut batch = WriteBatch::default();
        // Nothing is changed while this is held.
        let mut writer = self.writer();
        for (entry, value) in live.iter().filter(|(entry, _)| is_there(entry)) {
            batch.put(&entry.0, value);
        }
        if batch.is_empty() { Ok(()) } else { self.commit_as(&mut writer, &mut batch) }
    }
}
