//! The marker that ends a transaction: the one record of a control chunk (KIP-98).
//!
//! ```text
//! key:   version i16 0 │ type i16: 0 abort, 1 commit
//! value: version i16 0 │ epoch of the coordinator i32
//! ```
//!
//! The numbers are big-endian. A later version may have more after these fields.

use super::{ChunkBuilder, Compression, Headers, Origin, Records};
use crate::chunk::{CHUNK_HEAD_BYTES, CONTROL, ChunkHead, Codec, seal};

#[cfg(test)]
mod tests;

/// The type of an abort.
const ABORT: i16 = 0;
/// The type of a commit.
const COMMIT: i16 = 1;

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The producer whose transaction it was.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// True if it was committed, false if it was aborted.
    pub is_commit: bool,
    /// The epoch of the coordinator that ended it.
    pub coordinator_epoch: i32,
    /// When it ended, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

/// The control chunk that ends a producer's transaction.
#[must_use]
pub fn control_marker(marker: &Marker) -> Vec<u8> {
    let Marker { producer_id, producer_epoch, is_commit, coordinator_epoch, timestamp_ms } =
        *marker;
    let mut key = [0; 4];
    key[2..].copy_from_slice(&if is_commit { COMMIT } else { ABORT }.to_be_bytes());
    let mut value = [0; 6];
    value[2..].copy_from_slice(&coordinator_epoch.to_be_bytes());
    let mut builder = ChunkBuilder::new(Compression::NONE);
    let origin = Origin { producer_id, producer_epoch, base_sequence: -1, is_transactional: true };
    builder.set_origin(origin);
    let appended = builder.append(timestamp_ms, Some(&key), Some(&value), Headers::NONE);
    debug_assert_eq!(appended, Ok(0));
    let mut chunk = builder.finish().unwrap_or_default();
    if let Ok(head) = ChunkHead::read(&chunk) {
        let attributes = head.attributes | CONTROL;
        seal(&mut chunk, &ChunkHead { attributes, ..head });
    }
    chunk
}

/// The marker in a chunk, if it is a control chunk that ends a transaction. There are others, which
/// a reader passes over. The checksum is not looked at.
#[must_use]
pub fn read_control(chunk: &[u8]) -> Option<Marker> {
    let head = ChunkHead::read(chunk).ok()?;
    if !head.is_control() || head.codec() != Ok(Codec::None) {
        return None;
    }
    let record = Records::new(&head, &chunk[CHUNK_HEAD_BYTES..head.bytes]).next()?.ok()?;
    let [_, _, kind @ ..] = *record.key?.first_chunk::<4>()?;
    let [_, _, coordinator_epoch @ ..] = *record.value?.first_chunk::<6>()?;
    Some(Marker {
        producer_id: head.producer_id,
        producer_epoch: head.producer_epoch,
        is_commit: match i16::from_be_bytes(kind) {
            ABORT => false,
            COMMIT => true,
            _ => return None,
        },
        coordinator_epoch: i32::from_be_bytes(coordinator_epoch),
        timestamp_ms: record.timestamp_ms,
    })
}
