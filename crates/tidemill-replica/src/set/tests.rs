//! The watermark and the change of set beside a reference that knows what may be recorded.

use super::{ProposalError, SetAction, SetEvent, SetLeadership};
use crate::copy_set::{CopyId, CopySet, RecordPut, RecordRevision, SetSegment, VirtualLogRecord};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_types::{Incarnation, LogPosition, NodeId, VirtualLogEpoch};

fn copy(node: i32) -> CopyId {
    CopyId { node: NodeId(node), generation: Incarnation(1) }
}

fn set(nodes: &[i32]) -> CopySet {
    CopySet::new(nodes.iter().map(|node| copy(*node)))
}

fn record(from: u64, nodes: &[i32]) -> VirtualLogRecord {
    VirtualLogRecord {
        epoch: VirtualLogEpoch(4),
        leader: NodeId(0),
        is_serving: true,
        closed: Vec::new(),
        open: SetSegment { from: LogPosition(from), set: set(nodes) },
    }
}

fn leadership(nodes: &[i32]) -> SetLeadership {
    SetLeadership::new(copy(0), RecordRevision(9), record(0, nodes), LogPosition(0))
}

fn puts(actions: &[SetAction]) -> Vec<RecordPut> {
    let put = |action: &SetAction| match action {
        SetAction::Put(put) => Some(put.clone()),
        _ => None,
    };
    actions.iter().filter_map(put).collect()
}

fn matched(node: i32, end: u64) -> SetEvent {
    SetEvent::Matched { copy: copy(node), end: LogPosition(end) }
}

#[test]
fn both_sets_count_until_the_outcome_is_known() {
    let mut lead = leadership(&[0, 1, 2]);
    lead.on(SetEvent::Local(LogPosition(10)));
    lead.on(matched(1, 4));
    assert_eq!(lead.on(matched(2, 4)), [SetAction::Watermark(LogPosition(4))]);
    let proposed = lead.on(SetEvent::Propose { set: set(&[0, 2, 3]), min_insync: 2 });
    assert!(proposed.contains(&SetAction::Ship { copy: copy(3), from: LogPosition(4) }));
    let put = puts(&proposed).remove(0);
    assert_eq!(put.record.open.from, LogPosition(4));
    assert_eq!(put.record.closed, [SetSegment { from: LogPosition(0), set: set(&[0, 1, 2]) }]);
    // Neither the old set nor the new one alone is enough.
    assert_eq!(lead.on(matched(2, 9)), []);
    assert_eq!(lead.on(matched(3, 8)), []);
    assert_eq!(lead.on(matched(1, 6)), [SetAction::Watermark(LogPosition(6))]);
    // No answer: the same write again.
    assert_eq!(puts(&lead.on(SetEvent::Unavailable)), std::slice::from_ref(&put));
    let unchanged = record(0, &[0, 1, 2]);
    let revision = RecordRevision(9);
    let read = lead.on(SetEvent::Read { revision, record: unchanged });
    assert_eq!(puts(&read), std::slice::from_ref(&put));
    let read = SetEvent::Read { revision: RecordRevision(10), record: put.record };
    assert_eq!(lead.on(read), [SetAction::Stop(copy(1)), SetAction::Watermark(LogPosition(8))]);
    assert!(!lead.is_changing());
}

#[test]
fn refuses_sets_that_may_not_acknowledge() {
    let mut lead = leadership(&[0, 1, 2]);
    let mut refusal =
        |nodes: &[i32]| lead.on(SetEvent::Propose { set: set(nodes), min_insync: 2 }).remove(0);
    assert_eq!(refusal(&[0]), SetAction::Rejected(ProposalError::TooSmall));
    assert_eq!(refusal(&[1, 2]), SetAction::Rejected(ProposalError::WithoutLeader));
    assert_eq!(refusal(&[0, 1, 2]), SetAction::Rejected(ProposalError::Unchanged));
    refusal(&[0, 1]);
    assert_eq!(refusal(&[0, 2]), SetAction::Rejected(ProposalError::Pending));
}

#[test]
fn a_copy_of_another_generation_does_not_count() {
    let mut lead = leadership(&[0, 1]);
    lead.on(SetEvent::Local(LogPosition(3)));
    let other = CopyId { generation: Incarnation(2), ..copy(1) };
    assert_eq!(lead.on(SetEvent::Matched { copy: other, end: LogPosition(3) }), []);
    let set = CopySet::new([copy(0), other]);
    lead.on(SetEvent::Propose { set, min_insync: 2 });
    // The old generation still counts as long as the change is open.
    assert_eq!(lead.on(SetEvent::Matched { copy: other, end: LogPosition(3) }), []);
    assert_eq!(lead.on(matched(1, 2)), [SetAction::Watermark(LogPosition(2))]);
}

