//! Looking at the states of a running job.

use super::JobHandle;
use crate::error::AskError;
use crate::look::{LookError, QueryableStage, QueryableStages, StageLook, find};
use crate::runtime::{
    looks,
    plan::{StagePlan, Work},
    restore,
};
use tidemill_checkpoints::PinnedCheckpoint;

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

    /// A complete checkpoint of the job, that of a number or the newest, which stays until the result
    /// is dropped.
    ///
    /// # Errors
    /// The job makes no checkpoints, or there is none of this number; or somebody has waited for its
    /// end ([`JobHandle::wait`]).
    pub fn pin_checkpoint(&self, number: Option<u64>) -> Result<PinnedCheckpoint, AskError> {
        self.job.checkpointer.pin(number)
    }

    /// Whether its checkpoints are closed, as somebody has waited for its end.
    #[must_use]
    pub fn has_closed_checkpoints(&self) -> bool {
        self.job.checkpointer.has_let_go()
    }

    /// A table of a stage's state as it is: all slices as of the end of one cycle, the last that was
    /// begun when this was called. The job goes on meanwhile.
    ///
    /// # Errors
    /// There is no such stage, it has ended, or its state is too large to be copied.
    ///
    /// # Panics
    /// Panics if a thread of the job did while it held a lock.
    pub fn look(&self, stage: &str, table: usize) -> Result<StageLook, LookError> {
        let stages = self.stages();
        let found = find(&stages, stage)?;
        let ix = restore::stage_of(&self.job.plan, &found.stage);
        let ix = ix.filter(|it| self.job.plan.is_here(*it));
        let ix = ix.ok_or_else(|| LookError::Ended(stage.to_owned()))?;
        // Slices that were not read back yet are read from it.
        let pinned = self.pin_checkpoint(None).ok();
        let seen = looks::look(&self.job, ix, found.table(table))?;
        Ok(StageLook::live(found.clone(), seen, pinned))
    }
}
