//! Reading checkpoints beside the running job. A pinned checkpoint stays until its last reader
//! drops it.
//!
//! ```text
//! Checkpoints ── complete ones, and since which the job began anew ──▶ shared ◀── pin, unpin ── CheckpointReader
//! ```
//!
//! Invariant: no run of a pinned checkpoint is deleted. Pins end with the process; the next process
//! deletes an old checkpoint that was only pinned.

use super::key_index::KeyReader;
use super::row_index::{RowIndex, RowReader};
use super::slice_runs::SliceRuns;
use super::{CheckpointError, Manifest, RunRef};
use crate::Backend;
use std::{collections::BTreeMap, sync::Arc};
use tidemill_env::sync::{Mutex, MutexGuard, PoisonError};
use tidemill_types::{CheckpointNumber, SliceId};

/// The state that readers and the deletion of old checkpoints share.
#[derive(Default)]
pub(super) struct PinTable {
    complete: BTreeMap<CheckpointNumber, Arc<Manifest>>,
    over: CheckpointNumber,
    /// The number of readers of each pinned checkpoint.
    pinned: BTreeMap<CheckpointNumber, usize>,
    /// The indexes of runs that are read row by row.
    indexes: BTreeMap<RunRef, Arc<RowIndex>>,
}

impl PinTable {
    /// Replaces the set of complete checkpoints.
    pub(super) fn set(
        &mut self,
        complete: &BTreeMap<CheckpointNumber, Arc<Manifest>>,
        over: CheckpointNumber,
    ) {
        self.complete.clone_from(complete);
        self.over = over;
    }

    /// Stores the index of a run.
    pub(super) fn index(&mut self, named: RunRef, index: RowIndex) {
        self.indexes.insert(named, Arc::new(index));
    }

    /// Drops the index of a run that is about to be deleted.
    pub(super) fn forget(&mut self, run: &RunRef) {
        self.indexes.remove(run);
    }

    pub(super) fn is_pinned(&self, number: CheckpointNumber) -> bool {
        self.pinned.contains_key(&number)
    }
}

pub(super) fn lock(shared: &Mutex<PinTable>) -> MutexGuard<'_, PinTable> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle for reading checkpoints.
#[derive(Clone)]
pub struct CheckpointReader {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) shared: Arc<Mutex<PinTable>>,
}

impl CheckpointReader {
    /// Pins a complete checkpoint, the newest by default. It stays until the result is dropped.
    ///
    /// # Errors
    /// There is none.
    pub fn pin(
        &self,
        number: Option<CheckpointNumber>,
    ) -> Result<PinnedCheckpoint, CheckpointError> {
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
        Ok(PinnedCheckpoint { manifest, looker: self.clone() })
    }

    /// A reader of single rows of a slice, from the newest checkpoint at the time of each call.
    #[must_use]
    pub fn rows_of(&self, stage: &str, slice: SliceId) -> RowReader {
        RowReader::new(self.clone(), stage, slice)
    }

    /// A reader of single rows of a slice by the hashes of their keys; none if a run has no index
    /// ([`super::Checkpoints::read_by_key`]).
    ///
    /// # Errors
    /// There is no checkpoint, or an error of the backend.
    pub fn keys_of(
        &self,
        stage: &str,
        slice: SliceId,
    ) -> Result<Option<KeyReader>, CheckpointError> {
        KeyReader::open(self, stage, slice)
    }

    /// The index of a run, which is read for it if the index is not known.
    pub(super) fn index_of(&self, run: &RunRef) -> Result<Arc<RowIndex>, CheckpointError> {
        if let Some(index) = lock(&self.shared).indexes.get(run) {
            return Ok(Arc::clone(index));
        }
        let number = run.checkpoint;
        let failed = |error| CheckpointError::Saved { number, error };
        let read = SliceRuns::new(&self.backend, &[*run]).read()?;
        let index = Arc::new(RowIndex::of(&read.get().concat()).map_err(failed)?);
        lock(&self.shared).indexes.insert(*run, Arc::clone(&index));
        Ok(index)
    }
}

/// A pinned checkpoint. It stays until this value is dropped.
pub struct PinnedCheckpoint {
    manifest: Arc<Manifest>,
    looker: CheckpointReader,
}

impl PinnedCheckpoint {
    /// Its manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The runs of a slice, the oldest first; empty if there is no such slice.
    #[must_use]
    pub fn chain(&self, stage: &str, slice: SliceId) -> &[RunRef] {
        let stage = self.manifest.stages.iter().find(|it| it.name == stage);
        stage.and_then(|it| it.slices.get(slice.index())).map_or(&[], Vec::as_slice)
    }

    /// The given runs of a slice, to be read.
    #[must_use]
    pub fn named(&self, runs: &[RunRef]) -> SliceRuns {
        SliceRuns::new(&self.looker.backend, runs)
    }
}

impl Drop for PinnedCheckpoint {
    fn drop(&mut self) {
        let mut shared = lock(&self.looker.shared);
        let number = self.manifest.number;
        debug_assert!(
            shared.is_pinned(number),
            "a pinned checkpoint is counted until it is dropped"
        );
        if let Some(count) = shared.pinned.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                shared.pinned.remove(&number);
            }
        }
    }
}
