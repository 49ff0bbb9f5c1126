//! Changes of the state that an operator wants a node to be in: drain, decommission, cancel.
//!
//! Each is a function of a view to a transaction. The transaction compares the node's record, so a
//! view that is too old is refused by the coordinator and nothing is lost. It also compares the record
//! of a witness: an active node that stays. Two operators can thus not drain the last two nodes at
//! once.

use super::{
    record::{DesiredState, NodeRecord, RecordKey, encode},
    view::ClusterView,
};
use crate::transaction::Transaction;
use tidemill_types::NodeId;

/// The reason why a desired state is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DesireError {
    /// The cluster has no such node.
    #[error("node {0} is not a member of this cluster: `tidemill cluster nodes` lists them")]
    Unknown(NodeId),
    /// No other active node is live.
    #[error("node {0} is the last active node: start or activate another one first")]
    LastActive(NodeId),
    /// The node is in that state already.
    #[error("node {node} is {state} already")]
    Unchanged {
        /// The node.
        node: NodeId,
        /// Its state.
        state: DesiredState,
    },
}

/// The transaction that gives a node this desired state. [`DesiredState::Active`] cancels a drain or
/// a decommission.
///
/// # Errors
/// [`DesireError`] says why it makes no sense.
pub fn set_desired(
    view: &ClusterView,
    node: NodeId,
    desired: DesiredState,
) -> Result<Transaction, DesireError> {
    let Some(found) = view.nodes.get(&node) else { return Err(DesireError::Unknown(node)) };
    if found.record.desired == desired {
        return Err(DesireError::Unchanged { node, state: desired });
    }
    let key = RecordKey::Node(node).key();
    let record = NodeRecord { desired, ..found.record.clone() };
    let mut transaction =
        Transaction::new().require(&key, found.modified).put(&key, encode(&record));
    if desired != DesiredState::Active {
        let mut others = view.nodes.iter().filter(|(id, it)| **id != node && it.is_available());
        let (witness, other) = others.next().ok_or(DesireError::LastActive(node))?;
        transaction = transaction.require(&RecordKey::Node(*witness).key(), other.modified);
    }
    Ok(transaction)
}

#[cfg(test)]
mod tests;
