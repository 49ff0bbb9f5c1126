//! Why something was not done to a job, and whether it is worth trying again.

use super::JOBS_MAX;
use crate::{diagnostic::Refused, state_query::StateError};
use std::{
    io,
    path::{Path, PathBuf},
};
use tidemill_checkpoints::CheckpointError;
use tidemill_flow::AskError;
use tidemill_types::signs;

/// Why something was not done to a job.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// The job file is refused; the diagnostics say where.
    #[error("{0}")]
    Refused(Refused),
    /// A job of that name runs.
    #[error("a job `{0}` is running: cancel it first, or give this one another name")]
    Running(String),
    /// A job of that name waits for something that is away.
    #[error("a job `{0}` is waiting: cancel it first, or give this one another name")]
    Waiting(String),
    /// There is no such job.
    #[error(
        "there is no job `{0}`{note}; `tidemill job list` shows those of the node",
        note = signs::note(.0, None)
    )]
    Unknown(String),
    /// The job has ended.
    #[error("the job `{0}` is not running")]
    Ended(String),
    /// The job has not ended.
    #[error("the job `{0}` has not ended: stop it with `tidemill job cancel {0}` first")]
    NotEnded(String),
    /// There are too many.
    #[error("this node has {JOBS_MAX} jobs: delete one that has ended, with `tidemill job delete`")]
    TooMany,
    /// It could not be started.
    #[error("{0}")]
    Start(String),
    /// It could not be started, as something that it needs does not answer now.
    #[error("{0}")]
    Away(String),
    /// There is no thread that would wait for its end.
    #[error("the operating system has no more threads for this process: {0}")]
    Thread(io::Error),
    /// Its threads could not be changed.
    #[error("{0}")]
    Rescale(String),
    /// Nothing was done to its checkpoints.
    #[error(transparent)]
    Checkpoint(AskError),
    /// A state is not shown.
    #[error(transparent)]
    State(#[from] StateError),
    /// A job file is that of another job.
    #[error("the file is that of job `{other}`, and not of `{name}`")]
    Another {
        /// The job that was meant.
        name: String,
        /// The job that the file is of.
        other: String,
    },
    /// The note of the job is not as the node wrote it.
    #[error(
        "{error}: the job is not known, and nothing of it was changed; bring that file back from a \
         copy, or remove the folder {} if the job is over", folder.display()
    )]
    Damaged {
        /// The job's folder.
        folder: PathBuf,
        /// The file, with its problem.
        error: io::Error,
    },
    /// The node's disk failed.
    #[error("{path}: {error}")]
    Disk {
        /// Where.
        path: PathBuf,
        /// Its error.
        error: io::Error,
    },
    /// It was started, and that could not be noted.
    #[error(
        "the job was started from there and stopped again, as that could not be noted: {path}: {error}"
    )]
    NotNoted {
        /// Where.
        path: PathBuf,
        /// The error of the disk.
        error: io::Error,
    },
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

impl From<AskError> for JobsError {
    fn from(error: AskError) -> Self {
        Self::Checkpoint(error)
    }
}

impl From<CheckpointError> for JobsError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(error.into())
    }
}

impl JobsError {
    /// The reason that a job's folder could not be read.
    pub(super) fn unread(folder: &Path, error: io::Error) -> Self {
        let folder = folder.to_owned();
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Damaged { folder, error },
            _ => Self::Disk { path: folder, error },
        }
    }

    /// True if the same may succeed later: only a server is away.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused(refused) => refused.may_pass(),
            Self::Away(_) => true,
            _ => false,
        }
    }
}
