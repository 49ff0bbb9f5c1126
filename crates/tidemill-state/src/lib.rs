//! The state of a slice: structures that track their changes, and the bytes of those changes.
//!
//! ```text
//! structures ── freeze, drain ──▶ Delta ──▶ run: sorted entries, each key once
//!     ▲                                      │
//!     └────────── restore ◀── merge ◀────────┘
//! ```
//!
//! Nothing here knows where runs are stored: `tidemill-checkpoints` writes, names and deletes them.
//! Operators need only this crate.
//!
//! Invariants:
//!
//! - A structure writes out its content as of the freeze, whatever changes meanwhile.
//! - A structure that restores all runs cannot be told from the one that wrote them.
//! - Bytes that are no run are refused with an error, never with a panic.

pub mod delta;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod hash_index;
mod key_table;
mod prefetch;
pub mod structure;
#[cfg(test)]
mod testing;

pub use delta::{ByteReader, Delta, SavedError, merge, put_bytes, visit_entries};
pub use hash_index::HashIndex;
pub use key_table::KeyTable;
pub use prefetch::{ENTRIES_AHEAD, KEYS_AHEAD, SLOTS_AHEAD, prefetch};
pub use structure::{
    BeforeImages, ChangeCount, DirtyRows, DirtyStamps, Expiry, ExpiryCounts, HashOfEntry, List,
    Map, Queue, ReadError, ReadKeys, ReadRows, SavedKeys, SavedRows, StampedRows, State, Structure,
    TakeKey, UnreadableState, Value, Window, read_plain, row_of, write_plain,
};
