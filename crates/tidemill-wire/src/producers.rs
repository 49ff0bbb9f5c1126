//! A partition's producers, as the broker stores them beside the log.
//!
//! ```text
//! snapshot:  version, upto, last base, last crc, producers, ended    one a partition
//! producer:  id, epoch, timestamp, idle, open transaction, chunks    sequence numbers and offsets
//! aborted:   producer id, first offset, stable offset                one an aborted transaction,
//!                                                                    under its marker's offset
//! ids:       version u8 1 │ end i64                                  ids below it may be taken
//! ```
//!
//! A snapshot covers the chunks below `upto`; those from there on are read again. It names the last
//! chunk it covers, so that a log that lost its end is noticed. Entries are postcard; fields are
//! only ever added at the end.

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// The version of the snapshots written by this code. Version 1 has no list of those that have
/// ended a transaction.
pub const PRODUCERS_VERSION: u8 = 2;

/// The version of the end of the reserved producer ids.
const IDS_VERSION: u8 = 1;

/// The producers of a partition as of an offset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducersSnapshot {
    /// [`PRODUCERS_VERSION`].
    pub version: u8,
    /// All chunks below this offset are in it.
    pub upto: i64,
    /// Base offset of the last chunk below `upto`; -1 if there is none.
    pub last_base: i64,
    /// The checksum in the head of that chunk.
    pub last_crc: u32,
    /// By id.
    pub producers: Vec<ProducerRecord>,
    /// Ids of those of which a transaction has ended here, in ascending order.
    pub ended: Vec<i64>,
}

/// A producer in a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerRecord {
    /// Its id.
    pub id: i64,
    /// Its newest epoch.
    pub epoch: i16,
    /// Largest timestamp of its last chunk, in milliseconds since 1970; -1 if none.
    pub timestamp_ms: i64,
    /// For how long it was not heard of, in milliseconds.
    pub idle_ms: u64,
    /// First offset of its open transaction.
    pub open: Option<i64>,
    /// Its last chunks, oldest first.
    pub taken: Vec<TakenRecord>,
}

/// A chunk that was taken from a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenRecord {
    /// Sequence number of the first record.
    pub first: i32,
    /// Sequence number of the last record.
    pub last: i32,
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset of the last record.
    pub last_offset: i64,
}

/// A transaction that was aborted. It is stored under the offset of its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortedRecord {
    /// Whose it was.
    pub producer_id: i64,
    /// Offset of its first record in the partition.
    pub first: i64,
    /// Transactions that ended later begin at or after this offset.
    pub stable: i64,
}

/// The end of the producer ids that are reserved, as it is stored: big-endian.
#[must_use]
pub fn encode_ids_end(end: i64) -> [u8; 9] {
    let mut bytes = [IDS_VERSION; 9];
    bytes[1..].copy_from_slice(&end.to_be_bytes());
    bytes
}

/// Reads the end of the producer ids that are reserved. None: the bytes say none.
#[must_use]
pub fn decode_ids_end(bytes: &[u8]) -> Option<i64> {
    let (version, end) = bytes.split_first()?;
    let end = i64::from_be_bytes(end.try_into().ok()?);
    (*version == IDS_VERSION && end >= 0).then_some(end)
}

impl ProducersSnapshot {
    /// The snapshot as bytes.
    ///
    /// # Panics
    /// Never: all fields have an encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("every field has an encoding")
    }

    /// Reads a snapshot.
    ///
    /// # Errors
    /// The bytes are no snapshot, or one of a version that is not known.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        // What is missing at its end is an empty list: a zero.
        let old = (bytes.first() == Some(&1)).then(|| [bytes, &[0]].concat());
        let bytes = old.as_deref().unwrap_or(bytes);
        let (snapshot, rest): (Self, _) = postcard::take_from_bytes(bytes)?;
        let known = (1..=PRODUCERS_VERSION).contains(&snapshot.version) && rest.is_empty();
        let snapshot = Self { version: PRODUCERS_VERSION, ..snapshot };
        if known { Ok(snapshot) } else { Err(postcard::Error::DeserializeBadEncoding) }
    }
}

impl AbortedRecord {
    /// The record as bytes.
    ///
    /// # Panics
    /// Never: all fields have an encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("every field has an encoding")
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The bytes are no such record.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (record, rest) = postcard::take_from_bytes(bytes)?;
        if rest.is_empty() { Ok(record) } else { Err(postcard::Error::DeserializeBadEncoding) }
    }
}
