//! The checkpoints of a job in a backend: runs of slices, and manifests that name them.
//!
//! ```text
//! begin ─▶ 5 ─▶ put: runs of the slices that changed ─▶ complete: manifest 5; then runs that none
//!                                                       names go; then the manifest before it
//!
//! manifest 5    cycle, sources, stages ┬ slice 0: runs of 2 (all), of 3, of 5 (changes)
//!                                      └ slice 1: run of 4 (all)
//! ```
//!
//! A slice that did not change costs nothing. When the changes of a slice have become twice as large
//! as what they change, or the checkpoints that they come from many, they are merged before the next
//! ones are put: so the bytes that are written follow the changes, and those that are read the state.
//! (DESIGN 6; ChronoStream III-B.)
//!
//! A checkpoint that is *kept* stays until it is deleted; of the others only the newest does, and
//! those that somebody reads from ([`Looker`]).
//!
//! Invariants:
//!
//! - All that the newest manifest names is there, and all that one that is kept names; until the
//!   next one is, nothing of it is deleted.
//! - Only a manifest that is neither may lack some of what it names: it is the note of what is still
//!   to be deleted, and goes last.
//! - The job goes on from the manifest with the largest number. One that is restored gets a number
//!   of its own.
//! - Runs of a checkpoint that was not completed are known by the note of its beginning, and are
//!   deleted when the next one begins. What no note and no manifest names is left alone.
//! - None of that needs a batch to be there as a whole: backends on servers write it in parts.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod kept;
mod keys;
mod lives;
mod looker;
mod manifest;
mod put;
mod rows;
mod runs;
#[cfg(test)]
mod tests;

pub use keys::{HashOfEntry, KeysOf};
pub use looker::{Looker, Pinned};
pub use manifest::{Manifest, Run, SavedSink, SavedSource, SavedStage};
pub use rows::RowsOf;
pub use runs::{ReadRuns, RunsOf};

use crate::{Backend, Batch, SavedError, StateError, delta::Order};
use manifest::{BEGUN_KEY, NUMBER_MAX, OVER_KEY, manifest_key, number_of, runs_prefix};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tidemill_env::sync::Mutex;
use tidemill_types::Cycle;

/// Longest name of a checkpoint that is kept, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Why a checkpoint cannot be written or read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The backend's.
    #[error(transparent)]
    Backend(#[from] StateError),
    /// What it holds is not what was put there.
    #[error("checkpoint {number}: {error}")]
    Saved {
        /// The checkpoint.
        number: u64,
        /// What is wrong.
        error: SavedError,
    },
    /// There is none at all.
    #[error("the job has no checkpoint yet")]
    None,
    /// There is no such checkpoint.
    #[error("there is no checkpoint {0}")]
    Unknown(u64),
    /// It is the newest, and is not kept.
    #[error("checkpoint {0} is the one that the job goes on from: the next one replaces it")]
    Newest(u64),
    /// It is the newest, and is kept already under a name.
    #[error("checkpoint {0} is the newest, and is kept already, as `{1}`")]
    Kept(u64, String),
    /// A name is too long, or has characters that would do something where it is shown.
    #[error(
        "the name of a checkpoint has {NAME_BYTES_MAX} bytes at most, and no control characters"
    )]
    Name,
}

impl CheckpointError {
    /// Whether what was written is not what is there.
    fn is_damage(&self) -> bool {
        match self {
            Self::Saved { .. } => true,
            Self::Backend(error) => error.is_damage(),
            _ => false,
        }
    }
}

/// A complete checkpoint, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointInfo {
    /// Its number.
    pub number: u64,
    /// Its name, if it stays until it is deleted; may be empty.
    pub kept: Option<String>,
    /// Whether the job goes on from it.
    pub newest: bool,
    /// Everything up to the end of this cycle is in it.
    pub cycle: Cycle,
    /// When it was completed, in microseconds since 1970.
    pub made_us: i64,
    /// Bytes that it needs, those that it shares with others counted.
    pub bytes: u64,
}

