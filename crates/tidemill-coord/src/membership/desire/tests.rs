//! Drain, decommission and cancel, also by two operators at once.

use super::*;
use crate::{
    membership::{
        record::{ClusterRecord, LiveRecord, NodeAddresses},
        view::ViewFold,
    },
    table::{Command, Reply, Table},
    transaction::CommitOutcome,
};
use tidemill_types::{ClusterId, Incarnation};

/// A table with nodes that are live, and their records.
fn table(nodes: i32) -> Table {
    let id: ClusterId = "orders".parse().expect("an id");
    let mut transaction =
        Transaction::new().put(&RecordKey::Cluster.key(), encode(&ClusterRecord { id }));
    for node in 1..=nodes {
        let incarnation = Incarnation(node.unsigned_abs());
        let record = NodeRecord {
            incarnation,
            addresses: NodeAddresses::default(),
            roles: [].into(),
            rack: None,
            build: "test".into(),
            desired: DesiredState::Active,
            is_stopped: false,
        };
        let live = encode(&LiveRecord { incarnation });
        transaction = transaction
            .put(&RecordKey::Node(NodeId(node)).key(), encode(&record))
            .put(&RecordKey::Live(NodeId(node)).key(), live);
    }
    let mut table = Table::default();
    assert!(is_applied(&mut table, transaction));
    table
}

fn is_applied(table: &mut Table, transaction: Transaction) -> bool {
    let reply = table.apply(&Command::Commit(transaction)).expect("it is within limits");
    matches!(reply, Reply::Commit(CommitOutcome::Applied(_)))
}

fn view(table: &Table) -> ClusterView {
    let mut fold = ViewFold::new("orders".parse().expect("an id"));
    fold.reset(&table.list("")).expect("it is the cluster's");
    fold.view().clone()
}

#[test]
fn a_node_is_drained_and_that_is_cancelled() {
    let mut table = table(2);
    let drain = set_desired(&view(&table), NodeId(1), DesiredState::Draining);
    assert!(is_applied(&mut table, drain.expect("another node is active")));
    assert!(!view(&table).nodes[&NodeId(1)].is_available());
    let again = set_desired(&view(&table), NodeId(1), DesiredState::Draining);
    let state = DesiredState::Draining;
    assert_eq!(again, Err(DesireError::Unchanged { node: NodeId(1), state }));
    let last = set_desired(&view(&table), NodeId(2), DesiredState::Decommissioned);
    assert_eq!(last, Err(DesireError::LastActive(NodeId(2))));
    let cancel = set_desired(&view(&table), NodeId(1), DesiredState::Active);
    assert!(is_applied(&mut table, cancel.expect("it was draining")));
    let unknown = set_desired(&view(&table), NodeId(9), DesiredState::Draining);
    assert_eq!(unknown, Err(DesireError::Unknown(NodeId(9))));
}

#[test]
fn the_last_active_node_is_not_drained_by_operators_who_do_not_know_of_each_other() {
    for nodes in 2..6 {
        let mut table = table(nodes);
        let before = view(&table);
        for node in 1..=nodes {
            let drain = set_desired(&before, NodeId(node), DesiredState::Draining);
            is_applied(&mut table, drain.expect("others were active then"));
        }
        let after = view(&table);
        assert!(after.nodes.values().any(super::super::view::NodeView::is_available));
    }
}
