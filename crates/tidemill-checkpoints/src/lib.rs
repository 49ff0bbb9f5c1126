//! The checkpoints of a job, and the backends that store them.
//!
//! ```text
//! Checkpoints ── runs, manifests ──▶ Backend ┬ IndexedBackend   append-only files, an index in memory
//!                                            └ FileBackend      a file for each key: the baseline
//! ```
//!
//! A backend stores values by their keys, durably; it does not interpret them. [`Checkpoints`] stores
//! the runs of slices (`tidemill-state`) and the manifests that name them. Backends on servers are in
//! `tidemill-backends`. (Vallés, "An Analysis of a Checkpointing Mechanism for a Distributed Stream
//! Processing System", section 3.4.)
//!
//! Invariants:
//!
//! - A commit that returned survives any kill and any power cut: its keys have its values until a
//!   later commit.
//! - A value read is the value written: damage is an error that names its place.
//! - Nothing is deleted because its explanation is missing.

mod backend;
mod checkpoints;
mod error;
mod file_backend;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod indexed;
mod value_buffer;
mod write_batch;

#[cfg(test)]
mod tests;

pub use backend::Backend;
pub use checkpoints::{
    CheckpointError, CheckpointInfo, CheckpointReader, Checkpoints, KeyReader, LoadedRuns,
    Manifest, PinnedCheckpoint, RowReader, RunRef, SavedSink, SavedSource, SavedStage, SliceRuns,
};
pub use error::BackendError;
pub use file_backend::FileBackend;
pub use indexed::{IndexedBackend, IndexedOptions, RecoveryReport};
pub use value_buffer::ValueBuffer;
pub use write_batch::WriteBatch;
