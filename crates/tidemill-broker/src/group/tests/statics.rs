//! Scenes of static members. (KIP-345.)

use super::{Asking, SESSION_MS, Stage, asking};
use tidemill_wire::kafka::ErrorCode;

fn fixed(instance: &str, id: &str) -> Asking {
    Asking { instance: Some(instance.to_owned()), needs_known_id: true, ..asking(id) }
}

/// Two static members in generation 2, stable: their ids. The first leads.
fn two() -> (Stage, String, String) {
    let mut stage = Stage::new(100);
    let first = stage.join(fixed("a", ""));
    let second = stage.join(fixed("b", ""));
    stage.pass(1_000);
    let (first, second) = (stage.answer(first), stage.answer(second));
    assert_eq!((first.error, first.generation), (ErrorCode::None, 1), "no id need be promised");
    let instances: Vec<_> = first.members.iter().map(|it| it.1.clone()).collect();
    assert_eq!(instances, [Some("a".to_owned()), Some("b".to_owned())]);
    let (first, second) = (first.member_id, second.member_id);
    stage.sync(&second, 1, &[]);
    stage.sync(&first, 1, &[(&first, "left"), (&second, "right")]);
    stage.store(true);
    (stage, first, second)
}

#[test]
fn a_follower_that_comes_back_has_what_it_had_and_nobody_notices() {
    let (mut stage, first, old) = two();
    let waits = stage.join(fixed("b", ""));
    assert!(!stage.joined.contains_key(&waits), "its new id must be stored first");
    let record = stage.store(true);
    let answer = stage.answer(waits);
    assert_eq!((answer.error, answer.generation, stage.state()), (ErrorCode::None, 1, "Stable"));
    assert_eq!((&answer.leader, answer.members.len()), (&first, 0));
    assert_ne!(answer.member_id, old);
    assert!(record.members.iter().any(|it| it.id == answer.member_id && it.assignment == b"right"));
    let assigned = stage.sync(&answer.member_id, 1, &[]);
    assert_eq!(stage.assignment(assigned).assignment, "right");
    assert_eq!(stage.heartbeat(&first, 1), Ok(()));
    // Its former self is fenced in all it does.
    let fenced = Err(ErrorCode::FencedInstanceId);
    assert_eq!(stage.group.heartbeat(stage.now_ms, &old, Some("b"), 1), fenced);
    assert_eq!(stage.group.may_commit(stage.now_ms, &old, Some("b"), 1, false), fenced);
    assert_eq!(stage.leave(&old, Some("b")), fenced);
    let waits = stage.sync_as(&old, Some("b"), 1, &[]);
    assert_eq!(stage.assignment(waits).error, ErrorCode::FencedInstanceId);
    let waits = stage.join(fixed("b", &old));
    assert_eq!(stage.answer(waits).error, ErrorCode::FencedInstanceId);
}

#[test]
fn a_leader_that_comes_back_does_not_assign() {
    for may_skip in [false, true] {
        let (mut stage, old, _) = two();
        let waits = stage.join(Asking { may_skip, ..fixed("a", "") });
        stage.store(true);
        let answer = stage.answer(waits);
        if may_skip {
            // It knows that it leads, and that there is nothing to do. (KIP-814.)
            assert_eq!((&answer.leader, answer.members.len()), (&answer.member_id, 2));
            assert!(answer.skip_assignment);
        } else {
            // It does not know that it leads.
            assert_eq!((&answer.leader, answer.members.len()), (&old, 0));
            assert!(!answer.skip_assignment);
        }
        // It leads all the same: when it joins again, all do.
        stage.join(fixed("a", &answer.member_id));
        assert_eq!(stage.state(), "PreparingRebalance");
    }
}

#[test]
fn a_new_id_that_cannot_be_stored_is_not_given() {
    let (mut stage, _, _) = two();
    let waits = stage.join(fixed("b", ""));
    stage.store(false);
    assert_eq!(stage.answer(waits).error, ErrorCode::CoordinatorNotAvailable);
    let again = stage.join(fixed("b", ""));
    stage.store(true);
    assert_eq!(stage.answer(again).error, ErrorCode::None);
}

