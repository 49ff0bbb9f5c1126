//! Produce: what is taken, what is refused, and in which order answers come.

use super::{client::*, node::Node};
use bytes::BytesMut;
use std::{sync::atomic::Ordering, time::Duration};
use tidemill_types::ByteSize;
use tidemill_wire::{
    chunk::{Codec, crc32c},
    kafka::{ApiKey, ErrorCode, KafkaUuid, message::*, request_frame, text},
    records::{ChunkBuilder, Compression, Origin},
};
use tokio::io::AsyncWriteExt;

/// Mends the checksum of a chunk that a test changed.
fn seal(chunk: &mut [u8]) {
    let crc = crc32c(&chunk[21..]);
    chunk[17..21].copy_from_slice(&crc.to_be_bytes());
}

#[tokio::test]
async fn a_request_of_too_many_topics_ends_its_own_connection_and_no_other() {
    let node = Node::start_with(|how| {
        how.settings.limits.requests_bytes = ByteSize(8 << 20);
        how.settings.limits.request_bytes = ByteSize(4 << 20);
    })
    .await;
    let (mut client, mut other) = (node.client().await, node.client().await);
    other.create("t", 1).await;
    let mut request = produce("t", 0, chunk(&["a"]), -1);
    request.topic_data.resize(100_000, TopicProduceData::default());
    client.send(&request, 9).await;
    assert!(client.is_closed().await);
    assert_eq!(other.produce("t", 0, chunk(&["b"])).await.base_offset, 0, "nothing was written");
    assert_eq!(node.broker.counts.connections_hostile.load(Ordering::Relaxed), 1);
    node.stop().await;
}

#[tokio::test]
async fn what_is_produced_is_fetched_in_every_version() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let id = client.create("orders", 2).await;
    let mut next = 0;
    for version in 3..=13 {
        let mut request = produce("orders", 1, chunk(&["a", "b"]), -1);
        request.topic_data[0].topic_id = if version >= 13 { id } else { KafkaUuid::ZERO };
        if version >= 13 {
            request.topic_data[0].name = text("");
        }
        let answer = only(only(client.ask(&request, version).await.responses).partition_responses);
        assert_eq!((answer.error_code, answer.base_offset), (0, next), "version {version}");
        assert_eq!(answer.log_append_time_ms, -1);
        next += 2;
    }
    for version in 4..=17 {
        let mut request = fetch("orders", 1, 3, 0);
        if version >= 13 {
            request.topics[0].topic_id = id;
        }
        if version < 7 {
            request.session_epoch = 0;
        }
        let answer = only(only(client.ask(&request, version).await.responses).partitions);
        assert_eq!((answer.error_code, answer.high_watermark), (0, next), "version {version}");
        let values = values(&answer.records);
        assert_eq!(values[0], (2, "a".into()), "the whole chunk that has the offset");
        assert_eq!(values.len() as i64, next - 2);
    }
    node.stop().await;
}

/// An older librdkafka compresses nothing where version 0 is not listed.
#[tokio::test]
async fn produce_is_listed_from_version_0_and_taken_from_version_3() {
    let node = Node::start().await;
    for version in 0..3_i16 {
        let mut client = node.client().await;
        let known = client.ask(&ApiVersionsRequestData::default(), 3).await.api_keys;
        let listed = known.iter().find(|it| it.api_key == ApiKey::Produce as i16).unwrap();
        assert_eq!((listed.min_version, listed.max_version), (0, 13));
        // The frame of a later one, which says that it is of this one.
        let mut frame =
            request_frame(&produce("t", 0, chunk(&["a"]), -1), 3, 1, &text("test")).unwrap();
        frame[6..8].copy_from_slice(&version.to_be_bytes());
        client.socket.write_all(&frame).await.unwrap();
        assert!(client.is_closed().await, "version {version}");
    }
    node.stop().await;
}

#[tokio::test]
async fn every_codec_comes_through_unchanged() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let mut offset = 0;
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let sent = chunk_at(&[5, 6, 7], &[b'x'; 3000], Compression::of(codec));
        let answer = client.produce("t", 0, sent.clone()).await;
        assert_eq!(answer.error_code, 0, "{codec:?}: {:?}", answer.error_message);
        let got = client.fetch("t", 0, offset, 0).await.records.unwrap();
        assert_eq!(got[61..], sent[61..], "{codec:?}");
        assert_eq!(values(&Some(got)).len(), 3);
        offset += 3;
    }
}

