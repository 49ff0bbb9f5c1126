//! Reading single rows of a slice by the hashes of their keys, for lazy recovery.
//!
//! ```text
//! run     ┌ entries ───────────────────────┐┌ index ─────────────┐
//! parts   │ 32 KiB │ 32 KiB │ 32 KiB │ …   ││ 2 MiB at most │ …  │
//!                 ▲                              │
//!                 └── hash ▶ tag ▶ place ────────┘
//! index   prefixes that the run empties │ prefixes of its keys, rows of each
//!         │ ends of buckets │ tags │ places of entries
//! ```
//!
//! The key of an entry is a prefix and a row number. The hash of the job's key leads to the entry,
//! and the entry holds that key. Some bits of the hash select one of many small buckets, others are
//! a tag within it. The indexes of a slice are in memory while it is read by key, some seven bytes
//! an entry. A key that exists costs one part read, and a missing key nearly always none. Numbers
//! are little endian.

use super::{CheckpointError, CheckpointReader, Checkpoints, RunRef};
use crate::Backend;
use tidemill_state::SavedError;
use tidemill_state::delta::{self, ByteReader, put_bytes};
use tidemill_state::structure::{HashOfEntry, ReadError, ReadKeys, TakeKey};
use tidemill_types::{SliceId, StageIx};

/// The entries of a bucket, about.
const BUCKET_ENTRIES: usize = 16;
/// The most bits that select a bucket.
const BUCKET_BITS_MAX: u32 = 28;
/// The bytes of a tag.
const TAG_BYTES: usize = size_of::<u16>();
/// The bytes read for an entry before its length is known: most are shorter.
const ENTRY_BYTES: u64 = 512;
/// The bytes before an entry's key.
const ENTRY_HEAD_BYTES: u64 = 8;
/// The bytes of the row number that ends a key.
const ROW_BYTES: usize = size_of::<u32>();

impl Checkpoints {
    /// Writes an index by the hashes of keys ([`CheckpointReader::keys_of`]) for all later runs of
    /// a stage, if the backend has small values.
    pub fn read_by_key(&mut self, stage: StageIx, hash_of: HashOfEntry) {
        if self.backend.has_small_values() {
            self.by_key.insert(stage, hash_of);
        }
    }

    /// Returns true if runs of a stage have an index of keys.
    #[must_use]
    pub fn reads_by_key(&self, stage: StageIx) -> bool {
        self.by_key.contains_key(&stage)
    }
}

/// The bucket of a hash, and its tag there. All rows of a slice share the top bits of their hashes,
/// so the lower half selects the bucket, and the lower bits of the upper half are the tag.
fn place_of(hash: u64, bits: u32) -> (usize, u16) {
    ((hash as u32).checked_shr(u32::BITS - bits).unwrap_or(0) as usize, (hash >> 32) as u16)
}

/// The bytes of an entry's position, in the index of a run of this length.
fn place_bytes(run_bytes: u64) -> usize {
    if run_bytes <= u64::from(u32::MAX) { 4 } else { 8 }
}

/// Makes the index of a run; none if an entry has no hash or is deleted.
///
/// # Errors
/// The bytes are no run.
pub(super) fn index_of(
    run: &[u8],
    hash_of: &dyn Fn(&[u8]) -> Option<u64>,
) -> Result<Option<Vec<u8>>, SavedError> {
    let mut from = ByteReader::new(run);
    let mut cleared = Vec::new();
    for _ in 0..from.u32()? {
        cleared.push(from.sized()?);
    }
    let count = from.u32()? as usize;
    let mut hashes: Vec<(u64, u64)> = Vec::with_capacity(count.min(from.rest().len() / 8));
    let mut parts: Vec<(&[u8], u32)> = Vec::new();
    for _ in 0..count {
        let at = (run.len() - from.rest().len()) as u64;
        let (key, value) = delta::entry(&mut from)?;
        let (Some(hash), Some((prefix, row))) =
            (value.and_then(hash_of), key.split_last_chunk::<ROW_BYTES>())
        else {
            return Ok(None);
        };
        let rows = u32::from_be_bytes(*row).saturating_add(1);
        match parts.last_mut() {
            Some((last, most)) if *last == prefix => *most = rows.max(*most),
            _ => parts.push((prefix, rows)),
        }
        hashes.push((hash, at));
    }
    from.end()?;
    let bits = (count / BUCKET_ENTRIES).next_power_of_two().ilog2().min(BUCKET_BITS_MAX);
    // Entries are counted by bucket first, so that each is written once, where it belongs.
    let mut ends = vec![0_u32; 1 << bits];
    hashes.iter().for_each(|(hash, _)| ends[place_of(*hash, bits).0] += 1);
    let mut places = Vec::with_capacity(ends.len());
    let mut sum = 0;
    for end in &mut ends {
        places.push(sum as usize);
        sum += *end;
        *end = sum;
    }
    let mut index = Vec::new();
    put_all(&mut index, &cleared, |index, prefix| put_bytes(index, prefix));
    put_all(&mut index, &parts, |index, (prefix, rows)| {
        put_bytes(index, prefix);
        index.extend_from_slice(&rows.to_le_bytes());
    });
    index.extend_from_slice(&bits.to_le_bytes());
    ends.iter().for_each(|end| index.extend_from_slice(&end.to_le_bytes()));
    let (tags, each) = (index.len(), place_bytes(run.len() as u64));
    let start = tags + hashes.len() * TAG_BYTES;
    index.resize(start + hashes.len() * each, 0);
    for (hash, at) in hashes {
        let (bucket, tag) = place_of(hash, bits);
        let nth = places[bucket];
        index[tags + nth * TAG_BYTES..][..TAG_BYTES].copy_from_slice(&tag.to_le_bytes());
        index[start + nth * each..][..each].copy_from_slice(&at.to_le_bytes()[..each]);
        places[bucket] += 1;
    }
    Ok(Some(index))
}

