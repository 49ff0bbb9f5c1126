//! When a job's state is saved, and where.

use super::EmptySpec;
use crate::units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Checkpoints of a job (ChronoStream III-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointSpec {
    /// Time from the beginning of one checkpoint to that of the next (default 10s).
    pub every: Span,
    /// Where they are kept (default `{indexed: {}}`).
    pub backend: BackendSpec,
    /// When a job that resumes reads its state back (default `eager`).
    pub recovery: Recovery,
}

impl Default for CheckpointSpec {
    fn default() -> Self {
        let (backend, recovery) = (BackendSpec::default(), Recovery::default());
        Self { every: Span(10_000_000), backend, recovery }
    }
}

/// Where checkpoints are kept, in the job's data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackendSpec {
    /// In append-only files with an index.
    Indexed(EmptySpec),
    /// In a file for each key.
    Files(EmptySpec),
}

impl Default for BackendSpec {
    fn default() -> Self {
        Self::Indexed(EmptySpec {})
    }
}

/// When a job that resumes reads its state back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// All of it, before the job goes on.
    #[default]
    Eager,
    /// The job goes on at once; a slice is read when something comes for it.
    Lazy,
    /// As `lazy`, while the other slices are read ahead.
    Prefetch,
}
