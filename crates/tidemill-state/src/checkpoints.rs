//! The checkpoints of a job in a backend: runs of slices, and manifests that name them.
//!
//! ```text
//! begin(5) ─▶ put: runs of the slices that changed ─▶ complete: manifest 5; then what it does not
//!                                                     name goes; then the manifest before it
//!
//! manifest 5    cycle, sources, stages ┬ slice 0: run of 2 (all), of 3, of 5 (changes)
//!                                      └ slice 1: run of 4 (all)
//! ```
//!
//! A slice that did not change costs nothing. When the changes of a slice have become twice as large
//! as what they change, or its runs many, they are merged while the next one is put: so the bytes that
//! are written follow the changes, and those that are read the state. (DESIGN 6; ChronoStream
//! III-B.)
//!
//! Invariants:
//!
//! - All that the newest manifest names is there; until the next one is, nothing of it is deleted.
//! - Only a manifest that is not the newest may lack some of what it names: it is the note of what
//!   is still to be deleted, and goes last.
//! - Runs of a checkpoint that was not completed are known by the note of its beginning, and are
//!   deleted when the next one begins. What no note and no manifest names is left alone.
//! - None of that needs a batch to be there as a whole: backends on servers write it in parts.

#[cfg(test)]
mod tests;

use crate::{Backend, Batch, SavedError, StateError, delta};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tidemill_types::{Cycle, Micros};

/// Bytes of a run that are put under one key, at most, and that are committed at once: whoever else
/// syncs on that disk, such as the ledger, waits for no more than that.
const PART_BYTES: usize = 2 << 20;
/// Bytes of changes that are kept for each byte of what they change, before they are merged.
const CHANGES_PER_STATE: u64 = 2;
/// Runs of a slice at most.
const RUNS_MAX: usize = 8;
/// The first byte of a manifest.
const VERSION: u8 = 1;

/// A source slice as of the end of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSource {
    /// The source's name.
    pub name: String,
    /// The slice.
    pub slice: u32,
    /// Where it stood.
    pub position: u64,
    /// How far event time was.
    pub watermark: Micros,
    /// Nothing came from it any more.
    pub ended: bool,
    /// Nothing had come from it for so long that it did not hold event time back.
    pub idle: bool,
}

/// A stage as of the end of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedStage {
    /// Its name.
    pub name: String,
    /// What it does, in words: a state belongs to a stage that does the same.
    pub does: String,
    /// How far its event time was.
    pub watermark: Micros,
    /// By slice: its runs, the oldest first.
    pub slices: Vec<Vec<Run>>,
}

/// A sink as of the end of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSink {
    /// Its name.
    pub name: String,
    /// The last cycle of which it had rows: it holds that one, and so all before.
    pub last: Cycle,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Run {
    node: u32,
    slice: u32,
    checkpoint: Cycle,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A complete checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Everything up to the end of this cycle is in it.
    pub cycle: Cycle,
    /// The recorded time of that cycle.
    pub time: Micros,
    /// The slices of the sources.
    pub sources: Vec<SavedSource>,
    /// The stages.
    pub stages: Vec<SavedStage>,
    /// The sinks.
    pub sinks: Vec<SavedSink>,
    /// The last cycle of which a dead letter was handed to its sink, or a later one.
    pub letters: Cycle,
}

/// Why a checkpoint cannot be written or read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The backend's.
    #[error(transparent)]
    Backend(#[from] StateError),
    /// What it holds is not what was put there.
    #[error("checkpoint of cycle {cycle}: {error}")]
    Saved {
        /// The checkpoint's cycle.
        cycle: Cycle,
        /// What is wrong.
        error: SavedError,
    },
}