fn put_all<T>(index: &mut Vec<u8>, all: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    index.extend_from_slice(&(all.len() as u32).to_le_bytes());
    all.iter().for_each(|it| put(index, it));
}

/// The index of a run.
#[derive(Debug)]
struct KeyIndex {
    run: RunRef,
    cleared: Vec<Vec<u8>>,
    /// The prefixes of keys, each with the count of its row numbers: one more than the largest.
    parts: Vec<(Vec<u8>, u32)>,
    bits: u32,
    /// The encoded index.
    bytes: Vec<u8>,
    /// The offsets of the bucket ends, the tags and the positions of entries.
    ends: usize,
    tags: usize,
    places: usize,
}

impl KeyIndex {
    /// Reads the index of a run that has one.
    fn read(run: &RunRef, backend: &dyn Backend) -> Result<Self, CheckpointError> {
        let mut bytes = Vec::new();
        for part in run.index_parts() {
            bytes.extend_from_slice(&run.part(backend, part)?);
        }
        let failed = |error| CheckpointError::Saved { number: run.checkpoint, error };
        Self::of(run, bytes).map_err(failed)
    }

    fn of(run: &RunRef, bytes: Vec<u8>) -> Result<Self, SavedError> {
        let mut from = ByteReader::new(&bytes);
        let mut cleared = Vec::new();
        for _ in 0..from.u32()? {
            cleared.push(from.sized()?.to_vec());
        }
        let mut parts = Vec::new();
        for _ in 0..from.u32()? {
            parts.push((from.sized()?.to_vec(), from.u32()?));
        }
        let bits = from.u32()?;
        if bits > BUCKET_BITS_MAX {
            return Err(damaged());
        }
        let ends = bytes.len() - from.rest().len();
        let tags = ends + (size_of::<u32>() << bits);
        let all = from.bytes(size_of::<u32>() << bits)?.as_chunks().0.iter();
        let all = all.map(|end| u32::from_le_bytes(*end));
        let count = all.clone().next_back().unwrap_or(0) as usize;
        let places = tags + count * TAG_BYTES;
        if !all.is_sorted() || places + count * place_bytes(run.bytes) != bytes.len() {
            return Err(damaged());
        }
        Ok(Self { run: *run, cleared, parts, bits, bytes, ends, tags, places })
    }

    fn end(&self, bucket: usize) -> usize {
        let end = self.bytes[self.ends + size_of::<u32>() * bucket..].first_chunk();
        u32::from_le_bytes(*end.expect("it has so many buckets")) as usize
    }

    /// The positions of the entries that may have this hash.
    fn entries(&self, hash: u64) -> impl Iterator<Item = u64> {
        let (bucket, tag) = place_of(hash, self.bits);
        let slots = bucket.checked_sub(1).map_or(0, |it| self.end(it))..self.end(bucket);
        let each = place_bytes(self.run.bytes);
        let is_it = move |nth: &usize| {
            self.bytes[self.tags + nth * TAG_BYTES..][..TAG_BYTES] == tag.to_le_bytes()
        };
        slots.filter(is_it).map(move |nth| {
            let mut at = [0; 8];
            at[..each].copy_from_slice(&self.bytes[self.places + nth * each..][..each]);
            u64::from_le_bytes(at)
        })
    }
}

#[cold]
fn damaged() -> SavedError {
    SavedError::new("the index of a part of the state does not fit it")
}

