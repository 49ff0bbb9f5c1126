//! Errors of the coordinator, by what a caller does about them.

use crate::key::{LeaseId, Revision};
use serde::{Deserialize, Serialize};

/// Why a call of the coordinator failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CoordinatorError {
    /// No home answered in time. Nothing is known about whether a commit was applied: read the
    /// keys before trying again.
    #[error("the coordinator does not answer: {0}")]
    Unavailable(String),
    /// The lease has expired or was revoked, and the keys bound to it are gone.
    #[error("lease {0} has expired")]
    LeaseExpired(LeaseId),
    /// The changes after this revision are no longer kept. Read the keys, and watch from the
    /// revision of that reading.
    #[error("changes after revision {after} are compacted; the oldest kept is {oldest}")]
    Compacted {
        /// The revision that was asked for.
        after: Revision,
        /// The oldest revision whose changes are kept.
        oldest: Revision,
    },
    /// The table is not the one that was there before: its revision went back. Its data were wiped
    /// or restored, and nothing may be changed until a person has looked.
    #[error(
        "the coordinator's table went back from revision {known} to {found}: it was wiped or restored from a backup; restore it, or start a new cluster in new data folders"
    )]
    Replaced {
        /// The newest revision that was seen.
        known: Revision,
        /// The revision that the coordinator has now.
        found: Revision,
    },
    /// The request breaks a limit or a rule of form.
    #[error("{0}")]
    Invalid(String),
    /// The home's own data are damaged, or its disk fails.
    #[error("{0}")]
    Failed(String),
}

impl CoordinatorError {
    /// True if the same call may succeed later without anyone changing anything.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