/// The checkpoints of one job.
pub struct Checkpoints {
    backend: Arc<dyn Backend>,
    /// Complete ones.
    complete: BTreeMap<u64, Arc<Manifest>>,
    /// Those among them whose manifests are damaged, and how.
    damaged: BTreeMap<u64, CheckpointError>,
    /// The names of those that stay until they are deleted.
    kept: BTreeMap<u64, String>,
    /// The runs of each node and slice, the oldest first.
    chains: BTreeMap<(u32, u32), Vec<Run>>,
    /// Where the job goes on from; not durable before [`Self::confirm`].
    chosen: Option<u64>,
    /// It begins a new life there.
    anew: bool,
    /// The last number that was given.
    last: u64,
    /// Nothing goes on from checkpoints up to this number: the job began anew after it.
    over: u64,
    /// Manifests that go when what they alone name has gone; none: one that cannot be read.
    older: BTreeMap<u64, Option<Arc<Manifest>>>,
    /// A checkpoint that was begun, and not completed.
    begun: Option<u64>,
    /// One that a process began that has ended.
    left_behind: Option<u64>,
    /// Runs that no manifest will name.
    unnamed: Vec<Run>,
    /// Nodes whose rows are read back one by one.
    by_row: BTreeSet<u32>,
    /// Nodes whose rows are looked for by their keys, and the hash of the key that an entry holds.
    by_key: BTreeMap<u32, HashOfEntry>,
    batch: Batch,
    /// Memory for a run that is needed as a whole.
    run: Vec<u8>,
    /// Memory to put changes in order.
    order: Order,
    shared: Arc<Mutex<looker::Shared>>,
}

impl Checkpoints {
    /// The checkpoints in a backend.
    ///
    /// # Errors
    /// The backend's; or what is there is no checkpoint that this build knows.
    pub fn open(backend: Arc<dyn Backend>) -> Result<Self, CheckpointError> {
        let mut kept = BTreeMap::new();
        for key in backend.keys(b"k")? {
            if let (Some(number), Some(name)) = (number_of(&key), backend.get(&key)?) {
                kept.insert(number, String::from_utf8_lossy(&name).into_owned());
            }
        }
        let (begun, over) = (note(&*backend, BEGUN_KEY)?, note(&*backend, OVER_KEY)?);
        let (mut complete, mut older) = (BTreeMap::new(), BTreeMap::new());
        let mut damaged = BTreeMap::new();
        let keys = backend.keys(b"m")?;
        let newest = keys.last().and_then(|key| number_of(key)).unwrap_or(0);
        let last = begun.max(newest).max(over);
        if last > NUMBER_MAX {
            let error = SavedError::new("no checkpoint has such a number");
            return Err(CheckpointError::Saved { number: last, error });
        }
        for key in keys {
            let number = number_of(&key).unwrap_or(0);
            let manifest = match read(&*backend, &key) {
                Err(error) if !error.is_damage() => return Err(error),
                manifest => manifest,
            };
            if !(kept.contains_key(&number) || number == newest.max(over + 1)) {
                // Only to know what goes: runs that it alone named are left alone.
                older.insert(number, manifest.unwrap_or(None));
                continue;
            }
            match manifest {
                Ok(manifest) => complete.extend(manifest.map(|it| (number, it))),
                Err(error) => drop(damaged.insert(number, error)),
            }
        }
        let is_there = |it: &u64| complete.contains_key(it) || damaged.contains_key(it);
        let left_behind = Some(begun).filter(|it| *it > 0 && !is_there(it));
        let opened = Self {
            backend,
            complete,
            damaged,
            kept,
            chains: BTreeMap::new(),
            chosen: None,
            anew: false,
            last,
            over,
            older,
            begun: None,
            left_behind,
            unnamed: Vec::new(),
            by_row: BTreeSet::new(),
            by_key: BTreeMap::new(),
            batch: Batch::default(),
            run: Vec::new(),
            order: Order::default(),
            shared: Arc::default(),
        };
        opened.share();
        Ok(opened)
    }

