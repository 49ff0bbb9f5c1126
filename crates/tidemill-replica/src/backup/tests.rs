//! A copy beside a log that keeps the epoch of each entry, written from the protocol's description.

use super::{BackupAnswer, BackupCopy, BackupRequest, BackupStep, DurableCopy, HeldRange};
use crate::history::EpochHistory;
use proptest::prelude::*;
use tidemill_types::{Incarnation, LogPosition, VirtualLogEpoch};

/// A request in small numbers.
#[derive(Clone, Debug)]
enum Asked {
    Seal { epoch: u32 },
    Open { epoch: u32, generation: u32, from: usize },
    Ship { epoch: u32, generation: u32, from: usize, count: usize, watermark: u64 },
}

fn asked() -> impl Strategy<Value = Asked> {
    let generation = prop_oneof![9 => Just(1u32), 1 => Just(2u32)];
    prop_oneof![
        1 => (1u32..5).prop_map(|epoch| Asked::Seal { epoch }),
        2 => (1u32..5, generation.clone(), prop_oneof![2 => Just(0usize), 1 => 0usize..8])
            .prop_map(|(epoch, generation, from)| Asked::Open { epoch, generation, from }),
        5 => (1u32..5, generation, 0usize..8, 0usize..4, 0u64..9).prop_map(
            |(epoch, generation, from, count, watermark)| Asked::Ship {
                epoch,
                generation,
                from,
                count,
                watermark
            }
        ),
    ]
}

/// The log of each epoch's leader: that of the epoch before up to some place, then its own entries.
fn leaders() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec((0usize..6, 1usize..6), 4).prop_map(|parts| {
        let mut logs: Vec<Vec<u32>> = vec![Vec::new()];
        for (epoch, (kept, own)) in (1u32..).zip(parts) {
            let before = logs.last().expect("there is a log");
            let mut log = before[..kept.min(before.len())].to_vec();
            log.resize(log.len() + own, epoch);
            logs.push(log);
        }
        logs
    })
}

fn history(log: &[u32], from: usize) -> EpochHistory {
    let mut history = EpochHistory::default();
    for (position, epoch) in log.iter().enumerate().skip(from) {
        history.begin(VirtualLogEpoch(*epoch), LogPosition(position as u64));
    }
    history
}

fn at(position: usize) -> LogPosition {
    LogPosition(position as u64)
}

/// The copy as the protocol describes it: the epochs of the entries from `base` on.
#[derive(Default)]
struct Reference {
    promised: u32,
    joined: u32,
    base: usize,
    log: Vec<u32>,
}

impl Reference {
    fn end(&self) -> usize {
        self.base + self.log.len()
    }

    /// A leader opens the copy at `from`.
    fn open(&mut self, epoch: u32, from: usize, leader: &[u32]) {
        let reaches = self.base <= from && from <= self.end();
        if self.joined == epoch {
            if self.end() < from {
                (self.base, self.log) = (from, Vec::new());
            }
            return;
        }
        let below = if reaches { from - self.base } else { self.log.len() };
        let mut kept = self.log.split_off(below);
        let same = kept.iter().zip(&leader[from..]).take_while(|(own, led)| own == led);
        let same = same.count();
        kept.truncate(same);
        (self.base, self.log) = (from, kept);
        (self.promised, self.joined) = (epoch, epoch);
    }
}

#[test]
fn a_late_opening_drops_nothing() {
    let (epoch, generation, from) = (VirtualLogEpoch(1), Incarnation(1), at(0));
    let durable = DurableCopy { generation, ..DurableCopy::default() };
    let mut copy = BackupCopy::new(durable, true);
    let history = EpochHistory::default();
    let opening = BackupRequest::Open { epoch, generation, from, end: at(0), history };
    copy.on(&opening);
    let mut history = EpochHistory::default();
    history.begin(epoch, from);
    let watermark = at(0);
    copy.on(&BackupRequest::Ship { epoch, generation, from, to: at(3), history, watermark });
    let end = at(3);
    let answer = BackupAnswer::Accepted { epoch, generation, end };
    assert_eq!(copy.on(&opening), [BackupStep::Answer(answer)]);
}

