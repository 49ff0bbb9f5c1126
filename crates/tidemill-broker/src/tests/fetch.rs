//! Fetch: what is there at once, what comes in time, and how much of it.

use super::{
    client::*,
    node::{Node, until},
};
use crate::frame::MemoryCharge;
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use tidemill_log::Fsync;
use tidemill_types::ByteSize;
use tidemill_wire::{
    chunk::Codec,
    kafka::{
        ErrorCode,
        message::{fetch_request::FetchTopic, *},
        text,
    },
    records::Compression,
};

/// A wait that nobody should have to sit out.
const LONG_MS: i32 = 15_000;

#[expect(clippy::disallowed_methods, reason = "how long an answer took is what is tested")]
fn now() -> Instant {
    Instant::now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_wakes_for_the_next_record() {
    let node = Node::start().await;
    let mut reader = node.client().await;
    let mut writer = node.client().await;
    writer.create("t", 1).await;
    for round in 0..20 {
        let id = reader.send(&fetch("t", 0, round, LONG_MS), 12).await;
        let value = round.to_string();
        writer.produce("t", 0, chunk(&[&value])).await;
        let began = now();
        let answer = reader.receive::<FetchRequestData>(12, id).await;
        assert_eq!(values(&only(only(answer.responses).partitions).records), [(round, value)]);
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_fetch_of_nothing_ends_when_its_time_is_up() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let began = now();
    let answer = client.fetch("t", 0, 0, 300).await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!((answer.error_code, answer.high_watermark), (0, 0));
    assert_eq!(values(&answer.records), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_waits_for_as_much_as_it_asks_for() {
    let node = Node::start().await;
    let mut reader = node.client().await;
    let mut writer = node.client().await;
    writer.create("t", 1).await;
    let value = "v".repeat(400);
    writer.produce("t", 0, chunk(&[&value])).await;
    let mut request = fetch("t", 0, 0, LONG_MS);
    request.min_bytes = 1_300;
    let id = reader.send(&request, 12).await;
    // What is there is not enough, and neither is the next.
    writer.produce("t", 0, chunk(&[&value])).await;
    writer.produce("t", 0, chunk(&[&value])).await;
    let began = now();
    let answer = reader.receive::<FetchRequestData>(12, id).await;
    assert!(began.elapsed() < Duration::from_secs(5), "the third made it enough");
    assert_eq!(values(&only(only(answer.responses).partitions).records).len(), 3);
}

#[tokio::test]
async fn a_fetch_that_is_full_does_not_wait_for_more() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    for _ in 0..4 {
        client.produce("t", 0, chunk(&[&"v".repeat(600)])).await;
    }
    let began = now();
    let mut request = fetch("t", 0, 0, LONG_MS);
    (request.min_bytes, request.max_bytes) = (1 << 20, 1_500);
    let answer = only(only(client.ask(&request, 12).await.responses).partitions);
    assert_eq!(values(&answer.records).len(), 2);
    let mut request = fetch("t", 0, 0, LONG_MS);
    request.min_bytes = 1 << 20;
    request.topics[0].partitions[0].partition_max_bytes = 700;
    let answer = only(only(client.ask(&request, 12).await.responses).partitions);
    assert_eq!(values(&answer.records).len(), 1);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn limits_hold_but_for_the_first_chunk() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 2).await;
    for partition in 0..2 {
        for _ in 0..3 {
            client.produce("t", partition, chunk(&[&"v".repeat(5_000)])).await;
        }
    }
    let mut request = fetch("t", 0, 0, 0);
    request.topics[0].partitions = vec![place(0, 0), place(1, 0)];
    for place in &mut request.topics[0].partitions {
        place.partition_max_bytes = 10;
    }
    let count = |answer: &FetchResponseData| -> Vec<usize> {
        let mut partitions = answer.responses[0].partitions.clone();
        partitions.sort_by_key(|it| it.partition_index);
        partitions.iter().map(|it| values(&it.records).len()).collect()
    };
    let mut found = count(&client.ask(&request, 12).await);
    found.sort_unstable();
    assert_eq!(found, [0, 1], "one chunk in all, so that there is progress");
    request.max_bytes = 0;
    assert_eq!(count(&client.ask(&request, 12).await).iter().sum::<usize>(), 1);
    request.max_bytes = i32::MAX;
    request.topics[0].partitions[0].partition_max_bytes = 11_000;
    request.topics[0].partitions[1].partition_max_bytes = 6_000;
    let answer = client.ask(&request, 12).await;
    assert_eq!(count(&answer), [2, 1]);
}

#[tokio::test]
async fn partitions_take_turns_when_not_all_fit() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 4).await;
    for partition in 0..4 {
        client.produce("t", partition, chunk(&[&"v".repeat(1_000)])).await;
    }
    let mut seen = [0; 4];
    let mut request = fetch("t", 0, 0, 0);
    request.topics[0].partitions = (0..4).map(|it| place(it, 0)).collect();
    request.max_bytes = 1_500;
    for _ in 0..8 {
        let answer = only(client.ask(&request, 12).await.responses);
        assert_eq!(answer.partitions.len(), 4, "each is told of");
        for partition in answer.partitions {
            seen[partition.partition_index as usize] += values(&partition.records).len();
        }
        // Who has no session says who comes first, and lets others come.
        request.topics[0].partitions.rotate_left(1);
    }
    assert_eq!(seen, [2; 4]);
    request.session_epoch = 0;
    request.session_id = client.ask(&request, 12).await.session_id;
    request.topics.clear();
    let mut seen = [0; 4];
    for epoch in 1..=8 {
        request.session_epoch = epoch;
        let answer = only(client.ask(&request, 12).await.responses);
        for partition in answer.partitions {
            seen[partition.partition_index as usize] += values(&partition.records).len();
        }
    }
    assert_eq!(seen, [2; 4], "in a session the broker does it");
}

