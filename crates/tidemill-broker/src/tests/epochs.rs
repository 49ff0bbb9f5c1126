//! Leader epochs as clients see them: told everywhere, checked everywhere, and where a client's log
//! parts from the broker's (KIP-101, KIP-320, KIP-595).

use super::{client::*, node::Node};
use std::sync::Arc;
use tidemill_log::{Landing, LeaderEpoch, Offset, StartRole, Streamlet, stamp};
use tidemill_wire::kafka::{ErrorCode, message::*, text};

/// A wait that nobody should have to sit out.
const LONG_MS: i32 = 15_000;

/// A topic `t` with records at 0 and 1 of epoch 0, and at 2 of epoch 3.
async fn two_epochs() -> (Node, Client, Arc<Streamlet>) {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    client.produce("t", 0, chunk(&["a", "b"])).await;
    let streamlet = node.log.get("t").unwrap().streamlet(0).unwrap();
    streamlet.become_leader(LeaderEpoch(3), Landing::Local).unwrap();
    client.produce("t", 0, chunk(&["c"])).await;
    (node, client, streamlet)
}

async fn offset(client: &mut Client, timestamp: i64, known: i32) -> (i16, i64, i32) {
    let place =
        ListOffsetsPartition::default().with_timestamp(timestamp).with_current_leader_epoch(known);
    let topic = ListOffsetsTopic::default().with_name(text("t")).with_partitions(vec![place]);
    let request = ListOffsetsRequestData::default().with_topics(vec![topic]);
    let answer = only(only(client.ask(&request, 9).await.topics).partitions);
    (answer.error_code, answer.offset, answer.leader_epoch)
}

async fn epoch_end(client: &mut Client, epoch: i32, known: i32) -> (i16, i32, i64) {
    let place = OffsetForLeaderPartition::default()
        .with_current_leader_epoch(known)
        .with_leader_epoch(epoch);
    let topic = OffsetForLeaderTopic::default().with_topic(text("t")).with_partitions(vec![place]);
    let request =
        OffsetForLeaderEpochRequestData::default().with_replica_id(-1).with_topics(vec![topic]);
    let answer = only(only(client.ask(&request, 4).await.topics).partitions);
    (answer.error_code, answer.leader_epoch, answer.end_offset)
}

fn fetch_as(offset: i64, known: i32, last: i32, wait_ms: i32) -> FetchRequestData {
    let mut request = fetch("t", 0, offset, wait_ms);
    request.topics[0].partitions[0].current_leader_epoch = known;
    request.topics[0].partitions[0].last_fetched_epoch = last;
    request
}

async fn metadata(client: &mut Client) -> (i16, i32, i32) {
    let topic = MetadataRequestTopic::default().with_name(Some(text("t")));
    let request = MetadataRequestData::default().with_topics(Some(vec![topic]));
    let partition = only(only(client.ask(&request, 12).await.topics).partitions);
    (partition.error_code, partition.leader_id, partition.leader_epoch)
}

#[tokio::test]
async fn every_answer_has_the_epoch_of_what_it_tells() {
    let (node, mut client, _) = two_epochs().await;
    assert_eq!(metadata(&mut client).await, (0, 1, 3));
    let request = DescribeTopicPartitionsRequestData::default()
        .with_topics(vec![
            describe_topic_partitions_request::TopicRequest::default().with_name(text("t")),
        ])
        .with_response_partition_limit(9);
    let described = only(only(client.ask(&request, 0).await.topics).partitions);
    assert_eq!((described.leader_id, described.leader_epoch), (1, 3));
    for (timestamp, told) in [(-2, (0, 0)), (-1, (3, 3)), (0, (0, 0)), (-3, (0, 0)), (-5, (-1, -1))]
    {
        let (error, offset, epoch) = offset(&mut client, timestamp, -1).await;
        assert_eq!((error, (offset, epoch)), (0, told), "{timestamp}");
    }
    let records = client.fetch("t", 0, 0, 0).await.records.unwrap();
    let first = tidemill_log::ChunkHead::read(&records).unwrap();
    let second = tidemill_log::ChunkHead::read(&records[first.bytes..]).unwrap();
    assert_eq!((first.leader_epoch, second.leader_epoch), (0, 3));
    node.stop().await;
}

