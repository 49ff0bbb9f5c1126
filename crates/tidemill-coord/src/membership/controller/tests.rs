//! Elections on a table: one candidate wins, and a controller that was deposed changes nothing.

use super::*;
use crate::{
    membership::{
        record::{ClusterRecord, LiveRecord, NodeAddresses, NodeRecord},
        view::ViewFold,
    },
    table::{Command, Reply, Table},
    transaction::CommitOutcome,
};

/// A table in which nodes 1 and 2 are live as incarnations 1 and 2, under leases 1 and 2.
fn table() -> Table {
    let mut table = Table::default();
    let id = "orders".parse().expect("an id");
    is_applied(
        &mut table,
        Transaction::new().put(&RecordKey::Cluster.key(), encode(&ClusterRecord { id })),
    );
    for node in 1..=2 {
        table.apply(&Command::Grant { ttl_ms: 6_000 }).expect("there is room");
        let incarnation = Incarnation(node);
        let record = NodeRecord {
            incarnation,
            addresses: NodeAddresses::default(),
            roles: [].into(),
            rack: None,
            build: "test".into(),
            desired: Default::default(),
            is_stopped: false,
        };
        let node = NodeId(node.cast_signed());
        let live = encode(&LiveRecord { incarnation });
        let joins = Transaction::new()
            .put(&RecordKey::Node(node).key(), encode(&record))
            .put_leased(&RecordKey::Live(node).key(), live, LeaseId(i64::from(node.0)));
        assert!(is_applied(&mut table, joins));
    }
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

/// The step of a node of this table.
fn stand(view: &ClusterView, node: i32) -> Option<Transaction> {
    elect(view, NodeId(node), Incarnation(node.unsigned_abs()), LeaseId(i64::from(node)))
}

#[test]
fn of_two_candidates_one_is_elected() {
    let mut table = table();
    let before = view(&table);
    let (one, two) = (stand(&before, 1).expect("may stand"), stand(&before, 2).expect("may stand"));
    assert!(is_applied(&mut table, two));
    assert!(!is_applied(&mut table, one));
    let after = view(&table);
    assert!(after.is_controller(NodeId(2), Incarnation(2)));
    assert_eq!((stand(&after, 1), stand(&after, 2)), (None, None));
    assert_eq!(elect(&before, NodeId(1), Incarnation(9), LeaseId(1)), None, "an unknown life");
}

#[test]
fn a_deposed_controller_changes_nothing() {
    let mut table = table();
    let first = stand(&view(&table), 1).expect("may stand");
    assert!(is_applied(&mut table, first));
    let deposed = view(&table).controller.expect("one is elected");
    let key = crate::Key::new("decision").expect("a short name");
    assert!(is_applied(&mut table, under_election(deposed).put(&key, "1")));
    table.apply(&Command::End { lease: LeaseId(1) }).expect("a lease ends");
    let second = stand(&view(&table), 2).expect("may stand");
    assert!(is_applied(&mut table, second));
    assert!(!is_applied(&mut table, under_election(deposed).put(&key, "2")));
    let elected = view(&table).controller.expect("one is elected");
    assert!(is_applied(&mut table, under_election(elected).put(&key, "3")));
}
