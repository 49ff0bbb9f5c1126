//! A chunk: byte for byte a Kafka RecordBatch v2. Here its head is read, checked and stamped; the
//! records in it stay as they are.
//!
//! ```text
//!  0 base offset i64 │ 8 length i32 of the rest │ 12 leader epoch i32 │ 16 magic 2 │ 17 crc u32
//! 21 attributes i16 │ 23 last offset delta i32 │ 27 base timestamp i64 │ 35 max timestamp i64
//! 43 producer id i64 │ 51 producer epoch i16 │ 53 base sequence i32 │ 57 record count i32 │ 61 records
//! ```
//!
//! All numbers are big-endian. The CRC-32C covers everything from the attributes on: so the base
//! offset and the leader epoch can be stamped without touching it.
//!
//! Invariants: no bytes make [`ChunkHead::read`] panic or allocate; a chunk that
//! [`ChunkHead::check`] accepts has as many offsets as records.

use crc_fast::CrcAlgorithm;
pub use tidemill_types::LeaderEpoch;

#[cfg(test)]
mod tests;

/// Length of the head in bytes.
pub const CHUNK_HEAD_BYTES: usize = 61;
/// The bytes before the ones that the length field counts.
const BEFORE_LENGTH: usize = 12;
/// Where the bytes start that the CRC covers.
const CRC_FROM: usize = 21;
/// The fewest bytes a record can have: its length, attributes, two deltas, key, value, headers.
const RECORD_BYTES_MIN: u64 = 7;
/// The flag of an append's timestamps in the attributes.
const LOG_APPEND_TIME: i16 = 0x08;
/// The flag of a transaction's records in the attributes.
pub(crate) const TRANSACTIONAL: i16 = 0x10;
/// The flag of a marker in the attributes.
pub(crate) const CONTROL: i16 = 0x20;

/// The compression of a chunk's records. The numbers are those in the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None = 0,
    /// gzip.
    Gzip = 1,
    /// Snappy, in Xerial's framing or plain.
    Snappy = 2,
    /// LZ4 frames.
    Lz4 = 3,
    /// Zstandard.
    Zstd = 4,
}

/// The head of a chunk, as plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Offset of the first record. A producer's is meaningless; [`stamp`] sets the log's.
    pub base_offset: i64,
    /// The whole chunk, head included, in bytes.
    pub bytes: usize,
    /// The leader's epoch; -1 if unknown.
    pub leader_epoch: i32,
    /// CRC-32C of everything from the attributes on, as the chunk says.
    pub crc: u32,
    /// Compression, timestamp type and flags.
    pub attributes: i16,
    /// Offset of the last record, less the base offset.
    pub last_offset_delta: i32,
    /// Timestamp of the first record, in milliseconds since 1970; -1 if none.
    pub base_timestamp_ms: i64,
    /// Largest timestamp, in milliseconds since 1970; -1 if none.
    pub max_timestamp_ms: i64,
    /// The idempotent producer; -1 if it is none.
    pub producer_id: i64,
    /// The producer's epoch; -1 if it is none.
    pub producer_epoch: i16,
    /// Sequence number of the first record; -1 if none.
    pub base_sequence: i32,
    /// The number of records that the chunk claims.
    pub record_count: i32,
}

/// Why bytes are no chunk of this log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// There are fewer bytes than a head has, or than the head says.
    #[error("the chunk is cut short: {have} bytes of {want}")]
    Short {
        /// Bytes that are there.
        have: usize,
        /// Bytes that there must be.
        want: usize,
    },
    /// The length field is smaller than a head.
    #[error("the chunk says it has {0} bytes: a chunk has at least {CHUNK_HEAD_BYTES}")]
    Length(i64),
    /// There are bytes after the chunk.
    #[error("{0} bytes follow the chunk: send one chunk at a time")]
    Trailing(usize),
    /// A message format that this log does not store.
    #[error("message format version {0} is not stored here: send record batches of version 2")]
    Magic(i8),
    /// The checksum is not that of the bytes.
    #[error("the chunk's CRC-32C is {said:08x}, that of its bytes {is:08x}")]
    Crc {
        /// The checksum in the chunk.
        said: u32,
        /// The checksum of its bytes.
        is: u32,
    },
    /// Record count and offsets do not belong together, or are impossible.
    #[error("{count} records with a last offset delta of {delta} in {bytes} bytes")]
    Count {
        /// Records, as the chunk says.
        count: i32,
        /// Last offset delta, as the chunk says.
        delta: i32,
        /// Bytes of the whole chunk.
        bytes: usize,
    },
    /// The compression is not known.
    #[error("compression {0} is not known: none, gzip, snappy, lz4 and zstd are")]
    Codec(i16),
    /// A producer without an epoch or a sequence.
    #[error("producer id {id}, epoch {epoch} and sequence {sequence} do not belong together")]
    Producer {
        /// Producer id.
        id: i64,
        /// Producer epoch.
        epoch: i16,
        /// Base sequence.
        sequence: i32,
    },
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut into = [0; N];
    into.copy_from_slice(&bytes[at..at + N]);
    into
}

