//! A chunk that is sent again is in the log once, and its answer is the first one's.

use super::{
    client::*,
    node::{Node, until},
    producer::Producer,
};
use tidemill_env::World;
use tidemill_wire::kafka::message::describe_producers_request::TopicRequest;
use tidemill_wire::kafka::{ErrorCode, message::*};

async fn started(node: &Node) -> Client {
    let mut client = node.client().await;
    client.create("t", 1).await;
    client
}

async fn ends(client: &mut Client) -> i64 {
    client.offset("t", -1).await.0
}

#[tokio::test]
async fn r1_r2_each_of_the_last_five_chunks_has_its_old_offset_when_it_comes_again() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let mut producer = Producer::idempotent(&mut client).await;
    let mut sent = Vec::new();
    for at in 0..7 {
        let before = producer.clone();
        let (error, offset) = producer.send(&mut client, 0, &["a", "b"]).await;
        assert_eq!((error, offset), (0, at * 2));
        sent.push((before, offset));
    }
    // Another connection, as after a broken one.
    let mut other = node.client().await;
    for (before, offset) in &mut sent[2..] {
        assert_eq!(before.clone().send(&mut other, 0, &["a", "b"]).await, (0, *offset));
    }
    for (before, _) in &mut sent[..2] {
        let (error, _) = before.clone().send(&mut other, 0, &["a", "b"]).await;
        assert_eq!(error, code(ErrorCode::OutOfOrderSequenceNumber));
    }
    assert_eq!(ends(&mut client).await, 14, "nothing is there twice");
    node.stop().await;
}

#[tokio::test]
async fn r1_a_chunk_repeated_on_the_same_connection_at_once_is_answered_after_the_first() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let producer = Producer::idempotent(&mut client).await;
    let (request, version) = producer.request(0, &["a"]);
    // Neither is answered when the other comes.
    let first = client.send(&request, version).await;
    let second = client.send(&request, version).await;
    for id in [first, second] {
        let answer = client.receive::<ProduceRequestData>(version, id).await;
        let answer = only(only(answer.responses).partition_responses);
        assert_eq!((answer.error_code, answer.base_offset), (0, 0));
    }
    assert_eq!(ends(&mut client).await, 1);
    node.stop().await;
}

#[tokio::test]
async fn a_gap_is_refused_and_an_older_epoch_too() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let mut producer = Producer::idempotent(&mut client).await;
    producer.send(&mut client, 0, &["a"]).await;
    let mut ahead = Producer { next: [5, 0, 0, 0], ..producer.clone() };
    let (error, _) = ahead.send(&mut client, 0, &["b"]).await;
    assert_eq!(error, code(ErrorCode::OutOfOrderSequenceNumber));
    let mut newer = Producer { epoch: 1, next: [0; 4], ..producer.clone() };
    assert_eq!(newer.send(&mut client, 0, &["b"]).await, (0, 1));
    let (error, _) = producer.send(&mut client, 0, &["c"]).await;
    assert_eq!(error, code(ErrorCode::InvalidProducerEpoch));
    node.stop().await;
}

#[tokio::test]
async fn r1_a_restart_forgets_no_chunk_and_gives_no_id_twice() {
    for cut in [false, true] {
        let sim = World::simulated(7);
        let mut ids = Vec::new();
        let mut sent: Vec<(Producer, i64)> = Vec::new();
        let mut producer = None;
        for life in 0..4 {
            let node = Node::start_with(|how| how.world = Some(sim.process())).await;
            let mut client = node.client().await;
            if life == 0 {
                client.create("t", 1).await;
            }
            let fresh = Producer::idempotent(&mut client).await;
            assert!(!ids.contains(&fresh.id), "{} was given twice", fresh.id);
            ids.push(fresh.id);
            let producer = producer.get_or_insert(fresh);
            for (before, offset) in sent.iter_mut().rev().take(5) {
                assert_eq!(before.clone().send(&mut client, 0, &["x"]).await, (0, *offset));
            }
            for _ in 0..7 {
                let before = producer.clone();
                let (error, offset) = producer.send(&mut client, 0, &["x"]).await;
                assert_eq!((error, offset), (0, sent.len() as i64));
                sent.push((before, offset));
            }
            if life == 2 {
                // In order, with a snapshot.
                node.stop().await;
            } else if cut {
                sim.disk.power_cut();
            } else {
                sim.disk.kill();
            }
        }
    }
}

