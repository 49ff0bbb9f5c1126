//! The note of a sink: where it begins to look for its own chunks when its job resumes.

use serde::{Deserialize, Serialize};

/// Of a sink: offsets by streamlet, below which all chunks of the run are of cycles that were held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    /// Which run of the job wrote the chunks.
    pub(super) run: u64,
    /// The last cycle that was whole.
    pub(super) held: u64,
    /// As many as the run writes to.
    pub(super) offsets: Vec<i64>,
    /// The stream's id: another stream may have its name later. None: a program that noted none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<String>,
}
