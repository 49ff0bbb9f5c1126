//! The fold: listings and changes give the same view, records that lie change nothing for others.

use super::*;
use crate::{
    membership::record::{NodeAddresses, NodeRole, encode},
    table::{Command, Table},
    transaction::Transaction,
};
use proptest::prelude::*;

fn cluster() -> ClusterId {
    "orders".parse().expect("an id")
}

fn record(incarnation: u32) -> NodeRecord {
    NodeRecord {
        incarnation: Incarnation(incarnation),
        addresses: NodeAddresses::default(),
        roles: [NodeRole::Broker].into(),
        rack: None,
        build: "test".into(),
        desired: DesiredState::Active,
        is_stopped: false,
    }
}

/// A table with the cluster's record.
fn table() -> Table {
    let mut table = Table::default();
    let record = encode(&ClusterRecord { id: cluster() });
    commit(&mut table, Transaction::new().put(&RecordKey::Cluster.key(), record));
    table
}

fn commit(table: &mut Table, transaction: Transaction) {
    table.apply(&Command::Commit(transaction)).expect("it applies");
}

fn join(table: &mut Table, node: i32, incarnation: u32) {
    let node = NodeId(node);
    let live = LiveRecord { incarnation: Incarnation(incarnation) };
    commit(
        table,
        Transaction::new()
            .put(&RecordKey::Node(node).key(), encode(&record(incarnation)))
            .put(&RecordKey::Live(node).key(), encode(&live)),
    );
}

fn fold(table: &Table) -> ViewFold {
    let mut fold = ViewFold::new(cluster());
    fold.reset(&table.list("")).expect("it is the cluster's");
    fold
}

#[test]
fn a_lower_incarnation_is_refused_and_so_is_one_without_a_lease() {
    let mut table = table();
    join(&mut table, 1, 7);
    let (node, seven) = (NodeId(1), Incarnation(7));
    assert_eq!(fold(&table).view().check(node, seven), Ok(()));
    let lower = fold(&table).view().check(node, Incarnation(6));
    let newest = seven;
    let expected = FenceError::Superseded { node, incarnation: Incarnation(6), newest };
    assert_eq!(lower, Err(expected));
    let higher = fold(&table).view().check(node, Incarnation(8));
    assert_eq!(higher, Err(FenceError::Ahead { node, incarnation: Incarnation(8) }));
    assert_eq!(fold(&table).view().check(NodeId(2), seven), Err(FenceError::Unknown(NodeId(2))));
    commit(&mut table, Transaction::new().delete(&RecordKey::Live(node).key()));
    let ended = fold(&table).view().check(node, seven);
    assert_eq!(ended, Err(FenceError::LeaseEnded { node, incarnation: seven }));
}

#[test]
fn a_record_that_goes_back_changes_no_fence() {
    let mut table = table();
    join(&mut table, 1, 7);
    let mut fold = fold(&table);
    join(&mut table, 1, 5);
    fold.reset(&table.list("")).expect("the table went on");
    assert!(fold.view().check(NodeId(1), Incarnation(5)).is_err());
    assert!(fold.view().check(NodeId(1), Incarnation(7)).is_err(), "its lease is another's");
    commit(&mut table, Transaction::new().delete(&RecordKey::Node(NodeId(1)).key()));
    join(&mut table, 1, 6);
    fold.reset(&table.list("")).expect("the table went on");
    assert!(fold.view().check(NodeId(1), Incarnation(6)).is_err(), "a removed node is remembered");
}

