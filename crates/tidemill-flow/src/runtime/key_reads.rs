//! Reads of single keys of a slice that only a checkpoint has.
//!
//! ```text
//! keys that a lane needs ── each by its hash ──▶ a part of the entries
//!          │
//!          └─ with these a quarter of the slice would be read so ──▶ all of it is read
//! ```
//!
//! A key costs a read of some 32 KiB, and the whole slice one long read. So a slice with many
//! requested keys is soon read as a whole, which costs little more than reading it at once.

use super::read_retry::ReadRetry;
use std::{collections::BTreeMap, sync::Arc};
use tidemill_checkpoints::{CheckpointError, CheckpointReader, KeyReader, LoadedRuns, SliceRuns};
use tidemill_env::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tidemill_state::{ReadError, ReadKeys, SavedKeys, TakeKey};
use tidemill_types::{SliceId, SliceKey, StageIx};

/// A slice of fewer bytes is read at once.
const FROM_BYTES: u64 = 1 << 20;
/// Of a slice this part is read by keys, before all of it is.
const SHARE: u64 = 4;
/// The cost of a key in bytes: a part of a run.
const KEY_BYTES: u64 = 32 << 10;
/// The limit of key reads of a slice in a simulation, whose slices are small.
const SIMULATED_BYTES: u64 = 256 << 10;

/// Where the keys of a slice are.
pub(crate) struct KeyReads {
    looker: CheckpointReader,
    stage: String,
    share: Arc<Share>,
    /// Keys of the stage that were read.
    count: Arc<AtomicU64>,
    found: Mutex<KeyIndex>,
}

/// The share of a slice that is read by its keys.
struct Share {
    most: u64,
    /// The requested bytes.
    asked: AtomicU64,
    is_enough: AtomicBool,
}

impl Share {
    /// Of the slice of these runs.
    fn of(slice: SliceId, runs: &SliceRuns) -> Self {
        let most = match tidemill_env::is_simulated() {
            true => u64::from(slice.0 % 3) * SIMULATED_BYTES,
            false => runs.bytes() / SHARE,
        };
        Self { most, asked: AtomicU64::new(0), is_enough: AtomicBool::new(false) }
    }

    /// Adds requested keys; returns true if they are too many.
    fn wants(&self, keys: usize) -> bool {
        let bytes = (keys as u64).saturating_mul(KEY_BYTES);
        let asked = self.asked.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let is_enough = asked > self.most;
        if is_enough {
            self.is_enough.store(true, Ordering::Relaxed);
        }
        is_enough
    }
}

/// The index of the keys of a slice, as far as it is known.
#[derive(Default)]
enum KeyIndex {
    #[default]
    Unknown,
    Keys(Box<KeyReader>),
    /// Their lane has them, or they cannot be read one by one.
    Gone,
}

impl KeyReads {
    /// Keys of a stage's slice in the newest checkpoint; `count` counts those that are read.
    pub(crate) fn new(
        looker: CheckpointReader,
        stage: &str,
        slice: SliceId,
        runs: &SliceRuns,
        count: &Arc<AtomicU64>,
    ) -> Self {
        let share = Arc::new(Share::of(slice, runs));
        let (stage, count) = (stage.to_owned(), Arc::clone(count));
        Self { looker, stage, share, count, found: Mutex::default() }
    }

    /// Returns true if single keys of a slice with these runs are worth reading.
    pub(super) fn is_worth(&self, runs: &SliceRuns) -> bool {
        tidemill_env::is_simulated() || runs.bytes() >= FROM_BYTES
    }

    /// Returns true once so much was read that the whole slice should be.
    pub(super) fn is_enough(&self) -> bool {
        self.share.is_enough.load(Ordering::Relaxed)
    }