#[tokio::test]
async fn r6_r2_a_chunk_that_retention_removed_is_still_recognized() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let mut producer = Producer::idempotent(&mut client).await;
    let before = producer.clone();
    let (_, offset) = producer.send(&mut client, 0, &["a"]).await;
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(-1);
    let topic = DeleteRecordsTopic::default()
        .with_name(tidemill_wire::kafka::text("t"))
        .with_partitions(vec![partition]);
    let request = DeleteRecordsRequestData::default().with_topics(vec![topic]);
    let deleted = only(only(client.ask(&request, 2).await.topics).partitions);
    assert_eq!((deleted.error_code, deleted.low_watermark), (0, 1));
    assert_eq!(before.clone().send(&mut client, 0, &["a"]).await, (0, offset));
    assert_eq!(producer.send(&mut client, 0, &["b"]).await, (0, 1));
    node.stop().await;
}

async fn delete_all(client: &mut Client) {
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(-1);
    let topic = DeleteRecordsTopic::default()
        .with_name(tidemill_wire::kafka::text("t"))
        .with_partitions(vec![partition]);
    let request = DeleteRecordsRequestData::default().with_topics(vec![topic]);
    assert_eq!(only(only(client.ask(&request, 2).await.topics).partitions).error_code, 0);
}

#[tokio::test]
async fn r1_r6_a_chunk_that_was_deleted_is_still_recognized_after_a_kill() {
    for lives in 0..3 {
        let sim = World::simulated(9);
        let start = || Node::start_with(|how| how.world = Some(sim.process()));
        let mut node = start().await;
        let mut client = started(&node).await;
        let mut producer = Producer::idempotent(&mut client).await;
        let before = producer.clone();
        assert_eq!(producer.send(&mut client, 0, &["a", "b"]).await, (0, 0));
        // What is about to be deleted may not have been asked for since a start.
        for _ in 0..lives {
            sim.disk.kill();
            node = start().await;
            client = node.client().await;
        }
        delete_all(&mut client).await;
        sim.disk.kill();
        let node = start().await;
        let mut client = node.client().await;
        assert_eq!(before.clone().send(&mut client, 0, &["a", "b"]).await, (0, 0), "{lives}");
        assert_eq!(ends(&mut client).await, 2);
        assert_eq!(producer.send(&mut client, 0, &["c"]).await, (0, 2));
        node.stop().await;
    }
}

#[tokio::test]
async fn r1_r6_a_chunk_that_retention_removed_is_still_recognized_after_a_kill() {
    let sim = World::simulated(10);
    let start = || Node::start_with(|how| how.world = Some(sim.process()));
    let node = start().await;
    let mut client = started(&node).await;
    let mut producer = Producer::idempotent(&mut client).await;
    let before = producer.clone();
    assert_eq!(producer.send(&mut client, 0, &["a", "b"]).await, (0, 0));
    // As retention does it: the log alone.
    let topic = node.broker.topic("t").unwrap();
    let partition = topic.partition(0).unwrap();
    topic.stream.delete_records(&partition.streamlet, 2).unwrap();
    until(|| partition.is_kept(2)).await;
    sim.disk.kill();
    let node = start().await;
    let mut client = node.client().await;
    assert_eq!(before.clone().send(&mut client, 0, &["a", "b"]).await, (0, 0));
    assert_eq!(ends(&mut client).await, 2);
    node.stop().await;
}

#[tokio::test]
async fn only_so_many_producers_are_remembered() {
    let node = Node::start_with(|how| how.settings.limits.producers.producers = 8).await;
    let mut client = started(&node).await;
    let mut all = Vec::new();
    for _ in 0..20 {
        let mut producer = Producer::idempotent(&mut client).await;
        assert_eq!(producer.send(&mut client, 0, &["a"]).await.0, 0);
        all.push(producer);
    }
    let topic = TopicRequest::default()
        .with_name(tidemill_wire::kafka::text("t"))
        .with_partition_indexes(vec![0, 1]);
    let request = DescribeProducersRequestData::default().with_topics(vec![topic]);
    let described = only(client.ask(&request, 0).await.topics).partitions;
    assert_eq!(described[1].error_code, code(ErrorCode::UnknownTopicOrPartition));
    let known = &described[0].active_producers;
    assert!(known.len() <= 8 && !known.is_empty(), "{}", known.len());
    assert!(known.iter().any(|it| it.producer_id == all[19].id && it.last_sequence == 0));
    // Whoever was forgotten goes on as if it had just come.
    assert_eq!(all[0].send(&mut client, 0, &["b"]).await, (0, 20));
    node.stop().await;
}
