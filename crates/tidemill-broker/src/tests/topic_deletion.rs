//! A topic goes while it is used: everyone is told, and a new one of its name is another.

use super::{
    client::*,
    node::{Node, until},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tidemill_types::{Offset, StreamletIx};
use tidemill_wire::kafka::{ErrorCode, message::*, text};

fn delete(name: &str) -> DeleteTopicsRequestData {
    DeleteTopicsRequestData::default().with_topic_names(vec![text(name)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_is_told() {
    let node = Node::start().await;
    let (mut reader, mut admin) = (node.client().await, node.client().await);
    for round in 0..10 {
        admin.create("t", 1).await;
        admin.produce("t", 0, chunk(&["x"])).await;
        let before = node.requests();
        let id = reader.send(&fetch("t", 0, 1, 15_000), 12).await;
        // Every other time the poll has come by then.
        if round % 2 == 0 {
            until(|| node.requests() > before).await;
        }
        assert_eq!(admin.ask(&delete("t"), 5).await.responses[0].error_code, 0);
        let answer = reader.receive::<FetchRequestData>(12, id).await;
        let answer = only(only(answer.responses).partitions);
        assert_eq!(answer.error_code, code(ErrorCode::UnknownTopicOrPartition));
    }
}

/// Producers and consumers go on while their topic is deleted and made again and again: each
/// answer is a success, or an error that sends the client to look for the topic.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everyone_who_uses_it_is_told() {
    let node = Node::start().await;
    let mut admin = node.client().await;
    admin.create("t", 2).await;
    let allowed = [
        0,
        code(ErrorCode::UnknownTopicOrPartition),
        code(ErrorCode::NotLeaderOrFollower),
        code(ErrorCode::OffsetOutOfRange),
    ];
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let answers = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for worker in 0..4 {
        let (mut client, stopped) = (node.client().await, stopped.clone());
        let answers = Arc::clone(&answers);
        tasks.push(tokio::spawn(async move {
            let (mut offset, mut good) = (0, 0);
            while !*stopped.borrow() {
                let error = if worker % 2 == 0 {
                    let acks = if worker == 0 { -1 } else { 1 };
                    let answer = client.ask(&produce("t", 1, chunk(&["x"]), acks), 9).await;
                    only(only(answer.responses).partition_responses).error_code
                } else {
                    let answer = client.fetch("t", 1, offset, 20).await;
                    let found = values(&answer.records).last().map(|it| it.0 + 1);
                    offset = found.unwrap_or(if answer.error_code == 0 { offset } else { 0 });
                    answer.error_code
                };
                assert!(allowed.contains(&error), "worker {worker}: {error}");
                good += i32::from(error == 0);
                answers.fetch_add(1, Ordering::Relaxed);
            }
            good
        }));
    }
    // The workers come to every state of the topic in between.
    for _ in 0..50 {
        let before = answers.load(Ordering::Relaxed);
        until(|| answers.load(Ordering::Relaxed) >= before + 20).await;
        assert_eq!(admin.ask(&delete("t"), 5).await.responses[0].error_code, 0);
        admin.create("t", 2).await;
    }
    stop.send(true).unwrap();
    for task in tasks {
        assert!(task.await.unwrap() > 0, "each got something done");
    }
}

#[tokio::test]
async fn a_new_topic_of_the_name_is_empty() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let first = client.create("t", 3).await;
    for _ in 0..3 {
        client.produce("t", 0, chunk(&["old", "old"])).await;
    }
    client.ask(&delete("t"), 5).await;
    assert_eq!(client.fetch("t", 0, 0, 0).await.error_code, 3);
    assert_eq!(client.produce("t", 0, chunk(&["x"])).await.error_code, 3);
    let second = client.create("t", 1).await;
    assert_ne!(first, second);
    let answer = client.produce("t", 0, chunk(&["new"])).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 0));
    assert_eq!(values(&client.fetch("t", 0, 0, 0).await.records), [(0, "new".into())]);
    assert_eq!(client.fetch("t", 2, 0, 0).await.error_code, 3);
    let mut by_id = produce("", 0, chunk(&["x"]), -1);
    by_id.topic_data[0].topic_id = first;
    let answer = client.ask(&by_id, 13).await;
    let answer = only(only(answer.responses).partition_responses);
    assert_eq!(answer.error_code, code(ErrorCode::UnknownTopicId));
}

/// Over HTTP it goes as it does for Kafka's clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_deletes_beside_the_protocol_leaves_nothing_either() {
    let node = Node::start().await;
    let (mut reader, mut admin) = (node.client().await, node.client().await);
    admin.create("t", 1).await;
    admin.create("u", 1).await;
    for topic in ["t", "u"] {
        let stream = node.log.get(topic).unwrap();
        let broker = Arc::clone(&node.broker);
        let commit = move || {
            let offsets = [(StreamletIx(0), Offset(0))].into();
            broker.commit_group_offsets("g", &stream, &offsets).unwrap();
        };
        tokio::task::spawn_blocking(commit).await.unwrap();
    }
    let topics = |node: &Node| {
        let names = |it: &crate::group::offsets::GroupOffsets| {
            it.all().map(|(place, _)| place.0.clone()).collect::<Vec<_>>()
        };
        node.broker.groups.offsets("g", names).unwrap()
    };
    assert_eq!(topics(&node), ["t", "u"]);
    let id = reader.send(&fetch("t", 0, 0, 60_000), 12).await;
    let broker = Arc::clone(&node.broker);
    tokio::task::spawn_blocking(move || broker.delete_stream("t").unwrap()).await.unwrap();
    let answer = reader.receive::<FetchRequestData>(12, id).await;
    let answer = only(only(answer.responses).partitions);
    assert_eq!(answer.error_code, code(ErrorCode::UnknownTopicOrPartition));
    // Offsets of what is not there are nobody's.
    until(|| topics(&node) == ["u"]).await;
    let again = node.broker.delete_stream("t");
    assert!(matches!(again, Err(tidemill_log::LogError::Unknown(_))), "{again:?}");
    node.stop().await;
}