/// The checkpoints of one job.
pub struct Checkpoints {
    backend: Arc<dyn Backend>,
    /// The runs of each node and slice.
    chains: BTreeMap<(u32, u32), Vec<Run>>,
    last: Option<Cycle>,
    /// A checkpoint that was begun, and not completed.
    begun: Option<Cycle>,
    /// Manifests before the newest: they go when what they alone name has gone.
    older: Vec<Cycle>,
    /// Runs that the next manifest does not name any more.
    unnamed: Vec<Run>,
    batch: Batch,
}

const BEGUN_KEY: &[u8] = b"b";
/// There while everything is being deleted.
const OVER_KEY: &[u8] = b"s";

fn manifest_key(cycle: Cycle) -> [u8; 9] {
    let mut key = [b'm'; 9];
    key[1..].copy_from_slice(&cycle.0.to_be_bytes());
    key
}

impl Run {
    /// The node of the job whose state it is.
    #[must_use]
    pub fn node(&self) -> u32 {
        self.node
    }

    fn parts(&self) -> u64 {
        self.bytes.div_ceil(PART_BYTES as u64)
    }

    fn key(&self, part: u64) -> [u8; 21] {
        let mut key = [b'r'; 21];
        key[1..5].copy_from_slice(&self.node.to_be_bytes());
        key[5..9].copy_from_slice(&self.slice.to_be_bytes());
        key[9..17].copy_from_slice(&self.checkpoint.0.to_be_bytes());
        key[17..].copy_from_slice(&(part as u32).to_be_bytes());
        key
    }
}

impl Checkpoints {
    /// The checkpoints in a backend, and the newest that is complete.
    ///
    /// # Errors
    /// The backend's; or what is there is no checkpoint that this build knows.
    pub fn open(backend: Arc<dyn Backend>) -> Result<(Self, Option<Manifest>), CheckpointError> {
        if backend.get(OVER_KEY)?.is_some() {
            delete_all(&*backend)?;
        }
        let mut manifests = backend.keys(b"m")?;
        let newest = manifests.pop();
        let read = |key: &Vec<u8>| match backend.get(key)? {
            Some(value) => read_manifest(key, &value).map(Some),
            None => Ok(None),
        };
        let manifest = newest.as_ref().map(&read).transpose()?.flatten();
        let mut begun = None;
        if let Some(note) = backend.get(BEGUN_KEY)? {
            let cycle = <[u8; 8]>::try_from(&note[..]).map(u64::from_be_bytes).map_err(|_| {
                let error = SavedError::new("the note of its beginning is not one");
                CheckpointError::Saved { cycle: Cycle::NONE, error }
            })?;
            begun = Some(Cycle(cycle));
        }
        let last = manifest.as_ref().map(|it| it.cycle);
        let mut chains = BTreeMap::new();
        for run in manifest.iter().flat_map(|it| &it.stages).flat_map(|it| &it.slices).flatten() {
            let chain: &mut Vec<Run> = chains.entry((run.node, run.slice)).or_default();
            chain.push(*run);
        }
        let begun = begun.filter(|begun| last.is_none_or(|last| *begun > last));
        let mut unnamed = BTreeSet::new();
        for key in &manifests {
            let of_it = match read(key) {
                Ok(of_it) => of_it,
                // Only to know what goes: runs that it alone named are left alone.
                Err(CheckpointError::Saved { .. }) => None,
                Err(CheckpointError::Backend(error)) if error.is_damage() => None,
                Err(error) => return Err(error),
            };
            unnamed
                .extend(of_it.iter().flat_map(|it| &it.stages).flat_map(|it| &it.slices).flatten());
        }
        let is_named =
            |run: &&Run| chains.get(&(run.node, run.slice)).is_some_and(|it| it.contains(run));
        let unnamed: Vec<Run> = unnamed.iter().filter(|run| !is_named(run)).copied().collect();
        let older = manifests.iter().map(|key| cycle_of(key)).collect();
        let batch = Batch::default();
        Ok((Self { backend, chains, last, begun, older, unnamed, batch }, manifest))
    }

