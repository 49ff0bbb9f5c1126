//! The generated reader finds in an answer what was put into it, in every version.

use super::*;
use proptest::prelude::*;
use tidemill_log::{LeaderEpoch, Offset};
use tidemill_wire::kafka::{ApiKey, Message, message::FetchResponseData, read_response_head, text};

fn bytes_of(parts: &[OutgoingChunk]) -> Vec<u8> {
    let bytes = parts.iter().map(|part| match part {
        OutgoingChunk::Memory(bytes) => bytes.clone(),
        OutgoingChunk::File(chunk) => chunk.read().unwrap(),
    });
    bytes.flatten().collect()
}

fn partition() -> impl Strategy<Value = PartitionAnswer> {
    let aborted = proptest::option::of(proptest::collection::vec((0i64..9, 0i64..9), 0..3));
    let sizes = proptest::collection::vec(prop_oneof![0usize..10, 2040usize..2060], 0..4);
    let diverging = proptest::option::of(
        (0i32..9, 0i64..9)
            .prop_map(|(epoch, end)| EpochEnd { epoch: LeaderEpoch(epoch), end: Offset(end) }),
    );
    let parts = (0i32..9, aborted, sizes, diverging);
    parts.prop_map(|(index, aborted, sizes, diverging)| PartitionAnswer {
        index,
        error: ErrorCode::None,
        high_watermark: 7,
        last_stable_offset: 5,
        log_start_offset: 1,
        aborted: aborted.map(|list| {
            let one = |(producer_id, first_offset)| Aborted { producer_id, first_offset };
            list.into_iter().map(one).collect()
        }),
        chunks: sizes
            .into_iter()
            .map(|it| OutgoingChunk::Memory(vec![it as u8; it].into()))
            .collect(),
        offsets: 0..0,
        diverging,
    })
}

proptest! {
    #[test]
    fn the_generated_reader_finds_all(
        version in 4i16..=18,
        topics in proptest::collection::vec(proptest::collection::vec(partition(), 0..4), 0..3),
    ) {
        let head = RequestHead {
            key: ApiKey::Fetch as i16, version, correlation_id: 3, client_id: None,
        };
        let topics: Vec<_> = topics.into_iter().enumerate().map(|(at, partitions)| TopicAnswer {
            name: text(&format!("t{at}")),
            id: KafkaUuid::from_parts(1, at as u64),
            partitions,
        }).collect();
        let answer = answer(&head, ErrorCode::None, 11, topics.clone()).unwrap();
        let whole = bytes_of(&answer.parts);
        let said = i32::from_be_bytes(whole[..4].try_into().unwrap());
        prop_assert_eq!(said as usize, whole.len() - 4);
        let mut body = Bytes::from(whole).slice(4..);
        prop_assert_eq!(read_response_head(&mut body, ApiKey::Fetch, version).unwrap(), 3);
        let read = <FetchResponseData as Message>::read(&mut body, version).unwrap();
        prop_assert!(body.is_empty());
        prop_assert_eq!(read.session_id, if version >= 7 { 11 } else { 0 });
        prop_assert_eq!(read.responses.len(), topics.len());
        for (read, topic) in read.responses.iter().zip(&topics) {
            if version >= 13 {
                prop_assert_eq!(read.topic_id, topic.id);
            } else {
                prop_assert_eq!(&read.topic, &topic.name);
            }
            prop_assert_eq!(read.partitions.len(), topic.partitions.len());
            for (read, partition) in read.partitions.iter().zip(&topic.partitions) {
                prop_assert_eq!(read.partition_index, partition.index);
                prop_assert_eq!((read.high_watermark, read.last_stable_offset), (7, 5));
                let told = &read.diverging_epoch;
                let expected = partition.diverging.filter(|_| version >= 12);
                let expected = expected.map_or((-1, -1), |it| (it.epoch.0, it.end.0));
                prop_assert_eq!((told.epoch, told.end_offset), expected);
                let records = bytes_of(&partition.chunks);
                prop_assert_eq!(read.records.as_deref(), Some(&records[..]));
                let count = read.aborted_transactions.as_ref().map(Vec::len);
                prop_assert_eq!(count, partition.aborted.as_ref().map(Vec::len));
            }
        }
    }
}