#[test]
fn a_higher_epoch_ends_the_leadership() {
    let mut lead = leadership(&[0]);
    let record = VirtualLogRecord { epoch: VirtualLogEpoch(5), ..record(0, &[1]) };
    let revision = RecordRevision(10);
    let read = lead.on(SetEvent::Read { revision, record });
    assert_eq!(read, [SetAction::Deposed(VirtualLogEpoch(5))]);
    assert_eq!(lead.on(SetEvent::Local(LogPosition(3))), []);
}

#[test]
fn segments_below_the_log_start_go_with_the_next_change() {
    let mut lead = leadership(&[0, 1]);
    let mut revision = 9;
    for end in 1..=4 {
        let partner = 1 + (end as i32 + 1) % 2;
        let wanted = set(&[0, if partner == 1 { 2 } else { 1 }]);
        lead.on(SetEvent::Local(LogPosition(end)));
        for node in [1, 2] {
            lead.on(matched(node, end));
        }
        let put = puts(&lead.on(SetEvent::Propose { set: wanted, min_insync: 2 })).remove(0);
        revision += 1;
        lead.on(SetEvent::Read { revision: RecordRevision(revision), record: put.record });
        lead.on(matched(1, end));
        lead.on(matched(2, end));
    }
    assert_eq!(lead.record().closed.len(), 4);
    lead.on(SetEvent::LogStart(LogPosition(2)));
    let other = if lead.record().open.set.contains(copy(1)) { 2 } else { 1 };
    let proposed = lead.on(SetEvent::Propose { set: set(&[0, other]), min_insync: 2 });
    let closed: Vec<u64> =
        puts(&proposed)[0].record.closed.iter().map(|segment| segment.from.0).collect();
    assert_eq!(closed, [2, 3]);
}

#[derive(Clone, Debug)]
enum Turn {
    Local(u64),
    Matched(i32, u64),
    Propose(u8),
    Apply,
    Read,
    Unavailable,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        3 => (0u64..50).prop_map(Turn::Local),
        6 => (1i32..4, 0u64..50).prop_map(|(node, end)| Turn::Matched(node, end)),
        2 => (0u8..8).prop_map(Turn::Propose),
        2 => Just(Turn::Apply),
        2 => Just(Turn::Read),
        1 => Just(Turn::Unavailable),
    ]
}

proptest! {
    /// Whichever record the coordinator has, its open set holds what is acknowledged above its first
    /// position.
    #[test]
    fn whatever_is_recorded_has_what_is_acknowledged(turns in prop::collection::vec(turn(), 1..200)) {
        let mut lead = leadership(&[0, 1, 2]);
        let (mut revision, mut recorded) = (9u64, record(0, &[0, 1, 2]));
        let mut in_flight: Vec<RecordPut> = Vec::new();
        let mut ends: BTreeMap<i32, u64> = BTreeMap::new();
        let mut watermark = 0;
        for turn in turns {
            let event = match turn {
                Turn::Local(end) => {
                    let known = ends.entry(0).or_insert(0);
                    *known = end.max(*known);
                    SetEvent::Local(LogPosition(end))
                }
                Turn::Matched(node, end) => {
                    // A copy of no set is shipped nothing; one that is has a prefix of the log.
                    let end = end.min(ends.get(&0).copied().unwrap_or(0));
                    let known = ends.entry(node).or_insert(0);
                    *known = end.max(*known);
                    matched(node, end)
                }
                Turn::Propose(bits) => {
                    let nodes = (0..4).filter(|n| *n == 0 || bits & 1 << (n - 1) != 0);
                    SetEvent::Propose { set: CopySet::new(nodes.map(copy)), min_insync: 2 }
                }
                Turn::Apply => {
                    if let Some(put) = in_flight.pop()
                        && put.expected == RecordRevision(revision) {
                            (revision, recorded) = (revision + 1, put.record);
                        }
                    continue;
                }
                Turn::Read => SetEvent::Read {
                    revision: RecordRevision(revision),
                    record: recorded.clone(),
                },
                Turn::Unavailable => SetEvent::Unavailable,
            };
            for action in lead.on(event) {
                match action {
                    SetAction::Put(put) => in_flight.push(put),
                    SetAction::Watermark(position) => {
                        prop_assert!(position.0 > watermark);
                        watermark = position.0;
                    }
                    _ => {}
                }
            }
            if watermark > recorded.open.from.0 {
                for copy in recorded.open.set.iter() {
                    let end = ends.get(&copy.node.0).copied().unwrap_or(0);
                    prop_assert!(end >= watermark, "{} has {end} of {watermark}", copy.node);
                }
            }
        }
    }
}
