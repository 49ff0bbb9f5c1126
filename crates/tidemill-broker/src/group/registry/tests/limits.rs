//! Limits, retention, and what stands still with the node.

use super::*;

#[tokio::test]
async fn offsets_of_groups_with_members_stay_and_of_empty_ones_go() {
    let node = Node::new(4);
    let sender = enter(&node.groups, "members").await;
    node.groups.commit(&sender, vec![(place(1), offset(1))]).await.unwrap();
    node.groups.commit(&nobody("simple"), vec![(place(1), offset(1))]).await.unwrap();
    let alive_ms = 9_000;
    for _ in 0..=(RETENTION_MS / alive_ms) {
        node.sim.clock.advance(alive_ms * 1000);
        node.groups.tick();
        assert_eq!(node.groups.heartbeat(&sender), Ok(()));
    }
    node.groups.sweep();
    node.settle();
    assert_eq!(node.live().into_keys().collect::<Vec<_>>(), ["members"]);
    // It counts from when the last member went, however old the offset is.
    node.groups.leave("members", &[(sender.member_id.clone(), None)]).unwrap();
    node.sim.clock.advance(RETENTION_MS * 1000);
    node.groups.sweep();
    node.settle();
    assert_eq!(node.live().len(), 1);
    node.sim.clock.advance(1_000);
    node.groups.sweep();
    node.settle();
    assert!(node.live().is_empty());
    // Then there is nothing to keep the groups for.
    node.groups.sweep();
    node.settle();
    assert!(node.groups.list().is_empty());
    assert!(node.stored().is_empty());
}

/// R11: retention must not take what is being committed or held in its place.
#[tokio::test]
async fn r11_an_old_offset_that_is_being_replaced_stays() {
    for producer_id in [None, Some(7)] {
        let node = Node::new(4);
        node.groups.commit(&nobody("g"), vec![(place(1), offset(1))]).await.unwrap();
        node.sim.clock.advance((RETENTION_MS + 1) * 1000);
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let hold = Box::new(move |_| gone.recv().unwrap());
        node.store.commit_then(StoreBatch::default(), hold).unwrap();
        let offsets = vec![(place(1), offset(2))];
        let begun = node.groups.begin_write(&nobody("g"), offsets, producer_id).unwrap();
        node.groups.sweep();
        go.send(()).unwrap();
        commits::done(begun).await.unwrap();
        node.groups.sweep();
        node.settle();
        node.groups.end_transaction("g", 7, true).await.unwrap();
        let found = node.groups.offsets("g", |it| it.get(&place(1)).unwrap().offset);
        assert_eq!(found, Some(2));
        assert_eq!(node.live(), node.stored());
    }
}

#[tokio::test]
async fn time_stands_still_while_the_node_does_not_run() {
    let mut node = Node::new(5);
    node.groups.commit(&nobody("g"), vec![(place(1), offset(1))]).await.unwrap();
    node.sim.clock.advance(RETENTION_MS * 900);
    node.groups.sweep();
    node.settle();
    node.store.close();
    // A year goes by.
    node.sim.clock.advance(365 * 86_400_000_000);
    node.restart(false);
    node.groups.sweep();
    node.settle();
    assert_eq!(node.live().len(), 1);
    node.sim.clock.advance(RETENTION_MS * 101);
    node.groups.sweep();
    node.settle();
    assert!(node.live().is_empty());
}

#[tokio::test]
async fn groups_and_offsets_have_limits() {
    let node = Node::new(6);
    let many: Vec<_> = (0..98).map(|it| (place(it), offset(1))).collect();
    node.groups.commit(&nobody("g"), many).await.unwrap();
    let three: Vec<_> = (98..101).map(|it| (place(it), offset(1))).collect();
    let too_many = Err(ErrorCode::InvalidCommitOffsetSize);
    assert_eq!(node.groups.commit(&nobody("g"), three).await, too_many);
    // Those that are there can be committed again.
    let again = (0..98).map(|it| (place(it), offset(2))).collect();
    node.groups.commit(&nobody("g"), again).await.unwrap();
    for number in 1..20 {
        let joined = node.groups.join(joining(&format!("g{number}"), "")).await;
        assert_eq!(joined.error, ErrorCode::None);
    }
    let refused = node.groups.join(joining("one more", "")).await;
    assert_eq!(refused.error, ErrorCode::GroupMaxSizeReached);
    let refused = node.groups.commit(&nobody("one more"), Vec::new()).await;
    assert_eq!(refused, too_many);
    let long = "g".repeat(ID_BYTES_MAX + 1);
    let refused = node.groups.join(joining(&long, "")).await;
    assert_eq!(refused.error, ErrorCode::InvalidGroupId);
    let refused = node.groups.commit(&nobody(&long), Vec::new()).await;
    assert_eq!(refused, Err(ErrorCode::InvalidGroupId));
}

#[tokio::test]
async fn offsets_that_transactions_hold_have_a_limit_too() {
    let node = Node::new(10);
    let all: Vec<_> = (0..100).map(|it| (place(it), offset(1))).collect();
    node.groups.commit(&nobody("g"), all).await.unwrap();
    let stage = |producer_id: i64, places: std::ops::Range<u32>| {
        let offsets = places.map(|it| (place(it), offset(2))).collect();
        let begun = node.groups.begin_write(&nobody("g"), offsets, Some(producer_id));
        async move { commits::done(begun?).await.map_err(|error| code_of(&error)) }
    };
    let too_many = Err(ErrorCode::InvalidCommitOffsetSize);
    assert_eq!(stage(1, 100..101).await, too_many, "a new one");
    assert_eq!(stage(1, 0..60).await, Ok(()), "in place of those that are there");
    assert_eq!(stage(2, 0..60).await, too_many, "of one producer after another");
    assert_eq!(stage(2, 0..40).await, Ok(()));
    assert_eq!(stage(1, 0..60).await, Ok(()), "again");
    node.groups.end_transaction("g", 1, true).await.unwrap();
    assert_eq!(stage(3, 0..60).await, Ok(()));
}

