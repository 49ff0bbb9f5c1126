//! States of a job in code, looked at with SQL.

use super::{Job, refused};
use tidemill_env::World;
use tidemill_flow::{AskError, JobHandle, SnapshotError};
use tidemill_node::{
    Descriptor, Refused,
    state_query::{self, Answer, StateError},
    stored_checkpoints,
};
use tidemill_types::CheckpointNumber;

/// Why the state of a job that does not run is not shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFailure {
    /// The job is refused.
    #[error("{0}")]
    Refused(Refused),
    /// The state cannot be read, or the query has no answer.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Asks the state of a stage of a running job with SQL, as of the end of a cycle; the job goes on
/// meanwhile. Its tables are those of the stage: `state`, or those that the operator names.
///
/// # Errors
/// There is no such stage, it has ended, its state is too large to be copied, or the SQL does not
/// fit its tables.
pub fn query_state(handle: &JobHandle, stage: &str, sql: &str) -> Result<Answer, StateError> {
    let stages = handle.stages();
    let look = |table| Ok(handle.look(stage, table)?);
    state_query::query((handle.name(), &stages, stage), sql, look)
}

impl Job {
    /// Asks the state of a stage with SQL, in a checkpoint of the job's folder ([`Job::data`]): the
    /// one of this number, or the newest. The job must not be running.
    ///
    /// # Errors
    /// The job is refused or makes no checkpoints, there is no such stage or checkpoint, or the SQL
    /// does not fit.
    pub fn query_checkpoint(
        self,
        number: Option<CheckpointNumber>,
        stage: &str,
        sql: &str,
    ) -> Result<Answer, StateFailure> {
        let descriptor = Descriptor::of(self.spec);
        if !self.problems.is_empty() {
            return Err(StateFailure::Refused(refused(&descriptor, self.problems)));
        }
        let world = World::real();
        let stages = state_query::stages(&descriptor, &self.plan_options, &world, &self.registry);
        let stages = stages.map_err(StateFailure::Refused)?;
        let none = || StateError::from(SnapshotError::from(AskError::None));
        let data = self.run_options.data.as_ref().ok_or_else(none)?;
        let stored = stored_checkpoints(&descriptor.spec, data, &world);
        let stored = stored.map_err(StateError::from)?.ok_or_else(none)?;
        let look = |_| state_query::in_checkpoint(&stages, stage, &stored, number);
        Ok(state_query::query((&descriptor.spec.name, &stages, stage), sql, look)?)
    }
}
