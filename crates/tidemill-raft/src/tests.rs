//! Three voters keep the contract of a coordinator, and what they answered outlives them.

use crate::{
    RaftError, RaftVoter,
    founding::CoordinatorRole,
    mesh::{Nodes, address},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tidemill_coord::{
    CommitOutcome, Coordinator, CoordinatorError, Key, Transaction,
    contract::{Harness, contract},
};
use tidemill_env::World;
use tidemill_types::NodeId;

/// A harness keeps its voters running: the handles hold them.
fn harness(_name: &str) -> Harness {
    let nodes = Nodes::new(3);
    let voters = nodes.start(3);
    let (first, third) = (nodes.coordinator(&voters[&1]), nodes.coordinator(&voters[&3]));
    let world = World::real();
    Harness {
        coordinator: Box::new(first),
        other: Box::new(third),
        pass: Box::new(move |span| world.clock.sleep_micros(span.as_micros() as u64)),
        compact: Box::new(move |revision| {
            voters.values().for_each(|it| it.machine.compact(revision))
        }),
        prefix: String::new(),
    }
}

contract!(harness);

mod as_a_client {
    //! The same contract for a node that is no voter.

    use super::*;

    fn harness(_name: &str) -> Harness {
        let nodes = Nodes::new(3);
        let voters = nodes.start(3);
        let world = World::real();
        Harness {
            coordinator: Box::new(nodes.client("client-1:7088")),
            other: Box::new(nodes.client("client-2:7088")),
            pass: Box::new(move |span| world.clock.sleep_micros(span.as_micros() as u64)),
            compact: Box::new(move |revision| {
                voters.values().for_each(|it| it.machine.compact(revision));
            }),
            prefix: String::new(),
        }
    }

    contract!(harness:
        a_put_is_read_by_every_node, a_comparison_that_fails_changes_nothing,
        a_watch_sees_each_change_once_and_in_order, a_compacted_watch_is_told,
        a_revoked_lease_is_gone_at_once,
    );
}

fn key(name: &str) -> Key {
    Key::new(name).expect("a short name")
}

fn put(coordinator: &dyn Coordinator, name: &str) -> Result<CommitOutcome, CoordinatorError> {
    coordinator.commit(&Transaction::new().put(&key(name), name))
}

fn leader(voters: &BTreeMap<i32, Arc<RaftVoter>>) -> i32 {
    let world = World::real();
    loop {
        let leading = voters.iter().find(|(_, voter)| voter.leading_term().is_some());
        if let Some((node, _)) = leading {
            return *node;
        }
        world.clock.sleep_micros(20_000);
    }
}

#[test]
fn an_answered_commit_survives_a_power_cut_of_all() {
    let nodes = Nodes::new(3);
    for life in 0..3 {
        let voters = nodes.start(3);
        let client = nodes.client("client:7088");
        for earlier in 0..life {
            let found = client.get(&key(&format!("life-{earlier}"))).expect("a leader answers");
            assert!(found.is_some(), "life {earlier} was answered");
        }
        assert!(put(&client, &format!("life-{life}")).expect("a leader answers").is_applied());
        for (node, voter) in voters {
            nodes.stop(node, voter, false);
        }
    }
}

#[test]
fn a_leader_without_a_majority_answers_nothing_and_the_others_go_on() {
    let nodes = Nodes::new(3);
    let voters = nodes.start(3);
    let old = leader(&voters);
    let cut_off = nodes.coordinator(&voters[&old]);
    put(&cut_off, "before").expect("it leads");
    nodes.mesh.cut(&address(old));
    let told = put(&cut_off, "alone");
    assert!(matches!(told, Err(CoordinatorError::Unavailable(_))), "{told:?}");
    assert!(cut_off.list("").is_err(), "a reading could be old");
    let rest: BTreeMap<i32, Arc<RaftVoter>> =
        voters.iter().filter(|(node, _)| **node != old).map(|(n, v)| (*n, Arc::clone(v))).collect();
    let new = leader(&rest);
    let other = nodes.coordinator(&rest[&new]);
    assert!(other.get(&key("before")).expect("it leads").is_some());
    assert!(put(&other, "after").expect("it leads").is_applied());
    nodes.mesh.heal();
    assert!(cut_off.get(&key("after")).expect("the new leader answers").is_some());
    // The outcome was unknown; whichever it is, all see the same.
    assert_eq!(cut_off.get(&key("alone")), other.get(&key("alone")));
}

#[test]
fn a_commit_whose_answer_is_lost_is_not_made_twice() {
    let nodes = Nodes::new(3);
    let voters = nodes.start(3);
    let leader = leader(&voters);
    let client = nodes.client("client:7088");
    let start = client.list("").expect("a leader answers").revision;
    nodes.mesh.lose_answers(&address(leader));
    let told = client.commit(&Transaction::new().put(&key("once"), "1"));
    nodes.mesh.heal();
    let end = client.list("").expect("a leader answers").revision;
    assert!(end.0 - start.0 <= 1, "{told:?}: revisions {start} to {end}");
}

#[test]
fn a_voter_that_lost_its_disk_is_refused() {
    let mut nodes = Nodes::new(3);
    let mut voters = nodes.start(3);
    put(&nodes.client("client:7088"), "kept").expect("a leader answers");
    nodes.stop(2, voters.remove(&2).expect("it runs"), true);
    nodes.wipe(2);
    let wiped = nodes.open(2);
    let told = nodes.join(2, &wiped);
    assert!(matches!(told, Err(RaftError::DataLost { node: NodeId(2), .. })), "{told:?}");
}

#[test]
fn a_fourth_node_asks_the_voters() {
    let nodes = Nodes::new(3);
    let _voters = nodes.start(3);
    let line = nodes.mesh.line("node-4:7088");
    let world = World { disk: World::simulated(4).world.disk, ..World::real() };
    let fourth = RaftVoter::open(&world, Nodes::options(4), line.clone()).expect("a new folder");
    let addresses: Vec<String> = (1..=3).map(address).collect();
    let role =
        crate::founding::find_or_found(&world, &*line, &fourth, &addresses, |_| {}, || false);
    let Ok(CoordinatorRole::Client(known)) = role else { panic!("{role:?}") };
    assert_eq!(known.keys().copied().collect::<Vec<_>>(), [NodeId(1), NodeId(2), NodeId(3)]);
}

#[test]
fn a_voter_that_was_away_for_long_gets_a_snapshot() {
    let nodes = Nodes::new(3);
    let mut voters = nodes.start(3);
    nodes.stop(3, voters.remove(&3).expect("it runs"), true);
    let client = nodes.client("client:7088");
    for number in 0..200 {
        put(&client, &format!("key-{}", number % 10)).expect("two of three answer");
    }
    let runtime = voters[&1].runtime().expect("it runs");
    let leading = &voters[&leader(&voters)];
    let last = leading.status().last_index.expect("entries are there");
    runtime.block_on(leading.raft.trigger().snapshot()).expect("it runs");
    let wait = leading.raft.wait(Some(Duration::from_secs(30)));
    runtime
        .block_on(wait.metrics(|it| it.snapshot.is_some_and(|at| at.index >= last), "a snapshot"))
        .expect("a snapshot is made");
    runtime.block_on(leading.raft.trigger().purge_log(last)).expect("it runs");
    let returned = nodes.open(3);
    let expected = leading.machine.list("");
    let wait = returned.raft.wait(Some(Duration::from_secs(30)));
    runtime
        .block_on(wait.applied_index_at_least(Some(last), "the snapshot"))
        .expect("the leader sends it");
    assert_eq!(returned.machine.list("").entries, expected.entries);
}
