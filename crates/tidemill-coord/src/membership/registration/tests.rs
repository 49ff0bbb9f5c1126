//! Registrations on a table of their own: answers that are lost, other holders, restored tables.

use super::*;
use crate::{
    membership::desire::set_desired,
    membership::view::ViewFold,
    table::{Command, Reply, Table},
    transaction::CommitOutcome,
};

fn profile(node: i32) -> NodeProfile {
    NodeProfile {
        node: NodeId(node),
        addresses: NodeAddresses { cluster: Some(format!("n{node}:7088")), ..Default::default() },
        roles: [NodeRole::Broker].into(),
        rack: None,
        build: "test".into(),
        cluster: None,
        last_incarnation: Incarnation(0),
        can_create: true,
    }
}

fn grant(table: &mut Table) -> RegistrationLease {
    match table.apply(&Command::Grant { ttl_ms: 6_000 }).expect("there is room") {
        Reply::Lease(lease) => RegistrationLease::Granted(lease),
        other => panic!("{other:?}"),
    }
}

fn step(
    table: &Table,
    profile: &NodeProfile,
    lease: RegistrationLease,
) -> Result<RegistrationStep, JoinError> {
    let new_cluster: ClusterId = "orders".parse().expect("an id");
    let known = Revision::NONE;
    let terms = RegistrationTerms { profile, lease, known, new_cluster: &new_cluster };
    next_step(&table.list(""), &terms)
}

/// The transaction of a step, and the incarnation that it draws.
fn transaction(step: Result<RegistrationStep, JoinError>) -> (Transaction, Incarnation) {
    match step {
        Ok(RegistrationStep::Commit { transaction, incarnation, .. }) => (transaction, incarnation),
        other => panic!("{other:?}"),
    }
}

fn is_applied(table: &mut Table, transaction: Transaction) -> bool {
    let reply = table.apply(&Command::Commit(transaction)).expect("it is within limits");
    matches!(reply, Reply::Commit(CommitOutcome::Applied(_)))
}

/// Registers a node; gives its incarnation.
fn register(table: &mut Table, profile: &NodeProfile) -> Incarnation {
    let lease = grant(table);
    let (transaction, incarnation) = transaction(step(table, profile, lease));
    assert!(is_applied(table, transaction));
    incarnation
}

#[test]
fn nothing_is_granted_before_the_table_was_looked_at() {
    let table = Table::default();
    assert_eq!(
        step(&table, &profile(1), RegistrationLease::Wanted),
        Ok(RegistrationStep::GrantLease)
    );
    let known = NodeProfile { cluster: Some("orders".parse().expect("an id")), ..profile(1) };
    let wiped = step(&table, &known, RegistrationLease::Wanted);
    assert!(matches!(wiped, Err(JoinError::Replaced(_))), "{wiped:?}");
    let waits = NodeProfile { can_create: false, ..profile(1) };
    let waits = step(&table, &waits, RegistrationLease::Wanted);
    assert_eq!(waits, Ok(RegistrationStep::Wait(WaitReason::NoCluster)));
}

#[test]
fn nodes_that_register_at_once_draw_different_incarnations() {
    let mut table = Table::default();
    // The cluster is there already, so nothing but the counter is in the way of two nodes.
    register(&mut table, &profile(9));
    let mut leases = Vec::new();
    for _ in 0..3 {
        leases.push(grant(&mut table));
    }
    let first: Vec<_> =
        (1..=3).zip(&leases).map(|(id, it)| transaction(step(&table, &profile(id), *it))).collect();
    assert!(first.iter().all(|(_, it)| *it == Incarnation(2)), "all want the same");
    let applied: Vec<bool> = first.into_iter().map(|(it, _)| is_applied(&mut table, it)).collect();
    assert_eq!(applied, [true, false, false]);
    assert_eq!(register(&mut table, &profile(2)), Incarnation(3));
}

#[test]
fn an_answer_that_was_lost_is_found_in_the_table() {
    let mut table = Table::default();
    let lease = grant(&mut table);
    let (first, incarnation) = transaction(step(&table, &profile(1), lease));
    // The answer is lost, the commit is not.
    assert!(is_applied(&mut table, first.clone()));
    let found = step(&table, &profile(1), lease);
    assert!(
        matches!(&found, Ok(RegistrationStep::Registered(it)) if it.incarnation == incarnation),
        "{found:?}"
    );
    assert!(!is_applied(&mut table, first), "a commit that comes late again changes nothing");
    // Another process with a lease of its own is not the one that registered.
    let mut double = profile(1);
    double.addresses.cluster = Some("elsewhere:7088".into());
    let other = grant(&mut table);
    assert!(matches!(step(&table, &double, other), Err(JoinError::IdInUse { .. })));
}

