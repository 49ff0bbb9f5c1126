//! Failover: the leader of each streamlet after a node was lost, came back or is to give up.
//!
//! ```text
//! assignment, availability of nodes ─▶ LeaderChange: a leader or none, the next epoch, copies in sync
//! ```
//!
//! Each change has the next leader epoch, also one that leaves a streamlet without a leader: receivers
//! refuse the old leader by it, whatever that one believes. A leader is an incarnation of a node, so a
//! node that died and came back at once is another leader.
//!
//! Invariants:
//! - Only a copy in sync leads: no acknowledged record is given up. Without one the streamlet waits.
//! - The last copy in sync stays in sync, though its node is away: it alone has all records.
//! - An epoch never goes back, and no epoch has two leaders.

use super::{placement::StreamletName, view::ClusterView};
use std::collections::{BTreeMap, BTreeSet};
use tidemill_types::{Incarnation, LeaderEpoch, NodeId};

#[cfg(test)]
mod tests;

/// The leader of a streamlet: one life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamletLeader {
    /// The node.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// The leader and the copies of a streamlet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamletAssignment {
    /// The leader; none while no copy in sync is there.
    pub leader: Option<StreamletLeader>,
    /// The epoch of the leader.
    pub epoch: LeaderEpoch,
    /// The nodes with copies, in the order of preference.
    pub copies: Vec<NodeId>,
    /// The nodes whose copies have all acknowledged records.
    pub in_sync: BTreeSet<NodeId>,
}

/// The availability of a node for leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAvailability {
    /// The incarnation that holds the node's lease.
    pub incarnation: Incarnation,
    /// False for a node that drains: it leads only where no other can.
    pub is_active: bool,
}

/// The nodes of a view that can lead.
#[must_use]
pub fn availability(view: &ClusterView) -> BTreeMap<NodeId, NodeAvailability> {
    let availability = view.live().map(|(id, it)| {
        let (incarnation, is_active) = (it.record.incarnation, it.is_available());
        (id, NodeAvailability { incarnation, is_active })
    });
    availability.collect()
}

/// A change of a streamlet's leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    /// The streamlet.
    pub streamlet: StreamletName,
    /// The leader from now on; none if no copy in sync is there.
    pub leader: Option<StreamletLeader>,
    /// The epoch from now on: the one after the epoch before.
    pub epoch: LeaderEpoch,
    /// The copies that count as in sync from now on.
    pub in_sync: BTreeSet<NodeId>,
}

impl LeaderChange {
    /// The assignment after this change.
    #[must_use]
    pub fn apply(&self, before: &StreamletAssignment) -> StreamletAssignment {
        StreamletAssignment {
            leader: self.leader,
            epoch: self.epoch,
            copies: before.copies.clone(),
            in_sync: self.in_sync.clone(),
        }
    }
}

/// The changes of leaders that the availability of nodes asks for, in the order of the streamlets.
///
/// Of several copies that can lead, one of an active node leads before one of a node that drains;
/// among those, the node that leads the fewest, then the order of preference.
#[must_use]
pub fn change_leaders(
    assignments: &BTreeMap<StreamletName, StreamletAssignment>,
    nodes: &BTreeMap<NodeId, NodeAvailability>,
) -> Vec<LeaderChange> {
    let mut leads: BTreeMap<NodeId, u64> = BTreeMap::new();
    for leader in assignments.values().filter_map(|it| it.leader) {
        *leads.entry(leader.node).or_default() += 1;
    }
    let mut changes = Vec::new();
    for (streamlet, assignment) in assignments {
        let Some(leader) = next_leader(assignment, nodes, &leads) else { continue };
        // A streamlet whose epochs are all used stays as it is.
        let Some(epoch) = assignment.epoch.0.checked_add(1).map(LeaderEpoch) else { continue };
        if let Some(old) = assignment.leader {
            leads.entry(old.node).and_modify(|count| *count -= 1);
        }
        if let Some(new) = leader {
            *leads.entry(new.node).or_default() += 1;
        }
        let in_sync = remaining(assignment, nodes);
        changes.push(LeaderChange { streamlet: streamlet.clone(), leader, epoch, in_sync });
    }
    changes
}

/// The leader that a streamlet is to get, or to be without. None: nothing changes.
fn next_leader(
    assignment: &StreamletAssignment,
    nodes: &BTreeMap<NodeId, NodeAvailability>,
    leads: &BTreeMap<NodeId, u64>,
) -> Option<Option<StreamletLeader>> {
    let current = assignment.leader.and_then(|leader| {
        let found = nodes.get(&leader.node)?;
        let is_same_life = found.incarnation == leader.incarnation;
        (is_same_life && assignment.copies.contains(&leader.node)).then_some((leader, found))
    });
    let candidates = assignment.copies.iter().enumerate().filter_map(|(place, node)| {
        let found = nodes.get(node).filter(|_| assignment.in_sync.contains(node))?;
        let count = leads.get(node).copied().unwrap_or(0);
        let leader = StreamletLeader { node: *node, incarnation: found.incarnation };
        Some(((!found.is_active, count, place), leader))
    });
    let best = candidates.min_by_key(|(rank, _)| *rank);
    match (current, best) {
        // A leader stays, unless it drains and an active node can take over.
        (Some((_, found)), Some(((is_draining, ..), _))) if found.is_active || is_draining => None,
        (Some(_), None) => None,
        (_, Some((_, leader))) => Some(Some(leader)),
        (None, None) => assignment.leader.map(|_| None),
    }
}

/// The copies in sync that stay so: those of nodes that are there, or else all as they were.
fn remaining(
    assignment: &StreamletAssignment,
    nodes: &BTreeMap<NodeId, NodeAvailability>,
) -> BTreeSet<NodeId> {
    let there: BTreeSet<NodeId> =
        assignment.in_sync.iter().copied().filter(|node| nodes.contains_key(node)).collect();
    if there.is_empty() { assignment.in_sync.clone() } else { there }
}