#[tokio::test]
async fn pipelined_requests_are_appended_and_answered_in_order() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let mut sent = Vec::new();
    for round in 0..200 {
        let value = format!("{round}");
        let acks = if round % 3 == 0 { 1 } else { -1 };
        sent.push(client.send(&produce("t", 0, chunk(&[&value]), acks), 9).await);
        // Others come between, and their answers wait for those before.
        if round % 20 == 0 {
            let id = client.send(&MetadataRequestData::default(), 12).await;
            sent.push(-id);
        }
    }
    let mut next = 0;
    for id in sent {
        if id < 0 {
            client.receive::<MetadataRequestData>(12, -id).await;
            continue;
        }
        let answer = client.receive::<ProduceRequestData>(9, id).await;
        let answer = only(only(answer.responses).partition_responses);
        assert_eq!((answer.error_code, answer.base_offset), (0, next));
        next += 1;
    }
    let values = values(&client.fetch("t", 0, 0, 0).await.records);
    let expected: Vec<_> = (0..200).map(|it| (it, it.to_string())).collect();
    assert_eq!(values, expected);
}

/// The last request waits for as long as nobody writes where it reads: the answers before it do not.
#[tokio::test]
async fn answers_do_not_wait_for_a_later_request_that_waits() {
    let node = Node::start().await;
    let (mut client, mut other) = (node.client().await, node.client().await);
    client.create("t", 2).await;
    for round in 0..20 {
        // In one write, so that the fetch is there before the records are durable.
        let mut frames = BytesMut::new();
        for value in ["a", "b"] {
            let request = produce("t", 0, chunk(&[value]), -1);
            frames.extend_from_slice(&request_frame(&request, 9, 1, &text("test")).unwrap());
        }
        let waits = fetch("t", 1, round, i32::MAX);
        frames.extend_from_slice(&request_frame(&waits, 12, 2, &text("test")).unwrap());
        client.socket.write_all(&frames).await.unwrap();
        for offset in [round * 2, round * 2 + 1] {
            let answer = client.receive::<ProduceRequestData>(9, 1).await;
            let answer = only(only(answer.responses).partition_responses);
            assert_eq!((answer.error_code, answer.base_offset), (0, offset));
        }
        other.produce("t", 1, chunk(&["ends the wait"])).await;
        let answer = client.receive::<FetchRequestData>(12, 2).await;
        assert!(only(only(answer.responses).partitions).records.is_some());
    }
    node.stop().await;
}

#[tokio::test]
async fn no_acknowledgement_means_no_answer_and_an_error_closes() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    client.send(&produce("t", 0, chunk(&["quiet"]), 0), 9).await;
    let answer = client.produce("t", 0, chunk(&["loud"])).await;
    assert_eq!(answer.base_offset, 1, "the answer is that to the second request");
    client.send(&produce("gone", 0, chunk(&["quiet"]), 0), 9).await;
    assert!(client.is_closed().await, "how else would the client know");

    let mut client = node.client().await;
    for acks in [-2, 2, i16::MAX] {
        let answer = client.ask(&produce("t", 0, chunk(&["x"]), acks), 9).await;
        let answer = only(only(answer.responses).partition_responses);
        assert_eq!(answer.error_code, code(ErrorCode::InvalidRequiredAcks));
    }
    assert_eq!(client.fetch("t", 0, 0, 0).await.high_watermark, 2);
}

