//! In pieces or whole: the same bytes.

use super::*;
use crate::kafka::{
    known_versions, message::ProduceRequestData, message::produce_request, request_frame, text,
};
use proptest::prelude::*;

/// The same request for the writer that copies.
fn whole(produce: &Produce, version: i16) -> ProduceRequestData {
    let stream = |it: &ProduceStream| {
        let row = |(index, chunk): &(i32, Bytes)| {
            produce_request::PartitionProduceData::default()
                .with_index(*index)
                .with_records(Some(chunk.clone()))
        };
        let topic = produce_request::TopicProduceData::default();
        let topic = match version {
            BY_ID.. => topic.with_topic_id(it.id.unwrap_or(KafkaUuid::ZERO)),
            _ => topic.with_name(it.name.clone()),
        };
        topic.with_partition_data(it.chunks.iter().map(row).collect())
    };
    ProduceRequestData::default()
        .with_transactional_id(produce.transactional_id.clone())
        .with_acks(produce.acks)
        .with_timeout_ms(produce.timeout_ms)
        .with_topic_data(produce.streams.iter().map(stream).collect())
}

fn streams() -> impl Strategy<Value = Vec<ProduceStream>> {
    let chunk = proptest::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    let chunks = proptest::collection::vec((any::<i32>(), chunk), 0..4);
    let stream = ("[a-z]{0,200}", any::<Option<u64>>(), chunks).prop_map(|(name, id, chunks)| {
        ProduceStream { name: text(&name), id: id.map(|it| KafkaUuid::from_parts(it, !it)), chunks }
    });
    proptest::collection::vec(stream, 0..4)
}

proptest! {
    #[test]
    fn pieces_are_what_the_whole_is(
        streams in streams(),
        acks in -1i16..=1,
        transactional in any::<Option<bool>>(),
        correlation_id: i32,
    ) {
        let produce = Produce {
            transactional_id: transactional.map(|it| text(if it { "tx" } else { "" })),
            acks,
            timeout_ms: 1500,
            streams,
        };
        for version in known_versions(ApiKey::Produce) {
            let pieces = produce_frame(&produce, version, correlation_id, &text("me")).unwrap();
            let request = whole(&produce, version);
            let frame = request_frame(&request, version, correlation_id, &text("me")).unwrap();
            prop_assert_eq!(pieces.concat(), frame.to_vec(), "version {}", version);
            let chunks = produce.streams.iter().flat_map(|it| &it.chunks);
            for (_, chunk) in chunks.filter(|(_, it)| !it.is_empty()) {
                let same = |it: &Bytes| it.as_ptr() == chunk.as_ptr();
                prop_assert!(pieces.iter().any(same), "a chunk was copied");
            }
        }
    }
}
