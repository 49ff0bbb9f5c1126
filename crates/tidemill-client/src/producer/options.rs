//! How a producer sends.

use std::time::Duration;
use tidemill_wire::records::Compression;

/// When a record counts as delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// As soon as it is written to the socket: nobody answers, and what is lost is lost unseen.
    None,
    /// When the leader has it.
    Leader,
    /// When it is as durable as its stream asks for: on disk, by default, with a node of Tidemill;
    /// with all replicas that are in sync.
    #[default]
    All,
}

impl Acks {
    pub(super) fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// How a producer sends. The defaults are meant for throughput without loss and duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerOptions {
    /// When a record counts as delivered.
    pub acks: Acks,
    /// Whether each record is written once, however often it had to be sent (KIP-98), and each
    /// streamlet's records stay in order. Needs [`Acks::All`]; with others it is off. Without it a
    /// record that had to be sent again may be there twice, and behind those sent after it.
    /// Default on.
    pub idempotent: bool,
    /// How chunks are compressed. Default not at all.
    pub compression: Compression,
    /// How long a chunk that is not full waits for more records. Default 5 ms.
    pub linger: Duration,
    /// A chunk is full when it has so many bytes, before compression; a longer record is a chunk
    /// of its own. Default 256 KiB.
    pub batch_bytes: usize,
    /// Most bytes of chunks that are sent to a node with one request, if one alone is not longer.
    /// Default 4 MiB.
    pub request_bytes: usize,
    /// Requests that may be under way to a node at once, from 1 to 5. Default 5.
    pub in_flight: usize,
    /// Bytes of records, encoded, that may wait or be under way; beyond, [`send`] waits. Memory may
    /// be twice as much for a moment, while chunks grow. Default 64 MiB.
    ///
    /// [`send`]: super::StreamWriter::send
    pub buffer_bytes: usize,
    /// How long `send` waits for room among [`Self::buffer_bytes`]. Default 60 s.
    pub block_timeout: Duration,
    /// How long it is tried to deliver a record, from the moment it was sent. Default 2 min.
    pub delivery_timeout: Duration,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            idempotent: true,
            compression: Compression::NONE,
            linger: Duration::from_millis(5),
            batch_bytes: 256 << 10,
            request_bytes: 4 << 20,
            in_flight: 5,
            buffer_bytes: 64 << 20,
            block_timeout: Duration::from_secs(60),
            delivery_timeout: Duration::from_secs(120),
        }
    }
}

impl ProducerOptions {
    /// The same, with values that can be.
    pub(super) fn bounded(mut self) -> Self {
        self.idempotent &= self.acks == Acks::All;
        self.in_flight = self.in_flight.clamp(1, 5);
        self.batch_bytes = self.batch_bytes.clamp(1, 1 << 30);
        self.buffer_bytes = self.buffer_bytes.max(1);
        self
    }
}
