//! A shipper over a link that loses, doubles and reorders.

use super::{ChunkSizes, Shipper, ShipperAction, ShipperEvent, ShipperLimits};
use crate::backup::BackupAnswer;
use crate::copy_set::CopyId;
use proptest::prelude::*;
use std::time::Duration;
use tidemill_types::{Incarnation, LogPosition, NodeId, VirtualLogEpoch};

const COPY: CopyId = CopyId { node: NodeId(2), generation: Incarnation(7) };
const EPOCH: VirtualLogEpoch = VirtualLogEpoch(3);
const LIMITS: ShipperLimits = ShipperLimits {
    write_bytes: 1_000,
    writes_max: 3,
    answer_timeout: Duration::from_secs(2),
    pause: Duration::from_millis(100),
    pause_max: Duration::from_secs(1),
    watermark_pause: Duration::from_millis(300),
    bytes_per_second: None,
};

struct Sizes(Vec<u64>);

impl ChunkSizes for Sizes {
    fn bytes(&self, position: LogPosition) -> u64 {
        self.0[position.0 as usize % self.0.len()]
    }
}

fn zero() -> LogPosition {
    LogPosition(0)
}

fn accepted(end: u64) -> ShipperEvent {
    let (epoch, generation, end) = (EPOCH, COPY.generation, LogPosition(end));
    ShipperEvent::Answer(BackupAnswer::Accepted { epoch, generation, end })
}

/// The positions of the writes among actions.
fn writes(actions: &[ShipperAction]) -> Vec<(u64, u64)> {
    let write = |action: &ShipperAction| match action {
        ShipperAction::Ship { from, to, .. } => Some((from.0, to.0)),
        _ => None,
    };
    actions.iter().filter_map(write).collect()
}

#[test]
fn many_chunks_go_in_one_write_while_others_are_under_way() {
    let sizes = Sizes(vec![10]);
    let limits = ShipperLimits { writes_max: 1, ..LIMITS };
    let mut shipper = Shipper::new(COPY, EPOCH, zero(), zero(), limits, Duration::ZERO);
    let now = Duration::from_millis(1);
    assert!(matches!(shipper.on(ShipperEvent::Clock, &sizes, now)[0], ShipperAction::Open { .. }));
    shipper.on(accepted(0), &sizes, now);
    let first = shipper.on(ShipperEvent::Appended(LogPosition(1)), &sizes, now);
    assert_eq!(writes(&first), [(0, 1)]);
    for end in 2..=60 {
        let more = shipper.on(ShipperEvent::Appended(LogPosition(end)), &sizes, now);
        assert_eq!(writes(&more), []);
    }
    assert_eq!(writes(&shipper.on(accepted(1), &sizes, now)), [(1, 60)]);
}

#[test]
fn a_watermark_waits_for_a_write_and_then_goes_alone() {
    let sizes = Sizes(vec![10]);
    let mut shipper = Shipper::new(COPY, EPOCH, zero(), zero(), LIMITS, Duration::ZERO);
    let now = Duration::from_millis(1);
    shipper.on(ShipperEvent::Clock, &sizes, now);
    shipper.on(ShipperEvent::Appended(LogPosition(1)), &sizes, now);
    shipper.on(accepted(1), &sizes, now);
    let news = shipper.on(ShipperEvent::Watermark(LogPosition(1)), &sizes, now);
    let moment = now + LIMITS.watermark_pause;
    assert_eq!(news, [ShipperAction::WakeAt(moment)]);
    assert_eq!(writes(&shipper.on(ShipperEvent::Clock, &sizes, moment)), [(1, 1)]);
    assert_eq!(writes(&shipper.on(accepted(1), &sizes, moment)), []);
    let later = moment + LIMITS.watermark_pause * 2;
    assert_eq!(writes(&shipper.on(ShipperEvent::Clock, &sizes, later)), []);
    // With a write it goes at once.
    shipper.on(ShipperEvent::Watermark(LogPosition(2)), &sizes, later);
    let watermark = LogPosition(2);
    let write = ShipperAction::Ship { from: LogPosition(1), to: LogPosition(2), watermark };
    let actions = shipper.on(ShipperEvent::Appended(LogPosition(2)), &sizes, later);
    assert!(actions.contains(&write));
}