#[test]
fn one_that_comes_back_twice_at_once_is_there_once() {
    let (mut stage, _, _) = two();
    let one = stage.join(fixed("b", ""));
    let two = stage.join(fixed("b", ""));
    assert_eq!(stage.answer(one).error, ErrorCode::FencedInstanceId);
    stage.store(true);
    assert!(!stage.joined.contains_key(&two));
    stage.store(true);
    assert_eq!(stage.answer(two).error, ErrorCode::None);
    assert_eq!(stage.group.members().count(), 2);
}

#[test]
fn one_that_comes_back_while_all_join_again_is_one_of_them() {
    let (mut stage, first, _) = two();
    let waits = stage.join(fixed("b", ""));
    // The leader joins again before the new id is stored.
    let led = stage.join(fixed("a", &first));
    assert_eq!(stage.answer(waits).generation, 2);
    assert_eq!(stage.answer(led).members.len(), 2);
    let before = stage.joined.len();
    stage.store(true);
    assert_eq!(stage.joined.len(), before, "it is answered once");
}

#[test]
fn one_that_comes_back_before_the_assignment_makes_all_join_again() {
    let (mut stage, first, _) = two();
    stage.join(fixed("a", &first));
    let second = stage.join(fixed("b", ""));
    assert_eq!((stage.state(), stage.answer(second).generation), ("CompletingRebalance", 2));
    let waits = stage.sync(&first, 2, &[]);
    // The leader knows the id of before.
    let third = stage.join(fixed("b", ""));
    assert_eq!(stage.assignment(waits).error, ErrorCode::RebalanceInProgress);
    assert_eq!(stage.state(), "PreparingRebalance");
    stage.join(fixed("a", &first));
    assert_eq!(stage.answer(third).generation, 3);
}

#[test]
fn one_that_changes_the_choice_of_protocol_makes_all_join_again() {
    let mut stage = Stage::new(100);
    let both = vec![("range", ""), ("sticky", "")];
    let first = stage.join(Asking { protocols: both, ..fixed("a", "") });
    stage.pass(1_000);
    let first = stage.answer(first).member_id;
    stage.sync(&first, 1, &[]);
    stage.store(true);
    let waits =
        stage.join(Asking { protocols: vec![("sticky", ""), ("range", "")], ..fixed("a", "") });
    let answer = stage.answer(waits);
    assert_eq!((answer.generation, answer.protocol.as_deref()), (2, Some("sticky")));
}

#[test]
fn one_that_is_away_for_less_than_its_session_keeps_its_place() {
    let (mut stage, first, second) = two();
    // Others join again without it; it has a place in the next generation.
    let again = stage.join(fixed("a", &first));
    for _ in 0..5 {
        stage.pass(1_000);
        assert!(!stage.joined.contains_key(&again));
    }
    stage.pass(SESSION_MS - 5_000);
    assert_eq!(stage.answer(again).members.len(), 1, "its session is over");
    let gone = stage.group.heartbeat(stage.now_ms, &second, Some("b"), 1);
    assert_eq!(gone, Err(ErrorCode::UnknownMemberId));
}

#[test]
fn an_administrator_removes_one_by_its_own_name() {
    let (mut stage, _, second) = two();
    assert_eq!(stage.leave("", Some("c")), Err(ErrorCode::UnknownMemberId));
    assert_eq!(stage.leave("", None), Err(ErrorCode::UnknownMemberId));
    assert_eq!(stage.leave("", Some("b")), Ok(()));
    assert_eq!(stage.state(), "PreparingRebalance");
    assert_eq!(stage.heartbeat(&second, 1), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn a_group_of_absent_static_members_ends() {
    let (mut stage, _, _) = two();
    stage.leave("", Some("a")).unwrap();
    stage.pass(10 * SESSION_MS);
    assert_eq!(stage.state(), "Empty");
}