/// Reads the entry that begins at `at`, and maybe bytes behind it.
fn entry(backend: &dyn Backend, run: &RunRef, at: u64) -> Result<Vec<u8>, CheckpointError> {
    let failed = |error| CheckpointError::Saved { number: run.checkpoint, error };
    if at.saturating_add(ENTRY_HEAD_BYTES) > run.bytes {
        return Err(failed(damaged()));
    }
    let end = run.bytes.min(at + ENTRY_BYTES);
    let bytes = run.range(backend, at, end)?;
    let mut head = ByteReader::new(&bytes);
    let (key, value) = (head.u32().map_err(failed)?, head.u32().map_err(failed)?);
    let whole = at + ENTRY_HEAD_BYTES + u64::from(key) + u64::from(value);
    match whole {
        whole if whole <= end => Ok(bytes),
        whole if whole <= run.bytes => run.range(backend, at, whole),
        _ => Err(failed(damaged())),
    }
}

/// A reader of single rows of a slice by the hashes of their keys, from the newest checkpoint at
/// the time of each call.
pub struct KeyReader {
    looker: CheckpointReader,
    stage: String,
    slice: SliceId,
    /// The indexes of the runs that were read last.
    known: Vec<KeyIndex>,
}

impl KeyReader {
    /// Opens the reader of a slice; none if one of its runs has no index.
    pub(super) fn open(
        looker: &CheckpointReader,
        stage: &str,
        slice: SliceId,
    ) -> Result<Option<Self>, CheckpointError> {
        let mut keys =
            Self { looker: looker.clone(), stage: stage.to_owned(), slice, known: Vec::new() };
        let pinned = looker.pin(None)?;
        let chain = pinned.chain(stage, slice);
        if !has_index(chain) {
            return Ok(None);
        }
        keys.know(chain)?;
        Ok(Some(keys))
    }

    /// Loads the indexes of these runs and drops all others.
    fn know(&mut self, chain: &[RunRef]) -> Result<(), CheckpointError> {
        if self.known.iter().map(|it| it.run).eq(chain.iter().copied()) {
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.known);
        for run in chain {
            let index = match held.iter().position(|it| it.run == *run) {
                Some(nth) => held.swap_remove(nth),
                None => KeyIndex::read(run, &*self.looker.backend)?,
            };
            self.known.push(index);
        }
        Ok(())
    }
}

/// Returns true if all of these runs have an index.
fn has_index(chain: &[RunRef]) -> bool {
    !chain.is_empty() && chain.iter().all(|run| run.index_bytes > 0)
}

impl ReadKeys for KeyReader {
    fn parts(&self) -> Vec<(Vec<u8>, u32)> {
        let mut parts: Vec<(Vec<u8>, u32)> = Vec::new();
        for index in &self.known {
            let is_cleared = |key: &[u8]| index.cleared.iter().any(|it| key.starts_with(it));
            parts.retain(|(prefix, _)| !is_cleared(prefix));
            for (prefix, rows) in &index.parts {
                match parts.iter_mut().find(|(held, _)| held == prefix) {
                    Some((_, most)) => *most = (*most).max(*rows),
                    None => parts.push((prefix.clone(), *rows)),
                }
            }
        }
        parts
    }

    fn find(
        &mut self,
        prefix: &[u8],
        hash: u64,
        take: &mut TakeKey<'_>,
    ) -> Result<bool, ReadError> {
        Ok(self.find_row(prefix, hash, take)?)
    }
}

impl KeyReader {
    /// As [`ReadKeys::find`], with the error of the checkpoint.
    fn find_row(
        &mut self,
        prefix: &[u8],
        hash: u64,
        take: &mut TakeKey<'_>,
    ) -> Result<bool, CheckpointError> {
        let pinned = self.looker.pin(None)?;
        let chain = pinned.chain(&self.stage, self.slice);
        if !has_index(chain) {
            let Self { stage, slice, .. } = self;
            let error = format!("slice {slice} of `{stage}` cannot be read by its keys any more");
            let (number, error) = (pinned.manifest().number, SavedError::new(error));
            return Err(CheckpointError::Saved { number, error });
        }
        self.know(chain)?;
        for index in self.known.iter().rev() {
            let run = &index.run;
            let failed = |error| CheckpointError::Saved { number: run.checkpoint, error };
            for at in index.entries(hash) {
                let bytes = entry(&*self.looker.backend, run, at)?;
                let (key, value) = delta::entry(&mut ByteReader::new(&bytes)).map_err(failed)?;
                if let (Some((of, row)), Some(value)) = (key.split_last_chunk::<ROW_BYTES>(), value)
                    && of == prefix
                    && take(row, value).map_err(failed)?
                {
                    return Ok(true);
                }
            }
            if index.cleared.iter().any(|it| prefix.starts_with(it)) {
                break;
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
