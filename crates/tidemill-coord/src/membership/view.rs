//! The cluster as one node sees it: a fold of a listing and the changes after it.
//!
//! ```text
//! listing ──▶ ViewFold::reset ─┐
//!                              ├─▶ ClusterView, at one revision of the table
//! changes ──▶ ViewFold::apply ─┘
//! ```
//!
//! A view may be old, and a node may act on an old one. Safety never rests on it: receivers refuse
//! by incarnation and epoch, and every change compares revisions.
//!
//! Invariants:
//! - The revision of a fold never goes back, and neither does the newest incarnation of a node.
//! - A record that cannot be read is told of in [`ClusterView::unreadable`]; its node is refused.
//! - Nothing here reads a clock, takes a lock or calls the coordinator.

use super::record::{
    ClusterRecord, ControllerRecord, DesiredState, IncarnationsRecord, LiveRecord, NODES_MAX,
    NodeRecord, RecordKey, TableRecord, decode,
};
use crate::{
    key::{Key, Revision},
    transaction::{Change, Listing},
};
use std::collections::BTreeMap;
use tidemill_types::{ClusterId, Incarnation, NodeId};

/// A node in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The durable record.
    pub record: NodeRecord,
    /// The revision that last changed the record.
    pub modified: Revision,
    /// The incarnation that holds the node's lease; none if no lease stands.
    pub live: Option<LiveNode>,
}

impl NodeView {
    /// True if the newest incarnation of the node holds its lease.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live.is_some_and(|live| live.incarnation == self.record.incarnation)
    }

    /// True if the node is live and may get new duties.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.is_live() && self.record.desired == DesiredState::Active
    }
}

/// The holder of a node's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The revision at which it took the lease.
    pub since: Revision,
}

/// The controller in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerView {
    /// The node that is the controller.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The revision of its election, which every change of the controller requires.
    pub elected: Revision,
}

/// The reason for a refusal of a node's incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FenceError {
    /// The view has no such node.
    #[error("node {0} is not a member of this cluster")]
    Unknown(NodeId),
    /// A newer incarnation of the node has registered.
    #[error("incarnation {incarnation} of node {node} is over: {newest} is the newest")]
    Superseded {
        /// The node.
        node: NodeId,
        /// The incarnation that was refused.
        incarnation: Incarnation,
        /// The newest one.
        newest: Incarnation,
    },
    /// The incarnation's lease has ended.
    #[error("the lease of incarnation {incarnation} of node {node} has ended")]
    LeaseEnded {
        /// The node.
        node: NodeId,
        /// The incarnation that was refused.
        incarnation: Incarnation,
    },
    /// The view is older than the incarnation: ask again when it is newer.
    #[error("incarnation {incarnation} of node {node} is newer than this view")]
    Ahead {
        /// The node.
        node: NodeId,
        /// The incarnation that was refused.
        incarnation: Incarnation,
    },
}

impl FenceError {
    /// True if a newer view may let the incarnation pass.
    #[must_use]
    pub fn is_retriable(self) -> bool {
        matches!(self, Self::Ahead { .. } | Self::Unknown(_))
    }
}

/// The cluster at one revision of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The cluster's id.
    pub cluster: ClusterId,
    /// The revision of the table that this view is of.
    pub revision: Revision,
    /// The controller; none while there is no election.
    pub controller: Option<ControllerView>,
    /// All nodes, live or not, those included that are decommissioned.
    pub nodes: BTreeMap<NodeId, NodeView>,
    /// Leases of nodes without a record that can be read.
    pub leases: BTreeMap<NodeId, LiveNode>,
    /// Newest incarnation that was drawn by any node.
    pub last_incarnation: Incarnation,
    /// Records that cannot be read, with the reason of each.
    pub unreadable: BTreeMap<Key, String>,
    /// The newest incarnation of each node that this fold has seen, nodes included that are gone.
    newest: BTreeMap<NodeId, Incarnation>,
}

