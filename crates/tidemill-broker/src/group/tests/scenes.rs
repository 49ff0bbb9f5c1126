//! Scenes of dynamic members.

use super::{
    super::{
        event::{EventCause, GroupEvent},
        machine::{ConsumerGroup, Rules},
    },
    Asking, REBALANCE_MS, SESSION_MS, Stage, asking,
};
use tidemill_wire::kafka::ErrorCode;

#[test]
fn a_member_that_needs_an_id_is_given_one_and_comes_with_it() {
    let mut stage = Stage::new(0);
    let first = stage.join(Asking { needs_known_id: true, ..asking("") });
    let told = stage.answer(first);
    assert_eq!((told.error, told.member_id.as_str()), (ErrorCode::MemberIdRequired, "m1"));
    assert_eq!(stage.state(), "Empty");
    let second = stage.join(Asking { needs_known_id: true, ..asking("m1") });
    let joined = stage.answer(second);
    assert_eq!((joined.error, joined.generation), (ErrorCode::None, 1));
    // A promise ends with the session that was asked for.
    let other = stage.join(Asking { needs_known_id: true, ..asking("") });
    assert_eq!(stage.answer(other).member_id, "m3");
    stage.pass(SESSION_MS);
    let late = stage.join(asking("m3"));
    assert_eq!(stage.answer(late).error, ErrorCode::UnknownMemberId);
}

#[test]
fn a_promised_member_is_waited_for_and_may_take_it_back() {
    let (mut stage, first) = Stage::one();
    let promised = stage.join(Asking { needs_known_id: true, ..asking("") });
    let promised = stage.answer(promised).member_id;
    let again = stage.join(asking(&first));
    assert!(!stage.joined.contains_key(&again), "somebody else is on the way");
    assert_eq!(stage.leave(&promised, None), Ok(()));
    assert_eq!(stage.answer(again).generation, 2);
}

#[test]
fn the_first_members_wait_for_others_each_a_little_longer() {
    let mut stage = Stage::new(3_000);
    let first = stage.join(asking(""));
    stage.pass(2_000);
    let second = stage.join(asking(""));
    stage.pass(1_000);
    assert_eq!(stage.state(), "PreparingRebalance", "somebody came: the wait begins anew");
    stage.pass(2_999);
    assert!(stage.joined.is_empty());
    stage.pass(1);
    let (first, second) = (stage.answer(first), stage.answer(second));
    assert_eq!((first.generation, second.generation), (1, 1));
    assert_eq!((first.members.len(), second.members.len()), (2, 0));
    assert_eq!(first.leader, second.leader);
}

#[test]
fn the_first_wait_ends_though_members_keep_coming() {
    let mut stage =
        Stage::with(Rules { members_max: 1_000, bytes_max: 1 << 20, initial_delay_ms: 3_000 });
    let first = stage.join(asking(""));
    for _ in 0..(REBALANCE_MS / 1_000) {
        stage.pass(1_000);
        stage.join(asking(""));
    }
    assert!(stage.joined.contains_key(&first), "it waits for longer than a rebalance may take");
}

#[test]
fn the_protocol_that_most_prefer_of_those_that_all_know_is_chosen() {
    let mut stage = Stage::new(1_000);
    let wants = |protocols: &[&'static str]| Asking {
        protocols: protocols.iter().map(|it| (*it, *it)).collect(),
        ..asking("")
    };
    let first = stage.join(wants(&["sticky", "range", "mine"]));
    stage.join(wants(&["range", "sticky"]));
    stage.join(wants(&["range", "sticky", "range"]));
    let stranger = stage.join(wants(&["mine"]));
    assert_eq!(stage.answer(stranger).error, ErrorCode::InconsistentGroupProtocol);
    let other = stage.join(Asking { protocol_type: "connect", ..wants(&["range"]) });
    assert_eq!(stage.answer(other).error, ErrorCode::InconsistentGroupProtocol);
    stage.pass(3_000);
    let answer = stage.answer(first);
    assert_eq!(answer.protocol.as_deref(), Some("range"));
    assert_eq!(answer.members[0].2, "range", "metadata is that of the protocol chosen");
}

