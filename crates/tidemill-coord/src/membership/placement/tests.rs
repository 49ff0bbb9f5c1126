//! Placement keeps copies apart, keeps them where they are, and evens them out.

use super::*;
use proptest::prelude::*;

fn node(rack: Option<&str>) -> PlacementNode {
    PlacementNode { rack: rack.map(str::to_owned), duty: PlacementDuty::Takes, size: 1 }
}

fn streamlets(sets: Vec<CopySet>) -> BTreeMap<StreamletName, CopySet> {
    let name =
        |ix: usize| StreamletName { stream: "orders".into(), streamlet: StreamletIx::at(ix) };
    sets.into_iter().enumerate().map(|(ix, set)| (name(ix), set)).collect()
}

fn counts(sets: &BTreeMap<StreamletName, CopySet>) -> BTreeMap<NodeId, usize> {
    let mut counts = BTreeMap::new();
    for node in sets.values().flatten() {
        *counts.entry(*node).or_default() += 1;
    }
    counts
}

#[test]
fn copies_go_to_different_racks_and_are_spread() {
    let racks = ["a", "a", "b", "b", "c", "c"];
    let nodes: BTreeMap<NodeId, PlacementNode> =
        (1..).map(NodeId).zip(racks.map(|rack| node(Some(rack)))).collect();
    let placed = place(&nodes, &streamlets(vec![Vec::new(); 12]), 3);
    for set in placed.values() {
        let racks: BTreeSet<_> = set.iter().map(|it| nodes[it].rack.clone()).collect();
        assert_eq!(racks.len(), 3, "{set:?}");
    }
    assert!(counts(&placed).values().all(|it| *it == 6), "{:?}", counts(&placed));
    let mut leaders = BTreeMap::<NodeId, usize>::new();
    placed.values().for_each(|set| *leaders.entry(set[0]).or_default() += 1);
    assert!(leaders.values().all(|it| *it == 2), "{leaders:?}");
}

#[test]
fn a_larger_node_gets_more() {
    let mut nodes: BTreeMap<NodeId, PlacementNode> =
        (1..=2).map(|id| (NodeId(id), node(None))).collect();
    nodes.get_mut(&NodeId(2)).expect("is there").size = 3;
    let placed = place(&nodes, &streamlets(vec![Vec::new(); 40]), 1);
    assert_eq!(counts(&placed)[&NodeId(2)], 30);
}

fn clusters() -> impl Strategy<Value = (BTreeMap<NodeId, PlacementNode>, Vec<CopySet>, usize)> {
    let duty = prop_oneof![
        Just(PlacementDuty::Takes),
        Just(PlacementDuty::Keeps),
        Just(PlacementDuty::Leaves)
    ];
    let node = (proptest::option::of(0..3_u8), duty, 1..4_u32).prop_map(|(rack, duty, size)| {
        PlacementNode { rack: rack.map(|it| it.to_string()), duty, size }
    });
    let nodes = proptest::collection::btree_map((0..8).prop_map(NodeId), node, 0..8);
    let set = proptest::collection::vec((0..10).prop_map(NodeId), 0..5);
    (nodes, proptest::collection::vec(set, 0..20), 1..4_usize)
}

proptest! {
    #[test]
    fn placed_copies_are_apart_sticky_and_as_many_as_can_be((nodes, sets, copies) in clusters()) {
        let present = streamlets(sets);
        let placed = place(&nodes, &present, copies);
        prop_assert_eq!(placed.len(), present.len());
        for (name, set) in &placed {
            let distinct: BTreeSet<&NodeId> = set.iter().collect();
            prop_assert_eq!(distinct.len(), set.len(), "two copies on one node");
            prop_assert!(set.len() <= copies);
            let before = &present[name];
            for id in set.iter().filter(|id| !before.contains(id)) {
                prop_assert!(nodes[id].takes_copies(), "a new copy on a node that takes none");
            }
            let may_stay = |id: &&NodeId| nodes.get(id).is_some_and(|it| it.duty != PlacementDuty::Leaves);
            let stay: BTreeSet<&NodeId> = before.iter().filter(may_stay).collect();
            let stayed = set.iter().filter(|id| stay.contains(id)).count();
            prop_assert_eq!(stayed, stay.len().min(copies), "a copy moved without need");
            if set.len() < copies {
                let more = nodes.iter().any(|(id, it)| it.takes_copies() && !set.contains(id));
                prop_assert!(!more, "a copy was left out");
            }
        }
        prop_assert_eq!(place(&nodes, &placed, copies), placed, "placing again moves nothing");
    }

    #[test]
    fn rebalancing_ends_and_keeps_copies_apart((nodes, sets, copies) in clusters()) {
        let mut present = place(&nodes, &streamlets(sets), copies);
        let moves = rebalance(&nodes, &present, 1_000);
        prop_assert!(moves.len() < 1_000, "moves go on and on");
        for CopyMove { streamlet, from, to } in &moves {
            let set = present.get_mut(streamlet).expect("a streamlet that is there");
            prop_assert!(set.contains(from) && !set.contains(to));
            prop_assert!(nodes[to].takes_copies());
            set.iter_mut().filter(|it| *it == from).for_each(|it| *it = *to);
        }
        prop_assert_eq!(rebalance(&nodes, &present, 1_000), Vec::new());
        prop_assert!(rebalance(&nodes, &present, 0).is_empty());
    }
}

#[test]
fn a_new_node_gets_its_share_a_few_copies_at_a_time() {
    let mut nodes: BTreeMap<NodeId, PlacementNode> =
        (1..=3).map(|id| (NodeId(id), node(None))).collect();
    let placed = place(&nodes, &streamlets(vec![Vec::new(); 20]), 2);
    nodes.insert(NodeId(4), node(None));
    assert_eq!(rebalance(&nodes, &placed, 2).len(), 2);
    let moves = rebalance(&nodes, &placed, 1_000);
    assert!(
        (9..=10).contains(&moves.len()) && moves.iter().all(|it| it.to == NodeId(4)),
        "{moves:?}"
    );
}
