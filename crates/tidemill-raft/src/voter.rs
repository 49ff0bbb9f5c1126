//! Voters, and the types that the consensus library is used with.

use openraft::{Entry, TokioRuntime};
use serde::{Deserialize, Serialize};
use std::fmt;
use tidemill_coord::{
    CoordinatorError,
    table::{Command, Reply},
};
use tidemill_types::NodeId;

openraft::declare_raft_types!(
    /// The types of the table's consensus.
    pub TableRaft:
        D = Command,
        R = CommandOutcome,
        NodeId = u64,
        Node = Voter,
        Entry = Entry<TableRaft>,
        SnapshotData = Vec<u8>,
        AsyncRuntime = TokioRuntime,
);

/// The state machine's answer to an entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandOutcome {
    /// The entry had no command: a new leader's first entry, or a change of voters.
    None,
    /// The reply of the table.
    Replied(Reply),
    /// The table refused the command.
    Refused(CoordinatorError),
}

/// The id of a data folder: 128 random bits, drawn when the folder was made. A folder that was wiped
/// has another (KIP-853 has directory ids for the same reason).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Directory(pub u128);

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One voter, as the log's membership entries name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voter {
    /// The address of its cluster port.
    pub address: String,
    /// Its data folder.
    pub directory: Directory,
}

/// The number of a node in the consensus library.
pub(crate) fn raft_id(node: NodeId) -> u64 {
    u64::from(node.0.cast_unsigned())
}

/// The node of a number of the consensus library.
pub(crate) fn node_id(raft_id: u64) -> NodeId {
    NodeId(u32::try_from(raft_id).map_or(-1, u32::cast_signed))
}