#[test]
fn nothing_is_assigned_before_it_is_stored() {
    let mut stage = Stage::new(0);
    let joined = stage.join(asking(""));
    let id = stage.answer(joined).member_id;
    let waits = stage.sync(&id, 1, &[(&id, "all"), ("nobody", "x")]);
    assert_eq!((stage.state(), stage.synced.len()), ("CompletingRebalance", 0));
    assert_eq!(stage.may_commit(&id, 1), Err(ErrorCode::RebalanceInProgress));
    let record = stage.store(true);
    assert_eq!((record.generation, &record.members[0].assignment[..]), (1, &b"all"[..]));
    assert_eq!(stage.assignment(waits).assignment, "all");
    assert_eq!(stage.may_commit(&id, 1), Ok(()));
    // Who asks again is told again.
    let again = stage.sync(&id, 1, &[]);
    assert_eq!(stage.assignment(again).assignment, "all");
}

#[test]
fn what_cannot_be_stored_is_not_assigned() {
    let mut stage = Stage::new(0);
    let joined = stage.join(asking(""));
    let id = stage.answer(joined).member_id;
    let waits = stage.sync(&id, 1, &[(&id, "all")]);
    stage.store(false);
    assert_eq!(stage.assignment(waits).error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(stage.heartbeat(&id, 1), Err(ErrorCode::RebalanceInProgress));
    let again = stage.join(asking(&id));
    assert_eq!(stage.answer(again).generation, 2);
}

#[test]
fn an_assignment_that_is_stored_too_late_is_nobodys() {
    let (mut stage, first) = Stage::one();
    let again = stage.join(asking(&first));
    assert_eq!(stage.answer(again).generation, 2);
    let waits = stage.sync(&first, 2, &[(&first, "old")]);
    // Somebody comes while it is being stored.
    let second = stage.join(asking(""));
    assert_eq!(stage.assignment(waits).error, ErrorCode::RebalanceInProgress);
    let again = stage.join(asking(&first));
    assert_eq!(stage.answer(again).generation, 3);
    let second = stage.answer(second).member_id;
    let waits = stage.sync(&second, 3, &[]);
    stage.store(true);
    assert_eq!(stage.state(), "CompletingRebalance");
    assert!(!stage.synced.contains_key(&waits));
    stage.sync(&first, 3, &[(&second, "new")]);
    stage.store(true);
    assert_eq!(stage.assignment(waits).assignment, "new");
}

#[test]
fn who_is_silent_goes_and_the_others_join_again() {
    let (mut stage, first, second) = Stage::two();
    for _ in 0..9 {
        stage.pass(1_000);
        assert_eq!(stage.heartbeat(&first, 2), Ok(()));
    }
    stage.pass(1_000);
    assert_eq!(stage.heartbeat(&first, 2), Err(ErrorCode::RebalanceInProgress));
    // K7: it was stopped for too long, and goes on as if nothing had happened.
    assert_eq!(stage.may_commit(&second, 2), Err(ErrorCode::UnknownMemberId));
    assert_eq!(stage.heartbeat(&second, 2), Err(ErrorCode::UnknownMemberId));
    let again = stage.join(asking(&first));
    assert_eq!(stage.answer(again).generation, 3);
    assert_eq!(stage.may_commit(&first, 2), Err(ErrorCode::IllegalGeneration));
}

#[test]
fn who_is_told_a_generation_as_another_goes_is_in_it() {
    let (mut stage, gone, waits) = Stage::two();
    assert!(gone < waits, "sessions end in this order");
    // Both were heard of last in this moment, so that both sessions end in the same one.
    assert_eq!(stage.heartbeat(&gone, 2), Ok(()));
    let changed = Asking { protocols: vec![("range", "other topics")], ..asking(&waits) };
    let ticket = stage.join(changed);
    stage.pass(SESSION_MS);
    let told = stage.answer(ticket);
    assert_eq!((told.error, told.generation, told.members.len()), (ErrorCode::None, 3, 1));
    let synced = stage.sync(&waits, 3, &[(&waits, "all")]);
    stage.store(true);
    assert_eq!(stage.assignment(synced).assignment, "all");
}

#[test]
fn a_commit_says_that_a_member_lives() {
    let (mut stage, id) = Stage::one();
    for _ in 0..5 {
        stage.pass(SESSION_MS - 1);
        assert_eq!(stage.may_commit(&id, 1), Ok(()));
    }
    stage.pass(SESSION_MS);
    assert_eq!(stage.may_commit(&id, 1), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn who_does_not_join_again_in_time_goes() {
    let (mut stage, first, second) = Stage::two();
    let again = stage.join(asking(&first));
    // It lives, but does not join: for as long as a rebalance may take.
    for _ in 0..(REBALANCE_MS / 1_000) - 1 {
        stage.pass(1_000);
        assert_eq!(stage.heartbeat(&second, 2), Err(ErrorCode::RebalanceInProgress));
        assert!(!stage.joined.contains_key(&again));
    }
    stage.pass(1_000);
    assert_eq!(stage.answer(again).generation, 3);
    assert_eq!(stage.heartbeat(&second, 2), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn who_does_not_ask_for_its_assignment_goes() {
    let (mut stage, first, second) = Stage::two();
    let led = stage.join(asking(&first));
    let waits = stage.join(asking(&second));
    assert!(stage.joined.contains_key(&waits) && stage.joined.contains_key(&led));
    // The leader does not assign; both say that they live.
    let waits = stage.sync(&second, 3, &[]);
    for _ in 0..(REBALANCE_MS / 1_000) {
        stage.pass(1_000);
        let _alive = stage.heartbeat(&first, 3);
    }
    assert_eq!(stage.assignment(waits).error, ErrorCode::RebalanceInProgress);
    let alone = stage.join(asking(&second));
    assert_eq!(stage.answer(alone).leader, second);
    assert_eq!(stage.heartbeat(&first, 3), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn a_new_member_that_never_hears_of_its_id_is_not_waited_for_for_ever() {
    let mut stage =
        Stage::with(Rules { members_max: 5, bytes_max: 1 << 20, initial_delay_ms: 3_600_000 });
    let waits = stage.join(asking(""));
    stage.pass(300_000);
    assert_eq!(stage.answer(waits).error, ErrorCode::UnknownMemberId);
}

#[test]
fn followers_that_join_again_unchanged_disturb_nobody() {
    let (mut stage, first, second) = Stage::two();
    let same = stage.join(asking(&second));
    assert_eq!((stage.state(), stage.answer(same).generation), ("Stable", 2));
    assert!(stage.answer(same).members.is_empty());
    // With other metadata, or from the leader, it means something.
    let other = Asking { protocols: vec![("range", "about others")], ..asking(&second) };
    stage.join(other);
    assert_eq!(stage.state(), "PreparingRebalance");
    stage.join(asking(&first));
    assert_eq!((stage.state(), stage.group.generation()), ("CompletingRebalance", 3));
    // The answer was lost: the same one again.
    let again = stage.join(asking(&first));
    assert_eq!((stage.answer(again).generation, stage.answer(again).members.len()), (3, 2));
    assert_eq!(stage.state(), "CompletingRebalance");
}

#[test]
fn of_two_requests_of_one_member_the_newest_is_waited_for() {
    let (mut stage, first, second) = Stage::two();
    let one = stage.join(asking(&first));
    let two = stage.join(asking(&first));
    assert_eq!(stage.answer(one).error, ErrorCode::RebalanceInProgress);
    stage.join(asking(&second));
    assert_eq!(stage.answer(two).generation, 3);
    let one = stage.sync(&second, 3, &[]);
    let two = stage.sync(&second, 3, &[]);
    assert_eq!(stage.assignment(one).error, ErrorCode::RebalanceInProgress);
    stage.sync(&first, 3, &[(&second, "all")]);
    stage.store(true);
    assert_eq!(stage.assignment(two).assignment, "all");
}

#[test]
fn a_leader_that_goes_is_followed_by_the_next() {
    let (mut stage, first, second) = Stage::two();
    assert_eq!(stage.leave(&first, None), Ok(()));
    let again = stage.join(asking(&second));
    assert_eq!(stage.answer(again).leader, second);
    assert_eq!(stage.answer(again).members.len(), 1);
}

#[test]
fn who_goes_while_it_waits_is_told_so() {
    let (mut stage, first, second) = Stage::two();
    let waits = stage.join(asking(&first));
    assert_eq!(stage.leave(&first, None), Ok(()));
    assert_eq!(stage.answer(waits).error, ErrorCode::UnknownMemberId);
    stage.join(asking(&second));
    let waits = stage.sync(&second, 3, &[]);
    stage.leave(&second, None).unwrap();
    assert_eq!(stage.assignment(waits).error, ErrorCode::UnknownMemberId);
    assert_eq!((stage.state(), stage.group.generation()), ("Empty", 4));
}

#[test]
fn a_group_that_is_full_takes_nobody_and_keeps_those_it_has() {
    let mut stage = Stage::with(Rules { members_max: 2, bytes_max: 1 << 20, initial_delay_ms: 9 });
    let first = stage.join(asking(""));
    stage.join(asking(""));
    let third = stage.join(asking(""));
    assert_eq!(stage.answer(third).error, ErrorCode::GroupMaxSizeReached);
    stage.pass(100);
    let first = stage.answer(first).member_id;
    let fourth = stage.join(asking(""));
    assert_eq!(stage.answer(fourth).error, ErrorCode::GroupMaxSizeReached);
    let again = stage.join(asking(&first));
    assert_eq!(stage.answer(again).error, ErrorCode::None);
    assert_eq!(stage.group.members().count(), 2);
}

#[test]
fn members_have_a_limit_of_bytes_together() {
    let mut stage = Stage::with(Rules { members_max: 9, bytes_max: 1_000, initial_delay_ms: 9 });
    let long: &'static str = "x".repeat(500).leak();
    let asking = |id: &str| Asking { protocols: vec![("range", long)], ..asking(id) };
    let first = stage.join(asking(""));
    let second = stage.join(asking(""));
    assert_eq!(stage.answer(second).error, ErrorCode::GroupMaxSizeReached);
    stage.pass(100);
    let first = stage.answer(first).member_id;
    let waits = stage.sync(&first, 1, &[(&first, long)]);
    assert_eq!(stage.assignment(waits).error, ErrorCode::InvalidRequest);
    // It may join again: its place is its own.
    let again = stage.join(asking(&first));
    assert_eq!(stage.answer(again).error, ErrorCode::None);
}

#[test]
fn those_who_are_no_members_commit_to_empty_groups_alone() {
    let (mut stage, id) = Stage::one();
    assert_eq!(stage.may_commit("", -1), Err(ErrorCode::UnknownMemberId));
    let mut transactional =
        |id: &str, generation| stage.group.may_commit(stage.now_ms, id, None, generation, true);
    assert_eq!(transactional("", -1), Ok(()));
    assert_eq!(transactional(&id, 1), Ok(()));
    assert_eq!(transactional(&id, 0), Err(ErrorCode::IllegalGeneration));
    assert_eq!(transactional("other", 1), Err(ErrorCode::UnknownMemberId));
    stage.leave(&id, None).unwrap();
    assert_eq!(stage.may_commit("", -1), Ok(()));
    assert_eq!(stage.may_commit(&id, 1), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn a_group_that_is_being_deleted_takes_nobody() {
    let mut stage = Stage::new(0);
    stage.group.kill();
    let waits = stage.join(asking(""));
    assert_eq!(stage.answer(waits).error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(stage.may_commit("", -1), Err(ErrorCode::CoordinatorNotAvailable));
    stage.group.revive();
    stage.join(asking(""));
    assert_eq!(stage.group.members().count(), 1);
}

#[test]
fn a_stored_group_goes_on_in_its_generation() {
    let (mut stage, first, second) = Stage::two();
    let record = stage.group.record();
    let rules = Rules { members_max: 5, bytes_max: 1 << 20, initial_delay_ms: 0 };
    stage.group = ConsumerGroup::restored(rules, record.clone(), stage.now_ms);
    assert_eq!(stage.group.record(), record);
    assert_eq!(stage.heartbeat(&first, 2), Ok(()));
    assert_eq!(stage.may_commit(&second, 2), Ok(()));
    let again = stage.sync(&second, 2, &[]);
    assert_eq!(stage.assignment(again).assignment, "right");
    let same = stage.join(asking(&second));
    assert_eq!((stage.state(), stage.answer(same).leader), ("Stable", first.clone()));
    // Who did not come back goes.
    stage.pass(SESSION_MS - 1);
    assert_eq!(stage.heartbeat(&first, 2), Ok(()));
    stage.pass(1);
    assert_eq!(stage.heartbeat(&second, 2), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn the_log_says_who_went_and_why_all_have_to_join_again() {
    let (mut stage, first, second) = Stage::two();
    let notices = stage.group.take_notices();
    let joined = [GroupEvent::Rebalances(EventCause::Joined), GroupEvent::Stable];
    assert_eq!(notices, [joined.clone(), joined].concat());
    stage.pass(SESSION_MS - 1);
    assert_eq!(stage.heartbeat(&first, 2), Ok(()));
    assert_eq!(stage.group.take_notices(), []);
    stage.pass(1);
    let ended = GroupEvent::Gone(second, EventCause::SessionEnded);
    assert_eq!(stage.group.take_notices(), [ended, GroupEvent::Rebalances(EventCause::MemberGone)]);
    stage.pass(SESSION_MS);
    let ended = GroupEvent::Gone(first, EventCause::SessionEnded);
    assert_eq!(stage.group.take_notices(), [ended, GroupEvent::Empty]);
}
