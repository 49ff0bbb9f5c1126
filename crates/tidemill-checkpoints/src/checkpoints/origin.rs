//! The origin of a job's life: the checkpoint that it resumes from, or none.

use super::{CheckpointError, Checkpoints, Manifest, manifest::OVER_KEY};
use crate::WriteBatch;
use tidemill_types::{CheckpointNumber, SliceId, SliceKey, StageIx};

impl Checkpoints {
    /// Resumes the job from a checkpoint. `stage_of` maps the names of stages to stages of the job's
    /// graph; the runs of other stages are dropped. Durable with [`Self::confirm`].
    ///
    /// # Errors
    /// There is no checkpoint of this number.
    pub fn go_on(
        &mut self,
        number: CheckpointNumber,
        stage_of: impl Fn(&str) -> Option<StageIx>,
    ) -> Result<(), CheckpointError> {
        let manifest = self.complete.get(&number).ok_or(CheckpointError::Unknown(number))?;
        for stage in &manifest.stages {
            let Some(of_job) = stage_of(&stage.name) else { continue };
            for (slice, runs) in (0..).zip(&stage.slices).filter(|(_, runs)| !runs.is_empty()) {
                self.chains.insert(SliceKey::new(of_job, SliceId(slice)), runs.clone());
            }
        }
        self.chosen = Some(number);
        Ok(())
    }

    /// As [`Self::go_on`], but begins a new life of the job. Kept checkpoints then belong to an
    /// earlier life.
    ///
    /// # Errors
    /// There is no checkpoint of this number.
    pub fn begin_from(
        &mut self,
        number: CheckpointNumber,
        stage_of: impl Fn(&str) -> Option<StageIx>,
    ) -> Result<(), CheckpointError> {
        self.anew = true;
        self.go_on(number, stage_of)
    }

    /// Makes the choice of [`Self::go_on`] durable, or begins anew without one. Deletes checkpoints
    /// that are neither kept nor needed.
    ///
    /// # Errors
    /// An error of the backend.
    pub fn confirm(&mut self) -> Result<(), CheckpointError> {
        let newest = self.newest().map(|it| it.number);
        if self.chosen == newest && !self.anew {
            return Ok(());
        }
        let again = self.chosen.and_then(|number| self.complete.get(&number));
        match again.map(|manifest| Manifest::clone(manifest)) {
            Some(manifest) => {
                let of_earlier_lives = self.last;
                self.last = self.last.next();
                self.settle(Manifest { number: self.last, ..manifest })?;
                if self.anew {
                    // Without the note those that are kept are taken for some of this life, and the
                    // job for one that may go on from them: it only keeps more than it must.
                    self.end_life(of_earlier_lives)?;
                }
                Ok(())
            }
            None => {
                // The note is there first, so that a process that ends here is followed by one that
                // knows.
                self.end_life(self.last)?;
                self.retire(None);
                self.delete_older()
            }
        }
    }

    /// Ends the life of all checkpoints up to this number.
    fn end_life(&mut self, last: CheckpointNumber) -> Result<(), CheckpointError> {
        let mut over = WriteBatch::default();
        over.put(OVER_KEY, &last.0.to_be_bytes());
        self.backend.commit(&mut over)?;
        self.over = last;
        self.share();
        Ok(())
    }
}
