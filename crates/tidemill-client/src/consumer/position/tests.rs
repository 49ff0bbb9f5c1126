//! Decisions about a streamlet as a table.

use super::*;

fn position() -> Position {
    Position::new(("events".into(), 1), KafkaUuid::ZERO, Start::Offset(7), (1, 1000))
}

fn refused(code: ErrorCode, policy: OutOfRange, now_us: u64) -> PositionFault {
    let mut position = position();
    let refusal = |code| Refusal { code, message: None };
    // Without a long silence in between.
    for moment_us in [0, now_us / 3, now_us / 3 * 2] {
        position.refused(refusal(code), policy, moment_us, 1000);
    }
    position.refused(refusal(code), policy, now_us, 1000)
}

#[test]
fn what_passes_is_asked_again_and_what_does_not_is_told() {
    use OutOfRange::{Earliest, Latest, Stop};
    let again = |refresh| PositionFault::Again { refresh };
    assert_eq!(refused(ErrorCode::NotLeaderOrFollower, Stop, 5), again(true));
    assert_eq!(refused(ErrorCode::OffsetNotAvailable, Stop, 5), again(false));
    assert_eq!(refused(ErrorCode::UnknownTopicId, Stop, 1000), again(true));
    assert!(matches!(refused(ErrorCode::UnknownTopicId, Stop, 1001), PositionFault::Stop(_)));
    assert_eq!(refused(ErrorCode::UnknownServerError, Stop, 1000), again(true));
    assert!(matches!(refused(ErrorCode::UnknownServerError, Stop, 1001), PositionFault::Stop(_)));
    assert!(matches!(
        refused(ErrorCode::TopicAuthorizationFailed, Stop, 5),
        PositionFault::Stop(_)
    ));
    assert!(matches!(refused(ErrorCode::CorruptMessage, Stop, 5), PositionFault::Stop(_)));
    let at = |policy| refused(ErrorCode::OffsetOutOfRange, policy, 5);
    assert_eq!(at(Earliest), PositionFault::Restart(OffsetAt::Earliest));
    assert_eq!(at(Latest), PositionFault::Restart(OffsetAt::Latest));
    let PositionFault::Stop(error) = at(Stop) else { panic!() };
    assert!(error.to_string().starts_with("stream `events` streamlet 1: offset 7 is not there"));
}

#[test]
fn a_longer_chunk_is_asked_for_until_that_is_no_use() {
    let mut position = position();
    assert_eq!(position.walked(WalkEnd::Longer(5000), 7), None);
    assert_eq!(position.bytes, 5000);
    assert!(
        position.walked(WalkEnd::Longer(5000), 7).is_some(),
        "it was asked for, and did not come"
    );
    assert!(position.walked(WalkEnd::Longer(usize::MAX), 7).is_some());
    assert_eq!(position.walked(WalkEnd::Done, 7), None);
}

#[test]
fn failures_rest_longer_until_one_succeeds() {
    let mut position = position();
    for expected in 1..4 {
        position.rest(u64::from);
        assert_eq!(position.not_before_us, expected);
    }
    position.good();
    position.rest(u64::from);
    assert_eq!(position.not_before_us, 1);
}

#[test]
fn starts_lead_to_an_offset_or_to_a_question() {
    assert_eq!(PositionPhase::from(Start::Offset(-5)), PositionPhase::Fetching(0));
    assert_eq!(PositionPhase::from(Start::Latest), PositionPhase::Starting(OffsetAt::Latest));
    assert_eq!(PositionPhase::from(Start::Time(9)), PositionPhase::Starting(OffsetAt::Time(9)));
}

/// A streamlet without a leader is there; it may be so for long, and then for a moment be unknown.
#[test]
fn only_what_is_said_all_the_time_is_given_up() {
    let mut position = position();
    let mut refused = |code, now_us| {
        let refusal = Refusal { code, message: None };
        position.refused(refusal, OutOfRange::Stop, now_us, 1000)
    };
    let again = PositionFault::Again { refresh: true };
    assert_eq!(refused(ErrorCode::LeaderNotAvailable, 0), again);
    assert_eq!(refused(ErrorCode::LeaderNotAvailable, 50_000), again);
    assert_eq!(refused(ErrorCode::UnknownTopicOrPartition, 60_000), again);
    assert_eq!(refused(ErrorCode::LeaderNotAvailable, 60_900), again);
    assert_eq!(refused(ErrorCode::UnknownTopicOrPartition, 61_100), again);
    assert_eq!(refused(ErrorCode::UnknownTopicId, 61_600), again);
    assert_eq!(refused(ErrorCode::UnknownTopicId, 62_100), again);
    // Nobody has said anything for a while.
    assert_eq!(refused(ErrorCode::UnknownTopicId, 62_601), again);
    assert_eq!(refused(ErrorCode::UnknownTopicId, 63_101), again);
    assert_eq!(refused(ErrorCode::UnknownTopicOrPartition, 63_601), again);
    assert!(matches!(refused(ErrorCode::UnknownTopicId, 63_602), PositionFault::Stop(_)));
}
