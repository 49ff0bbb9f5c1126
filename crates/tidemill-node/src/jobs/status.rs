//! The status of a job, and its view for others.

use serde::Serialize;
use tidemill_flow::Progress;
use tidemill_types::job::Delivery;

/// The status of a job: wanted, or reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(tag = "status", content = "message", rename_all = "lowercase")]
pub enum Status {
    /// It runs, and runs again when the node starts again.
    Running,
    /// It is wanted and cannot be started yet, as something that it needs is away; the message says
    /// which server. It is tried again and again.
    Waiting(String),
    /// All its sources ended, and all output is flushed.
    Finished,
    /// It was cancelled.
    Cancelled,
    /// It failed, or could not be started again; the message says where and why.
    Failed(String),
}

impl Status {
    /// All that there are.
    pub const NAMES: [&str; 5] = ["running", "waiting", "finished", "cancelled", "failed"];

    /// True if the job runs when its node starts again.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self, Self::Running | Self::Waiting(_))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting(_) => "waiting",
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
        }
    }
}

/// A job as others see it.
#[derive(Clone, Debug, Serialize)]
pub struct JobView {
    /// Its name.
    pub name: String,
    /// Its status.
    #[serde(flatten)]
    pub status: Status,
    /// Its delivery.
    pub delivery: Delivery,
    /// When it was submitted, in microseconds since 1970.
    pub submitted_us: i64,
    /// When it is tried next to start it, in microseconds since 1970, if it waits for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try_us: Option<i64>,
    /// Doubts about it, as `tidemill validate` shows them; empty if it was not started in this life of
    /// the node.
    pub warnings: Vec<String>,
    /// Its progress, up to its end; none if it ended in an earlier life of the node.
    pub progress: Option<Progress>,
}
