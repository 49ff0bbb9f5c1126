//! The decision of a round, from answers alone.

use super::*;
use crate::voter::Directory;

fn fresh(node: i32) -> HelloAnswer {
    HelloAnswer {
        node: NodeId(node),
        directory: Directory(node.unsigned_abs().into()),
        voters: None,
    }
}

fn address(node: i32) -> String {
    format!("node-{node}:7088")
}

fn answers(nodes: impl IntoIterator<Item = HelloAnswer>) -> Answers {
    nodes.into_iter().map(|it| (address(it.node.0), Ok(it))).collect()
}

fn voters(nodes: impl IntoIterator<Item = i32>) -> BTreeMap<NodeId, Voter> {
    let voter = |node: i32| Voter {
        address: address(node),
        directory: Directory(node.unsigned_abs().into()),
    };
    nodes.into_iter().map(|node| (NodeId(node), voter(node))).collect()
}

#[test]
fn the_smallest_id_founds_and_the_others_wait() {
    let all = answers([1, 2, 3].map(fresh));
    assert_eq!(decide(&fresh(1), &all), Ok(RoundOutcome::Found(voters([1, 2, 3]))));
    for other in [2, 3] {
        let decision = decide(&fresh(other), &all).expect("no problem");
        assert!(
            matches!(&decision, RoundOutcome::Wait(why) if why.contains("node 1")),
            "{decision:?}"
        );
    }
}

#[test]
fn nobody_founds_before_all_answer() {
    let mut some = answers([1, 2].map(fresh));
    some.insert(address(3), Err("connection refused".to_owned()));
    let decision = decide(&fresh(1), &some).expect("no problem");
    let RoundOutcome::Wait(why) = decision else { panic!("{decision:?}") };
    assert!(why.contains("node-3:7088 (connection refused)"), "{why}");
}

#[test]
fn a_cluster_that_is_there_is_joined_and_never_founded_anew() {
    let mut member = fresh(2);
    member.voters = Some(voters([1, 2, 3]));
    let mut all = answers([fresh(1), member]);
    all.insert(address(3), Err("connection refused".to_owned()));
    assert_eq!(decide(&fresh(1), &all), Ok(RoundOutcome::Take(CoordinatorRole::Voter)));
    let client = RoundOutcome::Take(CoordinatorRole::Client(voters([1, 2, 3])));
    assert_eq!(decide(&fresh(4), &all), Ok(client));
    let mut wiped = fresh(1);
    wiped.directory = Directory(99);
    let told = decide(&wiped, &all);
    assert!(matches!(told, Err(RaftError::DataLost { node: NodeId(1), .. })), "{told:?}");
}

#[test]
fn two_nodes_with_one_id_are_named() {
    let mut all = answers([1, 2].map(fresh));
    all.insert(address(3), Ok(fresh(2)));
    let told = decide(&fresh(1), &all).expect_err("node 2 stands twice").to_string();
    assert!(told.contains("node-2:7088 and node-3:7088 are both node 2"), "{told}");
}
