//! The controller: decisions about the cluster, as plain functions of a view.
//!
//! ```text
//! view ─▶ ControllerStep ┬ Elect: put `controller` under the node's lease, if its last change is the
//!                        │        one of this view
//!                        ├ Change: writes that require the revision of the controller's own election
//!                        └ Idle
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

/// The next step of a node as the controller, or as a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerStep {
    /// There is no controller that lives: stand for election with this transaction.
    Elect(Transaction),
    /// This node is the controller, and the view asks for this change.
    Change(Transaction),
    /// There is nothing to do until the view changes.
    Idle,
}

/// The next step of an incarnation of a node, which holds this lease.
#[must_use]
pub fn next_step(
    view: &ClusterView,
    node: NodeId,
    incarnation: Incarnation,
    lease: LeaseId,
) -> ControllerStep {
    if view.check(node, incarnation).is_err() {
        return ControllerStep::Idle;
    }
    let Some(live) = view.nodes.get(&node).and_then(|it| it.live) else {
        return ControllerStep::Idle;
    };
    match view.controller {
        Some(it) if view.is_controller(node, incarnation) => change(view, it),
        Some(it) if view.check(it.node, it.incarnation).is_ok() => ControllerStep::Idle,
        found => {
            let key = RecordKey::Controller.key();
            let record = encode(&ControllerRecord { node, incarnation });
            ControllerStep::Elect(
                Transaction::new()
                    .require(&key, found.map_or(Revision::NONE, |it| it.elected))
                    .require(&RecordKey::Live(node).key(), live.since)
                    .put_leased(&key, record, lease),
            )
        }
    }
}

/// A transaction that holds only while the controller of an election is the controller.
#[must_use]
pub fn under_election(controller: ControllerView) -> Transaction {
    Transaction::new().require(&RecordKey::Controller.key(), controller.elected)
}

fn change(_view: &ClusterView, _controller: ControllerView) -> ControllerStep {
    ControllerStep::Idle
}