/// Whatever is wrong with a chunk, its own partition gets the protocol's error, the others are
/// appended, and nothing of it is stored.
#[tokio::test]
async fn bad_chunks_get_the_protocols_errors() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create_with("t", 2, &[("max.message.bytes", "5000")]).await;
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = chunk(&["value"]);
        change(&mut bytes);
        seal(&mut bytes);
        bytes
    };
    let bomb =
        |records: usize| chunk_at(&vec![1; records], &[0; 1 << 20], Compression::of(Codec::Zstd));
    let cases: Vec<(&str, Vec<u8>, ErrorCode)> = vec![
        ("nothing", Vec::new(), ErrorCode::InvalidRecord),
        ("cut", chunk(&["value"])[..70].to_vec(), ErrorCode::CorruptMessage),
        (
            "checksum",
            {
                let mut bytes = chunk(&["value"]);
                *bytes.last_mut().unwrap() ^= 1;
                bytes
            },
            ErrorCode::CorruptMessage,
        ),
        ("old format", changed(&|it| it[16] = 1), ErrorCode::InvalidRecord),
        ("two chunks", [chunk(&["a"]), chunk(&["b"])].concat(), ErrorCode::InvalidRecord),
        ("control", changed(&|it| it[22] |= 0x20), ErrorCode::InvalidRecord),
        ("append time", changed(&|it| it[22] |= 0x08), ErrorCode::InvalidTimestamp),
        ("codec 5", changed(&|it| it[22] |= 5), ErrorCode::UnsupportedCompressionType),
        ("flag 0x80", changed(&|it| it[22] |= 0x80), ErrorCode::InvalidRecord),
        ("no gzip in it", changed(&|it| it[22] |= 1), ErrorCode::CorruptMessage),
        (
            "too many said",
            changed(&|it| {
                it[57..61].copy_from_slice(&2i32.to_be_bytes());
                it[23..27].copy_from_slice(&1i32.to_be_bytes());
                it.extend_from_slice(&[0; 8]);
                let length = it.len() as i32 - 12;
                it[8..12].copy_from_slice(&length.to_be_bytes());
            }),
            ErrorCode::CorruptMessage,
        ),
        ("no count", changed(&|it| it[57..61].fill(0)), ErrorCode::InvalidRecord),
        ("length inside", changed(&|it| it[61] = 100), ErrorCode::CorruptMessage),
        (
            "a header without a key",
            changed(&|it| {
                it.pop();
                it.extend_from_slice(&[2, 1, 1]);
                it[61] += 4;
                let length = it.len() as i32 - 12;
                it[8..12].copy_from_slice(&length.to_be_bytes());
            }),
            ErrorCode::InvalidRecord,
        ),
        ("too large", chunk(&[&"v".repeat(6000)]), ErrorCode::MessageTooLarge),
        ("bomb", bomb(300), ErrorCode::MessageTooLarge),
    ];
    for (what, bad, error) in cases {
        let is_bomb = what == "bomb";
        if is_bomb {
            assert!(bad.len() > 5000, "{}", bad.len());
        }
        let mut request = produce("t", 0, bad, -1);
        let good =
            PartitionProduceData::default().with_index(1).with_records(Some(chunk(&[what]).into()));
        request.topic_data[0].partition_data.push(good);
        let answer = only(client.ask(&request, 11).await.responses).partition_responses;
        assert_eq!(answer[0].error_code, code(error), "{what}: {:?}", answer[0].error_message);
        assert!(answer[0].error_message.is_some(), "{what}");
        // Of the cases, one has a single record at fault.
        let named: Vec<i32> = answer[0].record_errors.iter().map(|it| it.batch_index).collect();
        let expected: &[i32] = if what == "a header without a key" { &[0] } else { &[] };
        assert_eq!(named, expected, "{what}");
        assert_eq!((answer[0].base_offset, answer[1].error_code), (-1, 0), "{what}");
    }
    assert_eq!(client.fetch("t", 0, 0, 0).await.high_watermark, 0);
    assert_eq!(client.fetch("t", 1, 0, 0).await.high_watermark, 16);
}

#[tokio::test]
async fn a_bomb_is_not_inflated_to_its_end() {
    let node = Node::start_with(|how| how.settings.limits.inflated_bytes.0 = 8 << 20).await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let small = chunk_at(&[1; 7], &[0; 1 << 20], Compression::of(codec));
        let bomb = chunk_at(&[1; 9], &[0; 1 << 20], Compression::of(codec));
        assert!(bomb.len() < 1 << 20, "{codec:?}");
        assert_eq!(client.produce("t", 0, small).await.error_code, 0, "{codec:?}");
        let answer = client.produce("t", 0, bomb).await;
        assert_eq!(answer.error_code, code(ErrorCode::MessageTooLarge), "{codec:?}");
    }
}