    /// Deletes all checkpoints: the job begins anew.
    ///
    /// # Errors
    /// The backend's.
    pub fn start_over(&mut self) -> Result<(), CheckpointError> {
        if self.last.take().is_some() {
            // The note is there first, so that a process that ends here is followed by one that
            // knows.
            self.batch.put(OVER_KEY, &[]);
            self.backend.commit(&mut self.batch)?;
            delete_all(&*self.backend)?;
            (self.begun, self.older, self.unnamed) = (None, Vec::new(), Vec::new());
            self.chains.clear();
        }
        Ok(())
    }

    /// Deletes what only manifests before the newest name, then those.
    fn delete_older(&mut self) -> Result<(), CheckpointError> {
        self.delete_unnamed()?;
        for older in self.older.drain(..) {
            self.batch.delete(&manifest_key(older));
        }
        Ok(self.backend.commit(&mut self.batch)?)
    }

    /// Commits the batch, with the deletion of what no manifest names any more.
    fn delete_unnamed(&mut self) -> Result<(), CheckpointError> {
        for run in self.unnamed.drain(..) {
            (0..run.parts()).for_each(|part| self.batch.delete(&run.key(part)));
        }
        Ok(self.backend.commit(&mut self.batch)?)
    }

    /// Begins the checkpoint of a cycle. One that was begun before, by a process that ended, is
    /// deleted.
    ///
    /// # Errors
    /// The backend's; it may be begun again.
    pub fn begin(&mut self, cycle: Cycle) -> Result<(), CheckpointError> {
        if !self.older.is_empty() {
            self.delete_older()?;
        }
        if let Some(begun) = self.begun {
            let of_it = begun.0.to_be_bytes();
            let runs = self.backend.keys(b"r")?;
            let gone = runs.iter().filter(|key| key.get(9..17) == Some(&of_it));
            gone.for_each(|key| self.batch.delete(key));
            // Before the note that explains them is written over.
            self.backend.commit(&mut self.batch)?;
        }
        self.batch.put(BEGUN_KEY, &cycle.0.to_be_bytes());
        self.backend.commit(&mut self.batch)?;
        self.begun = Some(cycle);
        Ok(())
    }

    /// Puts what changed in a slice since the last checkpoint; called once a slice.
    ///
    /// # Errors
    /// The backend's. The run is kept, and written with the next one, or by [`Self::complete`].
    ///
    /// # Panics
    /// Panics if no checkpoint was begun.
    pub fn put(&mut self, (node, slice): (u32, u32), run: Bytes) -> Result<(), CheckpointError> {
        let cycle = self.begun.expect("a checkpoint was begun");
        let merged = self.merged((node, slice), &run);
        if merged.is_some() {
            self.unnamed.extend(self.chains.remove(&(node, slice)).unwrap_or_default());
        }
        let run = merged.unwrap_or(run);
        let named = Run { node, slice, checkpoint: cycle, bytes: run.len() as u64 };
        for (part, bytes) in run.chunks(PART_BYTES).enumerate() {
            self.batch.put(&named.key(part as u64), bytes);
        }
        self.chains.entry((node, slice)).or_default().push(named);
        if self.batch.bytes() >= PART_BYTES {
            self.backend.commit(&mut self.batch)?;
        }
        Ok(())
    }

    /// All that a slice holds, if what changed since it was written as a whole has become much.
    fn merged(&self, of: (u32, u32), run: &Bytes) -> Option<Bytes> {
        let chain = self.chains.get(&of)?;
        let changes: u64 = chain.iter().skip(1).map(|run| run.bytes).sum();
        let most = chain[0].bytes * CHANGES_PER_STATE;
        let is_long = chain.len() + 1 > RUNS_MAX || changes + run.len() as u64 > most;
        if !is_long {
            return None;
        }
        // What cannot be read now is not lost: there is one more run, and it is tried again.
        let mut runs = self.runs(chain).ok()?;
        runs.push(run.clone());
        delta::merge(runs).ok().map(Bytes::from)
    }

