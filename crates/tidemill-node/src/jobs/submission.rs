//! A job as it is given to a node.

use std::path::PathBuf;
use tidemill_types::CheckpointNumber;

/// A job to be run.
#[derive(Clone, Debug, Default)]
pub struct Submission {
    /// The job file's text.
    pub text: String,
    /// Its name, for messages.
    pub file: String,
    /// Values to set in it, each `dotted.path=VALUE`.
    pub set: Vec<String>,
    /// The folder that relative paths begin in; none: the job's own folder on the node.
    pub base_dir: Option<PathBuf>,
    /// A job of this name that was cancelled or failed goes on where it stopped.
    pub resume: bool,
    /// It goes on from the checkpoint of this number: with `resume` in place of the newest, and so
    /// that sinks leave out the rows they hold; else it begins anew there.
    pub from: Option<CheckpointNumber>,
}
