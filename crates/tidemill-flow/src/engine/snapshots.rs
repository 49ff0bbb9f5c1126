//! Snapshots of the states of a running job.

use super::JobHandle;
use crate::error::AskError;
use crate::runtime::{
    plan::{StagePlan, Work},
    restore, snapshots,
};
use crate::snapshot::{QueryableStage, QueryableStages, SnapshotError, StageSnapshot, find};
use tidemill_checkpoints::PinnedCheckpoint;
use tidemill_types::CheckpointNumber;

impl JobHandle {
    /// The job's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.job.plan.name
    }

    /// The stages of the job, with their operators.
    #[must_use]
    pub fn stages(&self) -> QueryableStages {
        let stages = |stage: &StagePlan| match &stage.work {
            Work::Operator { factory } => QueryableStage::of(&stage.name, factory),
            Work::Source { .. } | Work::Sink => Vec::new(),
        };
        self.job.plan.stages.iter().flat_map(stages).collect()
    }

    /// A complete checkpoint of the job, by number or the newest. It stays until the result is
    /// dropped.
    ///
    /// # Errors
    /// The job makes no checkpoints, or there is none of this number, or a thread has waited for
    /// its end ([`JobHandle::wait`]).
    pub fn pin_checkpoint(
        &self,
        number: Option<CheckpointNumber>,
    ) -> Result<PinnedCheckpoint, AskError> {
        self.job.checkpointer.pin(number)
    }

    /// Returns true once the checkpoints are closed: a thread has waited for the end of the job.
    #[must_use]
    pub fn has_closed_checkpoints(&self) -> bool {
        self.job.checkpointer.has_let_go()
    }

    /// A table of a stage's state: all slices as of the end of one cycle, the last one begun at the
    /// call. The job goes on meanwhile.
    ///
    /// # Errors
    /// There is no such stage, it has ended, or its state is too large to be copied.
    ///
    /// # Panics
    /// Panics if a thread of the job did while it held a lock.
    pub fn look(&self, stage: &str, table: usize) -> Result<StageSnapshot, SnapshotError> {
        let stages = self.stages();
        let found = find(&stages, stage)?;
        let ix = restore::stage_of(&self.job.plan, &found.stage);
        let ix = ix.filter(|it| self.job.plan.is_here(*it));
        let ix = ix.ok_or_else(|| SnapshotError::Ended(stage.to_owned()))?;
        // Slices that were not read back yet are read from it.
        let pinned = self.pin_checkpoint(None).ok();
        let seen = snapshots::take(&self.job, ix, found.table(table))?;
        Ok(StageSnapshot::live(found.clone(), seen, pinned))
    }
}
