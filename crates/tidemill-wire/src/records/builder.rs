//! Making chunks.
//!
//! ```text
//! plain:   room for a head │ record │ record │ …       append writes here
//! finish:  not compressed: the head is written and `plain` itself goes out
//!          compressed:     the stream is made from `plain`, which stays; a chunk of its own goes out
//! ```
//!
//! Invariant: a finished chunk is never longer than [`ChunkBuilder::len_bytes`] said: where
//! compressing gains nothing, the records go out as they are.

use super::{Header, codec::Deflater, varint};
use crate::chunk::{CHUNK_HEAD_BYTES, ChunkHead, Codec, TRANSACTIONAL, seal};

#[cfg(test)]
mod tests;

/// Most bytes of a chunk: its length field has 31 bits.
const CHUNK_BYTES_MAX: usize = i32::MAX as usize;
/// A record without key, value and headers, with all numbers as long as they can be: its length,
/// attributes, two deltas, two lengths and the number of headers.
const RECORD_BYTES_MOST: usize = 5 + 1 + 10 + 5 + 5 + 5 + 5;
/// Two lengths of a header, as long as they can be.
const HEADER_BYTES_MOST: usize = 5 + 5;

/// The compression of a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The codec.
    pub codec: Codec,
    /// The level: 1 to 9 for gzip (6 if none), 1 to 22 for Zstandard (3 if none); others become the
    /// nearest one. Snappy and LZ4 have no levels.
    pub level: Option<i32>,
}

impl Compression {
    /// Not at all.
    pub const NONE: Self = Self::of(Codec::None);

    /// A codec at its usual level.
    #[must_use]
    pub const fn of(codec: Codec) -> Self {
        Self { codec, level: None }
    }
}

/// The sender of a chunk (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The idempotent producer; -1 if it is none.
    pub producer_id: i64,
    /// Its epoch; -1 if it is none.
    pub producer_epoch: i16,
    /// Sequence number of the chunk's first record; -1 if none.
    pub base_sequence: i32,
    /// True if the records are of a transaction.
    pub is_transactional: bool,
}

impl Origin {
    /// A producer that is neither idempotent nor in a transaction.
    pub const NONE: Self =
        Self { producer_id: -1, producer_epoch: -1, base_sequence: -1, is_transactional: false };
}

/// Why a record does not go into a chunk. The chunk is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordRefused {
    /// The chunk would be longer than a chunk can be.
    #[error("with this record the chunk would have {bytes} bytes: it can have {CHUNK_BYTES_MAX}")]
    TooLarge {
        /// The length that the chunk would have, in bytes.
        bytes: usize,
    },
    /// The timestamp and the chunk's first one are too far apart.
    #[error("timestamp {0} is too far from that of the first record in the chunk")]
    Timestamp(i64),
}

