//! Transactions (KIP-98, KIP-890): the coordinator, in which each transactional id is on record.
//!
//! ```text
//! handler ─▶ coordinator ─▶ state: pure decisions       ─▶ store
//!               │       └── entry: the state in force, by id
//!               └─▶ partitions: markers
//! ```
//!
//! Read in this order: `state`, `entry`, `coordinator`, `describe`.

pub(crate) mod coordinator;
pub(crate) mod describe;
mod entry;
mod refusal;
pub(crate) mod state;
