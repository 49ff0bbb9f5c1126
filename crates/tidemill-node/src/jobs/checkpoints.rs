//! Checkpoints of a node's jobs: of one that runs through its engine, of one that does not in its
//! folder.

use super::{JobRecord, JobView, Jobs, JobsError, Submission};
use crate::checkpoint::{CheckpointView, stored_checkpoints};
use std::sync::{Arc, PoisonError};
use tidemill_checkpoints::{CheckpointError, CheckpointInfo, Checkpoints, Manifest};
use tidemill_flow::{AskError, JobHandle};
use tidemill_types::CheckpointNumber;

/// The owner of a job's checkpoints.
enum Holder {
    Running(Arc<JobHandle>),
    Folder(Box<Checkpoints>),
}

type Listed = Vec<(CheckpointInfo, Arc<Manifest>)>;

impl Jobs {
    /// Does something with the checkpoints of a job.
    fn with_checkpoints<T>(
        &self,
        name: &str,
        work: impl FnOnce(Holder) -> Result<T, JobsError>,
    ) -> Result<T, JobsError> {
        if let (_, Some(handle)) = self.entry(name)? {
            return work(Holder::Running(handle));
        }
        let turn = self.turn(name);
        let _mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever had the turn may have started it.
        let (record, handle) = self.entry(name)?;
        if let Some(handle) = handle {
            return work(Holder::Running(handle));
        }
        let spec = Self::parse(&record)?.spec;
        match stored_checkpoints(&spec, &self.folder.join(name), &self.world)? {
            Some(checkpoints) => work(Holder::Folder(Box::new(checkpoints))),
            None => Err(AskError::None.into()),
        }
    }

    fn listed(&self, name: &str) -> Result<Listed, JobsError> {
        self.with_checkpoints(name, |holder| {
            Ok(match holder {
                Holder::Running(handle) => handle.checkpoints(),
                Holder::Folder(checkpoints) => checkpoints.list(),
            })
        })
    }

    /// The complete checkpoints of a job, the oldest first.
    ///
    /// # Errors
    /// There is no such job, it makes none, or they cannot be read.
    pub fn checkpoints(&self, name: &str) -> Result<Vec<CheckpointInfo>, JobsError> {
        Ok(self.listed(name)?.into_iter().map(|(info, _)| info).collect())
    }

    /// Damaged checkpoints of a job: the number of each, with its problem.
    ///
    /// # Errors
    /// As [`Self::checkpoints`].
    pub fn damaged_checkpoints(
        &self,
        name: &str,
    ) -> Result<Vec<(CheckpointNumber, String)>, JobsError> {
        self.with_checkpoints(name, |holder| {
            Ok(match holder {
                Holder::Running(handle) => handle.damaged_checkpoints(),
                Holder::Folder(checkpoints) => {
                    let damaged = checkpoints.damaged();
                    damaged.map(|(number, error)| (number, error.to_string())).collect()
                }
            })
        })
    }

    /// One checkpoint of a job.
    ///
    /// # Errors
    /// There is none of this number; or as [`Self::checkpoints`].
    pub fn checkpoint(
        &self,
        name: &str,
        number: CheckpointNumber,
    ) -> Result<CheckpointView, JobsError> {
        let found = self.listed(name)?.into_iter().find(|(info, _)| info.number == number);
        let (info, manifest) = found.ok_or(CheckpointError::Unknown(number))?;
        Ok(CheckpointView::new(info, &manifest))
    }

    /// Makes a checkpoint that stays until it is deleted, under a name that may be empty; of a job
    /// that does not run, its newest is kept. Returns when that is durable.
    ///
    /// # Errors
    /// As [`Self::checkpoints`]; or the job ends before.
    pub fn keep_checkpoint(&self, name: &str, label: &str) -> Result<CheckpointInfo, JobsError> {
        self.with_checkpoints(name, |holder| match holder {
            Holder::Running(handle) => Ok(handle.keep_checkpoint(label)?),
            Holder::Folder(mut checkpoints) => Ok(checkpoints.keep_newest(label)?),
        })
    }

    /// Deletes a checkpoint that is kept. The newest stays until the next one is complete.
    ///
    /// # Errors
    /// There is none of this number, or it is the newest and not kept; or as
    /// [`Self::checkpoints`].
    pub fn delete_checkpoint(&self, name: &str, number: CheckpointNumber) -> Result<(), JobsError> {
        self.with_checkpoints(name, |holder| match holder {
            Holder::Running(handle) => Ok(handle.delete_checkpoint(number)?),
            Holder::Folder(mut checkpoints) => Ok(checkpoints.delete(number)?),
        })
    }

    /// Starts a job from one of its checkpoints: as it was submitted, or changed in a way that the
    /// saved state fits. It goes on with its ledger and the rows of its sinks, or begins anew with the
    /// saved state: a checkpoint of an earlier life can only be begun with.
    ///
    /// # Errors
    /// The job runs, there is none of this number, or the changed job is another one or does not
    /// fit; or as [`Self::submit`].
    pub fn restore(
        self: &Arc<Self>,
        name: &str,
        number: CheckpointNumber,
        anew: bool,
        changed: Option<Submission>,
    ) -> Result<JobView, JobsError> {
        let record = {
            let state = self.state();
            let entry = state.jobs.get(name).ok_or_else(|| JobsError::Unknown(name.to_owned()))?;
            entry.record.clone()
        };
        let threads = record.threads.filter(|_| changed.is_none());
        let submission = changed.unwrap_or_else(|| as_submitted(&record));
        let other = self.record_of(submission.clone())?.name;
        if other != name {
            return Err(JobsError::Another { name: name.to_owned(), other });
        }
        let submission = Submission { resume: !anew, from: Some(number), ..submission };
        self.submit_with(submission, threads)
    }
}

fn as_submitted(record: &JobRecord) -> Submission {
    Submission {
        text: record.text.clone(),
        file: record.file.clone(),
        set: record.set.clone(),
        base_dir: record.base_dir.clone(),
        ..Submission::default()
    }
}
