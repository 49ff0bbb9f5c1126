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
//! An unchanged slice costs nothing. The runs of a slice are merged before the next one is written
//! when its changes are twice as large as its first run, or come from too many checkpoints. So the
//! bytes written follow the changes, and the bytes read follow the size of the state.
//! ("ChronoStream: Elastic Stateful Stream Computation in the Cloud", III-B.)
//!
//! A *kept* checkpoint stays until somebody deletes it. Of the others only the newest stays, and
//! those that are pinned ([`CheckpointReader`]).
//!
//! Invariants:
//!
//! - Every run of the newest manifest and of every kept one exists. Until the next manifest is
//!   durable, none of them is deleted.
//! - Only other manifests may name missing runs. Such a manifest records the runs still to be
//!   deleted, and is deleted last.
//! - The job resumes from the manifest with the largest number. A restored checkpoint gets a new
//!   number.
//! - A key records the number of a checkpoint when it begins. Runs of an incomplete checkpoint are
//!   deleted when the next one begins. Runs that neither this key nor a manifest explains are left
//!   alone.
//! - Nothing relies on batches being atomic: backends on servers write them in parts.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod key_index;
mod manifest;
mod origin;
mod reader;
mod retention;
mod row_index;
mod run_writer;
mod slice_runs;
#[cfg(test)]
mod tests;

pub use key_index::KeyReader;
pub use manifest::{Manifest, RunRef, SavedSink, SavedSource, SavedStage};
pub use reader::{CheckpointReader, PinnedCheckpoint};
pub use row_index::RowReader;
pub use slice_runs::{LoadedRuns, SliceRuns};

use crate::{Backend, BackendError, WriteBatch};
use manifest::{BEGUN_KEY, NUMBER_MAX, OVER_KEY, manifest_key, number_of, runs_prefix};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tidemill_env::sync::Mutex;
use tidemill_state::{HashOfEntry, ReadError, SavedError, delta::KeyOrder};
use tidemill_types::{CheckpointNumber, Cycle, SliceId, SliceKey, StageIx};

/// The longest name of a kept checkpoint, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// The errors of writing and reading checkpoints.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CheckpointError {
    /// An error of the backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The content of a checkpoint is damaged.
    #[error("checkpoint {number}: {error}")]
    Saved {
        /// The checkpoint.
        number: CheckpointNumber,
        /// The damage.
        error: SavedError,
    },
    /// The job has no checkpoint.
    #[error("the job has no checkpoint yet")]
    None,
    /// There is no such checkpoint.
    #[error("there is no checkpoint {0}")]
    Unknown(CheckpointNumber),
    /// The checkpoint is the newest, and is not kept.
    #[error("checkpoint {0} is the one that the job goes on from: the next one replaces it")]
    Newest(CheckpointNumber),
    /// The checkpoint is the newest, and is kept already under a name.
    #[error("checkpoint {0} is the newest, and is kept already, as `{1}`")]
    Kept(CheckpointNumber, String),
    /// A name is too long, or has characters that would do something where it is shown.
    #[error(
        "the name of a checkpoint has {NAME_BYTES_MAX} bytes at most, and no control characters"
    )]
    Name,
}

impl CheckpointError {
    /// Returns true if the content is damaged.
    fn is_damage(&self) -> bool {
        match self {
            Self::Saved { .. } => true,
            Self::Backend(error) => error.is_damage(),
            _ => false,
        }
    }
}

