//! The controller: the one node that decides for the cluster, elected by compare-and-put.
//!
//! ```text
//! elect            put `controller` under the node's lease, if its last change is the one of this view
//! under_election   a transaction that requires the revision of the controller's own election
//! ```
//!
//! Every change of a controller requires its election's revision. A controller that was paused finds
//! that another was elected, and its changes are refused: no lease is consulted for that.
//!
//! Invariant: nothing here reads a clock, takes a lock or calls the coordinator.

use super::{
    record::{ControllerRecord, RecordKey, encode},
    view::{ClusterView, ControllerView},
};
use crate::{
    key::{LeaseId, Revision},
    transaction::Transaction,
};
use tidemill_types::{Incarnation, NodeId};

/// The transaction with which an incarnation of a node stands for election, under its lease. None: a
/// controller lives, or the view refuses the incarnation itself.
#[must_use]
pub fn elect(
    view: &ClusterView,
    node: NodeId,
    incarnation: Incarnation,
    lease: LeaseId,
) -> Option<Transaction> {
    view.check(node, incarnation).ok()?;
    let live = view.nodes.get(&node)?.live?;
    if let Some(it) = view.controller
        && view.check(it.node, it.incarnation).is_ok()
    {
        return None;
    }
    let key = RecordKey::Controller.key();
    let elected = view.controller.map_or(Revision::NONE, |it| it.elected);
    let record = encode(&ControllerRecord { node, incarnation });
    Some(
        Transaction::new()
            .require(&key, elected)
            .require(&RecordKey::Live(node).key(), live.since)
            .put_leased(&key, record, lease),
    )
}

/// A transaction that holds only while the controller of an election is the controller.
#[must_use]
pub fn under_election(controller: ControllerView) -> Transaction {
    Transaction::new().require(&RecordKey::Controller.key(), controller.elected)
}

#[cfg(test)]
mod tests;
