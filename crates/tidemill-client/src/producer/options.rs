//! The options of a producer.

use std::time::Duration;
use tidemill_wire::records::Compression;

/// When a record counts as delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// When it is written to the socket: no answer comes, and losses are not noticed.
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

/// The options of a producer. The defaults are for throughput without loss and duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerOptions {
    /// When a record counts as delivered.
    pub acks: Acks,
    /// Writes each record once, even if it has to be sent several times (KIP-98), and keeps each
    /// streamlet's records in order. Needs [`Acks::All`]; with others it is off. Without it a
    /// record that is sent again may be there twice, and behind later ones. Default on.
    pub idempotent: bool,
    /// The compression of chunks. Default none.
    pub compression: Compression,
    /// The time that a chunk which is not full waits for more records. Default 5 ms.
    pub linger: Duration,
    /// The length of a full chunk, in bytes before compression; a longer record is a chunk of its
    /// own. Default 256 KiB.
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
    /// The longest wait of `send` for room in [`Self::buffer_bytes`]. Default 60 s.
    pub block_timeout: Duration,
    /// The longest time from the sending of a record to its delivery. Default 2 min.
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
