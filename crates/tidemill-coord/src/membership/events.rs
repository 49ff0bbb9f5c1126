//! Notable changes of the cluster, as one node saw them.
//!
//! Events are the difference of two views, so a node that missed changes while it was cut off still
//! tells of all that became of them. They are for people and decide nothing.

use super::{record::DesiredState, view::ClusterView};
use crate::key::Revision;
use std::{collections::VecDeque, fmt};
use tidemill_types::{Incarnation, NodeId};

/// Events that a node keeps.
pub const EVENTS_MAX: usize = 1_000;

/// One notable change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The number of the event on this node, from 1.
    pub number: u64,
    /// The moment at which this node learned of it, in microseconds since 1970 by its wall clock.
    pub wall_us: i64,
    /// The revision of the table that this node had then.
    pub revision: Revision,
    /// The change.
    pub kind: ClusterEventKind,
}

/// The change that an event is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterEventKind {
    /// A node registered.
    NodeJoined {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// A node stopped by itself.
    NodeLeft {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// The lease of a node ended without a clean stop.
    LeaseLost {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// The record of a node was removed.
    NodeRemoved(NodeId),
    /// An operator wants another state of a node.
    DesiredChanged {
        /// The node.
        node: NodeId,
        /// The state.
        desired: DesiredState,
    },
    /// A controller was elected.
    ControllerElected {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// The revision of the election.
        elected: Revision,
    },
    /// The controller is gone, and no other is elected yet.
    ControllerLost(NodeId),
    /// A record of the table cannot be read.
    RecordUnreadable {
        /// The key of the record.
        key: String,
        /// The offence.
        why: String,
    },
    /// This node was fenced: its lease ended or its id was taken.
    Fenced(Incarnation),
    /// This node missed changes and listed the table anew.
    Resynced,
    /// The coordinator does not answer this node.
    CoordinatorLost(String),
    /// The coordinator answers this node again.
    CoordinatorFound,
    /// The table is not the one that this node knew.
    TableReplaced(String),
}

impl fmt::Display for ClusterEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeJoined { node, incarnation } => {
                write!(f, "node {node} joined as incarnation {incarnation}")
            }
            Self::NodeLeft { node, incarnation } => {
                write!(f, "node {node} left, incarnation {incarnation}")
            }
            Self::LeaseLost { node, incarnation } => {
                write!(f, "the lease of node {node} ended, incarnation {incarnation}")
            }
            Self::NodeRemoved(node) => write!(f, "node {node} was removed"),
            Self::DesiredChanged { node, desired } => write!(f, "node {node} is to be {desired}"),
            Self::ControllerElected { node, incarnation, elected } => write!(
                f,
                "node {node} is the controller, incarnation {incarnation}, election {elected}"
            ),
            Self::ControllerLost(node) => write!(f, "node {node} is no longer the controller"),
            Self::RecordUnreadable { key, why } => write!(f, "record {key} is unreadable: {why}"),
            Self::Fenced(incarnation) => write!(f, "this node's incarnation {incarnation} is over"),
            Self::Resynced => f.write_str("changes were missed, the table was read anew"),
            Self::CoordinatorLost(why) => f.write_str(why),
            Self::CoordinatorFound => f.write_str("the coordinator answers again"),
            Self::TableReplaced(why) => f.write_str(why),
        }
    }
}

/// The changes from one view to a later one.
#[must_use]
pub fn changes_between(before: &ClusterView, after: &ClusterView) -> Vec<ClusterEventKind> {
    let mut kinds = Vec::new();
    for (node, new) in &after.nodes {
        let old = before.nodes.get(node);
        let old_live = old.and_then(|it| it.live);
        let node = *node;
        if let Some(live) = old_live
            && new.live.is_none_or(|it| it.incarnation != live.incarnation)
        {
            let incarnation = live.incarnation;
            let is_clean = new.record.is_stopped && new.record.incarnation == incarnation;
            kinds.push(if is_clean {
                ClusterEventKind::NodeLeft { node, incarnation }
            } else {
                ClusterEventKind::LeaseLost { node, incarnation }
            });
        }
        if let Some(live) = new.live
            && old_live.is_none_or(|it| it.incarnation != live.incarnation)
        {
            let incarnation = live.incarnation;
            kinds.push(ClusterEventKind::NodeJoined { node, incarnation });
        }
        let desired = new.record.desired;
        if old.map_or(DesiredState::Active, |it| it.record.desired) != desired {
            kinds.push(ClusterEventKind::DesiredChanged { node, desired });
        }
    }
    let removed = before.nodes.keys().filter(|node| !after.nodes.contains_key(node));
    kinds.extend(removed.map(|node| ClusterEventKind::NodeRemoved(*node)));
    match (before.controller, after.controller) {
        (old, Some(new)) if old != Some(new) => kinds.push(ClusterEventKind::ControllerElected {
            node: new.node,
            incarnation: new.incarnation,
            elected: new.elected,
        }),
        (Some(old), None) => kinds.push(ClusterEventKind::ControllerLost(old.node)),
        _ => {}
    }
    for (key, why) in &after.unreadable {
        if before.unreadable.get(key) != Some(why) {
            let (key, why) = (key.to_string(), why.clone());
            kinds.push(ClusterEventKind::RecordUnreadable { key, why });
        }
    }
    kinds
}

/// The newest events of a node, [`EVENTS_MAX`] at most.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    events: VecDeque<ClusterEvent>,
    last: u64,
}

impl EventLog {
    /// Adds an event; the oldest one goes if there are too many.
    pub fn add(&mut self, kind: ClusterEventKind, revision: Revision, wall_us: i64) {
        self.last += 1;
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(ClusterEvent { number: self.last, wall_us, revision, kind });
    }

    /// The events with a larger number than this one, in their order.
    #[must_use]
    pub fn after(&self, number: u64) -> Vec<ClusterEvent> {
        self.events.iter().filter(|it| it.number > number).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
