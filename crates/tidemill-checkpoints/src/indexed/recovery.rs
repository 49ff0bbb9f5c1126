//! Opening a store: the index, then the batches behind it.

use super::{
    IndexedOptions, IndexedStore, RecoveryReport, TailWriter, data_path,
    flush::{self, Flusher, INDEX, put_index},
    format::{self, ALIGN, BatchHead, Covered, EntryPlace, FILE_HEAD_BYTES, PAGE_BYTES},
    index::{Index, IndexBase},
    make_file,
    read_window::ReadWindow,
};
use crate::{
    BackendError,
    error::{at, lock},
    write_batch::{self, BATCH_HEAD_BYTES, ENTRY_HEAD_BYTES},
};
use std::{collections::BTreeMap, io, path::Path};
use tidemill_env::sync::{Mutex, RwLock};
use tidemill_env::{DiskRead, Random, World};

/// The bytes read together from the batches behind the index.
const WINDOW_BYTES: usize = 8 << 20;
/// The number of batches that the disk reads ahead.
const SOON_BATCHES: u64 = 8;
/// The bytes of a damaged end that are searched together for a later batch.
const LOOK_BYTES: usize = 1 << 20;

pub(super) fn open(
    world: &World,
    folder: &Path,
    options: IndexedOptions,
) -> Result<(IndexedStore, RecoveryReport), BackendError> {
    world.disk.create_dir_all(folder).map_err(at(folder))?;
    let lock = lock(world, folder)?;
    let numbers = flush::numbers(world, folder)?;
    let (base, id, covered) = read_base(world, folder, !numbers.is_empty())?;
    let live = base.files();
    let missing = live.keys().chain([&covered.file]).find(|it| !numbers.contains(it));
    if let Some(number) = missing.filter(|_| covered.sequence > 0) {
        return Err(damaged(
            &data_path(folder, *number),
            0,
            "the index needs it, and it is not there",
        ));
    }
    let mut tail = TailReader {
        world,
        folder,
        id,
        index: Index::new(base, world.seed),
        sequence: covered.sequence,
        opened: RecoveryReport::default(),
        last: None,
        window: ReadWindow::default(),
        all_bytes: 0,
    };
    for number in numbers.iter().filter(|it| **it >= covered.file) {
        let before = if *number == covered.file { covered.position } else { 0 };
        tail.all_bytes += tail.length(*number)?.saturating_sub(before);
    }
    let (mut number, mut length) = (covered.file, covered.position);
    for next in numbers.iter().copied().filter(|it| *it >= covered.file) {
        let is_last = numbers.last() == Some(&next);
        let from = if next == covered.file { covered.position } else { FILE_HEAD_BYTES as u64 };
        if next > number + 1 {
            return Err(damaged(
                &data_path(folder, number + 1),
                0,
                "it is not there, and a later one is",
            ));
        }
        length = tail.file(next, from, is_last)?;
        number = next;
    }
    // What an earlier life could not remove any more after its flush.
    for number in numbers.iter().filter(|it| **it < covered.file && !live.contains_key(it)) {
        let path = data_path(folder, *number);
        let mut head = [0; FILE_HEAD_BYTES];
        let file = world.disk.open_read(&path).map_err(at(&path))?;
        let count = file.read_full_at(0, &mut head).map_err(at(&path))?;
        if head[..count] == format::file_head(id, *number) {
            world.disk.remove(&path).map_err(at(&path))?;
        }
    }
    let path = data_path(folder, number);
    let file = if numbers.contains(&number) && length >= FILE_HEAD_BYTES as u64 {
        let mut file = world.disk.open_append(&path).map_err(at(&path))?;
        if tail.opened.cut.is_some() {
            file.truncate(length).map_err(at(&path))?;
        }
        // The last batch may not be durable, and whoever reads it must find it again.
        tail.write_last_again(&path, length).map_err(at(&path))?;
        file.sync().map_err(at(&path))?;
        file
    } else {
        length = FILE_HEAD_BYTES as u64;
        make_file(world, folder, id, number)?
    };
    world.disk.sync_dir(folder).map_err(at(folder))?;
    let writer = TailWriter {
        file,
        number,
        length,
        sequence: tail.sequence,
        is_named: false,
        unflushed: tail.opened.bytes,
        failed: false,
    };
    let opened = RecoveryReport { read_bytes: tail.window.read_bytes, ..tail.opened };
    let store = IndexedStore {
        world: world.clone(),
        folder: folder.to_owned(),
        options,
        id,
        writer: Mutex::new(writer),
        index: RwLock::new(tail.index),
        files: Mutex::new(BTreeMap::new()),
        flusher: Flusher::default(),
        _lock: lock,
    };
    Ok((store, opened))
}