/// Makes one chunk after the other. Its memory is kept from chunk to chunk.
pub struct ChunkBuilder {
    compression: Compression,
    origin: Origin,
    /// Made when it is first needed.
    deflater: Option<Deflater>,
    /// Room for a head, then the records.
    plain: Vec<u8>,
    /// Where the compressed stream is made.
    packed: Vec<u8>,
    record_count: i32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

impl ChunkBuilder {
    /// A builder of chunks that are compressed so, of no producer.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        Self {
            compression,
            origin: Origin::NONE,
            deflater: None,
            plain: vec![0; CHUNK_HEAD_BYTES],
            packed: Vec::new(),
            record_count: 0,
            base_timestamp_ms: -1,
            max_timestamp_ms: -1,
        }
    }

    /// Sets the sender of the chunk that is being built and of those after it.
    pub fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    /// Adds a record and returns its offset delta. `headers` are walked twice.
    ///
    /// # Errors
    /// The record does not fit into this chunk; it may fit into the next.
    pub fn append<'h>(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl ExactSizeIterator<Item = Header<'h>> + Clone,
    ) -> Result<i32, RecordRefused> {
        let base_timestamp_ms = if self.is_empty() { timestamp_ms } else { self.base_timestamp_ms };
        let timestamp_delta_ms = timestamp_ms
            .checked_sub(base_timestamp_ms)
            .ok_or(RecordRefused::Timestamp(timestamp_ms))?;
        let header_count = headers.len();
        let bytes = 1
            + varint::bytes_of(timestamp_delta_ms)
            + varint::bytes_of(i64::from(self.record_count))
            + field_bytes(key)
            + field_bytes(value)
            + varint::bytes_of(header_count as i64)
            + headers_bytes(headers.clone());
        let whole = self.plain.len() + varint::bytes_of(bytes as i64) + bytes;
        if whole > CHUNK_BYTES_MAX {
            return Err(RecordRefused::TooLarge { bytes: whole });
        }
        let into = &mut self.plain;
        into.reserve(whole - into.len());
        varint::put(into, bytes as i64);
        into.push(0);
        varint::put(into, timestamp_delta_ms);
        varint::put(into, i64::from(self.record_count));
        put_field(into, key);
        put_field(into, value);
        varint::put(into, header_count as i64);
        for header in headers {
            put_field(into, Some(header.key));
            put_field(into, header.value);
        }
        debug_assert_eq!(into.len(), whole);
        self.base_timestamp_ms = base_timestamp_ms;
        self.max_timestamp_ms =
            if self.is_empty() { timestamp_ms } else { self.max_timestamp_ms.max(timestamp_ms) };
        self.record_count += 1;
        Ok(self.record_count - 1)
    }

    /// Bytes that the chunk has now if it is not compressed: it will not be longer.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.plain.len()
    }

    /// The most by which a record makes [`Self::len_bytes`] grow; at most 36 bytes too many, and 8
    /// for each header.
    #[must_use]
    pub fn record_bytes_most<'h>(
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = Header<'h>>,
    ) -> usize {
        let fields = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        let of = |header: Header<'_>| {
            HEADER_BYTES_MOST + header.key.len() + header.value.map_or(0, <[u8]>::len)
        };
        RECORD_BYTES_MOST + fields + headers.map(of).sum::<usize>()
    }

    /// The number of records in the chunk now.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// True if the chunk has no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// The chunk, if it has a record; the builder is empty then. Base offset 0, leader epoch -1.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        let chunk = self.pack();
        self.plain.clear();
        self.plain.resize(CHUNK_HEAD_BYTES, 0);
        self.record_count = 0;
        Some(chunk)
    }

    /// Takes back a chunk that is not needed any more, for its memory.
    pub fn give_back(&mut self, chunk: Vec<u8>) {
        if self.is_empty() && chunk.capacity() > self.plain.capacity() {
            self.plain = chunk;
            self.plain.clear();
            self.plain.resize(CHUNK_HEAD_BYTES, 0);
        }
    }

    fn pack(&mut self) -> Vec<u8> {
        let Compression { codec, level } = self.compression;
        self.packed.clear();
        if self.deflater.is_none() {
            self.deflater = Deflater::new(codec, level);
        }
        let records = &self.plain[CHUNK_HEAD_BYTES..];
        let packed = self.deflater.as_mut().and_then(|it| it.deflate(records, &mut self.packed));
        let pays = packed.is_some() && self.packed.len() < records.len();
        let head = self.head(if pays { codec } else { Codec::None });
        let mut chunk = if pays {
            let mut chunk = Vec::with_capacity(CHUNK_HEAD_BYTES + self.packed.len());
            chunk.resize(CHUNK_HEAD_BYTES, 0);
            chunk.extend_from_slice(&self.packed);
            chunk
        } else {
            // The next chunk is likely as long as this one.
            let next = Vec::with_capacity(self.plain.len());
            std::mem::replace(&mut self.plain, next)
        };
        seal(&mut chunk, &head);
        chunk
    }

    fn head(&self, codec: Codec) -> ChunkHead {
        let transactional = if self.origin.is_transactional { TRANSACTIONAL } else { 0 };
        ChunkHead {
            base_offset: 0,
            bytes: 0,
            leader_epoch: -1,
            crc: 0,
            attributes: codec as i16 | transactional,
            last_offset_delta: self.record_count - 1,
            base_timestamp_ms: self.base_timestamp_ms,
            max_timestamp_ms: self.max_timestamp_ms,
            producer_id: self.origin.producer_id,
            producer_epoch: self.origin.producer_epoch,
            base_sequence: self.origin.base_sequence,
            record_count: self.record_count,
        }
    }
}

fn field_bytes(field: Option<&[u8]>) -> usize {
    match field {
        Some(field) => varint::bytes_of(field.len() as i64) + field.len(),
        None => varint::bytes_of(-1),
    }
}

fn headers_bytes<'h>(headers: impl Iterator<Item = Header<'h>>) -> usize {
    headers.map(|header| field_bytes(Some(header.key)) + field_bytes(header.value)).sum()
}

fn put_field(into: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        Some(field) => {
            varint::put(into, field.len() as i64);
            into.extend_from_slice(field);
        }
        None => varint::put(into, -1),
    }
}
