//! The identity that a node shows to others.
//!
//! The incarnation may change while the process lives: a node that lost its lease comes back with a
//! new one. Requests keep the incarnation they were made in.

use tidemill_env::lock::RwLock;
use tidemill_types::{ClusterId, Incarnation, NodeId};

/// The identity of a node in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// The node's life.
    pub incarnation: Incarnation,
    /// The build, for messages and for `cluster nodes`.
    pub version: String,
}

/// An identity that changes its incarnation, shared by the port and the links of a node.
#[derive(Debug)]
pub struct IdentityCell(RwLock<Identity>);

impl IdentityCell {
    /// A cell with this identity.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self(RwLock::new(identity))
    }

    /// The identity now.
    #[must_use]
    pub fn get(&self) -> Identity {
        self.0.read().clone()
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.0.read().node
    }

    /// The incarnation now.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.0.read().incarnation
    }

    /// Begins a new life of the node. An incarnation that is not above the present one changes
    /// nothing: lives never come back. Returns true if it was above.
    pub fn renew(&self, incarnation: Incarnation) -> bool {
        let mut identity = self.0.write();
        let is_newer = incarnation > identity.incarnation;
        if is_newer {
            identity.incarnation = incarnation;
        }
        is_newer
    }
}