#[test]
fn a_backup_that_had_nothing_to_answer_is_not_silent() {
    let sizes = Sizes(vec![10]);
    let mut shipper = Shipper::new(COPY, EPOCH, zero(), zero(), LIMITS, Duration::ZERO);
    shipper.on(ShipperEvent::Clock, &sizes, Duration::ZERO);
    shipper.on(accepted(0), &sizes, Duration::from_millis(1));
    let now = Duration::from_secs(3_600);
    shipper.on(ShipperEvent::Appended(LogPosition(1)), &sizes, now);
    let actions = shipper.on(ShipperEvent::Clock, &sizes, now + Duration::from_millis(10));
    assert!(!actions.iter().any(|action| matches!(action, ShipperAction::Silent(_))));
    let actions = shipper.on(ShipperEvent::Clock, &sizes, now + LIMITS.answer_timeout);
    assert!(actions.contains(&ShipperAction::Silent(LIMITS.answer_timeout)));
}

#[test]
fn a_throttled_stream_ships_at_its_rate() {
    let sizes = Sizes(vec![500]);
    let limits = ShipperLimits { bytes_per_second: Some(1_000), ..LIMITS };
    let mut shipper = Shipper::new(COPY, EPOCH, zero(), LogPosition(100), limits, Duration::ZERO);
    let (mut now, mut sent) = (Duration::ZERO, 0);
    shipper.on(ShipperEvent::Clock, &sizes, now);
    let mut actions = shipper.on(accepted(0), &sizes, now);
    for _ in 0..1_000 {
        let shipped = writes(&actions);
        sent = shipped.last().map_or(sent, |(_, to)| *to);
        assert!(sent * 500 <= 1_000 + now.as_millis() as u64, "{sent} chunks at {now:?}");
        now += Duration::from_millis(10);
        let answer = if shipped.is_empty() { ShipperEvent::Clock } else { accepted(sent) };
        actions = shipper.on(answer, &sizes, now);
    }
    assert!(sent >= 18, "{sent} chunks of 500 bytes in ten seconds at 1,000 bytes a second");
}

#[test]
fn says_once_that_a_backup_is_silent_and_that_it_is_deposed() {
    let sizes = Sizes(vec![10]);
    let mut shipper = Shipper::new(COPY, EPOCH, zero(), zero(), LIMITS, Duration::ZERO);
    let mut silent = 0;
    for tick in 0..200u64 {
        let actions = shipper.on(ShipperEvent::Clock, &sizes, Duration::from_millis(tick * 100));
        silent += actions.iter().filter(|a| matches!(a, ShipperAction::Silent(_))).count();
    }
    assert_eq!(silent, 1);
    let promised = VirtualLogEpoch(4);
    let refused = ShipperEvent::Answer(BackupAnswer::Refused { promised });
    let actions = shipper.on(refused, &sizes, Duration::from_secs(30));
    assert_eq!(actions, [ShipperAction::Deposed(promised)]);
    assert_eq!(
        shipper.on(ShipperEvent::Appended(LogPosition(5)), &sizes, Duration::from_secs(90)),
        []
    );
}

#[test]
fn ignores_answers_of_other_epochs_and_generations() {
    let sizes = Sizes(vec![10]);
    let mut shipper = Shipper::new(COPY, EPOCH, zero(), LogPosition(9), LIMITS, Duration::ZERO);
    let now = Duration::from_millis(1);
    shipper.on(ShipperEvent::Clock, &sizes, now);
    let end = LogPosition(9);
    for (epoch, generation) in [(VirtualLogEpoch(2), COPY.generation), (EPOCH, Incarnation(8))] {
        let answer = BackupAnswer::Accepted { epoch, generation, end };
        shipper.on(ShipperEvent::Answer(answer), &sizes, now);
        assert_eq!(shipper.matched(), None);
    }
}

