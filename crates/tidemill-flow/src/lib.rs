//! The engine of one stage: a graph of stages, cut into slices, driven by cycles.
//!
//! ```text
//!  source ─▶ link ─▶ stage ─▶ link ─▶ stage ─▶ link ─▶ sink
//!    │ cuts its input into cycles        │ runs a slice on its whole input of a cycle
//!    ▼                                   ▼
//!  ledger: cycle → end position       thread-control table: slice → worker
//! ```
//!
//! Read in this order: [`block`], [`rows`], [`operator`], [`source`], [`sink`], [`partition`],
//! [`snapshot`].
//!
//! Invariants: a slice's output of a cycle is the same bytes on every replay; an effect of a cycle
//! leaves the job only after the ledger holds its cut; nothing here reads a clock, a file or a
//! socket but through `tidemill-env`.

pub mod block;
pub mod dead_letter;
pub mod engine;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod graph;
pub mod operator;
pub mod partition;
pub mod progress;
mod retry;
pub mod rows;
mod runtime;
pub mod sink;
mod slice_runs;
pub mod snapshot;
pub mod source;
pub mod trial;

pub use block::{Block, Payload, Routing, Selection, TIME_COLUMN, VALUE_COLUMN, rows_schema};
pub use engine::{CheckpointTo, JobHandle, Processes, RunOptions, has_begun};
pub use error::{AskError, ErrorKind, JobError, OperatorError, SinkError, SourceError, StartError};
pub use graph::{GraphError, JobGraph, Link, Stage, StageKind};
pub use operator::{
    Context, CycleInput, DeadLetter, MEMBERS_SEPARATOR, Operator, OperatorFactory, Output,
    SliceState, columns_in_words,
};
pub use partition::Partition;
pub use progress::{
    CheckpointProgress, Progress, SinkProgress, SourceProgress, StageProgress, Stalled,
};
pub use retry::{RETRY_PAUSE_US, RetryPolicy};
pub use rows::{Rows, RowsPool};
pub use runtime::ledger::{has_ledger, is_of_life};
pub use runtime::panic_guard::catch_panic;
pub use sink::Sink;
pub use slice_runs::SliceRuns;
pub use snapshot::{
    QueryableStage, QueryableStages, SnapshotError, StageSnapshot, StateAt, StateTable, TakeRows,
};
pub use source::{
    CommitFollower, GrowingSource, GuessedColumn, Obstacle, Position, Read, ReadRequest, Source,
    SourceFactory, SourceWaker,
};
