//! The messages of voters and clients, and their answers. Bytes are postcard's.
//!
//! Invariant: reading outside bytes gives a message or an error, and allocates no more than a small
//! multiple of their length.

use crate::voter::{Directory, TableRaft, Voter};
use openraft::{
    SnapshotMeta, Vote,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use tidemill_coord::{
    Change, CoordinatorError, KeyValue, LeaseId, Revision, Transaction, table::Reply,
};
use tidemill_types::NodeId;

/// A message to a voter.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// Asks a node what it knows of the cluster's voters.
    Hello,
    /// A leader's entries, or its heartbeat.
    Append {
        /// The data folder of the voter that it is for.
        to: Directory,
        /// The entries.
        request: AppendEntriesRequest<TableRaft>,
    },
    /// A candidate asks for a vote.
    Vote {
        /// The data folder of the voter that it is for.
        to: Directory,
        /// The candidate.
        request: VoteRequest<u64>,
    },
    /// A leader's snapshot, for a voter that is far behind.
    Snapshot {
        /// The data folder of the voter that it is for.
        to: Directory,
        /// The leader's vote.
        vote: Vote<u64>,
        /// The last entry and the membership in it.
        meta: SnapshotMeta<u64, Voter>,
        /// The table.
        table: Vec<u8>,
    },
    /// A call of the coordinator.
    Call(Call),
}

/// A call of the coordinator. All but [`Call::Changes`] are for the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// All keys under a prefix.
    List {
        /// The prefix.
        prefix: String,
    },
    /// A transaction.
    Commit(Transaction),
    /// Grants a lease.
    Grant {
        /// Its time to live, in milliseconds.
        ttl_ms: u64,
    },
    /// Prolongs a lease.
    KeepAlive {
        /// The lease.
        lease: LeaseId,
    },
    /// Ends a lease.
    Revoke {
        /// The lease.
        lease: LeaseId,
    },
    /// The changes under a prefix after a revision, from any voter.
    Changes {
        /// The prefix.
        prefix: String,
        /// The newest revision that the watcher has.
        after: Revision,
        /// Longest time to wait for a change, in milliseconds.
        wait_ms: u64,
    },
}

impl Call {
    /// True if the call may be made again when its answer is lost.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::List { .. }
            | Self::KeepAlive { .. }
            | Self::Revoke { .. }
            | Self::Changes { .. } => true,
            Self::Commit(_) | Self::Grant { .. } => false,
        }
    }
}

/// The answer to a message.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Message::Hello`].
    Hello(HelloAnswer),
    /// To [`Message::Append`].
    Append(AppendEntriesResponse<u64>),
    /// To [`Message::Vote`].
    Vote(VoteResponse<u64>),
    /// To [`Message::Snapshot`].
    Snapshot(SnapshotResponse<u64>),
    /// To [`Message::Call`].
    Call(CallAnswer),
    /// The voter cannot answer: the reason.
    Failed(String),
}

/// A node's knowledge of the voters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloAnswer {
    /// The node that answers.
    pub node: NodeId,
    /// Its data folder.
    pub directory: Directory,
    /// The voters of the cluster that it belongs to; none before it belongs to one.
    pub voters: Option<BTreeMap<NodeId, Voter>>,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallAnswer {
    /// To [`Call::List`].
    Listing {
        /// The revision of the reading.
        revision: Revision,
        /// The keys.
        entries: Vec<KeyValue>,
    },
    /// The table's reply to a command.
    Reply(Reply),
    /// To [`Call::KeepAlive`] and [`Call::Revoke`].
    Done,
    /// To [`Call::Changes`].
    Changes {
        /// The changes.
        changes: Vec<Change>,
        /// The revision up to which they are complete.
        revision: Revision,
    },
    /// The call failed.
    Refused(CoordinatorError),
    /// Nothing was done: another node leads, if one is known.
    NotLeader {
        /// The leader and its address.
        leader: Option<(NodeId, String)>,
    },
}

/// The bytes of a message or an answer.
///
/// # Panics
/// Never: every field has an encoding.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("every field has an encoding")
}

/// Reads a message or an answer.
///
/// # Errors
/// The bytes are none.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("a message with {} bytes behind it", rest.len())),
        Err(error) => Err(format!("a message that cannot be read: {error}")),
    }
}