#[test]
fn a_request_that_arrives_late_is_refused_or_found() {
    let mut table = Table::default();
    let lease = grant(&mut table);
    let (late, _) = transaction(step(&table, &profile(1), lease));
    let other = register(&mut table, &profile(2));
    assert!(!is_applied(&mut table, late), "the counter went on");
    assert!(register(&mut table, &profile(1)) > other);
}

#[test]
fn an_incarnation_is_above_all_that_the_folder_has_seen() {
    let mut table = Table::default();
    let known = NodeProfile { last_incarnation: Incarnation(57), ..profile(1) };
    assert_eq!(register(&mut table, &known), Incarnation(58));
    assert_eq!(register(&mut table, &profile(2)), Incarnation(59));
    let last = NodeProfile { last_incarnation: Incarnation(u32::MAX), ..profile(3) };
    let full = step(&Table::default(), &last, RegistrationLease::Wanted);
    assert!(matches!(full, Err(JoinError::Full(_))), "{full:?}");
}

#[test]
fn a_table_that_was_restored_from_a_backup_is_refused() {
    let mut table = Table::default();
    register(&mut table, &profile(2));
    let ahead = NodeProfile {
        cluster: Some("orders".parse().expect("an id")),
        last_incarnation: Incarnation(9),
        ..profile(1)
    };
    let restored = step(&table, &ahead, RegistrationLease::Wanted);
    assert!(matches!(restored, Err(JoinError::Replaced(_))), "{restored:?}");
    let other = NodeProfile { cluster: Some("other".parse().expect("an id")), ..profile(1) };
    let other = step(&table, &other, RegistrationLease::Wanted);
    assert!(matches!(other, Err(JoinError::OtherCluster { .. })), "{other:?}");
}

#[test]
fn a_former_life_is_taken_over_and_a_doubtful_one_waited_for() {
    let mut table = Table::default();
    let incarnation = register(&mut table, &profile(1));
    let own = NodeProfile { last_incarnation: incarnation, ..profile(1) };
    assert_eq!(step(&table, &own, RegistrationLease::Wanted), Ok(RegistrationStep::GrantLease));
    let moved = NodeProfile { addresses: profile(9).addresses, ..own.clone() };
    let forgetful = profile(1);
    for doubtful in [moved, forgetful] {
        let waits = step(&table, &doubtful, RegistrationLease::Wanted);
        assert!(matches!(waits, Ok(RegistrationStep::Wait(WaitReason::IdHeld(_)))), "{waits:?}");
    }
    assert!(register(&mut table, &own) > incarnation);
}

#[test]
fn a_desired_state_outlives_a_restart_and_a_decommissioned_node_stays_out() {
    let mut table = Table::default();
    let first = register(&mut table, &profile(1));
    register(&mut table, &profile(2));
    let set = |table: &mut Table, desired| {
        let mut fold = ViewFold::new("orders".parse().expect("an id"));
        fold.reset(&table.list("")).expect("it is the cluster's");
        let change = set_desired(fold.view(), NodeId(1), desired).expect("node 2 is active");
        assert!(is_applied(table, change));
        fold.view().clone()
    };
    set(&mut table, DesiredState::Draining);
    let own = NodeProfile { last_incarnation: first, ..profile(1) };
    let second = register(&mut table, &own);
    let view = set(&mut table, DesiredState::Decommissioned);
    assert_eq!(view.nodes[&NodeId(1)].record.desired, DesiredState::Draining);
    let own = NodeProfile { last_incarnation: second, ..profile(1) };
    let refused = step(&table, &own, RegistrationLease::Wanted);
    assert_eq!(refused, Err(JoinError::Decommissioned(NodeId(1))));
    set(&mut table, DesiredState::Active);
    register(&mut table, &own);
}

#[test]
fn a_clean_stop_is_told_and_only_of_its_own_life() {
    let mut table = Table::default();
    let incarnation = register(&mut table, &profile(1));
    assert_eq!(leave(&table.list(""), NodeId(1), Incarnation(0)), Ok(None));
    let stop = leave(&table.list(""), NodeId(1), incarnation).expect("it reads").expect("it holds");
    assert!(is_applied(&mut table, stop));
    assert_eq!(leave(&table.list(""), NodeId(1), incarnation), Ok(None));
    let listing = table.list("");
    let node = read::<NodeRecord>(&listing, RecordKey::Node(NodeId(1)));
    assert!(node.expect("it reads").expect("it stays").0.is_stopped);
}
