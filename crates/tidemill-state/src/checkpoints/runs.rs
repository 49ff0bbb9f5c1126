//! Runs of a slice, read from where they are.

use super::{CheckpointError, Run};
use crate::{Backend, SavedError};
use bytes::Bytes;
use std::sync::Arc;

/// The runs of a slice, to be read. They are there until a checkpoint is complete that does not name
/// them.
#[derive(Clone)]
pub struct RunsOf {
    backend: Arc<dyn Backend>,
    runs: Vec<Run>,
}

impl RunsOf {
    pub(super) fn new(backend: &Arc<dyn Backend>, runs: &[Run]) -> Self {
        Self { backend: Arc::clone(backend), runs: runs.to_vec() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What they say, the oldest first.
    ///
    /// # Errors
    /// The backend's, or one of them is not there.
    pub fn read(&self) -> Result<Vec<Bytes>, CheckpointError> {
        self.runs.iter().map(|run| self.run(run)).collect()
    }

    fn run(&self, run: &Run) -> Result<Bytes, CheckpointError> {
        let parts = (0..run.parts()).map(|part| run.part(&*self.backend, part));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        Ok(match <[Bytes; 1]>::try_from(parts) {
            Ok([only]) => only,
            Err(parts) => parts.concat().into(),
        })
    }
}

impl Run {
    /// What is under one of its keys.
    pub(super) fn part(&self, backend: &dyn Backend, part: u64) -> Result<Bytes, CheckpointError> {
        let (number, slice) = (self.checkpoint, self.slice);
        let missing = || SavedError::new(format!("a part of slice {slice} is not there"));
        let found = backend.get(&self.key(part))?;
        found.ok_or_else(|| CheckpointError::Saved { number, error: missing() })
    }
}
