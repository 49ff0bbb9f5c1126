//! A fetch answer as it is sent: the heads are ours, the chunks are the log's own bytes.
//!
//! ```text
//! [frame head, response head, session, topic, partition, records length] [chunk] [chunk] [tags, partition …]
//! ```
//!
//! A generated writer would copy every chunk into its buffer. The layout here is that of
//! `FetchResponse.json`, versions 4 to 18; a test reads it with the generated reader.

use crate::answer::ResponseFrame;
use bytes::{BufMut, Bytes, BytesMut};
use std::ops::Range;
use tidemill_log::{EpochEnd, OutgoingChunk};
use tidemill_wire::kafka::{ErrorCode, KafkaString, KafkaUuid, RequestHead, end_frame};

#[cfg(test)]
mod tests;

/// Chunks shorter than this are copied beside the heads: one more slice would cost more.
const COPIED_BYTES: usize = 2048;

/// A transaction whose records a reader of committed records leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
}

/// High watermark, last stable offset and start of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionReach {
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) log_start_offset: i64,
}

/// The answer for one partition.
#[derive(Clone, Debug)]
pub(crate) struct PartitionAnswer {
    pub(crate) index: i32,
    pub(crate) error: ErrorCode,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) log_start_offset: i64,
    /// None for readers of uncommitted records.
    pub(crate) aborted: Option<Vec<Aborted>>,
    pub(crate) chunks: Vec<OutgoingChunk>,
    /// Offsets of the records in them, from the one on that was asked for.
    pub(crate) offsets: Range<i64>,
    /// The client's log parts from this one here: its last epoch ended before its position
    /// (KIP-595).
    pub(crate) diverging: Option<EpochEnd>,
}

impl PartitionAnswer {
    /// Of one of which nothing is known but its error.
    pub(crate) fn failed(index: i32, error: ErrorCode) -> Self {
        Self {
            index,
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            // As Kafka says it, whoever reads.
            aborted: Some(Vec::new()),
            chunks: Vec::new(),
            offsets: 0..0,
            diverging: None,
        }
    }

    /// Of one that is there and cannot be read so.
    pub(crate) fn unread(index: i32, error: ErrorCode) -> Self {
        Self { aborted: None, ..Self::failed(index, error) }
    }

    pub(crate) fn reach(&self) -> PartitionReach {
        PartitionReach {
            high_watermark: self.high_watermark,
            last_stable_offset: self.last_stable_offset,
            log_start_offset: self.log_start_offset,
        }
    }

    /// True if the client is told at once, whatever else it waits for.
    pub(crate) fn is_urgent(&self) -> bool {
        self.error != ErrorCode::None || self.diverging.is_some()
    }

    /// Records that were asked for. Offsets have no gaps.
    pub(crate) fn records(&self) -> u64 {
        u64::try_from(self.offsets.end - self.offsets.start).unwrap_or(0)
    }

    /// Bytes of records.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().map(OutgoingChunk::len).sum()
    }
}

/// Partitions of one topic.
#[derive(Clone, Debug)]
pub(crate) struct TopicAnswer {
    pub(crate) name: KafkaString,
    pub(crate) id: KafkaUuid,
    pub(crate) partitions: Vec<PartitionAnswer>,
}

/// An answer to a fetch. None: it is longer than a frame can be.
pub(crate) fn answer(
    head: &RequestHead,
    error: ErrorCode,
    session_id: i32,
    topics: Vec<TopicAnswer>,
) -> Option<ResponseFrame> {
    let partitions: usize = topics.iter().map(|it| it.partitions.len()).sum();
    let small = topics.iter().flat_map(|it| &it.partitions).flat_map(|it| &it.chunks);
    let copied: usize = small.map(OutgoingChunk::len).filter(|it| *it < COPIED_BYTES).sum();
    let mut writer = FetchAnswerWriter {
        version: head.version,
        flexible: head.version >= 12,
        buffer: head.begin_response(64 + partitions * 64 + copied),
        parts: Vec::new(),
        sent: 0,
    };
    writer.whole(error, session_id, topics);
    writer.end()
}

struct FetchAnswerWriter {
    version: i16,
    /// Compact lengths and tagged fields.
    flexible: bool,
    buffer: BytesMut,
    parts: Vec<OutgoingChunk>,
    /// Bytes of `parts`.
    sent: usize,
}