/// CRC-32C of bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

impl ChunkHead {
    /// Reads the head at the start of `bytes`, which may hold more than the chunk. Checks the
    /// format version and that the whole chunk is there; the rest is for [`Self::check`].
    ///
    /// # Errors
    /// The bytes are cut short, say an impossible length, or are of another format.
    pub fn read(bytes: &[u8]) -> Result<Self, ChunkError> {
        let head = Self::read_head(bytes)?;
        if bytes.len() < head.bytes {
            return Err(ChunkError::Short { have: bytes.len(), want: head.bytes });
        }
        Ok(head)
    }

    /// As [`Self::read`], for bytes that may end after the head.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_head(bytes: &[u8]) -> Result<Self, ChunkError> {
        // The version stands at the same place in every format: say that first.
        if bytes.len() > 16 && bytes[16] != 2 {
            return Err(ChunkError::Magic(bytes[16].cast_signed()));
        }
        if bytes.len() < CHUNK_HEAD_BYTES {
            return Err(ChunkError::Short { have: bytes.len(), want: CHUNK_HEAD_BYTES });
        }
        let said = i64::from(i32::from_be_bytes(number(bytes, 8))) + BEFORE_LENGTH as i64;
        let length = usize::try_from(said).ok().filter(|it| *it >= CHUNK_HEAD_BYTES);
        Ok(Self {
            base_offset: i64::from_be_bytes(number(bytes, 0)),
            bytes: length.ok_or(ChunkError::Length(said))?,
            leader_epoch: i32::from_be_bytes(number(bytes, 12)),
            crc: u32::from_be_bytes(number(bytes, 17)),
            attributes: i16::from_be_bytes(number(bytes, 21)),
            last_offset_delta: i32::from_be_bytes(number(bytes, 23)),
            base_timestamp_ms: i64::from_be_bytes(number(bytes, 27)),
            max_timestamp_ms: i64::from_be_bytes(number(bytes, 35)),
            producer_id: i64::from_be_bytes(number(bytes, 43)),
            producer_epoch: i16::from_be_bytes(number(bytes, 51)),
            base_sequence: i32::from_be_bytes(number(bytes, 53)),
            record_count: i32::from_be_bytes(number(bytes, 57)),
        })
    }

    /// Reads and checks the head of a chunk from a producer: `bytes` is exactly one chunk, its
    /// checksum is right, and count, offsets, compression and producer make sense. The records are
    /// not read.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check(bytes: &[u8]) -> Result<Self, ChunkError> {
        let head = Self::read(bytes)?;
        if bytes.len() > head.bytes {
            return Err(ChunkError::Trailing(bytes.len() - head.bytes));
        }
        let is = crc32c(&bytes[CRC_FROM..]);
        if is != head.crc {
            return Err(ChunkError::Crc { said: head.crc, is });
        }
        head.codec()?;
        head.check_count()?;
        // Without a producer id, epoch and sequence mean nothing, and some clients leave zeros there.
        if head.producer_id >= 0
            && (head.producer_epoch < 0 || (head.base_sequence < 0 && !head.is_control()))
        {
            return Err(ChunkError::Producer {
                id: head.producer_id,
                epoch: head.producer_epoch,
                sequence: head.base_sequence,
            });
        }
        Ok(head)
    }

    fn check_count(&self) -> Result<(), ChunkError> {
        let (count, delta) = (self.record_count, self.last_offset_delta);
        let room = (self.bytes - CHUNK_HEAD_BYTES) as u64;
        let fits = self.codec() != Ok(Codec::None)
            || u64::try_from(count).is_ok_and(|it| it.saturating_mul(RECORD_BYTES_MIN) <= room);
        if count < 1 || delta != count - 1 || !fits {
            return Err(ChunkError::Count { count, delta, bytes: self.bytes });
        }
        Ok(())
    }

    /// The compression of the records.
    ///
    /// # Errors
    /// The codec is not known.
    pub fn codec(&self) -> Result<Codec, ChunkError> {
        match self.attributes & 7 {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Gzip),
            2 => Ok(Codec::Snappy),
            3 => Ok(Codec::Lz4),
            4 => Ok(Codec::Zstd),
            other => Err(ChunkError::Codec(other)),
        }
    }

    /// True if timestamps are those of the append, not the producer's.
    #[must_use]
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// True if the records are of a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// True if the one record is a transaction's marker.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Offset of the last record.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }
}