/// As in Kafka: a client that has no session has the order, and may have partitions that matter
/// more than others.
#[tokio::test]
async fn without_a_session_partitions_are_served_in_the_order_of_asking() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for topic in ["t", "u"] {
        client.create(topic, 3).await;
        for partition in 0..3 {
            client.produce(topic, partition, chunk(&[&"v".repeat(1_000)])).await;
        }
    }
    let all = [("t", 2), ("u", 1), ("t", 0), ("t", 1), ("u", 0)];
    for turn in 0..10 {
        let mut asked = all;
        asked.rotate_left(turn % 5);
        let mut request = fetch("t", 0, 0, 0);
        request.max_bytes = 2_500;
        let topic = |(name, index): (&str, i32)| {
            FetchTopic::default().with_topic(text(name)).with_partitions(vec![place(index, 0)])
        };
        request.topics = asked.map(topic).to_vec();
        // A new session begins so, too.
        request.session_epoch = if turn < 5 { -1 } else { 0 };
        let answer = client.ask(&request, 12).await.responses;
        let told = answer.iter().flat_map(|topic| {
            let name = topic.topic.as_str();
            topic.partitions.iter().map(move |it| (name, it.partition_index, &it.records))
        });
        let told: Vec<_> = told.map(|it| (it.0, it.1, values(it.2).len())).collect();
        let served = asked.iter().zip([1, 1, 0, 0, 0]);
        let expected: Vec<_> = served.map(|(it, count)| (it.0, it.1, count)).collect();
        assert_eq!(told, expected, "turn {turn}");
    }
}

