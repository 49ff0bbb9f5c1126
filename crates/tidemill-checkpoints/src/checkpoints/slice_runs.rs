//! Loading the runs of a slice.

use super::{CheckpointError, RunRef};
use crate::{Backend, ValueBuffer};
use bytes::Bytes;
use std::sync::Arc;
use tidemill_state::SavedError;

/// The parts read together.
const PARTS_AT_ONCE: usize = 64;

/// The runs of a slice, to be loaded. They exist until a checkpoint is complete that does not name
/// them.
#[derive(Clone)]
pub struct SliceRuns {
    backend: Arc<dyn Backend>,
    runs: Vec<RunRef>,
}

/// Loaded runs. The memory is reused for the runs of the next slice.
#[derive(Debug, Default)]
pub struct LoadedRuns {
    /// The first `count` belong to this slice.
    runs: Vec<ValueBuffer>,
    count: usize,
}

impl LoadedRuns {
    /// The bytes of the runs, the oldest first.
    #[must_use]
    pub fn get(&self) -> Vec<&[u8]> {
        self.runs[..self.count].iter().map(ValueBuffer::get).collect()
    }
}

impl SliceRuns {
    pub(super) fn new(backend: &Arc<dyn Backend>, runs: &[RunRef]) -> Self {
        Self { backend: Arc::clone(backend), runs: runs.to_vec() }
    }

    /// Returns true if the slice has no runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The bytes of their entries.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.bytes))
    }

    /// The bytes of the runs, the oldest first.
    ///
    /// # Errors
    /// An error of the backend, or a missing run.
    pub fn read(&self) -> Result<LoadedRuns, CheckpointError> {
        let mut read = LoadedRuns::default();
        self.read_into(&mut read)?;
        Ok(read)
    }

    /// As [`Self::read`], but replaces the content of `read`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_into(&self, read: &mut LoadedRuns) -> Result<(), CheckpointError> {
        let count = self.runs.len();
        if read.runs.len() < count {
            read.runs.resize_with(count, ValueBuffer::default);
        }
        read.count = count;
        for (run, values) in self.runs.iter().zip(&mut read.runs) {
            values.clear();
            // How many there are said to be is no reason to take memory for so many.
            for first in (0..run.parts()).step_by(PARTS_AT_ONCE) {
                let last = run.parts().min(first.saturating_add(PARTS_AT_ONCE as u64));
                let keys: Vec<_> = (first..last).map(|part| run.key(part).to_vec()).collect();
                if !self.backend.read_all(&keys, values)? {
                    return Err(run.is_missing());
                }
            }
            // The other side of the length that the manifest names.
            if values.get().len() as u64 != run.bytes {
                return Err(run.has_other_length(values.get().len()));
            }
        }
        Ok(())
    }
}

impl RunRef {
    /// Reads one of its parts.
    pub(super) fn part(&self, backend: &dyn Backend, part: u64) -> Result<Bytes, CheckpointError> {
        backend.get(&self.key(part))?.ok_or_else(|| self.is_missing())
    }

    fn has_other_length(&self, bytes: usize) -> CheckpointError {
        let (slice, named) = (self.slice, self.bytes);
        let error =
            SavedError::new(format!("a run of slice {slice} has {bytes} bytes instead of {named}"));
        CheckpointError::Saved { number: self.checkpoint, error }
    }

    fn is_missing(&self) -> CheckpointError {
        let error = SavedError::new(format!("a part of slice {} is not there", self.slice));
        CheckpointError::Saved { number: self.checkpoint, error }
    }
}
