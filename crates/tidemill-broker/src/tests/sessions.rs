//! Fetch sessions: what is new is told, and nothing else. (KIP-227.)

use super::{
    client::*,
    node::{Node, until},
    producer::Producer,
};
use tidemill_wire::kafka::message::fetch_request::FetchTopic;
use tidemill_wire::kafka::{
    ErrorCode, KafkaUuid,
    message::{
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        fetch_request::ForgottenTopic,
        *,
    },
    text,
};

/// A request of a session that names no partitions.
fn next(session_id: i32, epoch: i32, max_wait_ms: i32) -> FetchRequestData {
    FetchRequestData::default()
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(1 << 24)
        .with_session_id(session_id)
        .with_session_epoch(epoch)
}

fn topic(name: &str, places: &[(i32, i64)]) -> FetchTopic {
    FetchTopic::default()
        .with_topic(text(name))
        .with_partitions(places.iter().map(|(index, offset)| place(*index, *offset)).collect())
}

/// Partitions in an answer, with their errors and how many records each has.
fn told(answer: &FetchResponseData) -> Vec<(i32, i16, usize)> {
    let partitions = answer.responses.iter().flat_map(|it| &it.partitions);
    let mut told: Vec<_> = partitions
        .map(|it| (it.partition_index, it.error_code, values(&it.records).len()))
        .collect();
    told.sort_unstable();
    told
}

/// A session over partitions of `t`, with nothing read yet.
async fn begun(client: &mut Client, partitions: i32) -> i32 {
    let all: Vec<_> = (0..partitions).map(|it| (it, 0)).collect();
    let request = next(0, 0, 0).with_topics(vec![topic("t", &all)]);
    let answer = client.ask(&request, 12).await;
    assert_eq!((answer.error_code, told(&answer).len() as i32), (0, partitions));
    assert_ne!(answer.session_id, 0);
    answer.session_id
}

/// A client that comes back after a restart must not be given the session of another: it would never
/// be told of its own records, and of no error.
#[tokio::test]
async fn a_session_of_before_a_restart_is_nobody_elses() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let before: Vec<i32> = [begun(&mut client, 1).await, begun(&mut client, 1).await].into();
    // It is as good as another node: of sessions nothing is kept.
    let node = Node::start().await;
    let mut other = node.client().await;
    other.create("t", 1).await;
    for _ in 0..3 {
        assert!(!before.contains(&begun(&mut other, 1).await));
    }
    let mut client = node.client().await;
    let answer = client.ask(&next(before[0], 1, 0), 12).await;
    assert_eq!(answer.error_code, code(ErrorCode::FetchSessionIdNotFound));
}

#[tokio::test]
async fn only_what_is_new_is_told() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 100).await;
    let id = begun(&mut client, 100).await;
    let answer = client.ask(&next(id, 1, 0), 12).await;
    assert_eq!((answer.session_id, told(&answer)), (id, vec![]));
    client.produce("t", 7, chunk(&["a"])).await;
    client.produce("t", 93, chunk(&["b", "c"])).await;
    let answer = client.ask(&next(id, 2, 100), 12).await;
    assert_eq!(told(&answer), [(7, 0, 1), (93, 0, 2)]);
    // Until the client says that it has them, they come again.
    let request = next(id, 3, 0).with_topics(vec![topic("t", &[(7, 1)])]);
    assert_eq!(told(&client.ask(&request, 12).await), [(93, 0, 2)]);
    let request = next(id, 4, 0).with_topics(vec![topic("t", &[(93, 2)])]);
    assert_eq!(told(&client.ask(&request, 12).await), []);
}

/// Removes the records of a partition of `t` below an offset.
async fn delete(client: &mut Client, partition: i32, offset: i64) {
    let row = DeleteRecordsPartition::default().with_partition_index(partition).with_offset(offset);
    let topic = DeleteRecordsTopic::default().with_name(text("t")).with_partitions(vec![row]);
    let request = DeleteRecordsRequestData::default().with_topics(vec![topic]);
    let deleted = only(only(client.ask(&request, 2).await.topics).partitions);
    assert_eq!((deleted.error_code, deleted.low_watermark), (0, offset));
}

