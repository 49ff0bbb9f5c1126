//! Fencing: whose frames are accepted.
//!
//! Two things are asked, and both must agree. The [`Fence`] is the node's view of the cluster, which
//! may lag. [`NewestIncarnations`] is the newest incarnation of each node that has proven itself to
//! this process: it needs no coordinator, and it never goes back.

use std::collections::BTreeMap;
use tidemill_env::lock::RwLock;
use tidemill_types::{Incarnation, NodeId};
use tidemill_wire::cluster::Refusal;

/// Most nodes that are remembered. Only nodes with the cluster's key get here.
const NODES_MAX: usize = 65_536;

/// The judge of other nodes' incarnations. It is asked in each handshake and for each request.
pub trait Fence: Send + Sync {
    /// Accepts or refuses a node in an incarnation; [`Incarnation::NONE`] is a node that has not
    /// registered yet, and traffic that is of no life. It must not wait for anything.
    ///
    /// # Errors
    /// The refusal that the node gets: [`Refusal::Fenced`], [`Refusal::Unknown`] or
    /// [`Refusal::LeaseEnded`].
    fn check(&self, node: NodeId, incarnation: Incarnation) -> Result<(), Refusal>;
}

/// The newest incarnation of each node that has proven itself here.
#[derive(Debug, Default)]
pub struct NewestIncarnations(RwLock<BTreeMap<NodeId, Incarnation>>);

impl NewestIncarnations {
    /// The newest incarnation of a node.
    #[must_use]
    pub fn newest(&self, node: NodeId) -> Option<Incarnation> {
        self.0.read().get(&node).copied()
    }

    /// Accepts an incarnation that is the newest known or above it, and remembers it. The fence is
    /// asked first; it alone judges a node that shows [`Incarnation::NONE`].
    ///
    /// # Errors
    /// The fence refuses, or a newer incarnation has been here.
    pub fn admit(
        &self,
        fence: &dyn Fence,
        node: NodeId,
        incarnation: Incarnation,
    ) -> Result<(), Refusal> {
        fence.check(node, incarnation)?;
        // What is of no life cannot be of an old one.
        if incarnation == Incarnation::NONE {
            return Ok(());
        }
        let newest = self.newest(node);
        if newest == Some(incarnation) {
            return Ok(());
        }
        if let Some(newest) = newest.filter(|it| *it > incarnation) {
            return Err(Refusal::Fenced { newest });
        }
        let mut all = self.0.write();
        if all.len() >= NODES_MAX && !all.contains_key(&node) {
            return Err(Refusal::Busy);
        }
        let newest = all.entry(node).or_insert(incarnation);
        if *newest > incarnation {
            return Err(Refusal::Fenced { newest: *newest });
        }
        *newest = incarnation;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! The newest incarnation of a node never goes back.

    use super::*;

    struct Open;

    impl Fence for Open {
        fn check(&self, _: NodeId, _: Incarnation) -> Result<(), Refusal> {
            Ok(())
        }
    }

    #[test]
    fn lower_incarnations_are_refused_once_a_newer_one_was_here() {
        let seen = NewestIncarnations::default();
        let admit = |node, incarnation| seen.admit(&Open, NodeId(node), Incarnation(incarnation));
        assert_eq!(admit(1, 5), Ok(()));
        assert_eq!(admit(1, 5), Ok(()));
        assert_eq!(admit(2, 3), Ok(()));
        assert_eq!(admit(1, 7), Ok(()));
        assert_eq!(admit(1, 5), Err(Refusal::Fenced { newest: Incarnation(7) }));
        assert_eq!(admit(1, 0), Ok(()), "it has not registered yet");
        assert_eq!(admit(1, 5), Err(Refusal::Fenced { newest: Incarnation(7) }));
        assert_eq!(seen.newest(NodeId(1)), Some(Incarnation(7)));
        assert_eq!(seen.newest(NodeId(3)), None);
    }
}