#[tokio::test]
async fn every_epoch_has_its_end_and_one_to_come_has_none() {
    let (node, mut client, _) = two_epochs().await;
    for (epoch, told) in
        [(0, (0, 2)), (1, (0, 2)), (2, (0, 2)), (3, (3, 3)), (4, (-1, -1)), (-1, (-1, -1))]
    {
        let (error, epoch_told, end) = epoch_end(&mut client, epoch, -1).await;
        assert_eq!((error, (epoch_told, end)), (0, told), "epoch {epoch}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_client_of_another_epoch_is_told_whether_it_is_behind_or_ahead() {
    let (node, mut client, _) = two_epochs().await;
    let (fenced, unknown) = (ErrorCode::FencedLeaderEpoch, ErrorCode::UnknownLeaderEpoch);
    for (known, error) in [
        (-1, ErrorCode::None),
        (0, fenced),
        (2, fenced),
        (3, ErrorCode::None),
        (4, unknown),
        (i32::MAX, unknown),
    ] {
        assert_eq!(offset(&mut client, -1, known).await.0, code(error), "{known}");
        assert_eq!(epoch_end(&mut client, 0, known).await.0, code(error), "{known}");
        let found = client.ask(&fetch_as(0, known, -1, LONG_MS), 12).await;
        let found = only(only(found.responses).partitions);
        assert_eq!(found.error_code, code(error), "{known}");
        assert_eq!(found.records.is_some_and(|it| !it.is_empty()), error == ErrorCode::None);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_reader_hears_of_a_new_leader() {
    let (node, mut client, streamlet) = two_epochs().await;
    let id = client.send(&fetch_as(3, 3, -1, LONG_MS), 12).await;
    let requests = node.requests();
    super::node::until(|| node.requests() >= requests).await;
    streamlet.become_leader(LeaderEpoch(5), Landing::Local).unwrap();
    let answer = client.receive::<FetchRequestData>(12, id).await;
    let found = only(only(answer.responses).partitions);
    assert_eq!(found.error_code, code(ErrorCode::FencedLeaderEpoch));
    node.stop().await;
}

#[tokio::test]
async fn a_reader_whose_log_is_another_is_told_where_they_part() {
    let (node, mut client, _) = two_epochs().await;
    // Position, epoch of the record before it, and where the logs part, or the error.
    let table = [
        (2, 0, Ok(None)),
        (3, 3, Ok(None)),
        (0, -1, Ok(None)),
        (3, 0, Ok(Some((0, 2)))),
        (2, 1, Ok(Some((0, 2)))),
        (9, 2, Ok(Some((0, 2)))),
        (9, 3, Ok(Some((3, 3)))),
        (3, 7, Err(ErrorCode::OffsetOutOfRange)),
    ];
    for (offset, last, told) in table {
        for version in [12, 16] {
            let mut request = fetch_as(offset, 3, last, 0);
            if version > 12 {
                let id = node.log.get("t").unwrap().id();
                request.topics[0].topic_id = crate::topic::uuid_of(id);
            }
            let answer = client.ask(&request, version).await;
            let found = only(only(answer.responses).partitions);
            let at = format!("offset {offset} after epoch {last}");
            let diverging = &found.diverging_epoch;
            match told {
                Err(error) => assert_eq!(found.error_code, code(error), "{at}"),
                Ok(expected) => {
                    let expected = expected.unwrap_or((-1, -1));
                    assert_eq!((diverging.epoch, diverging.end_offset), expected, "{at}");
                    assert_eq!(found.error_code, 0, "{at}");
                    let is_empty = found.records.is_none_or(|it| it.is_empty());
                    assert!(is_empty || expected == (-1, -1), "{at}");
                }
            }
        }
    }
    node.stop().await;
}

/// A copy takes nothing from clients, and shows what its leader has said to be on enough copies.
#[tokio::test]
async fn nobody_sees_what_a_copy_alone_has() {
    let node = Node::start_with(|how| how.options.role = StartRole::Copy).await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let not_leader = code(ErrorCode::NotLeaderOrFollower);
    let refused = client.produce("t", 0, chunk(&["own"])).await;
    assert_eq!((refused.error_code, refused.base_offset), (not_leader, -1));
    let streamlet = node.log.get("t").unwrap().streamlet(0).unwrap();
    streamlet.become_copy(LeaderEpoch(4)).unwrap();
    for offset in 0..3 {
        let mut sent = chunk(&["x"]);
        stamp(&mut sent, offset, LeaderEpoch(4));
        let append = streamlet.append_replica(&sent).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        // It is on the disk, and does not count.
        append.on_durable(Box::new(move |it| {
            let _gone = tell.send(it.is_ok());
        }));
        assert!(told.try_recv().is_err());
    }
    for seen in [0, 2] {
        streamlet.set_replicated(Offset(seen));
        super::node::until(|| streamlet.high_watermark() == seen).await;
        let found = client.fetch("t", 0, 0, 0).await;
        assert_eq!((found.error_code, found.high_watermark), (0, seen));
        assert_eq!(values(&found.records).len() as i64, seen);
    }
    assert_eq!(offset(&mut client, -1, -1).await.0, not_leader);
    assert_eq!(epoch_end(&mut client, 4, -1).await.0, not_leader);
    let unavailable = code(ErrorCode::LeaderNotAvailable);
    assert_eq!(metadata(&mut client).await, (unavailable, -1, 4));
    streamlet.become_leader(LeaderEpoch(5), Landing::Local).unwrap();
    assert_eq!(client.produce("t", 0, chunk(&["own"])).await.base_offset, 3);
    assert_eq!(client.fetch("t", 0, 0, 0).await.high_watermark, 4);
    node.stop().await;
}
