//! The node: reads a job, checks it, plans it as a graph, runs it; and serves the log.
//!
//! ```text
//! text ─▶ descriptor ─▶ check ─▶ plan ─▶ graph of the engine
//!             └───────────┴────────┴──▶ diagnostics: file, line, column, nearest name
//! ```
//!
//! Read in this order: [`diagnostic`], [`descriptor`], [`registry`], [`check`], [`plan`],
//! [`preview`], [`schema`]; apart from those, [`streams`], [`state_query`], [`jobs`],
//! [`record_key`], [`serve`].
//!
//! Invariant: a job that is refused was not started: no file was written, no thread was made.

pub mod check;
mod checkpoint;
pub mod descriptor;
pub mod diagnostic;
pub mod jobs;
pub mod plan;
pub mod preview;
pub mod record_key;
pub mod registry;
mod resume;
pub mod schema;
pub mod serve;
pub mod state_query;
pub mod streams;

pub use checkpoint::{CheckpointView, StageView, open_checkpoints, stored_checkpoints};
pub use descriptor::Descriptor;
pub use diagnostic::{Diagnostic, Problem, Refused};
pub use registry::Registry;
pub use resume::check_resume;
pub use streams::Streams;
