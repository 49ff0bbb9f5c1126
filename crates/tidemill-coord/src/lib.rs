//! The coordinator: the small table that all nodes of a cluster agree on.
//!
//! ```text
//!                 ┌ FileCoordinator ── a journal in the data folder: one node, the default
//! Coordinator ────┼ EtcdCoordinator ── an etcd cluster, for those who run one
//!  (one trait)    └ ModelCoordinator ─ in memory, with etcd's anomalies, for simulation
//!        ▲
//! compare-and-put, leases, watches
//! ```
//!
//! The table holds what changes a few times a minute: nodes and their incarnations, streams,
//! leaders and epochs, sets of backups. It never holds cycles, cuts, offsets or heartbeats of lanes.
//! Losing the coordinator stops changes and never stops processing.
//!
//! Read in this order: [`key`], [`transaction`], [`table`], [`coordinator`], then the homes
//! [`file`](mod@file), [`etcd`] and [`model`]; then [`membership`], which keeps the nodes there.
//!
//! Invariants:
//! - A revision never goes back, and each commit has a revision of its own.
//! - A transaction is applied as a whole or not at all.
//! - A watcher sees every change after its revision once and in order, or learns that it cannot.
//! - A lease bounds how long a dead node is believed alive. It never proves that a live one may act:
//!   receivers check epochs.

#[cfg(any(test, feature = "contract"))]
#[doc(hidden)]
pub mod contract;
pub mod coordinator;
pub mod error;
pub mod etcd;
pub mod file;
pub mod key;
pub mod membership;
pub mod model;
pub mod table;
pub mod transaction;

pub use coordinator::{Coordinator, Watch};
pub use error::CoordinatorError;
pub use etcd::{EtcdCoordinator, EtcdOptions};
pub use file::FileCoordinator;
pub use key::{Key, LeaseId, Revision};
pub use model::ModelCoordinator;
pub use transaction::{Change, CommitOutcome, Comparison, KeyValue, Listing, Transaction, Write};
