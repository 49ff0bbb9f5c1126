//! States of a node's jobs, looked at: of one that runs as they are, or in one of its checkpoints.

use super::{JobRecord, Jobs, JobsError};
use crate::{
    Registry,
    checkpoint::stored_checkpoints,
    plan::PlanOptions,
    state_query::{self, Answer, StateError, TableView, TooLarge},
};
use std::sync::{Arc, PoisonError};
use tidemill_checkpoints::CheckpointReader;
use tidemill_flow::{AskError, JobHandle, QueryableStages, SnapshotError, StageSnapshot};
use tidemill_types::CheckpointNumber;

/// Bytes of a table that is given as a file, and of an answer as a document, at most.
const BYTES_MAX: usize = 256 << 20;

/// Which state of a job is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateOf {
    /// As it is, if the job runs; if it does not, as the newest checkpoint has it.
    #[default]
    Now,
    /// As the newest checkpoint has it.
    Newest,
    /// As the checkpoint of this number has it.
    Checkpoint(CheckpointNumber),
}

/// The owner of a job's states.
enum StateHolder {
    Running(Arc<JobHandle>),
    Folder(CheckpointReader),
}

impl Jobs {
    pub(super) fn entry(
        &self,
        name: &str,
    ) -> Result<(JobRecord, Option<Arc<JobHandle>>), JobsError> {
        let state = self.state();
        let entry = state.jobs.get(name).ok_or_else(|| JobsError::Unknown(name.to_owned()))?;
        Ok((entry.record.clone(), entry.handle.clone()))
    }

    /// The stages of a job that does not run.
    fn planned(&self, record: &JobRecord) -> Result<QueryableStages, JobsError> {
        let folder = self.folder.join(&record.name);
        let options = PlanOptions {
            base_dir: record.base_dir.clone().unwrap_or_else(|| folder.clone()),
            data: Some(folder),
            resume: true,
            streams: Some(self.streams.clone()),
            ..PlanOptions::default()
        };
        let descriptor = Self::parse(record)?;
        let stages = state_query::stages(&descriptor, &options, &self.world, &Registry::default());
        stages.map_err(JobsError::Refused)
    }

    fn stages(&self, name: &str) -> Result<(QueryableStages, StateHolder), JobsError> {
        let (record, handle) = self.entry(name)?;
        // One that was waited for is about to be noted as ended; its folder is free already.
        if let Some(handle) = handle.filter(|it| !it.has_closed_checkpoints()) {
            return Ok((handle.stages(), StateHolder::Running(handle)));
        }
        let (stages, spec) = (self.planned(&record)?, Self::parse(&record)?.spec);
        let stored = stored_checkpoints(&spec, &self.folder.join(name), &self.world)?;
        let stored = stored.ok_or(AskError::None)?;
        Ok((stages, StateHolder::Folder(stored.looker())))
    }

    /// The tables as which the states of a job can be looked at.
    ///
    /// # Errors
    /// There is no such job, or it cannot be planned any more.
    pub fn state_tables(&self, name: &str) -> Result<Vec<TableView>, JobsError> {
        let (record, handle) = self.entry(name)?;
        let stages = handle.map_or_else(|| self.planned(&record), |it| Ok(it.stages()))?;
        Ok(state_query::tables(&stages))
    }

    /// Asks the state of a stage with SQL.
    ///
    /// # Errors
    /// There is no such job, stage or checkpoint, the SQL does not fit, or the state cannot be read.
    pub fn query_state(
        &self,
        (name, stage): (&str, &str),
        of: StateOf,
        sql: &str,
    ) -> Result<Answer, JobsError> {
        self.look(name, |stages, holder| {
            let look = |table| holder.look((stages, stage), of, table);
            Ok(state_query::query((name, stages, stage), sql, look)?)
        })
    }

    /// A table of a stage's state as an Arrow file.
    ///
    /// # Errors
    /// There is no such job, stage, table or checkpoint, or the state cannot be read.
    pub fn state_table(
        &self,
        (name, stage, table): (&str, &str, &str),
        of: StateOf,
    ) -> Result<Vec<u8>, JobsError> {
        self.look(name, |stages, holder| {
            let nth = state_query::table(stages, stage, table)?;
            let look = holder.look((stages, stage), of, nth)?;
            let mut out = Bounded::default();
            state_query::export((name, stages), &look, nth, &mut out)?;
            Ok(out.0)
        })
    }

    /// Looks at the states of a job.
    fn look<T>(
        &self,
        name: &str,
        look: impl Fn(&QueryableStages, &StateHolder) -> Result<T, JobsError>,
    ) -> Result<T, JobsError> {
        // To the end: what is looked at keeps the checkpoints open, and a job could not start.
        let turn = self.turn(name);
        let _mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let once = || {
            let (stages, holder) = self.stages(name)?;
            look(&stages, &holder)
        };
        match once() {
            // It ended meanwhile, and has let go of its checkpoints: they are in its folder.
            Err(JobsError::State(StateError::Look(SnapshotError::Ask(AskError::Over)))) => once(),
            looked => looked,
        }
    }
}

impl StateHolder {
    fn look(
        &self,
        (stages, stage): (&QueryableStages, &str),
        of: StateOf,
        table: usize,
    ) -> Result<StageSnapshot, StateError> {
        let number = match of {
            StateOf::Checkpoint(number) => Some(number),
            StateOf::Now | StateOf::Newest => None,
        };
        let pinned = match self {
            Self::Running(handle) if of == StateOf::Now => return Ok(handle.look(stage, table)?),
            Self::Running(handle) => handle.pin_checkpoint(number).map_err(SnapshotError::from)?,
            Self::Folder(looker) => looker.pin(number)?,
        };
        Ok(StageSnapshot::of_checkpoint(stages, stage, pinned)?)
    }
}

/// Bytes in memory, not more than fit.
#[derive(Default)]
pub(crate) struct Bounded(pub(crate) Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > BYTES_MAX {
            return Err(std::io::Error::other(TooLarge(BYTES_MAX)));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