impl From<CheckpointError> for ReadError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Backend(BackendError::Unreachable { .. }) => {
                Self::Unreachable(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// A summary of a complete checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointInfo {
    /// Its number.
    pub number: CheckpointNumber,
    /// Its name, maybe empty, if it is kept.
    pub kept: Option<String>,
    /// True if the job resumes from it.
    pub newest: bool,
    /// The last cycle that it covers.
    pub cycle: Cycle,
    /// The time of its completion, in microseconds since 1970.
    pub made_us: i64,
    /// The bytes of its runs, including those shared with other checkpoints.
    pub bytes: u64,
}

/// The checkpoints of one job.
pub struct Checkpoints {
    backend: Arc<dyn Backend>,
    /// The complete checkpoints.
    complete: BTreeMap<CheckpointNumber, Arc<Manifest>>,
    /// The checkpoints with damaged manifests, and the damage.
    damaged: BTreeMap<CheckpointNumber, CheckpointError>,
    /// The names of the kept checkpoints.
    kept: BTreeMap<CheckpointNumber, String>,
    /// The runs of each slice, the oldest first.
    chains: BTreeMap<SliceKey, Vec<RunRef>>,
    /// The checkpoint that the job resumes from; durable after [`Self::confirm`].
    chosen: Option<CheckpointNumber>,
    /// True if the job begins a new life there.
    anew: bool,
    /// The last number in use.
    last: CheckpointNumber,
    /// The job began anew after this number, so it never resumes from checkpoints up to it.
    over: CheckpointNumber,
    /// Older manifests, which are deleted after the runs that they alone name; none for one that
    /// cannot be read.
    older: BTreeMap<CheckpointNumber, Option<Arc<Manifest>>>,
    /// The current checkpoint.
    begun: Option<CheckpointNumber>,
    /// An incomplete checkpoint of an earlier process.
    left_behind: Option<CheckpointNumber>,
    /// Runs that no later manifest names.
    unnamed: Vec<RunRef>,
    /// The stages whose rows are read back one by one.
    by_row: BTreeSet<StageIx>,
    /// The stages whose rows are looked up by their keys, with the hash of the key in an entry.
    by_key: BTreeMap<StageIx, HashOfEntry>,
    batch: WriteBatch,
    /// The memory of a run that is needed in one piece.
    run: Vec<u8>,
    /// The memory for sorting changes.
    order: KeyOrder,
    shared: Arc<Mutex<reader::PinTable>>,
}

impl Checkpoints {
    /// Opens the checkpoints in a backend.
    ///
    /// # Errors
    /// An error of the backend, or a checkpoint with a number that none can follow.
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
        let newest = keys.last().and_then(|key| number_of(key)).unwrap_or(CheckpointNumber::NONE);
        let last = begun.max(newest).max(over);
        if last > NUMBER_MAX {
            let error = SavedError::new("no checkpoint has such a number");
            return Err(CheckpointError::Saved { number: last, error });
        }
        for key in keys {
            let number = number_of(&key).unwrap_or(CheckpointNumber::NONE);
            let manifest = match read(&*backend, &key) {
                Err(error) if !error.is_damage() => return Err(error),
                manifest => manifest,
            };
            if !(kept.contains_key(&number) || number == newest.max(over.next())) {
                // Only to know what goes: runs that it alone named are left alone.
                older.insert(number, manifest.unwrap_or(None));
                continue;
            }
            match manifest {
                Ok(manifest) => complete.extend(manifest.map(|it| (number, it))),
                Err(error) => drop(damaged.insert(number, error)),
            }
        }
        let is_there =
            |it: &CheckpointNumber| complete.contains_key(it) || damaged.contains_key(it);
        let left_behind = Some(begun).filter(|it| *it > CheckpointNumber::NONE && !is_there(it));
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
            batch: WriteBatch::default(),
            run: Vec::new(),
            order: KeyOrder::default(),
            shared: Arc::default(),
        };
        opened.share();
        Ok(opened)
    }

    /// A reader of these checkpoints, for use beside the running job.
    #[must_use]
    pub fn looker(&self) -> CheckpointReader {
        CheckpointReader { backend: Arc::clone(&self.backend), shared: Arc::clone(&self.shared) }
    }

    fn share(&self) {
        reader::lock(&self.shared).set(&self.complete, self.over);
    }

    /// The checkpoint that the job resumes from, if there is a readable one.
    #[must_use]
    pub fn newest(&self) -> Option<&Arc<Manifest>> {
        let last = self.complete.last_key_value().filter(|(number, _)| **number > self.over);
        last.map(|(_, manifest)| manifest)
    }

    /// Checks that the newest checkpoint is not damaged. A job does not resume from an older one by
    /// itself: a person deletes the damaged one, or names another.
    ///
    /// # Errors
    /// The damage of the newest checkpoint.
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
    pub fn get(&self, number: CheckpointNumber) -> Result<&Arc<Manifest>, CheckpointError> {
        if let Some(error) = self.damaged.get(&number) {
            return Err(error.clone());
        }
        self.complete.get(&number).ok_or(CheckpointError::Unknown(number))
    }

    /// The damaged checkpoints, each with its damage.
    pub fn damaged(&self) -> impl Iterator<Item = (CheckpointNumber, &CheckpointError)> {
        self.damaged.iter().map(|(number, error)| (*number, error))
    }

    /// The earliest cycle that the job may resume from: that of the oldest checkpoint of its life.
    #[must_use]
    pub fn floor(&self) -> Cycle {
        let of_this_life = self.complete.range(self.over.next()..);
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

    /// Begins a checkpoint and returns its number. Deletes the runs of an incomplete checkpoint of
    /// an earlier process.
    ///
    /// # Errors
    /// An error of the backend. It may be tried again.
    pub fn begin(&mut self) -> Result<CheckpointNumber, CheckpointError> {
        if !self.older.is_empty() {
            self.delete_older()?;
        }
        if let Some(left) = self.left_behind {
            let named = self.complete.values().flat_map(|it| it.runs());
            let named: BTreeSet<_> = named.map(|run| run.key(0)[..21].to_vec()).collect();
            let found = self.backend.keys(&runs_prefix(left))?;
            let left = found.iter().filter(|key| !named.contains(&key[..key.len().min(21)]));
            // Batches of their own: what is tried again is not in them twice.
            let mut deletes = WriteBatch::default();
            left.for_each(|key| deletes.delete(key));
            // Before the note that explains them is written over.
            self.backend.commit(&mut deletes)?;
        }
        let number = self.last.next();
        let mut begun = WriteBatch::default();
        begun.put(BEGUN_KEY, &number.0.to_be_bytes());
        self.backend.commit(&mut begun)?;
        (self.last, self.begun, self.left_behind) = (number, Some(number), None);
        Ok(number)
    }

    /// The runs of a stage's slices, for the next manifest.
    #[must_use]
    pub fn chains(&self, stage: StageIx, slices: u32) -> Vec<Vec<RunRef>> {
        let chain = |slice| {
            let key = SliceKey::new(stage, SliceId(slice));
            self.chains.get(&key).cloned().unwrap_or_default()
        };
        (0..slices).map(chain).collect()
    }

    /// Completes the current checkpoint, which is the newest from then on. Deletes the one before,
    /// unless it is kept or pinned.
    ///
    /// # Errors
    /// An error of the backend. The checkpoint before is still the newest then, and this may be
    /// tried again.
    ///
    /// # Panics
    /// Panics if the manifest is not of the current checkpoint, which is an error of the engine.
    pub fn complete(&mut self, manifest: Manifest) -> Result<(), CheckpointError> {
        assert_eq!(manifest.number, self.last, "the current checkpoint is completed");
        debug_assert!(
            self.names_all_runs(&manifest),
            "a manifest names all runs of its checkpoint"
        );
        // What the manifest names is there before it is.
        self.backend.commit(&mut self.batch)?;
        self.settle(manifest)
    }

    /// Returns true if a manifest names all runs that its checkpoint wrote.
    fn names_all_runs(&self, manifest: &Manifest) -> bool {
        let named: BTreeSet<&RunRef> = manifest.runs().collect();
        let mut written = self.chains.values().flatten();
        written.all(|run| run.checkpoint != manifest.number || named.contains(run))
    }

    /// Makes a manifest the newest.
    fn settle(&mut self, manifest: Manifest) -> Result<(), CheckpointError> {
        let mut named = WriteBatch::default();
        named.put(&manifest_key(manifest.number), &manifest.encode());
        self.backend.commit(&mut named)?;
        self.retire(Some(manifest));
        self.begun = None;
        self.delete_older()
    }

    /// Moves checkpoints that are neither kept nor pinned to the older ones, and adds the newest,
    /// if there is one.
    fn retire(&mut self, newest: Option<Manifest>) {
        // Nobody begins to read from one that goes, and nobody finds none.
        let mut shared = reader::lock(&self.shared);
        let is_gone = |it: &CheckpointNumber| !self.kept.contains_key(it) && !shared.is_pinned(*it);
        let gone: Vec<CheckpointNumber> = self.complete.keys().copied().filter(is_gone).collect();
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

    /// Deletes the runs that only older manifests name, then those manifests. Runs that a damaged
    /// manifest may name are left alone.
    fn delete_older(&mut self) -> Result<(), CheckpointError> {
        let unknown =
            self.damaged.last_key_value().map_or(CheckpointNumber::NONE, |(number, _)| *number);
        let named: BTreeSet<RunRef> =
            self.complete.values().flat_map(|it| it.runs()).copied().collect();
        let older = self.older.values().flatten().flat_map(|it| it.runs());
        let gone: BTreeSet<RunRef> =
            older.chain(&self.unnamed).filter(|run| !named.contains(run)).copied().collect();
        // A batch of its own: what is tried again is not in it twice.
        let mut deletes = WriteBatch::default();
        for run in gone.into_iter().filter(|run| run.checkpoint > unknown) {
            (0..run.index_parts().end).for_each(|part| deletes.delete(&run.key(part)));
            reader::lock(&self.shared).forget(&run);
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
    pub fn runs_of(&self, slice: SliceKey) -> SliceRuns {
        self.named(self.chains.get(&slice).map_or(&[][..], Vec::as_slice))
    }

    /// The given runs of a slice, to be read.
    #[must_use]
    pub fn named(&self, runs: &[RunRef]) -> SliceRuns {
        SliceRuns::new(&self.backend, runs)
    }
}

/// Reads the number of a checkpoint under a key; [`CheckpointNumber::NONE`] if there is none.
fn note(backend: &dyn Backend, key: &[u8]) -> Result<CheckpointNumber, CheckpointError> {
    let Some(note) = backend.get(key)? else { return Ok(CheckpointNumber::NONE) };
    let number = <[u8; 8]>::try_from(&note[..]).map(u64::from_be_bytes);
    number.map(CheckpointNumber).map_err(|_| {
        let error = SavedError::new("the note of a number is not one");
        CheckpointError::Saved { number: CheckpointNumber::NONE, error }
    })
}

/// Reads the manifest under a key, if there is one.
fn read(backend: &dyn Backend, key: &[u8]) -> Result<Option<Arc<Manifest>>, CheckpointError> {
    let value = backend.get(key)?;
    value.map(|value| Manifest::decode(key, &value).map(Arc::new)).transpose()
}
