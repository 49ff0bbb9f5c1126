//! Checkpoints that somebody reads from, beside the job: they stay until nobody does.
//!
//! ```text
//! Checkpoints ── complete ones, and since which the job began anew ──▶ shared ◀── pin, unpin ── Looker
//! ```
//!
//! Invariant: of a checkpoint that is pinned nothing is deleted. A process that ends forgets what it
//! had pinned, and the next one deletes that as it would have gone without.

use super::keys::KeysOf;
use super::rows::{RowIndex, RowsOf};
use super::runs::RunsOf;
use super::{CheckpointError, Manifest, Run};
use crate::Backend;
use std::{collections::BTreeMap, sync::Arc};
use tidemill_env::sync::{Mutex, MutexGuard, PoisonError};

/// What those who look and those who delete must agree on.
#[derive(Default)]
pub(super) struct Shared {
    complete: BTreeMap<u64, Arc<Manifest>>,
    over: u64,
    /// How many read from a checkpoint.
    pinned: BTreeMap<u64, usize>,
    /// Where the rows of runs begin that are read row by row.
    indexes: BTreeMap<Run, Arc<RowIndex>>,
}

impl Shared {
    /// These are the complete ones from now on.
    pub(super) fn set(&mut self, complete: &BTreeMap<u64, Arc<Manifest>>, over: u64) {
        self.complete.clone_from(complete);
        self.over = over;
    }

    /// Notes where the rows of a run begin.
    pub(super) fn index(&mut self, named: Run, index: RowIndex) {
        self.indexes.insert(named, Arc::new(index));
    }

    /// The run is about to go.
    pub(super) fn forget(&mut self, run: &Run) {
        self.indexes.remove(run);
    }

    pub(super) fn is_pinned(&self, number: u64) -> bool {
        self.pinned.contains_key(&number)
    }
}

pub(super) fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds checkpoints for those who want to read from them.
#[derive(Clone)]
pub struct Looker {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) shared: Arc<Mutex<Shared>>,
}

impl Looker {
    /// A complete checkpoint, that of a number or the newest, which stays until the result is
    /// dropped.
    ///
    /// # Errors
    /// There is none.
    pub fn pin(&self, number: Option<u64>) -> Result<Pinned, CheckpointError> {
        let mut shared = lock(&self.shared);
        let found = match number {
            Some(number) => shared.complete.get(&number).ok_or(CheckpointError::Unknown(number))?,
            None => {
                let last = shared.complete.last_key_value();
                let last = last.filter(|(number, _)| **number > shared.over);
                last.ok_or(CheckpointError::None)?.1
            }
        };
        let manifest = Arc::clone(found);
        *shared.pinned.entry(manifest.number).or_default() += 1;
        drop(shared);
        Ok(Pinned { manifest, looker: self.clone() })
    }

    /// The rows of a slice of a stage, each as the newest checkpoint has it when it is asked for.
    #[must_use]
    pub fn rows_of(&self, stage: &str, slice: u32) -> RowsOf {
        RowsOf::new(self.clone(), stage, slice)
    }

    /// The rows of a slice of a stage by the hashes of their keys, each as the newest checkpoint has it
    /// when it is asked for; none if they have no index ([`super::Checkpoints::read_by_key`]).
    ///
    /// # Errors
    /// There is no checkpoint, or the backend's.
    pub fn keys_of(&self, (stage, slice): (&str, u32)) -> Result<Option<KeysOf>, CheckpointError> {
        KeysOf::open(self, (stage, slice))
    }

    /// Where the rows of a run begin; the run is read for it if nobody knows.
    pub(super) fn index_of(&self, run: &Run) -> Result<Arc<RowIndex>, CheckpointError> {
        if let Some(index) = lock(&self.shared).indexes.get(run) {
            return Ok(Arc::clone(index));
        }
        let number = run.checkpoint;
        let failed = |error| CheckpointError::Saved { number, error };
        let read = RunsOf::new(&self.backend, &[*run]).read()?;
        let index = Arc::new(RowIndex::of(&read.get().concat()).map_err(failed)?);
        lock(&self.shared).indexes.insert(*run, Arc::clone(&index));
        Ok(index)
    }
}

/// A checkpoint that stays.
pub struct Pinned {
    manifest: Arc<Manifest>,
    looker: Looker,
}

impl Pinned {
    /// What is in it.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The runs of a slice of a stage, the oldest first; none if it has no such slice.
    #[must_use]
    pub fn chain(&self, stage: &str, slice: u32) -> &[Run] {
        let stage = self.manifest.stages.iter().find(|it| it.name == stage);
        stage.and_then(|it| it.slices.get(slice as usize)).map_or(&[], Vec::as_slice)
    }

    /// Some runs of a slice, as the manifest names them.
    #[must_use]
    pub fn named(&self, runs: &[Run]) -> RunsOf {
        RunsOf::new(&self.looker.backend, runs)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut shared = lock(&self.looker.shared);
        let number = self.manifest.number;
        if let Some(count) = shared.pinned.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                shared.pinned.remove(&number);
            }
        }
    }
}
