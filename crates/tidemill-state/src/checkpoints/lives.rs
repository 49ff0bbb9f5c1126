//! Where the life of a job begins or goes on, and what is over then.

use super::{CheckpointError, Checkpoints, Manifest, manifest::OVER_KEY};
use crate::Batch;

impl Checkpoints {
    /// The job goes on from a checkpoint, whose stages are nodes of its graph by `node_of`. Runs of
    /// others are dropped. Durable with [`Self::confirm`].
    ///
    /// # Errors
    /// There is none of this number.
    pub fn go_on(
        &mut self,
        number: u64,
        node_of: impl Fn(&str) -> Option<u32>,
    ) -> Result<(), CheckpointError> {
        let manifest = self.complete.get(&number).ok_or(CheckpointError::Unknown(number))?;
        for stage in &manifest.stages {
            let Some(node) = node_of(&stage.name) else { continue };
            for (slice, runs) in (0..).zip(&stage.slices).filter(|(_, runs)| !runs.is_empty()) {
                self.chains.insert((node, slice), runs.clone());
            }
        }
        self.chosen = Some(number);
        Ok(())
    }

    /// As [`Self::go_on`], but the job begins a new life there: the checkpoints that are kept are then
    /// of an earlier one.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn begin_from(
        &mut self,
        number: u64,
        node_of: impl Fn(&str) -> Option<u32>,
    ) -> Result<(), CheckpointError> {
        self.anew = true;
        self.go_on(number, node_of)
    }

    /// From now on the job goes on from where [`Self::go_on`] said, or begins anew without it. What
    /// is not kept and not needed any more is deleted.
    ///
    /// # Errors
    /// The backend's.
    pub fn confirm(&mut self) -> Result<(), CheckpointError> {
        let newest = self.newest().map(|it| it.number);
        if self.chosen == newest && !self.anew {
            return Ok(());
        }
        let again = self.chosen.and_then(|number| self.complete.get(&number));
        match again.map(|manifest| Manifest::clone(manifest)) {
            Some(manifest) => {
                let of_earlier_lives = self.last;
                self.last += 1;
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

    /// Nothing goes on from checkpoints up to this number any more.
    fn end_life(&mut self, last: u64) -> Result<(), CheckpointError> {
        let mut over = Batch::default();
        over.put(OVER_KEY, &last.to_be_bytes());
        self.backend.commit(&mut over)?;
        self.over = last;
        self.share();
        Ok(())
    }
}
