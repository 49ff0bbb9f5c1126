//! A member of a group, and the answers to members.

use bytes::Bytes;
use tidemill_wire::{groups::MemberRecord, kafka::ErrorCode};

/// A request that waits for an answer. The shell maps it to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

/// The answer to a request to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinAnswer {
    pub(crate) error: ErrorCode,
    pub(crate) member_id: String,
    /// -1 if there is none.
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: String,
    /// The leader need not assign anything. (KIP-814.)
    pub(crate) skip_assignment: bool,
    /// All members with their metadata, for the leader.
    pub(crate) members: Vec<(String, Option<String>, Bytes)>,
}

impl JoinAnswer {
    /// An answer without a generation.
    pub(crate) fn refused(error: ErrorCode, member_id: impl Into<String>) -> Self {
        Self {
            error,
            member_id: member_id.into(),
            generation: -1,
            protocol_type: None,
            protocol: None,
            leader: String::new(),
            skip_assignment: false,
            members: Vec::new(),
        }
    }
}

/// The answer to a request for an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyncAnswer {
    pub(crate) error: ErrorCode,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignment: Bytes,
}

impl SyncAnswer {
    /// An answer without an assignment.
    pub(crate) fn refused(error: ErrorCode) -> Self {
        Self { error, protocol_type: None, protocol: None, assignment: Bytes::new() }
    }
}

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: String,
    /// The id that its configuration gives it. (KIP-345.)
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_ms: u64,
    pub(crate) rebalance_ms: u64,
    /// Protocols that it knows, best first, with its metadata for each.
    pub(crate) protocols: Vec<(String, Bytes)>,
    pub(crate) assignment: Bytes,
    /// Members are in the order of these.
    pub(crate) number: u64,
    /// It waits for the next generation.
    pub(crate) join: Option<Ticket>,
    /// It may be told that it need not assign.
    pub(crate) may_skip: bool,
    /// It waits for its assignment.
    pub(crate) sync: Option<Ticket>,
    /// It asked for its assignment in this generation.
    pub(crate) synced: bool,
    /// It was in no generation yet: it does not know its id, and cannot say that it lives.
    pub(crate) is_new: bool,
    /// When it is taken for gone.
    pub(crate) deadline_ms: u64,
}

impl Member {
    /// Its metadata for a protocol; empty if it does not know it.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let known = self.protocols.iter().find(|(name, _)| name == protocol);
        known.map_or_else(Bytes::new, |(_, metadata)| metadata.clone())
    }

    /// True if it knows a protocol of this name.
    pub(crate) fn knows(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| name == protocol)
    }

    /// Bytes that it costs.
    pub(crate) fn bytes(&self) -> usize {
        let names = self.id.len() + self.instance.as_ref().map_or(0, String::len);
        let client = self.client_id.len() + self.client_host.len();
        names + client + protocols_bytes(&self.protocols) + self.assignment.len()
    }

    pub(crate) fn record(&self) -> MemberRecord {
        let protocol = |(name, metadata): &(String, Bytes)| (name.clone(), metadata.to_vec());
        MemberRecord {
            id: self.id.clone(),
            instance: self.instance.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            session_ms: u32::try_from(self.session_ms).unwrap_or(u32::MAX),
            rebalance_ms: u32::try_from(self.rebalance_ms).unwrap_or(u32::MAX),
            protocols: self.protocols.iter().map(protocol).collect(),
            assignment: self.assignment.to_vec(),
        }
    }

    /// A member as it was stored; its session begins now.
    pub(crate) fn restored(record: MemberRecord, number: u64, now_ms: u64) -> Self {
        let protocol = |(name, metadata): (String, Vec<u8>)| (name, metadata.into());
        Self {
            id: record.id,
            instance: record.instance,
            client_id: record.client_id,
            client_host: record.client_host,
            session_ms: record.session_ms.into(),
            rebalance_ms: record.rebalance_ms.into(),
            protocols: record.protocols.into_iter().map(protocol).collect(),
            assignment: record.assignment.into(),
            number,
            join: None,
            may_skip: false,
            sync: None,
            synced: true,
            is_new: false,
            deadline_ms: now_ms.saturating_add(record.session_ms.into()),
        }
    }
}

/// Bytes of an id that the node makes for a member, with its entry in the map.
pub(crate) const NEW_MEMBER_BYTES: usize = 1_200;

/// Bytes of protocols and metadata.
pub(crate) fn protocols_bytes(protocols: &[(String, Bytes)]) -> usize {
    protocols.iter().map(|(name, metadata)| name.len() + metadata.len() + 64).sum()
}
