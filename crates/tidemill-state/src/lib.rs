//! Where checkpoints are kept: backends that hold values by their keys, durably.
//!
//! ```text
//! Backend ┬ IndexedBackend   append-only files and an index in memory (the default)
//!         └ FileBackend      a file for each key: the baseline
//! ```
//!
//! Keys and values are bytes; what they mean is the engine's. A commit is durable when it returns.
//! (`s4-checkpointing.txt` 3.4; DESIGN 6.)
//!
//! Invariants:
//!
//! - What a commit that returned wrote is found after any kill and any power cut, and nothing else
//!   under its keys, until a later commit.
//! - A value that is given is the one that was written: damage is an error that names its place.
//! - Nothing is deleted because what explains it is missing.

mod backend;
mod batch;
mod checkpoints;
mod delta;
mod error;
mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod hash_index;
mod indexed;
mod key_table;
mod prefetch;
pub mod structure;
mod values;

#[cfg(test)]
mod tests;

pub use backend::Backend;
pub use batch::Batch;
pub use checkpoints::{
    CheckpointError, CheckpointInfo, Checkpoints, HashOfEntry, KeysOf, Looker, Manifest, Pinned,
    ReadRuns, RowsOf, Run, RunsOf, SavedSink, SavedSource, SavedStage,
};
pub use delta::{Delta, Reader, SavedError, merge, merged, put_bytes};
pub use error::StateError;
pub use files::FileBackend;
pub use hash_index::HashIndex;
pub use indexed::{IndexedBackend, IndexedOptions, Opened};
pub use key_table::KeyTable;
pub use prefetch::{COMPARED_AHEAD, FOUND_AHEAD, LOOKED_UP_AHEAD, prefetch};
pub use structure::{
    Aside, Changed, Expiry, ExpiryCounts, List, Map, NotRead, Noted, Queue, ReadKeys, ReadRows,
    SavedKeys, SavedRows, Stamped, StampedRows, State, Structure, TakeKey, Value, Window,
    read_plain, row_of, write_plain,
};
pub use values::Values;
