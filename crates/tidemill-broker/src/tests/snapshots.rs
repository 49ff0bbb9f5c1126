//! What a partition knows, stored and read again; and who is woken when.

use super::{
    client::*,
    node::{Node, until},
    producer::{Producer, committed},
};
use crate::{
    partition::Partition,
    store::{StoreBatch, StoreTable},
    upkeep,
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tidemill_env::{SimClock, SimWorld, World};
use tidemill_log::Fsync;
use tidemill_types::Span;
use tidemill_wire::{
    kafka::{message::DeleteTopicsRequestData, text},
    producers::ProducerRecord,
};

async fn node(sim: &SimWorld, fsync: Fsync) -> Node {
    Node::start_with(|how| {
        how.world = Some(sim.process());
        how.options.fsync = fsync;
    })
    .await
}

fn partition(node: &Node) -> Arc<Partition> {
    node.broker.topic("t").unwrap().partition(0).unwrap()
}

/// What is known, but for how long ago it was learnt.
#[derive(Debug, PartialEq)]
struct Known {
    producers: Vec<ProducerRecord>,
    ended: Vec<i64>,
    /// First record and marker of each.
    aborted: Vec<(i64, i64)>,
    first_unstable: Option<i64>,
}

fn known(partition: &Partition) -> Known {
    let look = |history: &crate::partition::history::History| {
        let mut producers = history.records(0);
        producers.iter_mut().for_each(|it| it.idle_ms = 0);
        let stable = history.stable();
        Known {
            producers,
            ended: history.ended_ids(),
            aborted: stable.aborted_since(0).iter().map(|it| (it.first, it.marker)).collect(),
            first_unstable: stable.first_unstable(),
        }
    };
    partition.with_history(look).unwrap()
}

#[tokio::test]
async fn r1_r4_what_is_known_is_the_same_after_a_restart_with_snapshots_and_without() {
    for stored in [vec![], vec![3], vec![1, 4], vec![0, 1, 2, 3, 4, 5]] {
        let sim = World::simulated(4);
        let mut before = node(&sim, Fsync::Always).await;
        let mut client = before.client().await;
        client.create("t", 1).await;
        let mut plain = Producer::idempotent(&mut client).await;
        let mut a = Producer::transactional(&mut client, "a", 2).await;
        let mut b = Producer::transactional(&mut client, "b", 1).await;
        for round in 0..6 {
            b.begin(&mut client, &[(0, "b")]).await;
            plain.send(&mut client, 0, &["p", "q"]).await;
            a.begin(&mut client, &[(0, "a")]).await;
            a.end(&mut client, round % 2 == 1).await;
            client.produce("t", 0, chunk(&["x"])).await;
            if stored.contains(&round) {
                // While `b` has a transaction open.
                upkeep::last_snapshots(&before.broker);
            }
            b.end(&mut client, round % 3 != 0).await;
        }
        b.begin(&mut client, &[(0, "open")]).await;
        let expected = known(&partition(&before));
        assert_eq!(expected.aborted.len(), 5, "three of a, two of b");
        assert!(expected.first_unstable.is_some());
        assert_eq!(expected.ended, [a.id, b.id]);
        let seen = committed(&mut client, 0).await;
        for _ in 0..2 {
            sim.disk.kill();
            let after = node(&sim, Fsync::Always).await;
            let mut client = after.client().await;
            assert_eq!(committed(&mut client, 0).await, seen, "stored {stored:?}");
            assert_eq!(known(&partition(&after)), expected, "stored {stored:?}");
            before = after;
        }
        before.stop().await;
    }
}

/// How much is stored of the producers of a stream.
fn stored(node: &Node, stream: &[u8; 16]) -> usize {
    let mut count = 0;
    let visit = |_: &[u8], _: &[u8]| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    };
    node.broker.store.scan(StoreTable::Producers, stream, visit).unwrap();
    count
}

#[tokio::test]
async fn what_is_stored_of_a_topic_goes_with_it_though_nobody_has_asked_for_its_partitions() {
    let sim = World::simulated(8);
    let before = node(&sim, Fsync::Always).await;
    let mut client = before.client().await;
    let (gone, stays) = (client.create("t", 3).await, client.create("u", 1).await);
    let mut producer = Producer::transactional(&mut client, "x", 2).await;
    for commit in [false, true, false] {
        producer.begin(&mut client, &[(0, "a"), (1, "b"), (2, "c")]).await;
        assert_eq!(producer.end(&mut client, commit).await, 0);
    }
    let mut batch = StoreBatch::default();
    batch.put(StoreTable::Producers, stays.to_bytes(), "of another stream");
    before.broker.store.commit(batch).await.unwrap();
    before.stop().await;

    let after = node(&sim, Fsync::Always).await;
    let mut client = after.client().await;
    assert_eq!(
        stored(&after, &gone.to_bytes()),
        3 + 3 * 2,
        "a snapshot each, and what was aborted"
    );
    let request = DeleteTopicsRequestData::default().with_topic_names(vec![text("t")]);
    assert_eq!(only(client.ask(&request, 5).await.responses).error_code, 0);
    until(|| stored(&after, &gone.to_bytes()) == 0).await;
    assert_eq!(stored(&after, &stays.to_bytes()), 1);
    after.stop().await;
}

