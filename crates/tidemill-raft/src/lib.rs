//! The coordinator's table kept by the nodes themselves: the home `raft`.
//!
//! Three or five nodes are *voters*. Each has the table, and a log of the commands that made it;
//! a command counts once most voters have it on disk. Any other node is a *client* of the voters.
//!
//! ```text
//! Coordinator calls ─▶ RaftCoordinator ─▶ the leader ─▶ Raft ─▶ journals of most voters ─▶ Table
//!   watches ◀── the table of this voter, or of any voter for a client
//! ```
//!
//! Consensus is the `openraft` crate's. This crate gives it a durable log ([`journal`]), a state
//! machine around [`tidemill_coord::table::Table`] ([`machine`]), a network over the cluster port
//! ([`transport`]), and the founding of a cluster from a list of addresses ([`founding`]).
//!
//! Read in this order: [`voter`], [`journal`], [`machine`], [`message`], [`transport`],
//! [`founding`], [`voters`], [`coordinator`].
//!
//! Invariants:
//! - A vote and a command are on the disk of a voter before any other node hears of them.
//! - Reads and keep-alives are answered by a leader that has just heard from most voters.
//! - A voter that lost its disk does not vote again: its directory id is no longer the one that the
//!   cluster knows.
//! - Voters' messages name the data folder that they are for, so those of another cluster, or of a
//!   node that had the address before, change nothing.
//! - A commit is proposed once. If its fate is unknown, the caller learns that.

pub mod coordinator;
pub mod founding;
pub mod journal;
mod leases;
mod log_storage;
pub mod machine;
pub mod message;
mod snapshot;
pub mod transport;
pub mod voter;
pub mod voters;

#[cfg(test)]
mod mesh;
#[cfg(test)]
mod tests;

pub use coordinator::RaftCoordinator;
pub use transport::{Transport, TransportError};
pub use voter::{Directory, Voter};
pub use voters::{RaftError, RaftOptions, RaftVoter};
