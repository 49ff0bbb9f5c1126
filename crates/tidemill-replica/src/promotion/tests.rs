//! The choice of the source, and the order of a promotion.

use super::{Promotion, PromotionAction, PromotionEvent};
use crate::backup::{BackupAnswer, HeldRange};
use crate::copy_set::{CopyId, CopySet, RecordRevision, SetSegment, VirtualLogRecord};
use crate::history::EpochHistory;
use crate::set::ProposalError;
use proptest::prelude::*;
use tidemill_types::{Incarnation, LogPosition, NodeId, VirtualLogEpoch};

const EPOCH: VirtualLogEpoch = VirtualLogEpoch(6);

fn copy(node: i32) -> CopyId {
    CopyId { node: NodeId(node), generation: Incarnation(1) }
}

fn record() -> VirtualLogRecord {
    let set = CopySet::new([copy(0), copy(1), copy(2)]);
    VirtualLogRecord {
        epoch: EPOCH,
        leader: NodeId(1),
        is_serving: false,
        closed: Vec::new(),
        open: SetSegment { from: LogPosition(0), set },
    }
}

fn sealed(node: i32, generation: u32, end: u64) -> PromotionEvent {
    let mut history = EpochHistory::default();
    history.begin(VirtualLogEpoch(5), LogPosition(0));
    let held = HeldRange { from: LogPosition(0), end: LogPosition(end) };
    let generation = Incarnation(generation);
    let answer = BackupAnswer::Sealed { epoch: EPOCH, generation, held, history };
    PromotionEvent::Answer { node: NodeId(node), answer }
}

fn adopted(actions: &[PromotionAction]) -> Option<(i32, u64)> {
    actions.iter().find_map(|action| match action {
        PromotionAction::Adopt { source, prefix, .. } => Some((source.node.0, prefix.end.0)),
        _ => None,
    })
}

fn sealed_nodes(actions: &[PromotionAction]) -> Vec<i32> {
    let node = |action: &PromotionAction| match action {
        PromotionAction::Seal { node, .. } => Some(node.0),
        _ => None,
    };
    actions.iter().filter_map(node).collect()
}

#[test]
fn seals_its_own_copy_first() {
    let (mut promotion, actions) = Promotion::new(NodeId(1), RecordRevision(3), record());
    assert_eq!(sealed_nodes(&actions), [1]);
    assert_eq!(sealed_nodes(&promotion.on(sealed(1, 1, 4))), [0, 2]);
}

#[test]
fn serves_only_when_the_record_names_a_set_that_has_the_prefix() {
    let (mut promotion, _) = Promotion::new(NodeId(1), RecordRevision(3), record());
    promotion.on(sealed(1, 1, 4));
    let small = PromotionEvent::Place { set: CopySet::new([copy(1)]), min_insync: 2 };
    let rejected = promotion.on(small);
    assert!(matches!(rejected[..], [PromotionAction::Rejected(ProposalError::TooSmall)]));
    let set = CopySet::new([copy(1), copy(3)]);
    promotion.on(PromotionEvent::Place { set, min_insync: 2 });
    assert_eq!(adopted(&promotion.on(PromotionEvent::Hurry)), Some((1, 4)));
    let shipped = promotion.on(PromotionEvent::Adopted);
    assert!(matches!(shipped[..], [PromotionAction::Ship { .. }]));
    let (copy, end) = (copy(3), LogPosition(3));
    assert!(promotion.on(PromotionEvent::Matched { copy, end }).is_empty());
    let end = LogPosition(4);
    let asked = promotion.on(PromotionEvent::Matched { copy, end });
    let PromotionAction::Put(put) = &asked[0] else { panic!("the set is recorded") };
    let again = promotion.on(PromotionEvent::Retry);
    assert!(matches!(&again[..], [PromotionAction::Put(same)] if same == put));
    let before = PromotionEvent::Read { revision: RecordRevision(3), record: record() };
    assert!(matches!(promotion.on(before)[..], [PromotionAction::Put(_)]));
    let after = PromotionEvent::Read { revision: RecordRevision(4), record: put.record.clone() };
    let served = promotion.on(after);
    let [PromotionAction::Serve(lead)] = &served[..] else { panic!("it serves") };
    assert_eq!(lead.watermark(), LogPosition(4));
}

#[test]
fn takes_another_source_when_the_first_is_lost() {
    let (mut promotion, _) = Promotion::new(NodeId(1), RecordRevision(3), record());
    promotion.on(PromotionEvent::Hurry);
    promotion.on(sealed(1, 2, 1));
    assert_eq!(adopted(&promotion.on(sealed(2, 1, 4))), Some((2, 4)));
    assert_eq!(sealed_nodes(&promotion.on(PromotionEvent::SourceLost)), [0, 2]);
    assert_eq!(sealed_nodes(&promotion.on(PromotionEvent::Retry)), [0, 2]);
    assert_eq!(adopted(&promotion.on(sealed(0, 1, 3))), Some((0, 3)));
}

#[test]
fn gives_way_to_a_higher_epoch() {
    let (mut promotion, _) = Promotion::new(NodeId(1), RecordRevision(3), record());
    let promised = VirtualLogEpoch(7);
    let answer = BackupAnswer::Refused { promised };
    let actions = promotion.on(PromotionEvent::Answer { node: NodeId(1), answer });
    assert!(matches!(actions[..], [PromotionAction::Deposed(epoch)] if epoch == promised));
    assert!(promotion.on(sealed(1, 1, 4)).is_empty());
}

proptest! {
    /// Whatever answers in whatever order: the source is full if any full copy has answered, the
    /// longest of its kind, and doubtful copies count only once all have answered.
    #[test]
    fn takes_the_longest_of_the_copies_that_count(
        copies in prop::collection::vec((any::<bool>(), 0u64..6), 3),
        order in Just(vec![0usize, 1, 2]).prop_shuffle(),
        hurry in 0usize..5,
    ) {
        let (mut promotion, _) = Promotion::new(NodeId(1), RecordRevision(3), record());
        let mut answered: Vec<usize> = Vec::new();
        let mut choice = None;
        for (turn, node) in order.into_iter().enumerate() {
            if turn == hurry {
                choice = choice.or(adopted(&promotion.on(PromotionEvent::Hurry)));
            }
            let is_first = choice.is_none();
            let (is_full, end) = copies[node];
            let generation = if is_full { 1 } else { 2 };
            let found = adopted(&promotion.on(sealed(node as i32, generation, end)));
            choice = choice.or(found);
            if is_first {
                answered.push(node);
            }
        }
        let full: Vec<usize> = answered.iter().copied().filter(|node| copies[*node].0).collect();
        let counted = if full.is_empty() { answered.clone() } else { full.clone() };
        let longest = counted.iter().map(|node| copies[*node].1).max();
        prop_assert_eq!(choice.map(|(_, end)| end), longest);
        let (source, _) = choice.expect("all copies have answered");
        prop_assert!(counted.contains(&(source as usize)));
        prop_assert!(!full.is_empty() || answered.len() == 3);
    }
}
