//! Errors of a job and of its parts.
//!
//! ```text
//! SourceError, SinkError, OperatorError   kind, message, source
//!        │
//!        ├─ Retry ──▶ the engine waits and repeats the call, or does not start the job now
//!        └─ else ───▶ the job fails: JobError { kind, part, cycle, … }
//! ```

use crate::graph::GraphError;
use std::{fmt, path::PathBuf};
use tidemill_checkpoints::{BackendError, CheckpointError};
use tidemill_types::{Cycle, SliceId};

/// The kind of an error of a part of a job: the action that it asks for.
///
/// | kind | the engine | its user |
/// | --- | --- | --- |
/// | [`Retry`](Self::Retry) | repeats the call later, where the call may be repeated | waits, or makes room |
/// | [`Invalid`](Self::Invalid) | fails the job | changes the job or what it names |
/// | [`Corrupt`](Self::Corrupt) | fails the job | restores the data |
/// | [`Failed`](Self::Failed) | fails the job | reads the message |
///
/// A call may be repeated if it opens or checks a part of a job that starts
/// ([`StartError::Unavailable`]), or if it commits, syncs or closes a sink. A read of a source and a
/// cycle of an operator are never repeated: a source that waits for a server returns
/// [`Read::Idle`](crate::Read::Idle) and names the [obstacle](crate::SourceFactory::obstacle).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The same call may succeed later: a disk is full, or a server is away. The call left nothing
    /// that a second one would repeat.
    Retry,
    /// The job asks for something impossible: other columns than planned, a missing table or topic.
    Invalid,
    /// Stored bytes are damaged.
    Corrupt,
    /// Any other failure.
    #[default]
    Failed,
}

/// Declares the error of a part of a job: kind, message and source.
macro_rules! part_error {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, thiserror::Error)]
        #[error("{message}")]
        #[non_exhaustive]
        pub struct $name {
            /// The kind: the action that the error asks for.
            pub kind: ErrorKind,
            /// The failure and its place, for a person.
            pub message: String,
            /// The error underneath, if it is known.
            #[source]
            pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
        }

        impl $name {
            /// An error of the kind [`ErrorKind::Failed`].
            pub fn new(message: impl Into<String>) -> Self {
                Self::of_kind(ErrorKind::Failed, message)
            }

            /// An error of the kind [`ErrorKind::Retry`].
            pub fn retry(message: impl Into<String>) -> Self {
                Self::of_kind(ErrorKind::Retry, message)
            }

            /// An error of a kind.
            pub fn of_kind(kind: ErrorKind, message: impl Into<String>) -> Self {
                Self { kind, message: message.into(), source: None }
            }

            /// The error with another kind.
            #[must_use]
            pub fn with_kind(self, kind: ErrorKind) -> Self {
                Self { kind, ..self }
            }

            /// The error with the kind [`ErrorKind::Retry`], if `is_retry`.
            #[must_use]
            pub fn retry_if(self, is_retry: bool) -> Self {
                if is_retry { self.with_kind(ErrorKind::Retry) } else { self }
            }

            /// The error with the one underneath.
            #[must_use]
            pub fn with_source(
                self,
                source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
            ) -> Self {
                Self { source: Some(source.into()), ..self }
            }

            /// The error with its place before the message.
            #[must_use]
            pub fn within(self, place: impl fmt::Display) -> Self {
                Self { message: format!("{place}: {}", self.message), ..self }
            }

            /// True if the same call may succeed later.
            #[must_use]
            pub fn is_retry(&self) -> bool {
                self.kind == ErrorKind::Retry
            }
        }

        impl From<$name> for PartError {
            fn from(error: $name) -> Self {
                Self { kind: error.kind, message: error.message }
            }
        }
    };
}

part_error!(
    /// An error of a source. Its kind decides the action of the engine.
    SourceError
);
part_error!(
    /// An error of a sink. Its kind decides the action of the engine.
    SinkError
);
part_error!(
    /// An error of an operator. Its kind decides the action of the engine.
    OperatorError
);

/// An error of any part of a job, on its way to a [`JobError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartError {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
}

/// An error of the engine itself.
impl From<String> for PartError {
    fn from(message: String) -> Self {
        Self { kind: ErrorKind::Failed, message }
    }
}

/// An error that kept a job from starting. Nothing was read or written.
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
        /// The failure, for a person.
        message: String,
    },
    /// The job cannot be saved, or cannot go on from where it was saved.
    #[error("checkpoint: {message}")]
    Checkpoint {
        /// The fault, and the way out.
        message: String,
    },
    /// A server is away or a disk is full: the same start may succeed later.
    #[error("{message}")]
    Unavailable {
        /// The server or disk, and its answer.
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
        /// The fault, and the way out.
        message: String,
    },
}

impl StartError {
    /// The error of a source or sink that could not be opened.
    pub(crate) fn of_part(name: &str, error: impl Into<PartError>) -> Self {
        let PartError { kind, message } = error.into();
        match kind {
            ErrorKind::Retry => Self::Unavailable { message: format!("`{name}`: {message}") },
            _ => Self::Open { name: name.to_owned(), message },
        }
    }
}

impl From<BackendError> for StartError {
    fn from(error: BackendError) -> Self {
        let message = error.to_string();
        let is_retry = match &error {
            BackendError::Unreachable { .. } => true,
            BackendError::Disk { error, .. } => tidemill_env::has_no_room(error),
            _ => false,
        };
        match is_retry {
            true => Self::Unavailable { message: format!("checkpoint: {message}") },
            false => Self::Checkpoint { message },
        }
    }
}

/// An error of a request about the checkpoints of a running job.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The job makes none.
    #[error(
        "the job makes no checkpoints: give it a `checkpoint: {{every: 10s}}`, and a data folder"
    )]
    None,
    /// The job ended before the request was done.
    #[error("the job has ended")]
    Over,
    /// A sink of the job, or the ledger, waits, so no checkpoint can be completed now.
    #[error("no checkpoint can be made now, as `{part}` waits: {why}")]
    Stalled {
        /// The sink, or `ledger`.
        part: String,
        /// The reason, for a person.
        why: String,
    },
    /// The checkpoints refuse the request.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// The failure of a job, with its place.
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
    /// The kind of the error that the part returned.
    pub kind: ErrorKind,
    /// The failure, for a person.
    pub message: String,
    /// True if user code panicked.
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