/// High watermark, last stable offset and start of the partitions in an answer.
fn reach(answer: &FetchResponseData) -> Vec<(i32, i64, i64, i64)> {
    let rows = answer.responses.iter().flat_map(|it| &it.partitions);
    let reach = |it: &fetch_response::PartitionData| {
        (it.partition_index, it.high_watermark, it.last_stable_offset, it.log_start_offset)
    };
    rows.map(reach).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_moves_is_told_though_nothing_is_new() {
    let node = Node::start().await;
    let (mut client, mut other) = (node.client().await, node.client().await);
    client.create("t", 3).await;
    for partition in 0..3 {
        client.produce("t", partition, chunk(&["a", "b", "c"])).await;
    }
    let request = next(0, 0, 0).with_topics(vec![topic("t", &[(0, 3), (1, 3), (2, 3)])]);
    let id = client.ask(&request, 12).await.session_id;
    assert_eq!(told(&client.ask(&next(id, 1, 0), 12).await), []);
    delete(&mut other, 1, 2).await;
    assert_eq!(reach(&client.ask(&next(id, 2, 0), 12).await), [(1, 3, 3, 2)]);
    assert_eq!(told(&client.ask(&next(id, 3, 0), 12).await), [], "it is told once");
    // It moves while the client waits.
    let before = node.requests();
    let sent = client.send(&next(id, 4, 500), 12).await;
    until(|| node.requests() > before).await;
    delete(&mut other, 2, 3).await;
    let answer = client.receive::<FetchRequestData>(12, sent).await;
    assert_eq!(reach(&answer), [(2, 3, 3, 3)]);
    // And a partition that has something to read is told of beside it.
    delete(&mut other, 0, 1).await;
    client.produce("t", 1, chunk(&["d"])).await;
    let mut found = reach(&client.ask(&next(id, 5, 0), 12).await);
    found.sort_unstable();
    assert_eq!(found, [(0, 3, 3, 1), (1, 4, 4, 2)]);
}

#[tokio::test]
async fn what_comes_behind_an_open_transaction_is_told_to_readers_of_committed_records() {
    let node = Node::start().await;
    let (mut client, mut other) = (node.client().await, node.client().await);
    client.create("t", 2).await;
    let mut producer = Producer::transactional(&mut other, "x", 2).await;
    producer.begin(&mut other, &[(0, "a")]).await;
    let all = vec![topic("t", &[(0, 0), (1, 0)])];
    let next = |id, epoch| next(id, epoch, 0).with_isolation_level(1);
    let id = client.ask(&next(0, 0).with_topics(all), 12).await.session_id;
    assert_eq!(told(&client.ask(&next(id, 1), 12).await), []);
    other.produce("t", 0, chunk(&["b", "c"])).await;
    assert_eq!(reach(&client.ask(&next(id, 2), 12).await), [(0, 3, 0, 0)]);
    assert_eq!(told(&client.ask(&next(id, 3), 12).await), []);
    // Where its reader stands is gone.
    delete(&mut other, 0, 2).await;
    let out_of_range = code(ErrorCode::OffsetOutOfRange);
    assert_eq!(told(&client.ask(&next(id, 4), 12).await), [(0, out_of_range, 0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_wakes_for_any_of_its_partitions() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let mut writer = node.client().await;
    client.create("t", 50).await;
    let id = begun(&mut client, 50).await;
    for round in 0..30 {
        let partition = round * 7 % 50;
        let sent = client.send(&next(id, 1 + 2 * round, 15_000), 12).await;
        writer.produce("t", partition, chunk(&["x"])).await;
        let answer = client.receive::<FetchRequestData>(12, sent).await;
        assert_eq!(told(&answer), [(partition, 0, 1)]);
        let read = writer.fetch("t", partition, 0, 0).await.high_watermark;
        let request =
            next(id, 2 + 2 * round, 0).with_topics(vec![topic("t", &[(partition, read)])]);
        assert_eq!(told(&client.ask(&request, 12).await), []);
    }
}

#[tokio::test]
async fn partitions_come_and_go() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 4).await;
    let id = begun(&mut client, 2).await;
    let gone = ForgottenTopic::default().with_topic(text("t")).with_partitions(vec![0]);
    let request = next(id, 1, 0)
        .with_topics(vec![topic("t", &[(3, 0)])])
        .with_forgotten_topics_data(vec![gone]);
    assert_eq!(told(&client.ask(&request, 12).await), [(3, 0, 0)], "it is new to the session");
    for partition in 0..4 {
        client.produce("t", partition, chunk(&["x"])).await;
    }
    assert_eq!(told(&client.ask(&next(id, 2, 0), 12).await), [(1, 0, 1), (3, 0, 1)]);
}

#[tokio::test]
async fn epochs_and_ids_are_checked() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let id = begun(&mut client, 1).await;
    for epoch in [2, 9, i32::MAX] {
        let answer = client.ask(&next(id, epoch, 0), 12).await;
        assert_eq!(answer.error_code, code(ErrorCode::InvalidFetchSessionEpoch));
    }
    assert_eq!(client.ask(&next(id, 1, 0), 12).await.error_code, 0);
    let answer = client.ask(&next(id, 1, 0), 12).await;
    assert_eq!(answer.error_code, code(ErrorCode::InvalidFetchSessionEpoch), "it was used");
    for unknown in [id + 1, -7, 0] {
        let answer = client.ask(&next(unknown, 1, 0), 12).await;
        assert_eq!(answer.error_code, code(ErrorCode::FetchSessionIdNotFound));
    }
    // Another connection goes on with it, and a last request ends it.
    let mut other = node.client().await;
    assert_eq!(other.ask(&next(id, 2, 0), 12).await.error_code, 0);
    let last = next(id, -1, 0).with_topics(vec![topic("t", &[(0, 0)])]);
    let answer = other.ask(&last, 12).await;
    assert_eq!((answer.error_code, answer.session_id), (0, 0));
    let answer = client.ask(&next(id, 3, 0), 12).await;
    assert_eq!(answer.error_code, code(ErrorCode::FetchSessionIdNotFound));
}

/// A topic that comes later is found, though the client does not name it again.
#[tokio::test]
async fn errors_are_told_until_they_are_mended() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let request = next(0, 0, 0).with_topics(vec![topic("t", &[(0, 0)]), topic("u", &[(0, 0)])]);
    let unknown = code(ErrorCode::UnknownTopicOrPartition);
    let answer = client.ask(&request, 12).await;
    let id = answer.session_id;
    assert_eq!(told(&answer), [(0, 0, 0), (0, unknown, 0)]);
    for epoch in 1..3 {
        assert_eq!(told(&client.ask(&next(id, epoch, 5_000), 12).await), [(0, unknown, 0)]);
    }
    client.create("u", 1).await;
    client.produce("u", 0, chunk(&["x"])).await;
    assert_eq!(told(&client.ask(&next(id, 3, 5_000), 12).await), [(0, 0, 1)]);
}