impl FetchAnswerWriter {
    fn whole(&mut self, error: ErrorCode, session_id: i32, topics: Vec<TopicAnswer>) {
        self.buffer.put_i32(0);
        if self.version >= 7 {
            self.buffer.put_i16(error.code());
            self.buffer.put_i32(session_id);
        }
        self.count(topics.len());
        for topic in topics {
            if self.version >= 13 {
                self.buffer.put_slice(&topic.id.to_bytes());
            } else if self.flexible {
                self.count(topic.name.len());
                self.buffer.put_slice(topic.name.as_bytes());
            } else {
                self.buffer.put_i16(i16::try_from(topic.name.len()).unwrap_or(i16::MAX));
                self.buffer.put_slice(topic.name.as_bytes());
            }
            self.count(topic.partitions.len());
            for partition in topic.partitions {
                self.partition(partition);
            }
            self.no_tags();
        }
        self.no_tags();
    }

    fn partition(&mut self, partition: PartitionAnswer) {
        self.buffer.put_i32(partition.index);
        self.buffer.put_i16(partition.error.code());
        self.buffer.put_i64(partition.high_watermark);
        self.buffer.put_i64(partition.last_stable_offset);
        if self.version >= 5 {
            self.buffer.put_i64(partition.log_start_offset);
        }
        match &partition.aborted {
            None if self.flexible => self.buffer.put_u8(0),
            None => self.buffer.put_i32(-1),
            Some(aborted) => {
                self.count(aborted.len());
                for one in aborted {
                    self.buffer.put_i64(one.producer_id);
                    self.buffer.put_i64(one.first_offset);
                    self.no_tags();
                }
            }
        }
        if self.version >= 11 {
            // Read from the leader.
            self.buffer.put_i32(-1);
        }
        self.count(partition.bytes());
        for chunk in partition.chunks {
            match chunk {
                OutgoingChunk::Memory(chunk) if chunk.len() < COPIED_BYTES => {
                    self.buffer.put_slice(&chunk);
                }
                chunk => {
                    self.flush();
                    self.sent += chunk.len();
                    self.parts.push(chunk);
                }
            }
        }
        match partition.diverging.filter(|_| self.flexible) {
            Some(diverging) => self.diverging(diverging),
            None => self.no_tags(),
        }
    }

    /// The tagged fields of a partition with one of them: `DivergingEpoch`.
    fn diverging(&mut self, EpochEnd { epoch, end }: EpochEnd) {
        const TAG: u8 = 0;
        // Its epoch, its end, and no tagged fields of its own.
        const BYTES: u8 = 4 + 8 + 1;
        self.buffer.put_slice(&[1, TAG, BYTES]);
        self.buffer.put_i32(epoch.0);
        self.buffer.put_i64(end.0);
        self.no_tags();
    }

    /// A length: of an array, or of bytes. Both have the same form.
    fn count(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX >> 1);
        if !self.flexible {
            self.buffer.put_u32(count);
            return;
        }
        let mut rest = count + 1;
        while rest >= 0x80 {
            self.buffer.put_u8((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.buffer.put_u8(rest as u8);
    }

    fn no_tags(&mut self) {
        if self.flexible {
            self.buffer.put_u8(0);
        }
    }

    fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        // The first part stays open: the frame's length is written into it at the end.
        if self.parts.is_empty() {
            self.parts.push(OutgoingChunk::Memory(Bytes::new()));
        }
        let part = self.buffer.split().freeze();
        self.sent += part.len();
        self.parts.push(OutgoingChunk::Memory(part));
    }

    fn end(mut self) -> Option<ResponseFrame> {
        if self.parts.is_empty() {
            end_frame(&mut self.buffer, 0)?;
            return Some(ResponseFrame::of_parts(vec![OutgoingChunk::Memory(
                self.buffer.freeze(),
            )]));
        }
        self.flush();
        // What was flushed first: nothing stands before the heads.
        let OutgoingChunk::Memory(first) = self.parts.remove(1) else { return None };
        let rest = self.sent - first.len();
        let mut first = first.try_into_mut().unwrap_or_else(|it| BytesMut::from(&it[..]));
        end_frame(&mut first, rest)?;
        self.parts[0] = OutgoingChunk::Memory(first.freeze());
        Some(ResponseFrame::of_parts(self.parts))
    }
}