#[tokio::test]
async fn r1_a_snapshot_of_a_log_that_lost_its_end_is_not_believed() {
    let (mut shorter, mut grown) = (0, 0);
    for seed in 0..24 {
        let sim = World::simulated(seed);
        let before = node(&sim, Fsync::Os).await;
        let mut client = before.client().await;
        client.create("t", 1).await;
        let mut producer = Producer::idempotent(&mut client).await;
        let mut sent = Vec::new();
        for at in 0..5 {
            let value = format!("v{at}");
            sent.push((producer.clone(), value.clone()));
            assert_eq!(producer.send(&mut client, 0, &[&value]).await, (0, at));
        }
        upkeep::last_snapshots(&before.broker);
        sim.disk.power_cut();
        let after = node(&sim, Fsync::Os).await;
        let mut client = after.client().await;
        let left = client.offset("t", -1).await.0;
        shorter += u32::from(left < 5);
        if seed % 2 == 0 {
            // Others write where the lost chunks were.
            grown += 1;
            for _ in 0..8 {
                client.produce("t", 0, chunk(&["other"])).await;
            }
        }
        // The client repeats what it does not know to be there: here all, in order.
        for (before, value) in &sent[left as usize..] {
            let mut again = before.clone();
            assert_eq!(again.send(&mut client, 0, &[value]).await.0, 0, "seed {seed}");
        }
        let (mut seen, _) = committed(&mut client, 0).await;
        seen.retain(|it| it != "other");
        assert_eq!(seen, ["v0", "v1", "v2", "v3", "v4"], "seed {seed}: once each");
        after.stop().await;
    }
    assert!(shorter > 3 && grown > 3, "{shorter} logs lost something");
}

#[tokio::test]
async fn row_18_a_transaction_whose_marker_was_lost_is_ended_again_as_it_was() {
    // Acknowledged before it is on the disk.
    let rarely = Fsync::Every(Span(3_600_000_000));
    let (mut lost, mut committed_again) = (0, 0);
    for seed in 0..24 {
        let sim = World::simulated(seed);
        let before = node(&sim, rarely).await;
        let mut client = before.client().await;
        client.create("t", 1).await;
        let mut producer = Producer::transactional(&mut client, "x", 2).await;
        producer.begin(&mut client, &[(0, "a")]).await;
        before.log.sync();
        let commit = seed % 2 == 0;
        assert_eq!(producer.end(&mut client, commit).await, 0);
        // The coordinator's own record of the end is durable.
        before.broker.transactions.tend(&before.broker).await;
        sim.disk.power_cut();
        let after = node(&sim, rarely).await;
        let mut client = after.client().await;
        let left = client.fetch("t", 0, 0, 0).await.high_watermark;
        let (seen, stable) = committed(&mut client, 0).await;
        if left == 1 {
            lost += 1;
            committed_again += u32::from(commit && seen == ["a"]);
        }
        let end = client.fetch("t", 0, 0, 0).await.high_watermark;
        assert_eq!(stable, end, "seed {seed}: nothing hangs");
        let expected: &[&str] = if commit && left > 0 { &["a"] } else { &[] };
        assert_eq!(seen, expected, "seed {seed}, {left} left");
        after.stop().await;
    }
    assert!(lost > 2 && committed_again > 0, "{lost} markers were lost");
}

#[tokio::test]
async fn a_reader_behind_an_open_transaction_sleeps_until_it_ends() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let mut open = Producer::transactional(&mut client, "a", 2).await;
    let mut other = Producer::transactional(&mut client, "b", 2).await;
    open.begin(&mut client, &[(0, "a")]).await;
    let partition = partition(&node);
    let woken = Arc::new(AtomicUsize::new(0));
    let wait = |offset: i64, committed: bool| {
        let woken = Arc::clone(&woken);
        let notice = move || {
            woken.fetch_add(1, Ordering::SeqCst);
        };
        partition.on_readable(offset, committed, Box::new(notice))
    };
    let forgotten = wait(0, true);
    let waits = wait(0, true);
    drop(forgotten);
    for commit in [true, false] {
        other.begin(&mut client, &[(0, "b")]).await;
        assert_eq!(other.end(&mut client, commit).await, 0);
    }
    assert_eq!(woken.load(Ordering::SeqCst), 0, "the oldest is still open");
    assert_eq!(open.end(&mut client, true).await, 0);
    assert_eq!(woken.load(Ordering::SeqCst), 1, "once, and not the one that was dropped");
    drop(waits);
    let end = partition.streamlet.high_watermark();
    let later = wait(end, true);
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    client.produce("t", 0, chunk(&["plain"])).await;
    until(|| woken.load(Ordering::SeqCst) == 2).await;
    drop(later);
    // A topic that goes takes its readers along.
    open.begin(&mut client, &[(0, "c")]).await;
    let waits = wait(partition.streamlet.high_watermark() - 1, true);
    assert_eq!(woken.load(Ordering::SeqCst), 2);
    node.log.delete("t").unwrap();
    until(|| woken.load(Ordering::SeqCst) == 3).await;
    drop(waits);
    node.stop().await;
}

#[tokio::test]
async fn a_producer_is_forgotten_by_its_last_chunk_though_the_node_was_started_in_between() {
    let hour_us = 3_600_000_000;
    let sim = World::simulated(9);
    let before = node(&sim, Fsync::Always).await;
    let mut client = before.client().await;
    client.create("t", 1).await;
    for _ in 0..2 {
        Producer::idempotent(&mut client).await.send(&mut client, 0, &["x"]).await;
        sim.clock.advance(10 * hour_us);
    }
    before.stop().await;
    // A start begins the monotonic clock anew.
    let clock = Arc::new(SimClock::default());
    let world = World { clock: Arc::clone(&clock) as _, ..sim.process() };
    let after = Node::start_with(|how| how.world = Some(world)).await;
    let partition = partition(&after);
    assert_eq!(known(&partition).producers.len(), 2);
    clock.advance(5 * hour_us);
    partition.prune();
    assert_eq!(known(&partition).producers.len(), 1, "one was here 25 hours ago, the other 15");
    after.stop().await;
}