fn damaged(path: &Path, position: u64, why: &str) -> BackendError {
    BackendError::Damaged { path: path.to_owned(), position, why: why.to_owned() }
}

/// Reads the index of the folder, or creates an empty one in a new folder.
fn read_base(
    world: &World,
    folder: &Path,
    has_data: bool,
) -> Result<(IndexBase, u64, Covered), BackendError> {
    let path = folder.join(INDEX);
    let read = || -> io::Result<Vec<u8>> {
        let file = world.disk.open_read(&path)?;
        let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
        let count = file.read_direct(0, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => IndexBase::read(bytes).map_err(|why| damaged(&path, 0, why)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_data => {
            Err(damaged(&path, 0, "it is not there, though there are data files"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = Random::new(world.seed ^ world.clock.wall_micros() as u64).next();
            let covered = Covered { file: 1, position: FILE_HEAD_BYTES as u64, sequence: 0 };
            let base = IndexBase::empty(id, covered);
            put_index(world, folder, &base)?;
            Ok((base, id, covered))
        }
        Err(error) => Err(at(&path)(error)),
    }
}

/// The recovery of the batches behind the index.
struct TailReader<'a> {
    world: &'a World,
    folder: &'a Path,
    id: u64,
    index: Index,
    sequence: u64,
    opened: RecoveryReport,
    /// The start of the last batch of the last file.
    last: Option<u64>,
    window: ReadWindow,
    /// The bytes of the files behind the index.
    all_bytes: u64,
}

impl TailReader<'_> {
    /// Rewrites the last batch, because an earlier process may have failed to sync it. A crash
    /// meanwhile leaves it whole, or as an incomplete end, which is cut off.
    fn write_last_again(&self, path: &Path, length: u64) -> io::Result<()> {
        let head = FILE_HEAD_BYTES as u64;
        // A first batch is synced together with the head of its file.
        let from = match self.last {
            Some(position) if position > head => position,
            None if length > head => return Ok(()),
            Some(_) | None => 0,
        };
        self.world.disk.open_random_access(path)?.rewrite(from, length)
    }

    fn length(&self, number: u64) -> Result<u64, BackendError> {
        let path = data_path(self.folder, number);
        self.world.disk.open_read(&path).and_then(|it| it.length()).map_err(at(&path))
    }

    /// Reads the batches of a file from a position on, and returns their end.
    fn file(&mut self, number: u64, from: u64, is_last: bool) -> Result<u64, BackendError> {
        let path = data_path(self.folder, number);
        let file = self.world.disk.open_read(&path).map_err(at(&path))?;
        let length = file.length().map_err(at(&path))?;
        let mut head = [0; FILE_HEAD_BYTES];
        let count = file.read_full_at(0, &mut head).map_err(at(&path))?;
        if count < head.len() || head != format::file_head(self.id, number) {
            // Made when the power went: nothing can be in it.
            if is_last
                && from == FILE_HEAD_BYTES as u64
                && !self.has_batch(&*file, number, 0, length)?
            {
                self.opened.cut = Some((path, 0));
                return Ok(0);
            }
            return Err(damaged(&path, 0, "its head is not that of a file of this store"));
        }
        if length < from {
            return Err(damaged(&path, length, "it ends before what the index knows of it"));
        }
        let mut position = from;
        self.last = None;
        while position < length {
            let Some(end) = self.batch(&*file, (number, position), (length, is_last))? else {
                if !is_last || self.has_batch(&*file, number, position + 1, length)? {
                    return Err(damaged(&path, position, "a batch is damaged that others follow"));
                }
                self.opened.cut = Some((path, position));
                return Ok(position);
            };
            self.last = Some(position);
            self.opened.batches += 1;
            self.opened.bytes += end - position;
            position = end;
        }
        Ok(position)
    }

    /// Takes the batch that begins here and returns its end; none if it is incomplete.
    fn batch(
        &mut self,
        file: &dyn DiskRead,
        (number, position): (u64, u64),
        (length, is_last): (u64, bool),
    ) -> Result<Option<u64>, BackendError> {
        let path = data_path(self.folder, number);
        let place = (number, position);
        // Not more: what follows may be a long batch, whose values nobody wants.
        let head = self.window.get(file, place, BATCH_HEAD_BYTES, PAGE_BYTES).map_err(at(&path))?;
        let Some(head) = BatchHead::decode(head, self.id, number, position) else {
            return Ok(None);
        };
        let start = position + BATCH_HEAD_BYTES as u64;
        // With the zeros behind it: what goes on in the file must begin at a multiple of them.
        let Some(end) = head.end(position).filter(|end| *end <= length) else { return Ok(None) };
        if head.sequence != self.sequence + 1 {
            return Err(damaged(&path, position, "a batch is missing before this one"));
        }
        // Whatever stands behind a batch was begun when that was durable.
        let is_durable = !is_last || end < length;
        if is_durable && self.directory(file, (number, start), &head).map_err(at(&path))? {
            self.sequence = head.sequence;
            return Ok(Some(end));
        }
        let bytes = usize::try_from(head.bytes).unwrap_or(usize::MAX);
        let batch =
            self.window.get(file, (number, start), bytes, WINDOW_BYTES).map_err(at(&path))?;
        if batch.len() < bytes {
            return Ok(None);
        }
        let Some(places) = places(batch, self.id, &head, number, start) else { return Ok(None) };
        self.index.make_room(places.len(), (self.opened.bytes, self.all_bytes));
        for (at, place) in places {
            let entry = write_batch::entry(batch, at).expect("it was just read");
            self.index.set(entry.key, place);
        }
        self.sequence = head.sequence;
        Ok(Some(end))
    }

    /// Takes a batch by its directory. Returns false if there is none, or it is damaged.
    fn directory(
        &mut self,
        file: &dyn DiskRead,
        (number, start): (u64, u64),
        head: &BatchHead,
    ) -> io::Result<bool> {
        let count = head.directory_bytes as usize;
        if count == 0 {
            return Ok(false);
        }
        // With the head of the next batch.
        let ahead = count + head.zeros as usize + BATCH_HEAD_BYTES;
        let at = start + head.bytes;
        // If the next batches are as long as this one.
        let batch_bytes =
            BATCH_HEAD_BYTES as u64 + head.bytes + (count as u64) + u64::from(head.zeros);
        file.prefetch(at + SOON_BATCHES * batch_bytes, ahead);
        let found = self.window.get(file, (number, at), count, ahead)?;
        let Some(places) = format::read_directory(found, head, number, start) else {
            return Ok(false);
        };
        self.index.make_room(places.len(), (self.opened.bytes, self.all_bytes));
        for (key, place) in places {
            self.index.set(key, place);
        }
        Ok(true)
    }

    /// Returns true if a batch begins anywhere from here on.
    fn has_batch(
        &self,
        file: &dyn DiskRead,
        number: u64,
        from: u64,
        length: u64,
    ) -> Result<bool, BackendError> {
        let path = data_path(self.folder, number);
        let mut window = vec![0; LOOK_BYTES];
        let mut position = from.next_multiple_of(ALIGN as u64);
        while position + BATCH_HEAD_BYTES as u64 <= length {
            let count = file.read_full_at(position, &mut window).map_err(at(&path))?;
            let Some(last) = count.checked_sub(BATCH_HEAD_BYTES) else { return Ok(false) };
            let begins = |at: usize| {
                BatchHead::decode(&window[at..count], self.id, number, position + at as u64)
                    .is_some()
            };
            if (0..=last).step_by(ALIGN).any(begins) {
                return Ok(true);
            }
            position += (last / ALIGN + 1) as u64 * ALIGN as u64;
        }
        Ok(false)
    }
}

/// The positions of the entries of a batch, in it and in the file; none if one is damaged.
fn places(
    batch: &[u8],
    id: u64,
    head: &BatchHead,
    number: u64,
    start: u64,
) -> Option<Vec<(usize, Option<EntryPlace>)>> {
    // A count that lies is found out; it must not cost memory first.
    let most = batch.len() / ENTRY_HEAD_BYTES;
    let mut places = Vec::with_capacity((head.count as usize).min(most));
    let mut at = 0;
    while at < batch.len() {
        let entry = write_batch::entry(batch, at)?;
        let (bytes, position) = (entry.bytes(), start + at as u64);
        if !format::is_good_entry(&batch[at..at + bytes], id, number, position) {
            return None;
        }
        let place = entry.value.map(|value| EntryPlace {
            file: number,
            position,
            key_bytes: entry.key.len() as u32,
            value_bytes: value.len() as u32,
        });
        places.push((at, place));
        at += bytes;
    }
    (places.len() == head.count as usize).then_some(places)
}
