//! Differences of views, also over changes that were missed, and the bound of the log.

use super::*;
use crate::membership::{
    record::{NodeAddresses, NodeRecord},
    view::{ControllerView, LiveNode, NodeView},
};

fn view(nodes: &[(i32, u32, bool)]) -> ClusterView {
    let mut view = ClusterView::empty("orders".parse().expect("an id"));
    for (node, incarnation, is_live) in nodes {
        let incarnation = Incarnation(*incarnation);
        let record = NodeRecord {
            incarnation,
            addresses: NodeAddresses::default(),
            roles: [].into(),
            rack: None,
            build: "test".into(),
            desired: DesiredState::Active,
            is_stopped: false,
        };
        let live = is_live.then_some(LiveNode { incarnation, since: Revision(1) });
        view.nodes.insert(NodeId(*node), NodeView { record, modified: Revision(1), live });
    }
    view
}

fn texts(before: &ClusterView, after: &ClusterView) -> Vec<String> {
    changes_between(before, after).iter().map(ToString::to_string).collect()
}

#[test]
fn a_life_that_came_and_another_that_went_meanwhile_are_told() {
    let (before, after) =
        (view(&[(1, 1, true), (2, 2, true)]), view(&[(1, 3, true), (2, 2, false)]));
    let expected = [
        "the lease of node 1 ended, incarnation 1",
        "node 1 joined as incarnation 3",
        "the lease of node 2 ended, incarnation 2",
    ];
    assert_eq!(texts(&before, &after), expected);
    assert_eq!(texts(&after, &after), Vec::<String>::new());
}

#[test]
fn stops_drains_removals_and_elections_are_told() {
    let before = view(&[(1, 1, true), (2, 2, true), (3, 3, false)]);
    let mut after = view(&[(1, 1, false), (2, 2, true)]);
    after.nodes.get_mut(&NodeId(1)).expect("is there").record.is_stopped = true;
    after.nodes.get_mut(&NodeId(2)).expect("is there").record.desired = DesiredState::Draining;
    let (node, incarnation) = (NodeId(2), Incarnation(2));
    after.controller = Some(ControllerView { node, incarnation, elected: Revision(9) });
    let expected = [
        "node 1 left, incarnation 1",
        "node 2 is to be draining",
        "node 3 was removed",
        "node 2 is the controller, incarnation 2, election 9",
    ];
    assert_eq!(texts(&before, &after), expected);
    let mut gone = after.clone();
    gone.controller = None;
    assert_eq!(texts(&after, &gone), ["node 2 is no longer the controller"]);
}

#[test]
fn the_log_keeps_the_newest_events() {
    let mut log = EventLog::default();
    for _ in 0..EVENTS_MAX + 5 {
        log.add(ClusterEventKind::Resynced, Revision(1), 0);
    }
    let kept = log.after(0);
    assert_eq!((kept.len(), kept[0].number), (EVENTS_MAX, 6));
    assert_eq!(log.after(EVENTS_MAX as u64 + 4).len(), 1);
}