    /// Finds checkpoints for those who read from them beside the job.
    #[must_use]
    pub fn looker(&self) -> Looker {
        Looker { backend: Arc::clone(&self.backend), shared: Arc::clone(&self.shared) }
    }

    fn share(&self) {
        looker::lock(&self.shared).set(&self.complete, self.over);
    }

    /// The checkpoint that the job goes on from; none if there is none that can be read.
    #[must_use]
    pub fn newest(&self) -> Option<&Arc<Manifest>> {
        let last = self.complete.last_key_value().filter(|(number, _)| **number > self.over);
        last.map(|(_, manifest)| manifest)
    }

    /// Why the newest checkpoint cannot be gone on from, if it is damaged. Its job is not to go on
    /// from one before unless somebody says so: they delete it, or name another.
    ///
    /// # Errors
    /// It is damaged.
    pub fn newest_is_whole(&self) -> Result<(), CheckpointError> {
        let newest = self.newest().map_or(self.over, |manifest| manifest.number);
        match self.damaged.last_key_value() {
            Some((number, error)) if *number > newest => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// A checkpoint by its number.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn get(&self, number: u64) -> Result<&Arc<Manifest>, CheckpointError> {
        if let Some(error) = self.damaged.get(&number) {
            return Err(error.clone());
        }
        self.complete.get(&number).ok_or(CheckpointError::Unknown(number))
    }

    /// Checkpoints that are damaged, with what is wrong with each.
    pub fn damaged(&self) -> impl Iterator<Item = (u64, &CheckpointError)> {
        self.damaged.iter().map(|(number, error)| (*number, error))
    }

    /// The job goes on from no cycle before this one: that of the oldest checkpoint of its life.
    #[must_use]
    pub fn floor(&self) -> Cycle {
        let of_this_life = self.complete.range(self.over + 1..);
        of_this_life.map(|(_, manifest)| manifest.cycle).min().unwrap_or(Cycle::NONE)
    }

    /// All complete checkpoints, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<(CheckpointInfo, Arc<Manifest>)> {
        let newest = self.newest().map(|it| it.number);
        let info = |manifest: &Manifest| CheckpointInfo {
            number: manifest.number,
            kept: self.kept.get(&manifest.number).cloned(),
            newest: newest == Some(manifest.number),
            cycle: manifest.cycle,
            made_us: manifest.made.0,
            bytes: manifest.bytes(),
        };
        self.complete.values().map(|it| (info(it), Arc::clone(it))).collect()
    }

    /// Begins a checkpoint; gives back its number. One that was begun before, by a process that
    /// ended, is deleted.
    ///
    /// # Errors
    /// The backend's; it may be begun again.
    pub fn begin(&mut self) -> Result<u64, CheckpointError> {
        if !self.older.is_empty() {
            self.delete_older()?;
        }
        if let Some(left) = self.left_behind {
            let named = self.complete.values().flat_map(|it| it.runs());
            let named: BTreeSet<_> = named.map(|run| run.key(0)[..21].to_vec()).collect();
            let found = self.backend.keys(&runs_prefix(left))?;
            let left = found.iter().filter(|key| !named.contains(&key[..key.len().min(21)]));
            // Batches of their own: what is tried again is not in them twice.
            let mut deletes = Batch::default();
            left.for_each(|key| deletes.delete(key));
            // Before the note that explains them is written over.
            self.backend.commit(&mut deletes)?;
        }
        let number = self.last + 1;
        let mut begun = Batch::default();
        begun.put(BEGUN_KEY, &number.to_be_bytes());
        self.backend.commit(&mut begun)?;
        (self.last, self.begun, self.left_behind) = (number, Some(number), None);
        Ok(number)
    }

    /// The runs of a node's slices, as the next manifest names them.
    #[must_use]
    pub fn chains(&self, node: u32, slices: u32) -> Vec<Vec<Run>> {
        let chain = |slice| self.chains.get(&(node, slice)).cloned().unwrap_or_default();
        (0..slices).map(chain).collect()
    }