#[tokio::test]
async fn there_are_so_many_sessions_and_no_more() {
    let node = Node::start_with(|how| how.settings.limits.fetch_sessions = 3).await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    for _ in 0..3 {
        begun(&mut client, 1).await;
    }
    let request = next(0, 0, 0).with_topics(vec![topic("t", &[(0, 0)])]);
    let answer = client.ask(&request, 12).await;
    assert_eq!((answer.error_code, answer.session_id, told(&answer).len()), (0, 0, 1));
}

#[tokio::test]
async fn a_session_by_ids_notices_that_its_topic_is_gone() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let topic_id = client.create("t", 1).await;
    let topic = FetchTopic::default().with_topic_id(topic_id).with_partitions(vec![place(0, 0)]);
    let answer = client.ask(&next(0, 0, 0).with_topics(vec![topic]), 17).await;
    assert_eq!(only(answer.responses.clone()).topic_id, topic_id);
    let id = answer.session_id;
    let delete = DeleteTopicsRequestData::default()
        .with_topics(vec![DeleteTopicState::default().with_name(None).with_topic_id(topic_id)]);
    let mut other = node.client().await;
    let before = node.requests();
    let sent = client.send(&next(id, 1, 15_000), 17).await;
    // The long poll waits before its topic goes, or a little later: the same to it.
    until(|| node.requests() > before).await;
    assert_eq!(other.ask(&delete, 6).await.responses[0].error_code, 0);
    let answer = client.receive::<FetchRequestData>(17, sent).await;
    // It had a name, which nobody has now.
    let unknown = code(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(told(&answer), [(0, unknown, 0)]);
    let topic = FetchTopic::default().with_topic_id(topic_id).with_partitions(vec![place(0, 0)]);
    let named = |request: FetchRequestData| request.with_topics(vec![topic.clone()]);
    assert_eq!(told(&client.ask(&next(id, 2, 0), 17).await), [(0, unknown, 0)]);
    assert_eq!(told(&client.ask(&named(next(id, 3, 0)), 17).await), [(0, unknown, 0)]);
    let again = other.create("t", 1).await;
    assert_ne!(again, topic_id);
    let inconsistent = code(ErrorCode::InconsistentTopicId);
    let answer = client.ask(&next(id, 4, 0), 17).await;
    assert_eq!(told(&answer), [(0, inconsistent, 0)], "that is another topic");
    assert_eq!(told(&client.ask(&named(next(id, 5, 0)), 17).await), [(0, inconsistent, 0)]);
    // Who comes now has never known its name.
    for session_epoch in [-1, 0] {
        let answer = client.ask(&named(next(0, session_epoch, 0)), 17).await;
        assert_eq!(told(&answer), [(0, code(ErrorCode::UnknownTopicId), 0)]);
    }
    assert_ne!(topic_id, KafkaUuid::ZERO);
}

#[tokio::test]
async fn a_session_keeps_to_names_or_to_ids() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let topic_id = client.create("t", 1).await;
    let by_id = FetchTopic::default().with_topic_id(topic_id).with_partitions(vec![place(0, 0)]);
    for (topic, version, other) in [(topic("t", &[(0, 0)]), 12, 17), (by_id, 17, 12)] {
        let answer = client.ask(&next(0, 0, 0).with_topics(vec![topic]), version).await;
        let id = answer.session_id;
        assert_eq!(told(&answer), [(0, 0, 0)]);
        let answer = client.ask(&next(id, 1, 0), other).await;
        assert_eq!(answer.error_code, code(ErrorCode::FetchSessionTopicIdError));
        assert!(answer.responses.is_empty());
        let answer = client.ask(&next(id, 1, 0), version).await;
        assert_eq!((answer.error_code, answer.session_id), (0, id), "it goes on as it began");
    }
}