#[tokio::test]
async fn records_are_not_looked_at_when_nobody_wants_it() {
    let node = Node::start_with(|how| how.settings.check_records = false).await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let mut odd = chunk(&["value"]);
    odd[61] = 100;
    seal(&mut odd);
    assert_eq!(client.produce("t", 0, odd).await.error_code, 0);
    let mut damaged = chunk(&["value"]);
    damaged[61] = 100;
    let answer = client.produce("t", 0, damaged).await;
    assert_eq!(answer.error_code, code(ErrorCode::CorruptMessage), "the checksum always is");
}

#[tokio::test]
async fn zstd_is_written_in_a_version_that_knows_it_and_read_in_any() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let zstd = chunk_at(&[1], &[0; 999], Compression::of(Codec::Zstd));
    for version in 3..=8 {
        let answer = client.ask(&produce("t", 0, zstd.clone(), -1), version).await;
        let answer = only(only(answer.responses).partition_responses);
        let refused = answer.error_code == code(ErrorCode::UnsupportedCompressionType);
        assert_eq!(refused, version < 7, "version {version}");
    }
    for version in 4..=12 {
        let mut request = fetch("t", 0, 0, 0);
        request.session_epoch = if version < 7 { 0 } else { -1 };
        let answer = only(only(client.ask(&request, version).await.responses).partitions);
        // Who asks in an old version may know it all the same, and is not kept from it, as in Kafka.
        assert_eq!(answer.error_code, 0, "version {version}");
        assert!(answer.records.is_some_and(|it| !it.is_empty()), "version {version}");
    }
}

#[tokio::test]
async fn unknown_places_are_named_in_their_own_way() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let id = client.create("t", 1).await;
    let unknown = code(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(client.produce("t", 1, chunk(&["x"])).await.error_code, unknown);
    assert_eq!(client.produce("t", -1, chunk(&["x"])).await.error_code, unknown);
    assert_eq!(client.produce("u", 0, chunk(&["x"])).await.error_code, unknown);
    let mut by_id = produce("", 0, chunk(&["x"]), -1);
    by_id.topic_data[0].topic_id = KafkaUuid::from_parts(1, 2);
    let answer = client.ask(&by_id, 13).await;
    let answer = only(only(answer.responses).partition_responses);
    assert_eq!(answer.error_code, code(ErrorCode::UnknownTopicId));
    // The topic is known, and has no such partition.
    by_id.topic_data[0].topic_id = id;
    by_id.topic_data[0].partition_data[0].index = 7;
    let answer = client.ask(&by_id, 13).await;
    let answer = only(only(answer.responses).partition_responses);
    assert_eq!(answer.error_code, unknown);
}

#[tokio::test]
async fn append_time_is_stamped_and_told() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create_with("t", 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    for codec in [Codec::None, Codec::Lz4] {
        let sent = chunk_at(&[10, 20, 15], &[7; 500], Compression::of(codec));
        let answer = client.produce("t", 0, sent.clone()).await;
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        assert!(answer.log_append_time_ms > 1_600_000_000_000);
        let got = client.fetch("t", 0, answer.base_offset, 0).await.records.unwrap();
        let head = tidemill_wire::chunk::verify(&got).unwrap();
        assert!(head.is_log_append_time());
        assert_eq!(head.max_timestamp_ms, answer.log_append_time_ms);
        assert_eq!(got[61..], sent[61..]);
    }
}

/// A head that says a wrong largest time would make offsets by time wrong.
#[tokio::test]
async fn a_wrong_largest_time_is_set_right() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let mut sent = chunk_at(&[100, 300, 200], b"v", Compression::NONE);
    sent[35..43].copy_from_slice(&9_999i64.to_be_bytes());
    seal(&mut sent);
    assert_eq!(client.produce("t", 0, sent).await.error_code, 0);
    assert_eq!(client.offset("t", 150).await, (1, 300));
    assert_eq!(client.offset("t", 301).await, (-1, -1));
    let got = client.fetch("t", 0, 0, 0).await.records.unwrap();
    assert_eq!(tidemill_wire::chunk::verify(&got).unwrap().max_timestamp_ms, 300);
}