impl ClusterView {
    /// A view without nodes, of before the first revision.
    #[must_use]
    pub fn empty(cluster: ClusterId) -> Self {
        Self {
            cluster,
            revision: Revision::NONE,
            controller: None,
            nodes: BTreeMap::new(),
            leases: BTreeMap::new(),
            last_incarnation: Incarnation(0),
            unreadable: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    /// Checks that an incarnation of a node is the newest and holds the node's lease.
    ///
    /// # Errors
    /// [`FenceError`] says why the incarnation is refused.
    pub fn check(&self, node: NodeId, incarnation: Incarnation) -> Result<(), FenceError> {
        let Some(newest) = self.newest.get(&node).copied() else {
            return Err(FenceError::Unknown(node));
        };
        if incarnation < newest {
            return Err(FenceError::Superseded { node, incarnation, newest });
        }
        if incarnation > newest {
            return Err(FenceError::Ahead { node, incarnation });
        }
        let Some(found) = self.nodes.get(&node) else { return Err(FenceError::Unknown(node)) };
        if found.is_live() { Ok(()) } else { Err(FenceError::LeaseEnded { node, incarnation }) }
    }

    /// The nodes that hold their leases.
    pub fn live(&self) -> impl Iterator<Item = (NodeId, &NodeView)> {
        self.nodes.iter().filter(|(_, it)| it.is_live()).map(|(id, it)| (*id, it))
    }

    /// True if the controller of this view is that incarnation of a node.
    #[must_use]
    pub fn is_controller(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.controller.is_some_and(|it| it.node == node && it.incarnation == incarnation)
    }

    /// Puts one key into the view, or takes it out.
    fn set(
        &mut self,
        key: &Key,
        value: Option<&[u8]>,
        revision: Revision,
    ) -> Result<(), FoldError> {
        self.unreadable.remove(key);
        match RecordKey::of(key) {
            None => {}
            Some(RecordKey::Cluster) => self.check_cluster(value)?,
            Some(RecordKey::Incarnations) => {
                let record = self.read::<IncarnationsRecord>(key, value);
                let last = record.map_or(self.last_incarnation, |it| it.last);
                self.last_incarnation = self.last_incarnation.max(last);
            }
            Some(RecordKey::Controller) => {
                let record = self.read::<ControllerRecord>(key, value);
                self.controller = record.map(|ControllerRecord { node, incarnation }| {
                    ControllerView { node, incarnation, elected: revision }
                });
            }
            Some(RecordKey::Node(node)) => self.set_node(node, key, value, revision),
            Some(RecordKey::Live(node)) => {
                let record = self.read::<LiveRecord>(key, value);
                let live =
                    record.map(|it| LiveNode { incarnation: it.incarnation, since: revision });
                if let Some(found) = self.nodes.get_mut(&node) {
                    found.live = live;
                } else if let Some(live) = live {
                    self.leases.insert(node, live);
                } else {
                    self.leases.remove(&node);
                }
            }
        }
        Ok(())
    }

    fn set_node(&mut self, node: NodeId, key: &Key, value: Option<&[u8]>, revision: Revision) {
        let live = match self.nodes.remove(&node) {
            Some(found) => found.live,
            None => self.leases.remove(&node),
        };
        let is_known = self.newest.len() < NODES_MAX || self.newest.contains_key(&node);
        let record = self.read::<NodeRecord>(key, value).filter(|_| is_known);
        let Some(mut record) = record else {
            if !is_known {
                let why = format!("{NODES_MAX} nodes are known already");
                self.unreadable.insert(key.clone(), why);
            }
            if let Some(live) = live {
                self.leases.insert(node, live);
            }
            return;
        };
        let newest = self.newest.entry(node).or_default();
        *newest = record.incarnation.max(*newest);
        record.incarnation = *newest;
        self.nodes.insert(node, NodeView { record, modified: revision, live });
    }

    fn check_cluster(&self, value: Option<&[u8]>) -> Result<(), FoldError> {
        let Some(value) = value else { return Err(FoldError::NoCluster(self.cluster.clone())) };
        let found = decode::<ClusterRecord>(value)
            .map_err(|error| FoldError::Unreadable(error.to_string()))?;
        if found.id != self.cluster {
            return Err(FoldError::OtherCluster { known: self.cluster.clone(), found: found.id });
        }
        Ok(())
    }

    /// Reads a record. One that cannot be read counts as absent, and is told of.
    fn read<T: TableRecord>(&mut self, key: &Key, value: Option<&[u8]>) -> Option<T> {
        match decode(value?) {
            Ok(record) => Some(record),
            Err(error) => {
                self.unreadable.insert(key.clone(), error.to_string());
                None
            }
        }
    }
}

/// The reason why a table is not that of the cluster. Nothing may be changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// The table has no cluster.
    #[error("the coordinator's table is empty, and was that of cluster {0}: it was wiped")]
    NoCluster(ClusterId),
    /// The table is another cluster's.
    #[error("the coordinator's table is that of cluster {found}, and this node is of {known}")]
    OtherCluster {
        /// The cluster of this node.
        known: ClusterId,
        /// The cluster of the table.
        found: ClusterId,
    },
    /// The table went back in time.
    #[error("the coordinator's table went back from revision {known} to {found}")]
    WentBack {
        /// The newest revision that was seen.
        known: Revision,
        /// The revision that the table has.
        found: Revision,
    },
    /// The cluster's record cannot be read.
    #[error("the cluster's record in the coordinator cannot be read: {0}")]
    Unreadable(String),
}

/// Makes views of a listing and the changes after it.
#[derive(Clone, Debug)]
pub struct ViewFold {
    view: ClusterView,
}

impl ViewFold {
    /// A fold for one cluster that has seen nothing.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Self {
        Self { view: ClusterView::empty(cluster) }
    }

    /// The view of now.
    #[must_use]
    pub fn view(&self) -> &ClusterView {
        &self.view
    }

    /// Takes a whole listing in place of all that is known. A key that is not in it is absent.
    ///
    /// # Errors
    /// [`FoldError`] if the table is not the one that this fold has seen; the view is as before.
    pub fn reset(&mut self, listing: &Listing) -> Result<(), FoldError> {
        if listing.revision < self.view.revision {
            let (known, found) = (self.view.revision, listing.revision);
            return Err(FoldError::WentBack { known, found });
        }
        let mut view = ClusterView {
            revision: listing.revision,
            last_incarnation: self.view.last_incarnation,
            newest: self.view.newest.clone(),
            ..ClusterView::empty(self.view.cluster.clone())
        };
        let cluster = RecordKey::Cluster.key();
        if !listing.entries.iter().any(|it| it.key == cluster) {
            return Err(FoldError::NoCluster(view.cluster));
        }
        for entry in &listing.entries {
            view.set(&entry.key, Some(&entry.value), entry.modified)?;
        }
        self.view = view;
        Ok(())
    }

    /// Takes changes in their order. Those that the view has already are skipped. True if the view
    /// is newer than before.
    ///
    /// # Errors
    /// [`FoldError`] if the table is no longer that of the cluster; the view is as before.
    pub fn apply(&mut self, changes: &[Change]) -> Result<bool, FoldError> {
        let after = self.view.revision;
        let mut later = changes.iter().filter(|it| it.revision > after).peekable();
        if later.peek().is_none() {
            return Ok(false);
        }
        let mut view = self.view.clone();
        for change in later {
            view.set(&change.key, change.value.as_deref(), change.revision)?;
            view.revision = view.revision.max(change.revision);
        }
        self.view = view;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