proptest! {
    #[test]
    fn brings_everything_over_a_bad_link(
        sizes in prop::collection::vec(1u64..1_500, 1..6),
        fates in prop::collection::vec((0u8..12, any::<prop::sample::Index>()), 50..300),
        end in 1u64..40,
    ) {
        let sizes = Sizes(sizes);
        let mut shipper = Shipper::new(COPY, EPOCH, zero(), zero(), LIMITS, Duration::ZERO);
        let (mut now, mut appended, mut held) = (Duration::ZERO, 0u64, 0u64);
        let (mut is_open, mut matched) = (false, 0u64);
        // Requests (`None` is an opening) and answers under way.
        let mut requests: Vec<Option<(u64, u64)>> = Vec::new();
        let mut answers: Vec<BackupAnswer> = Vec::new();
        let fair = std::iter::repeat_n((0u8, None), 400);
        let fates = fates.into_iter().map(|(fate, index)| (fate, Some(index))).chain(fair);
        for (turn, (fate, index)) in fates.enumerate() {
            let place = |len: usize| index.map_or(0, |index| index.index(len));
            now += Duration::from_millis(50);
            let event = match fate {
                8 if appended < end => {
                    appended += 1;
                    ShipperEvent::Appended(LogPosition(appended))
                }
                9 if !requests.is_empty() => {
                    requests.remove(place(requests.len()));
                    ShipperEvent::Clock
                }
                10 if !answers.is_empty() => {
                    answers.remove(place(answers.len()));
                    ShipperEvent::Clock
                }
                11 => ShipperEvent::Disconnected,
                _ if turn % 2 == 0 && !requests.is_empty() => {
                    let place = place(requests.len());
                    let request = if fate == 7 { requests[place] } else { requests.remove(place) };
                    let (epoch, generation) = (EPOCH, COPY.generation);
                    let answer = match request {
                        Some((from, _)) if is_open && from > held => {
                            BackupAnswer::Gap { epoch, generation, end: LogPosition(held) }
                        }
                        Some(_) if !is_open => BackupAnswer::Unopened { epoch, generation },
                        request => {
                            is_open = true;
                            held = held.max(request.map_or(0, |(_, to)| to));
                            BackupAnswer::Accepted { epoch, generation, end: LogPosition(held) }
                        }
                    };
                    answers.push(answer);
                    ShipperEvent::Clock
                }
                _ if !answers.is_empty() => {
                    ShipperEvent::Answer(answers.remove(place(answers.len())))
                }
                _ if index.is_none() && appended < end => {
                    appended = end;
                    ShipperEvent::Appended(LogPosition(end))
                }
                _ => ShipperEvent::Clock,
            };
            let actions = shipper.on(event, &sizes, now);
            for action in &actions {
                match *action {
                    ShipperAction::Open { .. } => requests.push(None),
                    ShipperAction::Ship { from, to, .. } => {
                        prop_assert!(to.0 <= appended, "what is not appended is not sent");
                        let bytes: u64 = (from.0..to.0).map(|p| sizes.bytes(LogPosition(p))).sum();
                        prop_assert!(bytes <= LIMITS.write_bytes || to.0 - from.0 == 1);
                        requests.push(Some((from.0, to.0)));
                    }
                    ShipperAction::Matched(end) => {
                        prop_assert!(end.0 >= matched && end.0 <= held);
                        matched = end.0;
                    }
                    _ => {}
                }
            }
            prop_assert!(writes(&actions).len() <= LIMITS.writes_max);
        }
        prop_assert_eq!((held, matched), (end, end));
    }
}