    /// The runs of a node's slices, as the next manifest names them.
    #[must_use]
    pub fn chains(&self, node: u32, slices: u32) -> Vec<Vec<Run>> {
        let chain = |slice| self.chains.get(&(node, slice)).cloned().unwrap_or_default();
        (0..slices).map(chain).collect()
    }

    /// Completes the checkpoint that was begun: it is the newest from now on, and the one before it
    /// is deleted.
    ///
    /// # Errors
    /// The backend's: the one before is the newest then. It may be tried again.
    pub fn complete(&mut self, manifest: &Manifest) -> Result<(), CheckpointError> {
        let mut bytes = vec![VERSION];
        bytes = postcard::to_extend(manifest, bytes).expect("plain values can be written");
        // What the manifest names is there before it is.
        self.backend.commit(&mut self.batch)?;
        self.batch.put(&manifest_key(manifest.cycle), &bytes);
        self.delete_unnamed()?;
        self.older.extend(self.last.filter(|last| *last != manifest.cycle));
        (self.last, self.begun) = (Some(manifest.cycle), None);
        self.delete_older()
    }

    /// What the runs of a slice say, the oldest first.
    ///
    /// # Errors
    /// The backend's, or one of them is not there.
    pub fn runs_of(&self, node: u32, slice: u32) -> Result<Vec<Bytes>, CheckpointError> {
        self.runs(self.chains.get(&(node, slice)).map_or(&[][..], Vec::as_slice))
    }

    /// What some runs say.
    ///
    /// # Errors
    /// The backend's, or one of them is not there.
    pub fn runs(&self, runs: &[Run]) -> Result<Vec<Bytes>, CheckpointError> {
        runs.iter().map(|run| self.run(run)).collect()
    }

    fn run(&self, run: &Run) -> Result<Bytes, CheckpointError> {
        let mut parts = Vec::new();
        for part in 0..run.parts() {
            let (cycle, slice) = (run.checkpoint, run.slice);
            let missing = || SavedError::new(format!("a part of slice {slice} is not there"));
            let found = self.backend.get(&run.key(part))?;
            parts.push(found.ok_or_else(|| CheckpointError::Saved { cycle, error: missing() })?);
        }
        Ok(match <[Bytes; 1]>::try_from(parts) {
            Ok([only]) => only,
            Err(parts) => parts.concat().into(),
        })
    }
}

/// Deletes manifests, then runs, then the note that it was to be done.
fn delete_all(backend: &dyn Backend) -> Result<(), StateError> {
    let mut batch = Batch::default();
    for prefix in [&b"m"[..], b"r", BEGUN_KEY, OVER_KEY] {
        backend.keys(prefix)?.iter().for_each(|key| batch.delete(key));
        backend.commit(&mut batch)?;
    }
    Ok(())
}

fn cycle_of(key: &[u8]) -> Cycle {
    Cycle(key.get(1..).and_then(|it| it.try_into().ok()).map_or(0, u64::from_be_bytes))
}

fn read_manifest(key: &[u8], value: &[u8]) -> Result<Manifest, CheckpointError> {
    let cycle = cycle_of(key);
    let failed = |message: String| {
        let error = SavedError::new(message);
        CheckpointError::Saved { cycle, error }
    };
    match value.split_first() {
        Some((&VERSION, rest)) => {
            let manifest: Manifest = postcard::from_bytes(rest)
                .map_err(|error| failed(format!("its manifest cannot be read: {error}")))?;
            match manifest.cycle == cycle {
                true => Ok(manifest),
                false => Err(failed("its manifest is that of another cycle".to_owned())),
            }
        }
        Some((version, _)) => {
            Err(failed(format!("its version {version} is not known to this build")))
        }
        None => Err(failed("its manifest is empty".to_owned())),
    }
}