/// Records go while a client waits for more.
#[tokio::test]
async fn a_fetch_that_waited_tells_the_start_of_now() {
    let node = Node::start().await;
    let (mut client, mut other) = (node.client().await, node.client().await);
    client.create("t", 1).await;
    client.produce("t", 0, chunk(&["a", "b", "c"])).await;
    for (session_epoch, offset) in [(-1, 1), (0, 2)] {
        let mut request = fetch("t", 0, 3, 600);
        request.session_epoch = session_epoch;
        let sent = client.send(&request, 12).await;
        begun(&node, 1 + 2 * offset as u64).await;
        let partition = DeleteRecordsPartition::default().with_offset(offset);
        let topic =
            DeleteRecordsTopic::default().with_name(text("t")).with_partitions(vec![partition]);
        let delete = DeleteRecordsRequestData::default().with_topics(vec![topic]);
        let deleted = only(only(other.ask(&delete, 2).await.topics).partitions);
        assert_eq!(deleted.low_watermark, offset);
        let answer = client.receive::<FetchRequestData>(12, sent).await;
        let answer = only(only(answer.responses).partitions);
        assert_eq!((answer.error_code, answer.high_watermark), (0, 3));
        assert_eq!(answer.log_start_offset, offset);
    }
}

/// Some clients take no null for a list.
#[tokio::test]
async fn partitions_that_are_not_there_have_empty_lists() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    for version in [4, 11, 12] {
        for (name, partition) in [("t", 7), ("u", 0)] {
            let mut request = fetch(name, partition, 0, 0);
            if version < 7 {
                request.session_epoch = 0;
            }
            let answer = only(only(client.ask(&request, version).await.responses).partitions);
            assert_eq!(answer.error_code, code(ErrorCode::UnknownTopicOrPartition));
            assert_eq!(answer.aborted_transactions, Some(Vec::new()), "version {version}");
        }
    }
}

#[tokio::test]
async fn offsets_out_of_range_are_told_at_once() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    client.produce("t", 0, chunk(&["a", "b", "c"])).await;
    let began = now();
    for offset in [-1, 4, i64::MAX, i64::MIN] {
        let answer = client.fetch("t", 0, offset, LONG_MS).await;
        assert_eq!(answer.error_code, code(ErrorCode::OffsetOutOfRange), "{offset}");
    }
    let answer = client.fetch("t", 9, 0, LONG_MS).await;
    assert_eq!(answer.error_code, code(ErrorCode::UnknownTopicOrPartition));
    let answer = client.fetch("u", 0, 0, LONG_MS).await;
    assert_eq!(answer.error_code, code(ErrorCode::UnknownTopicOrPartition));
    let mut request = fetch("t", 0, 0, LONG_MS);
    request.topics[0].partitions[0].current_leader_epoch = 3;
    let answer = only(only(client.ask(&request, 12).await.responses).partitions);
    assert_eq!(answer.error_code, code(ErrorCode::UnknownLeaderEpoch));
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// As Kafka says it, which knows nothing of a partition that it could not read.
#[tokio::test]
async fn of_a_partition_with_an_error_nothing_else_is_told() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    client.produce("t", 0, chunk(&["value"])).await;
    let newer_epoch = |mut request: FetchRequestData| {
        request.topics[0].partitions[0].current_leader_epoch = 3;
        request
    };
    let table = [
        (fetch("t", 0, 9, 0), 12, ErrorCode::OffsetOutOfRange, None),
        (newer_epoch(fetch("t", 0, 0, 0)), 12, ErrorCode::UnknownLeaderEpoch, None),
        (fetch("t", 7, 0, 0), 12, ErrorCode::UnknownTopicOrPartition, Some(Vec::new())),
    ];
    for ((request, version, error, aborted), isolation_level) in
        table.into_iter().flat_map(|it| [0, 1].map(|level| (it.clone(), level)))
    {
        let request = request.with_isolation_level(isolation_level);
        let found = only(only(client.ask(&request, version).await.responses).partitions);
        assert_eq!(found.error_code, code(error));
        let reach = (found.high_watermark, found.last_stable_offset, found.log_start_offset);
        assert_eq!(reach, (-1, -1, -1), "{error:?}");
        assert_eq!(found.aborted_transactions, aborted, "{error:?}");
        assert!(found.records.is_none_or(|it| it.is_empty()));
    }
}