/// Writes a head over the first bytes of `chunk`, whose records stand after them, and sets length
/// and checksum to those of the bytes. Bytes too short for a head stay as they are.
pub fn seal(chunk: &mut [u8], head: &ChunkHead) {
    let length = chunk.len().saturating_sub(BEFORE_LENGTH);
    let Some(room) = chunk.first_chunk_mut::<CHUNK_HEAD_BYTES>() else { return };
    room[..8].copy_from_slice(&head.base_offset.to_be_bytes());
    room[8..12].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    room[12..16].copy_from_slice(&head.leader_epoch.to_be_bytes());
    room[16] = 2;
    room[21..23].copy_from_slice(&head.attributes.to_be_bytes());
    room[23..27].copy_from_slice(&head.last_offset_delta.to_be_bytes());
    room[27..35].copy_from_slice(&head.base_timestamp_ms.to_be_bytes());
    room[35..43].copy_from_slice(&head.max_timestamp_ms.to_be_bytes());
    room[43..51].copy_from_slice(&head.producer_id.to_be_bytes());
    room[51..53].copy_from_slice(&head.producer_epoch.to_be_bytes());
    room[53..57].copy_from_slice(&head.base_sequence.to_be_bytes());
    room[57..61].copy_from_slice(&head.record_count.to_be_bytes());
    let crc = crc32c(&chunk[CRC_FROM..]);
    chunk[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// Writes the log's base offset and leader epoch into a chunk; the CRC does not cover them.
/// Bytes too short for a head stay as they are.
pub fn stamp(chunk: &mut [u8], base_offset: i64, leader_epoch: LeaderEpoch) {
    if chunk.len() >= CHUNK_HEAD_BYTES {
        chunk[..8].copy_from_slice(&base_offset.to_be_bytes());
        chunk[12..16].copy_from_slice(&leader_epoch.0.to_be_bytes());
    }
}

/// Sets the timestamp type to that of the append and the largest timestamp to `now_ms`, and repairs
/// the CRC. A stream with append timestamps does this to each chunk. The chunk was checked before.
pub fn stamp_append_time(chunk: &mut [u8], now_ms: i64) {
    if chunk.len() >= CHUNK_HEAD_BYTES {
        chunk[22] |= LOG_APPEND_TIME as u8;
        chunk[35..43].copy_from_slice(&now_ms.to_be_bytes());
        let crc = crc32c(&chunk[CRC_FROM..]);
        chunk[17..21].copy_from_slice(&crc.to_be_bytes());
    }
}

/// Sets the largest timestamp to `latest_ms` and repairs the CRC, for a chunk whose producer
/// claimed another. The chunk was checked before.
pub fn stamp_max_time(chunk: &mut [u8], latest_ms: i64) {
    if chunk.len() >= CHUNK_HEAD_BYTES {
        chunk[35..43].copy_from_slice(&latest_ms.to_be_bytes());
        let crc = crc32c(&chunk[CRC_FROM..]);
        chunk[17..21].copy_from_slice(&crc.to_be_bytes());
    }
}

/// Checks the head and the checksum of a stored chunk.
///
/// # Errors
/// One of them is wrong.
pub fn verify(chunk: &[u8]) -> Result<ChunkHead, ChunkError> {
    let head = ChunkHead::read(chunk)?;
    let is = crc32c(&chunk[CRC_FROM..head.bytes]);
    if is != head.crc {
        return Err(ChunkError::Crc { said: head.crc, is });
    }
    Ok(head)
}
