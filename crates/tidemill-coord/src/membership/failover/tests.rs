//! Leaders over random losses and returns of nodes.

use super::*;
use proptest::prelude::*;
use tidemill_types::StreamletIx;

fn name(ix: usize) -> StreamletName {
    StreamletName { stream: "orders".into(), streamlet: StreamletIx::at(ix) }
}

fn assignment(leader: (i32, u32), copies: &[i32]) -> StreamletAssignment {
    let leader = StreamletLeader { node: NodeId(leader.0), incarnation: Incarnation(leader.1) };
    let copies: Vec<NodeId> = copies.iter().copied().map(NodeId).collect();
    let in_sync = copies.iter().copied().collect();
    StreamletAssignment { leader: Some(leader), epoch: LeaderEpoch(4), copies, in_sync }
}

fn nodes(there: &[(i32, u32, bool)]) -> BTreeMap<NodeId, NodeAvailability> {
    there
        .iter()
        .map(|(node, incarnation, is_active)| {
            let incarnation = Incarnation(*incarnation);
            (NodeId(*node), NodeAvailability { incarnation, is_active: *is_active })
        })
        .collect()
}

#[test]
fn the_streamlets_of_a_lost_node_are_spread_over_the_copies_in_sync() {
    let assignments: BTreeMap<_, _> =
        (0..4).map(|ix| (name(ix), assignment((1, 1), &[1, 2, 3]))).collect();
    let there = nodes(&[(2, 2, true), (3, 3, true)]);
    let changes = change_leaders(&assignments, &there);
    let leaders: Vec<i32> =
        changes.iter().map(|it| it.leader.expect("a copy is in sync").node.0).collect();
    assert_eq!(leaders, [2, 3, 2, 3]);
    assert!(changes.iter().all(|it| it.epoch == LeaderEpoch(5)));
    assert!(changes.iter().all(|it| !it.in_sync.contains(&NodeId(1))));
}

#[test]
fn a_node_that_came_back_at_once_is_another_leader() {
    let assignments = [(name(0), assignment((1, 1), &[1]))].into();
    let changes = change_leaders(&assignments, &nodes(&[(1, 9, true)]));
    let leader = StreamletLeader { node: NodeId(1), incarnation: Incarnation(9) };
    assert_eq!(changes[0].leader, Some(leader));
    assert_eq!(changes[0].epoch, LeaderEpoch(5));
}

#[test]
fn the_last_copy_in_sync_is_waited_for() {
    let mut last = assignment((1, 1), &[1, 2]);
    last.in_sync.remove(&NodeId(2));
    let assignments: BTreeMap<_, _> = [(name(0), last.clone())].into();
    let changes = change_leaders(&assignments, &nodes(&[(2, 2, true)]));
    assert_eq!((changes[0].leader, changes[0].epoch), (None, LeaderEpoch(5)));
    assert_eq!(changes[0].in_sync, [NodeId(1)].into());
    let waits: BTreeMap<_, _> = [(name(0), changes[0].apply(&last))].into();
    assert_eq!(change_leaders(&waits, &nodes(&[(2, 2, true)])), Vec::new());
    let back = change_leaders(&waits, &nodes(&[(1, 7, true), (2, 2, true)]));
    assert_eq!(back[0].leader.map(|it| it.node), Some(NodeId(1)));
}

#[test]
fn a_node_that_drains_gives_up_if_another_can_lead() {
    let assignments: BTreeMap<_, _> =
        [(name(0), assignment((1, 1), &[1, 2])), (name(1), assignment((1, 1), &[1]))].into();
    let changes = change_leaders(&assignments, &nodes(&[(1, 1, false), (2, 2, true)]));
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].streamlet, name(0));
    assert!(changes[0].in_sync.contains(&NodeId(1)), "it is there, and goes on as a backup");
}

proptest! {
    /// Nodes die, come back as other incarnations and drain, in any order.
    #[test]
    fn epochs_grow_and_only_copies_in_sync_lead(
        steps in proptest::collection::vec((1..6_i32, 0..3_u8), 1..40),
    ) {
        let copies = [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 1], [5, 1, 2]];
        let mut assignments: BTreeMap<StreamletName, StreamletAssignment> = copies
            .iter()
            .enumerate()
            .map(|(ix, set)| (name(ix), assignment((set[0], set[0] as u32), set)))
            .collect();
        let mut there: BTreeMap<NodeId, NodeAvailability> =
            nodes(&[(1, 1, true), (2, 2, true), (3, 3, true), (4, 4, true), (5, 5, true)]);
        let mut incarnation = 5;
        for (node, action) in steps {
            incarnation += 1;
            let found = NodeAvailability {
                incarnation: Incarnation(incarnation),
                is_active: action == 1,
            };
            match action {
                0 => drop(there.remove(&NodeId(node))),
                _ => drop(there.insert(NodeId(node), found)),
            }
            for change in change_leaders(&assignments, &there) {
                let before = &assignments[&change.streamlet];
                prop_assert_eq!(change.epoch.0, before.epoch.0 + 1);
                prop_assert!(!change.in_sync.is_empty() && change.in_sync.is_subset(&before.in_sync));
                if let Some(leader) = change.leader {
                    prop_assert!(before.in_sync.contains(&leader.node));
                    prop_assert_eq!(there[&leader.node].incarnation, leader.incarnation);
                }
                let after = change.apply(before);
                assignments.insert(change.streamlet.clone(), after);
            }
            prop_assert_eq!(change_leaders(&assignments, &there), Vec::new(), "it is done at once");
            for assignment in assignments.values() {
                match assignment.leader {
                    Some(leader) => prop_assert_eq!(there[&leader.node].incarnation, leader.incarnation),
                    None => prop_assert!(assignment.in_sync.iter().all(|it| !there.contains_key(it))),
                }
            }
        }
    }
}