/// A client that went away must not be waited upon until its time is up.
#[tokio::test]
async fn a_long_poll_ends_when_its_client_goes() {
    let node = Node::start_with(|how| how.settings.limits.connections = 1).await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    client.send(&fetch("t", 0, 0, 600_000), 12).await;
    drop(client);
    let mut tries = 0;
    loop {
        let mut next = node.client().await;
        let id = next.send(&ApiVersionsRequestData::default(), 0).await;
        match next.frame().await {
            Some(_) => break,
            None => tries += id,
        }
        assert!(tries < 100, "the place of the first is never free");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Data that is no longer in memory comes from the disk, the same.
#[tokio::test]
async fn old_data_come_from_the_disk() {
    let node = Node::start_with(|how| {
        how.options.memory_bytes = ByteSize(0);
        how.options.fsync = Fsync::Os;
    })
    .await;
    let mut client = node.client().await;
    client.create_with("t", 1, &[("segment.bytes", "65536")]).await;
    let value = vec![b'v'; 3_000];
    for _ in 0..100 {
        client.produce("t", 0, chunk_at(&[1, 2], &value, Compression::NONE)).await;
    }
    let mut offset = 0;
    while offset < 200 {
        let answer = client.fetch("t", 0, offset, 0).await;
        assert_eq!(answer.error_code, 0);
        for (found, value) in values(&answer.records) {
            assert_eq!((found, value.len()), (offset, 3_000));
            offset += 1;
        }
    }
}

/// However much is asked for, answers that are not taken hold so much memory and no more; others
/// are served when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_not_taken_have_a_bound() {
    let node = Node::start_with(|how| {
        how.settings.limits.answers_bytes = ByteSize(8 << 20);
        how.settings.limits.transfer_ms = 1_000;
        how.options.fsync = Fsync::Os;
    })
    .await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    for _ in 0..32 {
        client.produce("t", 0, chunk(&[&"v".repeat(1_000_000)])).await;
    }
    let mut request = fetch("t", 0, 0, 0);
    request.max_bytes = i32::MAX;
    request.topics[0].partitions[0].partition_max_bytes = i32::MAX;
    let mut slow = Vec::new();
    for _ in 0..12 {
        let mut client = node.client().await;
        client.send(&request, 12).await;
        slow.push(client);
    }
    let most = (8 << 20) + 1_100_000;
    // The bound holds on the way to where there is no room for another, and for a while there.
    let (mut looks, mut full) = (0, 0);
    while full < 20 {
        let used = node.broker.answers.used();
        assert!(used <= most, "{used}");
        full += i32::from(used > 4 << 20);
        looks += 1;
        assert!(looks < 1_000, "only {used} bytes are ever used");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Whoever takes its answer is served, be it later.
    let answer = slow[11].frame().await;
    assert!(answer.is_some_and(|it| it.len() > 1_000_000));
}

#[tokio::test]
async fn long_chunks_that_are_not_in_memory_are_sent_out_of_their_files() {
    let node = Node::start_with(|how| how.options.memory_bytes = ByteSize(0)).await;
    let mut client = node.client().await;
    client.create("t", 3).await;
    let long: Vec<String> = (0..12).map(|it| it.to_string().repeat(40_000)).collect();
    for (index, value) in long.iter().enumerate() {
        let partition = (index % 3) as i32;
        assert_eq!(client.produce("t", partition, chunk(&[value.as_str()])).await.error_code, 0);
        assert_eq!(client.produce("t", partition, chunk(&["short"])).await.error_code, 0);
    }
    for partition in 0..3 {
        let (mut offset, mut found) = (0, Vec::new());
        while found.len() < 8 {
            let answer = client.fetch("t", partition, offset, 0).await;
            assert_eq!(answer.error_code, 0);
            let read = values(&answer.records);
            assert!(!read.is_empty(), "partition {partition} at {offset}");
            offset = read.last().unwrap().0 + 1;
            found.extend(read);
        }
        for (index, (offset, value)) in found.iter().enumerate() {
            let expected = &long[(index / 2) * 3 + partition as usize];
            assert_eq!(*offset, index as i64);
            assert_eq!(value, if index % 2 == 0 { expected.as_str() } else { "short" });
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn requests_and_what_was_fetched_are_counted() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    client.produce("t", 0, chunk(&["a", "b", "c"])).await;
    let zstd = chunk_at(&[1, 1], &[0; 999], Compression::of(Codec::Zstd));
    client.produce("t", 0, zstd).await;
    let before = node.broker.figures();
    assert_eq!((before.produced_records, before.fetched_records), (5, 0));
    // From within a chunk: what came before in it was not asked for.
    let answer = client.fetch("t", 0, 1, 0).await;
    let records = answer.records.unwrap();
    let after = node.broker.figures();
    assert_eq!(after.fetched_records, 4);
    assert_eq!(after.fetched_bytes, records.len() as u64);
    assert_eq!(after.requests, before.requests + 1);
    client.ask(&fetch("t", 0, 4, 0), 9).await;
    assert_eq!(node.broker.figures().fetched_records, 4 + 1);
    client.fetch("t", 0, 5, 0).await;
    assert_eq!(node.broker.figures().fetched_records, 4 + 1, "nothing was sent");
}

/// Waits until the broker has begun so many requests.
async fn begun(node: &Node, requests: u64) {
    until(|| node.broker.counts.requests.load(Ordering::Relaxed) >= requests).await;
}

#[tokio::test]
async fn fetches_that_wait_for_more_keep_no_other_from_its_answer() {
    let node = Node::start_with(|how| {
        how.settings.limits.answers_bytes = ByteSize(256 << 10);
    })
    .await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    client.produce("t", 0, chunk(&["x".repeat(200 << 10).as_str()])).await;
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let before = node.broker.counts.requests.load(Ordering::Relaxed);
        let mut other = node.client().await;
        let request = fetch("t", 0, 0, 300_000).with_min_bytes(8 << 20);
        other.send(&request, 12).await;
        begun(&node, before + 1).await;
        waiting.push(other);
    }
    for _ in 0..8 {
        let answer = tokio::time::timeout(Duration::from_secs(60), client.fetch("t", 0, 0, 0));
        let answer = answer.await.expect("it waits for those that wait");
        assert_eq!(values(&answer.records).len(), 1);
    }
    drop(waiting);
    node.stop().await;
}

#[tokio::test]
async fn what_was_found_comes_when_the_time_for_more_is_up() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 2).await;
    client.produce("t", 1, chunk(&["a", "b"])).await;
    let both =
        FetchTopic::default().with_topic(text("t")).with_partitions(vec![place(0, 0), place(1, 0)]);
    let request = fetch("t", 0, 0, 50).with_min_bytes(8 << 20).with_topics(vec![both]);
    let answer = client.ask(&request, 12).await;
    let partitions = only(answer.responses).partitions;
    let found = partitions.iter().find(|it| it.partition_index == 1).unwrap();
    assert_eq!(values(&found.records).len(), 2);
    assert_eq!(partitions.len(), 2);
    node.stop().await;
}

#[tokio::test]
async fn a_long_fetch_that_waits_is_charged_for_what_is_left_of_it() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let mut request = fetch("t", 0, 0, 300_000);
    request.topics.resize(60_000, FetchTopic::default());
    client.send(&request, 12).await;
    begun(&node, 2).await;
    until(|| node.broker.budget.used() <= 64 << 10).await;
    node.stop().await;
}

#[tokio::test]
async fn a_fetch_of_more_partitions_than_there_is_room_for_is_answered_at_once() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let mut all = MemoryCharge::new(&node.broker.sessions.others);
    assert!(all.set_most(usize::MAX, 1) > 0, "others have all of it");
    let answer = client.fetch("t", 0, 0, 300_000).await;
    assert_eq!((answer.error_code, answer.high_watermark), (0, 0));
    all.set(0);
    let answer = client.fetch("t", 0, 0, 0).await;
    assert_eq!(answer.error_code, 0);
    assert!(node.broker.sessions.others.used() > 0, "it is remembered, and charged");
    drop(client);
    // Nothing is left of a connection that is gone.
    until(|| node.broker.sessions.others.used() == 0).await;
    node.stop().await;
}