/// What stands beside "no producer" is not looked at, as some clients write anything there. A
/// producer has a sequence.
#[tokio::test]
async fn producers_and_sequences_belong_together() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let cases = [(-1, 0, 5, true), (-1, -1, 0, true), (7, 0, -1, false), (7, -1, 0, false)];
    for (producer_id, producer_epoch, base_sequence, good) in cases {
        let origin = Origin { producer_id, producer_epoch, base_sequence, is_transactional: false };
        let mut builder = ChunkBuilder::new(Compression::NONE);
        builder.set_origin(origin);
        builder.append(1, None, Some(b"v"), [].into_iter()).unwrap();
        let answer = client.produce("t", 0, builder.finish().unwrap()).await;
        let expected = if good { 0 } else { code(ErrorCode::InvalidRecord) };
        assert_eq!(answer.error_code, expected, "{origin:?}");
    }
}

#[tokio::test]
async fn row_33_a_claimed_length_takes_no_memory() {
    let node = Node::start().await;
    let mut client = node.client().await;
    // The head of a produce request of 90 MiB, and of its bytes as many as show that it was read.
    let (claimed, sent) = (90 << 20, 100 << 10);
    client.socket.write_all(&i32::to_be_bytes(claimed)).await.unwrap();
    client.socket.write_all(&[0, 0, 0, 11]).await.unwrap();
    client.socket.write_all(&vec![0; sent]).await.unwrap();
    for look in 0.. {
        let used = node.broker.budget.used();
        assert!(used < 1 << 20, "{used} bytes for {sent} that came");
        if used > sent {
            break;
        }
        assert!(look < 5_000, "it is never read: {used} bytes");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    node.stop().await;
}

/// A chunk with a record for each of these keys.
fn keyed(keys: &[Option<&[u8]>], compression: Compression) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(compression);
    for key in keys {
        builder.append(1_000, *key, Some(b"value"), [].into_iter()).unwrap();
    }
    builder.finish().unwrap()
}

/// KIP-467: a client tells the records that are wrong from those that came with them.
#[tokio::test]
async fn records_without_a_key_are_named_one_by_one() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create_with("t", 2, &[("cleanup.policy", "compact")]).await;
    let keys: [Option<&[u8]>; 5] = [Some(b"a"), None, Some(b"b"), None, Some(b"")];
    for compression in [Compression::NONE, Compression::of(Codec::Zstd)] {
        let request = produce("t", 0, keyed(&keys, compression), -1);
        for version in [7, 8, 12] {
            let answer = client.ask(&request, version).await;
            let answer = only(only(answer.responses).partition_responses);
            assert_eq!(answer.error_code, code(ErrorCode::InvalidRecord));
            let named: Vec<i32> = answer.record_errors.iter().map(|it| it.batch_index).collect();
            let expected: &[i32] = if version < 8 { &[] } else { &[1, 3] };
            assert_eq!(named, expected, "version {version}");
            if version >= 8 {
                let why = answer.error_message.unwrap();
                assert!(why.as_str().contains("no key"), "{why}");
                let own = &answer.record_errors[0].batch_index_error_message;
                assert_eq!(own.as_ref(), Some(&why));
            }
        }
    }
    assert_eq!(client.fetch("t", 0, 0, 0).await.high_watermark, 0, "nothing is stored");
    // The records at fault without the others.
    let good: Vec<Option<&[u8]>> = keys.into_iter().filter(Option::is_some).collect();
    assert_eq!(client.produce("t", 0, keyed(&good, Compression::NONE)).await.error_code, 0);
}

#[tokio::test]
async fn records_at_fault_are_named_up_to_a_bound_of_the_request() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create_with("t", 2, &[("cleanup.policy", "compact")]).await;
    let keys = vec![None; 9_000];
    let chunk = keyed(&keys, Compression::of(Codec::Zstd));
    let mut request = produce("t", 0, chunk.clone(), -1);
    let second = PartitionProduceData::default().with_index(1).with_records(Some(chunk.into()));
    request.topic_data[0].partition_data.push(second);
    let answers = only(client.ask(&request, 12).await.responses).partition_responses;
    let named: Vec<usize> = answers.iter().map(|it| it.record_errors.len()).collect();
    assert_eq!(named, [9_000, 1_000]);
    assert_eq!(answers[0].record_errors[8_999].batch_index, 8_999);
    assert_eq!(answers[0].record_errors[0].batch_index_error_message, None);
    assert!(answers.iter().all(|it| it.error_code == code(ErrorCode::InvalidRecord)));
}
