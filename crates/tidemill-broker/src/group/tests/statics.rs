//! Scenes of static members. (KIP-345.)

use super::{Asking, SESSION_MS, Stage, asking};
use crate::group::{
    join::Join,
    member::Ticket,
    subscription::tests::{BEFORE, Metadata},
};
use bytes::Bytes;
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

impl Stage {
    /// Joins with these protocols and bytes.
    fn join_with(&mut self, instance: &str, protocols: &[(&str, Bytes)]) -> Ticket {
        self.join_as(instance, "", protocols, "consumer")
    }

    fn join_as(
        &mut self,
        instance: &str,
        member_id: &str,
        protocols: &[(&str, Bytes)],
        protocol_type: &str,
    ) -> Ticket {
        let protocols = protocols.iter().map(|(name, it)| ((*name).to_owned(), it.clone()));
        let protocols = protocols.collect();
        self.join_by(fixed(instance, member_id), |join| Join {
            protocols,
            protocol_type: protocol_type.to_owned(),
            client_host: "/10.0.0.2".to_owned(),
            session_ms: SESSION_MS / 2,
            ..join
        })
    }
}

/// Two static members with this metadata for `protocol`, stable in generation 1. The first leads.
fn two_with(protocol: &str, metadata: &Bytes) -> (Stage, String, String) {
    let mut stage = Stage::new(100);
    let protocols = [(protocol, metadata.clone())];
    let first = stage.join_with("a", &protocols);
    let second = stage.join_with("b", &protocols);
    stage.pass(1_000);
    let (first, second) = (stage.answer(first).member_id, stage.answer(second).member_id);
    stage.sync(&second, 1, &[]);
    stage.sync(&first, 1, &[(&first, "left"), (&second, "right")]);
    stage.store(true);
    (stage, first, second)
}

#[test]
fn a_changed_subscription_makes_all_join_again() {
    let bytes = BEFORE.bytes();
    let lists: Vec<Vec<(&str, Bytes)>> = vec![
        vec![("range", Metadata { topics: &["orders", "bills", "refunds"], ..BEFORE }.bytes())],
        vec![("range", Metadata { topics: &["bills"], ..BEFORE }.bytes())],
        vec![("range", Metadata { user_data: Some("weight=3"), ..BEFORE }.bytes())],
        vec![("range", Metadata { rack: Some("east"), ..BEFORE }.bytes())],
        vec![("range", bytes.clone()), ("roundrobin", bytes.clone())],
        vec![("range", Bytes::from_static(b"no metadata of a consumer"))],
    ];
    for changed in lists {
        for instance in ["a", "b"] {
            let (mut stage, first, second) = two_with("range", &bytes);
            let back = stage.join_with(instance, &changed);
            assert_eq!(stage.state(), "PreparingRebalance", "{changed:?}");
            let (other, other_id) = if instance == "a" { ("b", second) } else { ("a", first) };
            let joined = stage.join_as(other, &other_id, &[("range", bytes.clone())], "consumer");
            let (back, other) = (stage.answer(back), stage.answer(joined));
            assert_eq!((back.error, back.generation), (ErrorCode::None, 2));
            let leader = if instance == "a" { &back } else { &other };
            let told = leader.members.iter().find(|it| it.0 == back.member_id);
            assert_eq!(told.map(|it| &it.2), Some(&changed[0].1), "the leader sees the change");
        }
    }
}

#[test]
fn a_restart_that_changes_nothing_but_the_past_keeps_the_generation() {
    let restarted = Metadata { owned: &[], generation: -1, ..BEFORE };
    for protocol in ["range", "cooperative-sticky"] {
        let (mut stage, _, _) = two_with(protocol, &BEFORE.bytes());
        let back = stage.join_with("b", &[(protocol, restarted.bytes())]);
        stage.store(true);
        let answer = stage.answer(back);
        assert_eq!((answer.generation, stage.state()), (1, "Stable"), "{protocol}");
        let member = stage.group.members().find(|it| it.id == answer.member_id).unwrap();
        assert_eq!(member.client_host, "/10.0.0.2", "where it runs now");
        assert_eq!(member.session_ms, SESSION_MS / 2);
    }
}

#[test]
fn a_change_that_was_not_stored_is_still_a_change() {
    let (mut stage, first, _) = two_with("range", &BEFORE.bytes());
    let changed = Metadata { topics: &["refunds"], ..BEFORE }.bytes();
    stage.join_with("b", &[("range", changed.clone())]);
    // It gives up and comes again before the others have joined.
    let back = stage.join_with("b", &[("range", changed)]);
    let led = stage.join_as("a", &first, &[("range", BEFORE.bytes())], "consumer");
    assert_eq!((stage.answer(back).generation, stage.answer(led).members.len()), (2, 2));
}

#[test]
fn alone_a_member_may_come_back_with_protocols_that_it_did_not_know() {
    let of_range = [("range", BEFORE.bytes())];
    let of_sticky = [("cooperative-sticky", BEFORE.bytes())];
    let mut stage = Stage::new(0);
    let first = stage.join_with("a", &of_range);
    let first = stage.answer(first).member_id;
    stage.sync(&first, 1, &[]);
    stage.store(true);
    let back = stage.join_with("a", &of_sticky);
    let answer = stage.answer(back);
    assert_eq!((answer.generation, answer.protocol.as_deref()), (2, Some("cooperative-sticky")));
    // With its own id, too, and as another type of member.
    let again = stage.join_as("a", &answer.member_id, &[("default", BEFORE.bytes())], "connect");
    let again = stage.answer(again);
    assert_eq!((again.error, again.generation), (ErrorCode::None, 3));
    assert_eq!(again.protocol_type.as_deref(), Some("connect"));
    // Beside others it has to know what they know.
    let (mut stage, _, _) = two_with("range", &BEFORE.bytes());
    let back = stage.join_with("b", &of_sticky);
    assert_eq!(stage.answer(back).error, ErrorCode::InconsistentGroupProtocol);
    assert_eq!(stage.state(), "Stable");
}

#[test]
fn a_follower_that_asks_again_may_change_its_times() {
    let (mut stage, _, second) = two();
    let before = stage.group.members().find(|it| it.id == second).unwrap().session_ms;
    let again = stage.join_by(fixed("b", &second), |join| Join { session_ms: 77_000, ..join });
    assert_eq!(stage.answer(again).generation, 1);
    let member = stage.group.members().find(|it| it.id == second).unwrap();
    assert_eq!((before, member.session_ms), (SESSION_MS, 77_000));
}
