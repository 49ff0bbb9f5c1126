//! Copies, sets of copies, and the coordinator's record of a virtual log.
//!
//! Invariants:
//! - A set has at most one copy on a node.
//! - The segments of a chain ascend; the last one is open.

use std::collections::BTreeMap;
use tidemill_types::{Incarnation, LogPosition, NodeId, VirtualLogEpoch};

/// A copy of a virtual log on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyId {
    /// The node.
    pub node: NodeId,
    /// The incarnation of the node since which the copy has forgotten nothing.
    pub generation: Incarnation,
}

/// The copies of a virtual segment, the leader's own among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CopySet(Vec<CopyId>);

impl CopySet {
    /// The set of these copies. Of several copies on one node the newest generation stays.
    #[must_use]
    pub fn new(copies: impl IntoIterator<Item = CopyId>) -> Self {
        let mut newest = BTreeMap::new();
        for copy in copies {
            let generation = newest.entry(copy.node).or_insert(copy.generation);
            *generation = copy.generation.max(*generation);
        }
        Self(newest.into_iter().map(|(node, generation)| CopyId { node, generation }).collect())
    }

    /// The copies, by node.
    pub fn iter(&self) -> impl Iterator<Item = CopyId> {
        self.0.iter().copied()
    }

    /// The copy on a node.
    #[must_use]
    pub fn on(&self, node: NodeId) -> Option<CopyId> {
        self.iter().find(|copy| copy.node == node)
    }

    /// True if the set names this copy in this generation.
    #[must_use]
    pub fn contains(&self, copy: CopyId) -> bool {
        self.0.contains(&copy)
    }

    /// The number of copies.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for a set without copies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A virtual segment: positions from `from` to the next segment's first, and the copies of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SetSegment {
    /// The first position.
    pub from: LogPosition,
    /// The copies.
    pub set: CopySet,
}

/// The revision of a record in the coordinator. It grows with each write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordRevision(pub u64);

/// The coordinator's record of a virtual log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VirtualLogRecord {
    /// The epoch of the leadership.
    pub epoch: VirtualLogEpoch,
    /// The node that leads, or is to.
    pub leader: NodeId,
    /// True once the leader of this epoch has finished its promotion.
    pub is_serving: bool,
    /// The closed segments, ascending.
    pub closed: Vec<SetSegment>,
    /// The open segment.
    pub open: SetSegment,
}

/// A write to the coordinator, applied only if the record still has the expected revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordPut {
    /// The revision that the record must have.
    pub expected: RecordRevision,
    /// The new record.
    pub record: VirtualLogRecord,
}
