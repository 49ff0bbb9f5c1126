//! A chunk on its way: from the first record in it to the answer about it.

use super::{Delivered, ProduceError, identity::ProducerIdentity};
use bytes::Bytes;
use tidemill_wire::chunk::{ChunkHead, seal};

/// Gets the outcome of a record.
pub(super) type DeliveryCallback = Box<dyn FnOnce(Result<Delivered, ProduceError>) + Send>;

/// A chunk's name and place in the row of its streamlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) identity: ProducerIdentity,
    pub(super) base_sequence: i32,
}

/// A chunk that takes no more records.
pub(super) struct ProducerChunk {
    /// Counts the chunks of a streamlet, in the order in which they are to be there.
    pub(super) serial: u64,
    pub(super) records: u32,
    /// Bytes of the buffer that it holds.
    pub(super) reserved: usize,
    /// When its first record was sent.
    pub(super) born_us: u64,
    pub(super) stamp: Option<Stamp>,
    /// The number of attempts under this stamp.
    pub(super) attempts: u32,
    /// The callbacks of records, by their place in the chunk.
    pub(super) dones: Vec<(u32, DeliveryCallback)>,
    content: ChunkContent,
}

enum ChunkContent {
    /// Nobody else has it.
    Own(Vec<u8>),
    /// It was sent, and may still be under way.
    Sent(Bytes),
}

impl ProducerChunk {
    pub(super) fn new(content: Vec<u8>, records: u32, serial: u64, born_us: u64) -> Self {
        Self {
            serial,
            records,
            reserved: 0,
            born_us,
            stamp: None,
            attempts: 0,
            dones: Vec::new(),
            content: ChunkContent::Own(content),
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.content {
            ChunkContent::Own(content) => content.len(),
            ChunkContent::Sent(content) => content.len(),
        }
    }

    /// Writes name and sequence number into the head.
    pub(super) fn stamp(&mut self, stamp: Stamp) {
        self.stamp = Some(stamp);
        let mut content = match std::mem::replace(&mut self.content, ChunkContent::Own(Vec::new()))
        {
            ChunkContent::Own(content) => content,
            ChunkContent::Sent(content) => content.to_vec(),
        };
        if let Ok(head) = ChunkHead::read(&content) {
            let head = ChunkHead {
                producer_id: stamp.identity.id.0,
                producer_epoch: stamp.identity.epoch.0,
                base_sequence: stamp.base_sequence,
                ..head
            };
            seal(&mut content, &head);
        }
        self.content = ChunkContent::Own(content);
    }

    /// Its bytes, to be sent.
    pub(super) fn bytes(&mut self) -> Bytes {
        if let ChunkContent::Own(content) = &mut self.content {
            self.content = ChunkContent::Sent(Bytes::from(std::mem::take(content)));
        }
        match &self.content {
            ChunkContent::Sent(content) => content.clone(),
            ChunkContent::Own(_) => Bytes::new(),
        }
    }

    /// Its memory, for others.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.content {
            ChunkContent::Own(content) => content.into(),
            ChunkContent::Sent(content) => content,
        }
    }
}

/// A chunk with its final outcome.
pub(super) struct FinishedChunk {
    pub(super) chunk: ProducerChunk,
    pub(super) outcome: Result<Delivered, ProduceError>,
}