#[tokio::test]
async fn all_groups_together_have_a_limit_and_who_is_in_one_may_stay() {
    let mut node = Node::new(9);
    let settings = GroupSettings { groups: 10_000, group_bytes: ByteSize(16 << 10), ..settings() };
    node.groups = GroupRegistry::open(&node.sim.world, Arc::clone(&node.store), settings).unwrap();
    let join = |group: String, member_id: String, bytes: usize| {
        let protocols = vec![("range".to_owned(), vec![7; bytes].into())];
        node.groups.join(Joining { protocols, ..joining(&group, &member_id) })
    };
    let mut members = Vec::new();
    let refused = loop {
        let group = format!("g{}", members.len());
        let joined = join(group.clone(), String::new(), 8 << 10).await;
        if joined.error != ErrorCode::None {
            break joined;
        }
        members.push((group, joined.member_id));
        assert!(members.len() < 128, "1 MiB for all, 8 KiB for each");
    };
    assert_eq!(refused.error, ErrorCode::GroupMaxSizeReached);
    assert!(members.len() > 64, "{}", members.len());
    // Nor is there a group of a name alone, once its bytes do not fit either.
    let long = join("g".repeat(30_000), String::new(), 0).await;
    assert_eq!(long.error, ErrorCode::GroupMaxSizeReached);
    // A member that asks as before, or for less, stays; one that asks for more is refused.
    let (group, id) = members[0].clone();
    let more = join(group.clone(), id.clone(), 15 << 10).await;
    assert_eq!(more.error, ErrorCode::GroupMaxSizeReached);
    for bytes in [8 << 10, 4 << 10] {
        assert_eq!(join(group.clone(), id.clone(), bytes).await.error, ErrorCode::None);
    }
    // Once they have gone there is room again, and nothing is counted that is not there.
    for (group, id) in members {
        node.groups.leave(&group, &[(id, None)]).unwrap();
    }
    node.settle();
    node.groups.sweep();
    node.settle();
    while !node.groups.list().is_empty() {
        node.sim.clock.advance(60_000_000);
        node.groups.tick();
        node.groups.sweep();
        node.settle();
    }
    assert_eq!(node.groups.bytes.load(Ordering::Relaxed), 0);
    assert_eq!(join("again".to_owned(), String::new(), 8 << 10).await.error, ErrorCode::None);
}

#[tokio::test]
async fn a_group_that_is_being_deleted_takes_nothing_and_comes_back_if_it_is_not() {
    let node = Node::new(7);
    node.groups.commit(&nobody("g"), vec![(place(1), offset(1))]).await.unwrap();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let hold = |gone: std::sync::mpsc::Receiver<()>| {
        node.store
            .commit_then(StoreBatch::default(), Box::new(move |_| gone.recv().unwrap()))
            .unwrap();
    };
    hold(gone);
    // In flight when the group is deleted: it goes with it.
    let late = node.groups.begin_write(&nobody("g"), vec![(place(2), offset(1))], None).unwrap();
    let groups = Arc::clone(&node.groups);
    let deleted = tokio::spawn(async move { groups.delete("g").await });
    while node.groups.describe("g").unwrap().state != "Dead" {
        tokio::task::yield_now().await;
    }
    let refused = node.groups.commit(&nobody("g"), vec![(place(1), offset(9))]).await;
    assert_eq!(refused, Err(ErrorCode::CoordinatorNotAvailable));
    let refused = node.groups.join(joining("g", "")).await;
    assert_eq!(refused.error, ErrorCode::CoordinatorNotAvailable);
    go.send(()).unwrap();
    assert_eq!(deleted.await.unwrap(), Ok(()));
    commits::done(late).await.unwrap();
    assert!(node.live().is_empty() && node.stored().is_empty());
    // One that is not deleted after all.
    node.groups.commit(&nobody("g"), vec![(place(1), offset(2))]).await.unwrap();
    node.sim.disk.fail_after(0);
    assert_eq!(node.groups.delete("g").await, Err(ErrorCode::CoordinatorNotAvailable));
    node.groups.commit(&nobody("g"), vec![(place(1), offset(3))]).await.unwrap();
    assert_eq!(node.live(), node.stored());
}

#[test]
fn entries_that_a_newer_node_wrote_are_refused_and_left_alone() {
    for table in [StoreTable::Groups, StoreTable::Offsets, StoreTable::PendingOffsets] {
        let mut node = Node::new(8);
        let mut batch = StoreBatch::default();
        let key = crate::group::offsets::key("g", &place(1));
        let key = match table {
            StoreTable::Groups => b"g".to_vec(),
            StoreTable::Offsets => key.encode(),
            _ => key.encode_pending(1),
        };
        batch.put(table, key.as_slice(), [9, 9, 9]);
        node.store.commit_blocking(batch).unwrap();
        let refused = GroupRegistry::open(&node.sim.world, Arc::clone(&node.store), settings());
        assert!(matches!(refused, Err(StoreError::Damaged { .. })));
        assert_eq!(node.store.get(table, &key).unwrap(), Some(vec![9, 9, 9]));
        node.store.close();
        node.store =
            Arc::new(MetadataStore::open(&node.sim.world, Path::new("data/broker.redb")).unwrap());
    }
}