    /// Opens the index of the keys, unless it is open.
    pub(super) fn open(&self, slice: SliceId) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*found, KeyIndex::Unknown) {
            // What is wrong with an index is no reason not to read what it is of.
            let opened = self.looker.keys_of(&self.stage, slice);
            let keys = opened.unwrap_or_else(|error| {
                let stage = &self.stage;
                tracing::warn!(stage, %slice, %error, "a slice cannot be read by its keys");
                None
            });
            *found = keys.map_or(KeyIndex::Gone, |keys| KeyIndex::Keys(Box::new(keys)));
        }
    }

    /// Its keys, for its lane; none if they cannot be read one by one.
    pub(super) fn take(&self, key: SliceKey, running: &Arc<ReadRetry>) -> Option<SavedKeys> {
        self.open(key.slice);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let KeyIndex::Keys(keys) = std::mem::replace(&mut *found, KeyIndex::Gone) else {
            return None;
        };
        let reading = Arc::new(Mutex::new(PrefetchedKeys { keys: *keys, ahead: BTreeMap::new() }));
        let (running, count) = (Arc::clone(running), Arc::clone(&self.count));
        let share = Arc::clone(&self.share);
        Some(SavedKeys::new(Box::new(RetriedKeys {
            stage: key.stage,
            reading,
            running,
            share,
            count,
        })))
    }

    /// Reads the whole slice from the newest checkpoint.
    pub(super) fn read_whole(
        &self,
        slice: SliceId,
        read: &mut LoadedRuns,
    ) -> Result<(), CheckpointError> {
        let pinned = self.looker.pin(None)?;
        pinned.named(pinned.chain(&self.stage, slice)).read_into(read)
    }
}

/// Keys that a running job cannot go on without.
struct RetriedKeys {
    stage: StageIx,
    reading: Arc<Mutex<PrefetchedKeys>>,
    running: Arc<ReadRetry>,
    share: Arc<Share>,
    count: Arc<AtomicU64>,
}

/// A requested key: the prefix of its part, and its hash.
type KeyLookup = (Vec<u8>, u64);

/// The number of a row, as bytes, and its value.
type Row = (Vec<u8>, Vec<u8>);

struct PrefetchedKeys {
    keys: KeyReader,
    /// Keys read ahead: the first row with the hash, with its number; none if there is no such row.
    ahead: BTreeMap<KeyLookup, Option<Row>>,
}

impl PrefetchedKeys {
    fn read_ahead(&mut self, prefix: &[u8], hashes: Vec<u64>) {
        for hash in hashes {
            let mut first = None;
            let read = self.keys.find(prefix, hash, &mut |row, value| {
                first = Some((row.to_vec(), value.to_vec()));
                Ok(true)
            });
            // What cannot be read is asked for again by who needs it.
            if read.is_ok() {
                self.ahead.insert((prefix.to_vec(), hash), first);
            }
        }
    }
}

impl ReadKeys for RetriedKeys {
    fn parts(&self) -> Vec<(Vec<u8>, u32)> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).keys.parts()
    }

    fn are_too_many(&mut self, rows: usize) -> bool {
        self.share.wants(rows)
    }

    fn ask(&mut self, prefix: &[u8], hashes: Vec<u64>) {
        let (reading, prefix) = (Arc::clone(&self.reading), prefix.to_vec());
        self.running.readers.enqueue(Box::new(move |_| {
            let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
            reading.read_ahead(&prefix, hashes);
        }));
    }

    fn find(
        &mut self,
        prefix: &[u8],
        hash: u64,
        take: &mut TakeKey<'_>,
    ) -> Result<bool, ReadError> {
        let Self { stage, reading, running, count, .. } = self;
        let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match reading.ahead.remove(&(prefix.to_vec(), hash)) {
            Some(None) => false,
            Some(Some((row, value))) if take(&row, &value) == Ok(true) => true,
            // Of other keys with this hash nothing is known, and errors have a place to name.
            _ => running.until_read(*stage, ReadError::is_transient, || {
                reading.keys.find(prefix, hash, take)
            })?,
        };
        count.fetch_add(u64::from(found), Ordering::Relaxed);
        Ok(found)
    }
}