    /// Completes the checkpoint that was begun: it is the newest from now on. The one before it is
    /// deleted, unless it is kept.
    ///
    /// # Errors
    /// The backend's: the one before is the newest then. It may be tried again.
    pub fn complete(&mut self, manifest: Manifest) -> Result<(), CheckpointError> {
        // What the manifest names is there before it is.
        self.backend.commit(&mut self.batch)?;
        self.settle(manifest)
    }

    /// A manifest is the newest from now on.
    fn settle(&mut self, manifest: Manifest) -> Result<(), CheckpointError> {
        let mut named = Batch::default();
        named.put(&manifest_key(manifest.number), &manifest.encode());
        self.backend.commit(&mut named)?;
        self.retire(Some(manifest));
        self.begun = None;
        self.delete_older()
    }

    /// Nobody wants to have those that are not kept any more; one has just been completed, or none.
    fn retire(&mut self, newest: Option<Manifest>) {
        // Nobody begins to read from one that goes, and nobody finds none.
        let mut shared = looker::lock(&self.shared);
        let is_gone = |it: &u64| !self.kept.contains_key(it) && !shared.is_pinned(*it);
        let gone: Vec<u64> = self.complete.keys().copied().filter(is_gone).collect();
        for number in gone {
            let manifest = self.complete.remove(&number);
            self.older.insert(number, manifest);
        }
        if let Some(newest) = newest {
            // This may be the second attempt.
            self.older.remove(&newest.number);
            self.complete.insert(newest.number, Arc::new(newest));
        }
        shared.set(&self.complete, self.over);
    }

    /// Deletes what only manifests before the newest name, then those. What a damaged one may name is
    /// left alone.
    fn delete_older(&mut self) -> Result<(), CheckpointError> {
        let unknown = self.damaged.last_key_value().map_or(0, |(number, _)| *number);
        let named: BTreeSet<Run> =
            self.complete.values().flat_map(|it| it.runs()).copied().collect();
        let older = self.older.values().flatten().flat_map(|it| it.runs());
        let gone: BTreeSet<Run> =
            older.chain(&self.unnamed).filter(|run| !named.contains(run)).copied().collect();
        // A batch of its own: what is tried again is not in it twice.
        let mut deletes = Batch::default();
        for run in gone.into_iter().filter(|run| run.checkpoint > unknown) {
            (0..run.index_parts().end).for_each(|part| deletes.delete(&run.key(part)));
            looker::lock(&self.shared).forget(&run);
        }
        self.backend.commit(&mut deletes)?;
        if self.begun.is_none() {
            self.unnamed.clear();
        }
        self.older.keys().for_each(|number| deletes.delete(&manifest_key(*number)));
        self.backend.commit(&mut deletes)?;
        self.older.clear();
        Ok(())
    }

    /// The runs of a slice, the oldest first.
    #[must_use]
    pub fn runs_of(&self, node: u32, slice: u32) -> RunsOf {
        self.named(self.chains.get(&(node, slice)).map_or(&[][..], Vec::as_slice))
    }

    /// Some runs of a slice, as a manifest names them.
    #[must_use]
    pub fn named(&self, runs: &[Run]) -> RunsOf {
        RunsOf::new(&self.backend, runs)
    }
}

/// A number that is noted under a key; 0 if none is.
fn note(backend: &dyn Backend, key: &[u8]) -> Result<u64, CheckpointError> {
    let Some(note) = backend.get(key)? else { return Ok(0) };
    <[u8; 8]>::try_from(&note[..]).map(u64::from_be_bytes).map_err(|_| {
        let error = SavedError::new("the note of a number is not one");
        CheckpointError::Saved { number: 0, error }
    })
}

/// The manifest under a key; none if it is not there.
fn read(backend: &dyn Backend, key: &[u8]) -> Result<Option<Arc<Manifest>>, CheckpointError> {
    let value = backend.get(key)?;
    value.map(|value| Manifest::decode(key, &value).map(Arc::new)).transpose()
}
