//! One produce request: its chunks, and the part of its answer about each.

use super::{Delivered, stream::ProducerStreamlet};
use crate::{Refusal, cluster::Metadata};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};
use tidemill_wire::kafka::{
    KafkaUuid, Produce, ProduceStream,
    message::{ProduceResponseData, produce_response::PartitionProduceResponse},
};

/// A chunk in a request.
pub(super) struct RequestChunk {
    pub(super) streamlet: Arc<ProducerStreamlet>,
    pub(super) serial: u64,
    /// The id under which its stream is named, where streams are named by id.
    pub(super) id: KafkaUuid,
}

/// The chunks of a request, as they are put together.
#[derive(Default)]
pub(super) struct RequestChunks {
    pub(super) parts: Vec<RequestChunk>,
    chunks: Vec<Bytes>,
    pub(super) bytes: usize,
}

impl RequestChunks {
    pub(super) fn push(&mut self, part: RequestChunk, chunk: Bytes) {
        self.bytes += chunk.len();
        self.parts.push(part);
        self.chunks.push(chunk);
    }

    /// The request, and its parts for when the answer comes. Chunks of one stream stand together.
    pub(super) fn finish(self, acks: i16, timeout_ms: i32) -> (Produce, Vec<RequestChunk>) {
        let mut streams: Vec<ProduceStream> = Vec::new();
        let mut places: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for (part, chunk) in self.parts.iter().zip(self.chunks) {
            let place = *places.entry(Arc::clone(&part.streamlet.stream)).or_insert_with(|| {
                streams.push(ProduceStream {
                    name: part.streamlet.kafka_name.clone(),
                    id: Some(part.id),
                    chunks: Vec::new(),
                });
                streams.len() - 1
            });
            streams[place].chunks.push((part.streamlet.index, chunk));
        }
        (Produce { transactional_id: None, acks, timeout_ms, streams }, self.parts)
    }
}

/// The id of a stream; zero if it is not known.
pub(super) fn id_of(metadata: &Metadata, stream: &str) -> KafkaUuid {
    metadata.streams.get(stream).map_or(KafkaUuid::ZERO, |it| it.id)
}

/// The parts of an answer, by stream and streamlet.
pub(super) struct Answers<'a> {
    by_name: BTreeMap<(&'a [u8], i32), &'a PartitionProduceResponse>,
    by_id: BTreeMap<([u8; 16], i32), &'a PartitionProduceResponse>,
}

impl<'a> Answers<'a> {
    pub(super) fn of(answer: &'a ProduceResponseData) -> Self {
        let mut answers = Self { by_name: BTreeMap::new(), by_id: BTreeMap::new() };
        for topic in &answer.responses {
            for row in &topic.partition_responses {
                if topic.name.is_empty() {
                    answers.by_id.insert((topic.topic_id.to_bytes(), row.index), row);
                } else {
                    answers.by_name.insert((topic.name.as_bytes(), row.index), row);
                }
            }
        }
        answers
    }

    /// The part about a chunk; none if the answer does not mention it.
    pub(super) fn about(&self, part: &RequestChunk) -> Option<(Delivered, Option<Refusal>)> {
        let index = part.streamlet.index;
        let row = self
            .by_name
            .get(&(part.streamlet.kafka_name.as_bytes(), index))
            .or_else(|| self.by_id.get(&(part.id.to_bytes(), index)))?;
        let known = |number: i64| (number >= 0).then_some(number);
        let delivered = Delivered {
            streamlet: index,
            offset: known(row.base_offset),
            append_time_ms: known(row.log_append_time_ms),
        };
        Some((delivered, Refusal::of(row.error_code, row.error_message.as_ref())))
    }
}
