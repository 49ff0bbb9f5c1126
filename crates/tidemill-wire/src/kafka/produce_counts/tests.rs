//! Counts are those of what is read.

use super::*;
use crate::kafka::{
    FRAME_HEAD_BYTES, RawTaggedField, RequestHead,
    message::{PartitionProduceData, ProduceRequestData, TopicProduceData},
    request_frame, text,
};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

fn tags(count: u32) -> Vec<RawTaggedField> {
    (0..count).map(|tag| RawTaggedField { tag, data: Bytes::from_static(b"tag") }).collect()
}

/// Topics of so many partitions, each with a chunk of so many bytes, and so many tags.
fn request(topics: &[Vec<usize>], tag_count: u32, version: i16) -> ProduceRequestData {
    let tag_count = if version >= 9 { tag_count } else { 0 };
    let partition = |bytes: &usize| PartitionProduceData {
        index: 7,
        records: (*bytes > 0).then(|| Bytes::from(vec![0xff; *bytes])),
        _unknown_tagged_fields: tags(tag_count),
    };
    let topic = |chunks: &Vec<usize>| TopicProduceData {
        name: if version < 13 { text(&"n".repeat(chunks.len() % 300)) } else { text("") },
        partition_data: chunks.iter().map(partition).collect(),
        _unknown_tagged_fields: tags(tag_count),
        ..TopicProduceData::default()
    };
    ProduceRequestData {
        topic_data: topics.iter().map(topic).collect(),
        _unknown_tagged_fields: tags(tag_count),
        ..ProduceRequestData::default()
    }
}

fn counted(request: &ProduceRequestData) -> ProduceCounts {
    let topics = &request.topic_data;
    let partitions = || topics.iter().flat_map(|it| &it.partition_data);
    ProduceCounts {
        topics: topics.len(),
        partitions: partitions().count(),
        tags: request._unknown_tagged_fields.len()
            + topics.iter().map(|it| it._unknown_tagged_fields.len()).sum::<usize>()
            + partitions().map(|it| it._unknown_tagged_fields.len()).sum::<usize>(),
        name_bytes: topics.iter().map(|it| it.name.len()).sum(),
    }
}

fn content(request: &ProduceRequestData, version: i16) -> BytesMut {
    request_frame(request, version, 1, &text("me")).unwrap().split_off(FRAME_HEAD_BYTES)
}

/// Whether these bytes are read; if so, they have counts, and those.
fn check(bytes: Bytes) -> bool {
    let counts = count_produce(&bytes);
    let mut rest = bytes;
    let Ok(head) = RequestHead::read(&mut rest) else { return false };
    let Ok(read) = ProduceRequestData::read(&mut rest, head.version) else { return false };
    let counts = counts.expect("what can be read is counted");
    let read = counted(&read);
    assert!(counts.tags >= read.tags, "those of the head are there too");
    assert_eq!(ProduceCounts { tags: read.tags, ..counts }, read);
    true
}

#[test]
fn a_list_of_empty_topics_is_counted_without_being_read() {
    let counts = count_produce(&content(&request(&vec![vec![]; 100_000], 0, 9), 9)).unwrap();
    assert_eq!(counts, ProduceCounts { topics: 100_000, ..ProduceCounts::default() });
}

#[test]
fn a_count_that_lies_has_no_counts() {
    let mut bytes = content(&request(&[vec![3]], 0, 9), 9);
    let tags_at = bytes.len() - 1;
    bytes[tags_at] = 0x7f;
    assert_eq!(count_produce(&bytes), None);
    assert_eq!(count_produce(&bytes[..9]), None);
    assert_eq!(count_produce(&[]), None);
}

#[test]
fn of_an_unknown_version_the_head_is_looked_at() {
    let mut bytes = content(&request(&vec![vec![]; 10], 0, 9), 9);
    bytes[2..4].copy_from_slice(&99_i16.to_be_bytes());
    assert_eq!(count_produce(&bytes), Some(ProduceCounts::default()));
}

proptest! {
    #[test]
    fn counts_are_those_of_what_is_read(
        topics in proptest::collection::vec(proptest::collection::vec(0usize..400, 0..20), 0..20),
        tag_count in 0u32..4,
        version in VERSIONS,
    ) {
        let bytes = content(&request(&topics, tag_count, version), version);
        prop_assert!(check(bytes.freeze()));
    }

    #[test]
    fn what_can_be_read_has_counts_whatever_was_done_to_it(
        topics in proptest::collection::vec(proptest::collection::vec(0usize..20, 0..4), 0..4),
        tag_count in 0u32..3,
        version in 2i16..15,
        changes in proptest::collection::vec((4usize..120, any::<u8>()), 1..4),
    ) {
        let written = version.clamp(*VERSIONS.start(), *VERSIONS.end());
        let mut bytes = content(&request(&topics, tag_count, written), written);
        bytes[2..4].copy_from_slice(&version.to_be_bytes());
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[4 + at % (length - 4)] = byte;
        }
        check(bytes.freeze());
    }
}
