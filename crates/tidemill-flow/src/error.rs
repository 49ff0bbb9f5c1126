//! Why a job could not start, and why it failed.

use crate::graph::GraphError;
use std::{fmt, path::PathBuf};
use tidemill_checkpoints::{BackendError, CheckpointError};
use tidemill_types::{Cycle, SliceId};

/// Why a job did not start. Nothing was read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The graph cannot run.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A source, a sink or the data folder could not be opened.
    #[error("`{name}`: {message}")]
    Open {
        /// The stage, or the path.
        name: String,
        /// What happened.
        message: String,
    },
    /// The job cannot be saved, or cannot go on from where it was saved.
    #[error("checkpoint: {message}")]
    Checkpoint {
        /// What is wrong, and what to do.
        message: String,
    },
    /// Something that the job needs does not answer now; it may later.
    #[error("{message}")]
    Away {
        /// What, and where.
        message: String,
    },
    /// Another process, or another job of this one, has the data folder.
    #[error(
        "the data folder {} is in use by another job that runs: stop that one, or choose another \
         folder", folder.display()
    )]
    InUse {
        /// The data folder.
        folder: PathBuf,
    },
    /// The ledger does not fit this job.
    #[error("ledger {path}: {message}")]
    Ledger {
        /// The ledger's file.
        path: String,
        /// What is wrong, and what to do.
        message: String,
    },
}

impl From<BackendError> for StartError {
    fn from(error: BackendError) -> Self {
        let message = error.to_string();
        let passes = match &error {
            BackendError::Unreachable { .. } => true,
            BackendError::Disk { error, .. } => tidemill_env::has_no_room(error),
            _ => false,
        };
        match passes {
            true => Self::Away { message: format!("checkpoint: {message}") },
            false => Self::Checkpoint { message },
        }
    }
}

/// Why a running job did not do what was asked of its checkpoints.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The job makes none.
    #[error(
        "the job makes no checkpoints: give it a `checkpoint: {{every: 10s}}`, and a data folder"
    )]
    None,
    /// The job has ended, before it was done.
    #[error("the job has ended")]
    Over,
    /// A sink of the job, or the ledger, waits: no checkpoint can be complete before it goes on.
    #[error("no checkpoint can be made now, as `{part}` waits: {why}")]
    Stalled {
        /// What waits.
        part: String,
        /// For what.
        why: String,
    },
    /// It cannot be done.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// Why a job failed, and where it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// The source, operator or sink; or another part of the job, such as `ledger`.
    pub part: String,
    /// The slice, if one was being processed.
    pub slice: Option<SliceId>,
    /// The cycle.
    pub cycle: Cycle,
    /// The row within the slice's input of the cycle, if one was being processed.
    pub row: Option<usize>,
    /// What happened.
    pub message: String,
    /// Whether user code panicked.
    pub panicked: bool,
}

impl std::error::Error for JobError {}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed in cycle {}", self.part, self.cycle)?;
        if let Some(slice) = self.slice {
            write!(f, ", slice {slice}")?;
        }
        if let Some(row) = self.row {
            write!(f, ", record {row}")?;
        }
        let how = if self.panicked { "panicked: " } else { "" };
        write!(f, ": {how}{}", self.message)
    }
}
