//! The parts that the port and the links of one node share.

use crate::{
    ClusterKey, ClusterLimits, ClusterPortMetrics, Fence, IdentityCell, NewestIncarnations,
};
use std::sync::Arc;

/// The parts that the port and the links of one node share. Clones share them too.
#[derive(Clone)]
pub struct ClusterOptions {
    /// The identity that is shown to others.
    pub identity: Arc<IdentityCell>,
    /// The cluster's key.
    pub key: ClusterKey,
    /// The judge of other nodes.
    pub fence: Arc<dyn Fence>,
    /// The newest incarnations that have been here.
    pub newest: Arc<NewestIncarnations>,
    /// The limits.
    pub limits: ClusterLimits,
    /// The counters.
    pub metrics: Arc<ClusterPortMetrics>,
}

impl ClusterOptions {
    /// Default limits, and counters at zero.
    #[must_use]
    pub fn new(identity: Arc<IdentityCell>, key: ClusterKey, fence: Arc<dyn Fence>) -> Self {
        Self {
            identity,
            key,
            fence,
            newest: Arc::default(),
            limits: ClusterLimits::default(),
            metrics: Arc::default(),
        }
    }
}