#[test]
fn an_opening_vouches_for_nothing_below_it() {
    let (old, new) = (VirtualLogEpoch(1), VirtualLogEpoch(2));
    let mut history = EpochHistory::default();
    history.begin(old, at(0));
    let held = HeldRange { from: at(0), end: at(5) };
    let generation = Incarnation(1);
    let durable = DurableCopy {
        generation,
        promised: old,
        joined: Some(old),
        held,
        history: history.clone(),
    };
    let mut copy = BackupCopy::new(durable, true);
    let (from, end) = (at(3), at(9));
    history.begin(new, at(4));
    let history = history.slice(from, end);
    let steps = copy.on(&BackupRequest::Open { epoch: new, generation, from, end, history });
    let held = HeldRange { from: at(3), end: at(4) };
    assert_eq!(copy.durable().held, held);
    assert_eq!(
        steps[..3],
        [
            BackupStep::Truncate(at(4)),
            BackupStep::StartSegment(at(3)),
            BackupStep::Promise { promised: new, joined: Some(new) },
        ]
    );
}

proptest! {
    #[test]
    fn does_as_the_protocol_says(leaders in leaders(), asked in prop::collection::vec(asked(), 1..60)) {
        let durable = DurableCopy { generation: Incarnation(1), ..DurableCopy::default() };
        let mut copy = BackupCopy::new(durable, true);
        let mut reference = Reference::default();
        let mut visible = LogPosition(0);
        for request in asked {
            let (request, expected) = match request {
                Asked::Seal { epoch } => {
                    let is_sealed = epoch >= reference.promised;
                    reference.promised = reference.promised.max(epoch);
                    (BackupRequest::Seal { epoch: VirtualLogEpoch(epoch) }, is_sealed)
                }
                Asked::Open { epoch, generation, from } => {
                    let leader = &leaders[epoch as usize];
                    let from = from.min(leader.len());
                    let is_taken = generation == 1 && epoch >= reference.promised;
                    if is_taken {
                        reference.open(epoch, from, leader);
                    }
                    let request = BackupRequest::Open {
                        epoch: VirtualLogEpoch(epoch),
                        generation: Incarnation(generation),
                        from: at(from),
                        end: at(leader.len()),
                        history: history(leader, from),
                    };
                    (request, is_taken)
                }
                Asked::Ship { epoch, generation, from, count, watermark } => {
                    let leader = &leaders[epoch as usize];
                    let from = from.min(leader.len());
                    let to = (from + count).min(leader.len());
                    let is_taken = generation == 1
                        && epoch >= reference.promised
                        && reference.joined == epoch
                        && from <= reference.end();
                    if is_taken && to > reference.end() {
                        let end = reference.end();
                        reference.log.extend(&leader[end..to]);
                    }
                    let request = BackupRequest::Ship {
                        epoch: VirtualLogEpoch(epoch),
                        generation: Incarnation(generation),
                        from: at(from),
                        to: at(to),
                        history: history(&leader[..to], from),
                        watermark: LogPosition(watermark),
                    };
                    (request, is_taken)
                }
            };
            let steps = copy.on(&request);
            let answer = match steps.last() {
                Some(BackupStep::Answer(answer)) => answer.clone(),
                other => panic!("the last step answers, not {other:?}"),
            };
            let is_taken =
                matches!(answer, BackupAnswer::Accepted { .. } | BackupAnswer::Sealed { .. });
            prop_assert_eq!(is_taken, expected, "{:?} to {:?}", answer, request);
            prop_assert_eq!(copy.durable().promised, VirtualLogEpoch(reference.promised));
            let held = HeldRange { from: at(reference.base), end: at(reference.end()) };
            prop_assert_eq!(copy.durable().held, held);
            for (position, epoch) in (reference.base..).zip(&reference.log) {
                let found = copy.durable().history.epoch_at(at(position));
                prop_assert_eq!(found, Some(VirtualLogEpoch(*epoch)));
            }
            if let BackupAnswer::Accepted { end, .. } = answer {
                prop_assert_eq!(end, at(reference.end()));
            }
            let appends = steps.iter().position(|step| matches!(step, BackupStep::Append { .. }));
            let syncs = steps.iter().position(|step| *step == BackupStep::Sync);
            prop_assert_eq!(appends.map(|step| step + 1), syncs, "each append is synced at once");
            prop_assert!(copy.watermark() >= visible);
            visible = copy.watermark();
        }
    }
}
