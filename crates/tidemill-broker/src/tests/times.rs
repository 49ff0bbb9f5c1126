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
        let place = DeleteRecordsPartition::default().with_offset(5);
        let topic = DeleteRecordsTopic::default().with_name(text("t")).with_partitions(vec![place]);
        let request = DeleteRecordsRequestData::default().with_topics(vec![topic]);
        client.ask(&request, 2).await;
        assert_eq!(client.offset("t", 0).await, (5, 400), "{codec:?}");
        assert_eq!(client.offset("t", MAX_TIMESTAMP).await, (5, 400), "{codec:?}");
        assert_eq!(client.offset("t", EARLIEST).await, (5, -1));
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