#[test]
fn a_record_that_cannot_be_read_is_told_of_and_its_node_refused() {
    let mut table = table();
    join(&mut table, 1, 1);
    join(&mut table, 2, 2);
    let key = RecordKey::Node(NodeId(1)).key();
    commit(&mut table, Transaction::new().put(&key, br#"{"version":9,"new":true}"#.to_vec()));
    let view = fold(&table).view().clone();
    assert!(view.unreadable[&key].contains("version 9"), "{:?}", view.unreadable);
    assert!(view.check(NodeId(1), Incarnation(1)).is_err());
    assert_eq!(view.check(NodeId(2), Incarnation(2)), Ok(()));
    join(&mut table, 1, 3);
    assert_eq!(fold(&table).view().check(NodeId(1), Incarnation(3)), Ok(()));
    assert!(fold(&table).view().unreadable.is_empty());
}

#[test]
fn another_table_is_refused_and_the_view_stays() {
    let mut table = table();
    join(&mut table, 1, 1);
    let mut fold = fold(&table);
    let before = fold.view().clone();
    let empty = Table::default().list("");
    assert!(matches!(fold.reset(&empty), Err(FoldError::WentBack { .. })));
    let later = Listing { revision: Revision(99), ..empty };
    assert_eq!(fold.reset(&later), Err(FoldError::NoCluster(cluster())));
    let other = encode(&ClusterRecord { id: "other".parse().expect("an id") });
    let change =
        Change { revision: Revision(99), key: RecordKey::Cluster.key(), value: Some(other) };
    assert!(matches!(fold.apply(&[change]), Err(FoldError::OtherCluster { .. })));
    assert_eq!(*fold.view(), before);
}

fn writes() -> impl Strategy<Value = Vec<(u8, i32, u32)>> {
    proptest::collection::vec((0..6_u8, 0..4_i32, 1..9_u32), 0..30)
}

fn write(table: &mut Table, (action, node, incarnation): (u8, i32, u32)) {
    let node = NodeId(node);
    let incarnation = Incarnation(incarnation);
    let controller = ControllerRecord { node, incarnation };
    let (node_key, live_key) = (RecordKey::Node(node).key(), RecordKey::Live(node).key());
    let transaction = Transaction::new();
    commit(
        table,
        match action {
            0 => transaction.put(&node_key, encode(&record(incarnation.0))),
            1 => transaction.put(&live_key, encode(&LiveRecord { incarnation })),
            2 => transaction.delete(&live_key).delete(&node_key),
            3 => transaction.put(&RecordKey::Controller.key(), encode(&controller)),
            4 => transaction.put(&node_key, vec![b'x'; node.0.unsigned_abs() as usize]),
            _ => transaction
                .put(
                    &RecordKey::Incarnations.key(),
                    encode(&IncarnationsRecord { last: incarnation }),
                )
                .delete(&live_key),
        },
    );
}

proptest! {
    /// A fold that follows changes, in batches of any size and with repetitions, has the view of one
    /// that lists.
    #[test]
    fn changes_and_listings_give_one_view(writes in writes(), cuts in proptest::collection::vec(0..5_usize, 30)) {
        let mut table = table();
        let mut followed = fold(&table);
        let mut listed = fold(&table);
        let mut after = table.revision();
        for (step, cut) in writes.into_iter().zip(cuts) {
            write(&mut table, step);
            listed.reset(&table.list("")).expect("it is the cluster's");
            if cut == 0 {
                let changes = table.changes("", after).expect("all are kept");
                followed.apply(&changes).expect("it is the cluster's");
                prop_assert_eq!(followed.apply(&changes), Ok(false), "changes are taken once");
                prop_assert!(followed.view().revision >= after);
                after = followed.view().revision;
            }
        }
        let changes = table.changes("", after).expect("all are kept");
        followed.apply(&changes).expect("it is the cluster's");
        prop_assert_eq!(followed.view(), listed.view());
    }

    #[test]
    fn any_bytes_are_a_record_or_a_refusal(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        key in "(nodes|live)/[0-9+a-z-]{0,4}|cluster|controller|incarnations|[a-z/]{1,9}",
    ) {
        let mut table = table();
        let key = Key::new(key).expect("a short name");
        commit(&mut table, Transaction::new().put(&key, bytes));
        let mut fold = ViewFold::new(cluster());
        let is_cluster = key.as_str() == "cluster";
        prop_assert_eq!(fold.reset(&table.list("")).is_err(), is_cluster);
    }
}
