//! What a session takes of memory.

use super::*;
use std::mem::size_of;

fn ask(session: &mut FetchSession, name: &str, partitions: &[i32]) {
    let asked = FetchPosition { offset: 0, max_bytes: 1, leader_epoch: -1, last_epoch: -1 };
    let asked = partitions.iter().map(|it| (*it, asked.clone()));
    let missing = Err(ErrorCode::UnknownTopicOrPartition);
    session.ask((KafkaUuid::ZERO, &text(name)), missing, asked);
}

#[test]
fn topics_without_partitions_leave_nothing() {
    let mut session = FetchSession::default();
    for name in 0..100 {
        ask(&mut session, &name.to_string(), &[]);
    }
    assert!(session.places.is_empty());
}

#[test]
fn long_names_count_as_more_partitions() {
    let mut session = FetchSession::default();
    let name = "n".repeat(30_000);
    ask(&mut session, &name, &[0, 1]);
    ask(&mut session, &name, &[2]);
    assert_eq!(session.weight(), 3 + 30_000 / NAME_BYTES, "the name is there once");
    for index in 0..3 {
        session.forget(&(KafkaUuid::ZERO, text(&name), index));
    }
    assert_eq!((session.weight(), session.name_bytes), (0, 0));
    session.begin_round(true);
    ask(&mut session, &name, &[0]);
    session.begin_round(true);
    ask(&mut session, "short", &[0]);
    session.keep_asked();
    assert_eq!((session.weight(), session.name_bytes), (1, 5));
}

#[test]
fn what_a_partition_takes_is_counted() {
    // In two maps of slots, one of places; found twice, as a list that grows may be; its interest
    // is a closure and what the log has of it.
    let found = 2 * size_of::<(u32, PartitionAnswer)>();
    let maps = 3 * 2 * size_of::<(i32, u32)>() + size_of::<(u32, SessionSlot)>() * 3 / 2;
    let taken = found + maps + 128;
    assert!(taken <= SLOT_BYTES, "{taken}");
}
