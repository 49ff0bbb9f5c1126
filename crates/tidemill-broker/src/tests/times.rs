//! Offsets by time are those of records, not of chunks.

use super::{client::*, node::Node};
use tidemill_wire::{
    chunk::Codec,
    kafka::{message::*, text},
    records::Compression,
};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;

#[tokio::test]
async fn a_time_is_looked_for_in_the_records() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let node = Node::start().await;
        let mut client = node.client().await;
        client.create("t", 1).await;
        assert_eq!(client.offset("t", MAX_TIMESTAMP).await, (-1, -1));
        assert_eq!(client.offset("t", 0).await, (-1, -1));
        // Offsets 0 to 2, 3 to 5, 6 and 7.
        for times in [&[100, 300, 200][..], &[150, 400, 400], &[50, 350]] {
            client.produce("t", 0, chunk_at(times, &[b'v'; 50], Compression::of(codec))).await;
        }
        let cases = [
            (LATEST, (8, -1)),
            (EARLIEST, (0, -1)),
            (MAX_TIMESTAMP, (4, 400)),
            (0, (0, 100)),
            (100, (0, 100)),
            (101, (1, 300)),
            (300, (1, 300)),
            (301, (4, 400)),
            (400, (4, 400)),
            (401, (-1, -1)),
            (i64::MAX, (-1, -1)),
        ];
        for (time, expected) in cases {
            assert_eq!(client.offset("t", time).await, expected, "{codec:?}, {time}");
        }
        // What is before the start is not found.
        delete_to(&mut client, 5).await;
        assert_eq!(client.offset("t", 0).await, (5, 400), "{codec:?}");
        assert_eq!(client.offset("t", MAX_TIMESTAMP).await, (5, 400), "{codec:?}");
        assert_eq!(client.offset("t", EARLIEST).await, (5, -1));
    }
}

async fn delete_to(client: &mut Client, offset: i64) {
    let place = DeleteRecordsPartition::default().with_offset(offset);
    let topic = DeleteRecordsTopic::default().with_name(text("t")).with_partitions(vec![place]);
    let request = DeleteRecordsRequestData::default().with_topics(vec![topic]);
    client.ask(&request, 2).await;
}

#[tokio::test]
async fn the_time_of_a_deleted_record_is_nowhere() {
    for codec in [Codec::None, Codec::Zstd] {
        let node = Node::start().await;
        let mut client = node.client().await;
        client.create("t", 1).await;
        // Offsets 0 to 3; what is left of it has 1100 and 1050.
        let times = [1_000, 6_000, 1_100, 1_050];
        client.produce("t", 0, chunk_at(&times, b"v", Compression::of(codec))).await;
        delete_to(&mut client, 2).await;
        assert_eq!(client.offset("t", 5_500).await, (-1, -1), "{codec:?}");
        assert_eq!(client.offset("t", MAX_TIMESTAMP).await, (2, 1_100), "{codec:?}");
        assert_eq!(client.offset("t", 1_050).await, (2, 1_100));
        for (times, expected) in [
            (&[500, 1_100][..], (2, 1_100)),
            (&[900, 3_000], (7, 3_000)),
            (&[7_000, 9_000], (9, 9_000)),
        ] {
            client.produce("t", 0, chunk_at(times, b"v", Compression::of(codec))).await;
            assert_eq!(client.offset("t", MAX_TIMESTAMP).await, expected, "{codec:?}");
        }
        assert_eq!(client.offset("t", 5_500).await, (8, 7_000), "{codec:?}");
        assert_eq!(client.offset("t", 2_000).await, (7, 3_000), "{codec:?}");
        assert_eq!(client.offset("t", 9_001).await, (-1, -1));
        node.stop().await;
    }
}

#[tokio::test]
async fn every_version_answers() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    client.produce("t", 0, chunk_at(&[10, 20], b"v", Compression::NONE)).await;
    for version in 1..=9 {
        let ask = |timestamp: i64| {
            let place = ListOffsetsPartition::default().with_timestamp(timestamp);
            let topic =
                ListOffsetsTopic::default().with_name(text("t")).with_partitions(vec![place]);
            ListOffsetsRequestData::default().with_topics(vec![topic])
        };
        for (timestamp, offset) in [(LATEST, 2), (EARLIEST, 0), (15, 1), (-4, 0), (-5, -1)] {
            let answer = client.ask(&ask(timestamp), version).await;
            let answer = only(only(answer.topics).partitions);
            assert_eq!((answer.error_code, answer.offset), (0, offset), "{version} {timestamp}");
        }
        let answer = only(only(client.ask(&ask(-99), version).await.topics).partitions);
        assert_eq!(answer.error_code, 42);
    }
}

#[tokio::test]
async fn append_times_are_found_too() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create_with("t", 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let answer = client.produce("t", 0, chunk_at(&[5, 6], b"v", Compression::NONE)).await;
    let time_ms = answer.log_append_time_ms;
    assert_eq!(client.offset("t", 7).await, (0, time_ms));
    assert_eq!(client.offset("t", MAX_TIMESTAMP).await, (0, time_ms));
    assert_eq!(client.offset("t", time_ms + 1).await, (-1, -1));
}

#[tokio::test]
async fn a_time_is_found_in_records_that_inflate_to_much() {
    // The first fits into little room, the others into more, and into all there is.
    let counts = [1, 20, 50];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let node = Node::start().await;
        let mut client = node.client().await;
        client.create_with("t", 3, &[("max.message.bytes", "16777216")]).await;
        for (index, count) in (0..).zip(counts) {
            let times: Vec<i64> = (1..=count).collect();
            let chunk = chunk_at(&times, &[0; 1 << 20], Compression::of(codec));
            let answer = client.produce("t", index, chunk).await;
            assert_eq!(answer.error_code, 0, "{codec:?}: {:?}", answer.error_message);
        }
        let place = |(index, timestamp)| {
            ListOffsetsPartition::default().with_partition_index(index).with_timestamp(timestamp)
        };
        let asked = [(2, 50), (0, 1), (1, MAX_TIMESTAMP), (7, 1)];
        let topic = ListOffsetsTopic::default()
            .with_name(text("t"))
            .with_partitions(asked.into_iter().map(place).collect());
        let request = ListOffsetsRequestData::default().with_topics(vec![topic]);
        let answer = only(client.ask(&request, 9).await.topics).partitions;
        let told: Vec<_> =
            answer.iter().map(|it| (it.partition_index, it.offset, it.timestamp)).collect();
        assert_eq!(told, [(2, 49, 50), (0, 0, 1), (1, 19, 20), (7, -1, -1)], "{codec:?}");
        node.stop().await;
    }
}

#[tokio::test]
async fn looks_for_a_time_wait_for_room_like_chunks_that_come_in() {
    let node = Node::start_with(|how| how.settings.limits.inflated_bytes.0 = 64 << 20).await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let times: Vec<i64> = (1..=48).collect();
    let much = chunk_at(&times, &[0; 1 << 20], Compression::of(Codec::Gzip));
    assert_eq!(client.produce("t", 0, much).await.error_code, 0);
    let room = node.broker.inflating.take_all().await;
    assert_eq!(client.offset("t", 1).await, (0, 1), "what little room tells is told");
    let mut other = node.client().await;
    let look = tokio::spawn(async move { other.offset("t", 48).await });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!look.is_finished());
    assert_eq!(client.offset("t", LATEST).await, (48, -1), "others do not wait");
    drop(room);
    assert_eq!(look.await.unwrap(), (47, 48));
    node.stop().await;
}
