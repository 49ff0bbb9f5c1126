//! The bytes of a segment file.
//!
//! ```text
//!    0 head: identity of the segment        ┐
//!  512 mark, even    ┐ how far it is        │ one block, each part in a sector of its own
//! 1024 mark, odd     ┘ durable; sealed?     │ with a checksum of its own
//! 2048 head again                           ┘
//! 4096 reference (64 bytes) │ chunk │ zeros to a multiple of 8 │ reference │ chunk │ …
//! ```
//!
//! Own numbers are little-endian; chunks are as producers sent them. A reference's checksum also
//! covers the segment's identity and the reference's position, which are not written in it. So
//! bytes of an earlier use of the file, or of another position, never pass for a chunk.
//!
//! Invariants: no bytes make a reader panic; an epoch is never used twice in a log.

use crate::ids::{SegmentKey, StreamId};

#[cfg(test)]
mod tests;
use tidemill_types::{GroupIx, LeaderEpoch, SegmentEpoch, SegmentIx, StreamletIx};
use tidemill_wire::chunk::{ChunkHead, crc32c};

/// Where the first reference stands.
pub(crate) const DATA_START: u64 = 4096;
/// Where the head's copy stands.
pub(crate) const HEAD_COPY: usize = 2048;
/// Length of a reference.
pub(crate) const REF_BYTES: usize = 64;
/// Where marks stand: even ones, odd ones.
pub(crate) const MARKS: [usize; 2] = [512, 1024];

const HEAD_MAGIC: u64 = u64::from_le_bytes(*b"TMsegm\x00\x01");
const HEAD_FIXED: usize = 64;
/// The file was another segment before.
const USED: u32 = 1 << 31;
const MARK_MAGIC: u32 = u32::from_le_bytes(*b"TMmk");
const MARK_BYTES: usize = 72;
/// Length of the identity and position that checksums cover.
const PLACE_BYTES: usize = 48;
const REF_MAGIC: u32 = u32::from_le_bytes(*b"TMcr");

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut into = [0; N];
    into.copy_from_slice(&bytes[at..at + N]);
    into
}

/// The head of a segment file: the identity of the segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub(crate) key: SegmentKey,
    /// When the file was made this segment, in microseconds since 1970.
    pub(crate) created_us: i64,
    /// The file was another segment before: bytes of that may stand behind the last chunk.
    pub(crate) was_used: bool,
    /// The stream's name when the file was made, for a person who has to restore the file by hand.
    pub(crate) name: String,
}

impl SegmentHead {
    /// The whole first block: two heads, no mark.
    pub(crate) fn block(&self) -> Vec<u8> {
        let mut block = vec![0; DATA_START as usize];
        let head = self.encode();
        block[..head.len()].copy_from_slice(&head);
        block[HEAD_COPY..HEAD_COPY + head.len()].copy_from_slice(&head);
        block
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(&HEAD_MAGIC.to_le_bytes());
        out.extend_from_slice(&self.key.stream.0);
        out.extend_from_slice(&self.key.streamlet.0.to_le_bytes());
        out.extend_from_slice(&self.key.index.0.to_le_bytes());
        out.extend_from_slice(&self.key.group.0.to_le_bytes());
        out.extend_from_slice(&self.key.epoch.0.to_le_bytes());
        out.extend_from_slice(&self.created_us.to_le_bytes());
        // In the other bits, how many backups follow the name: none yet.
        let used = if self.was_used { USED } else { 0 };
        out.extend_from_slice(&used.to_le_bytes());
        out.extend_from_slice(&(self.name.len() as u32).to_le_bytes());
        debug_assert_eq!(out.len(), HEAD_FIXED);
        out.extend_from_slice(self.name.as_bytes());
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the head of a first block, or its copy.
    pub(crate) fn decode(block: &[u8]) -> Option<Self> {
        Self::decode_at(block, 0).or_else(|| Self::decode_at(block, HEAD_COPY))
    }

    fn decode_at(block: &[u8], at: usize) -> Option<Self> {
        let bytes = block.get(at..at + 512)?;
        let name_bytes = u32_at(bytes, HEAD_FIXED - 4) as usize;
        if u64_at(bytes, 0) != HEAD_MAGIC || name_bytes > 512 - HEAD_FIXED - 4 {
            return None;
        }
        let end = HEAD_FIXED + name_bytes;
        if crc32c(&bytes[..end]) != u32_at(bytes, end) {
            return None;
        }
        Some(Self {
            key: SegmentKey {
                stream: StreamId(array(bytes, 8)),
                streamlet: StreamletIx(u32_at(bytes, 24)),
                index: SegmentIx(u32_at(bytes, 28)),
                group: GroupIx(u64_at(bytes, 32)),
                epoch: SegmentEpoch(u64_at(bytes, 40)),
            },
            created_us: i64_at(bytes, 48),
            was_used: u32_at(bytes, 56) & USED != 0,
            name: String::from_utf8(bytes[HEAD_FIXED..end].to_vec()).ok()?,
        })
    }
}

/// The durable extent of a segment at the time of the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentMark {
    /// Counts marks; the larger of two is the later.
    pub(crate) sequence: u64,
    /// Everything below is durable.
    pub(crate) position: u64,
    /// Base offset of the first chunk; equal to `end` if there is none.
    pub(crate) first: i64,
    /// The offset after the last durable chunk.
    pub(crate) end: i64,
    /// The number of offsets from `first` to `end` that are in this segment.
    pub(crate) offsets: i64,
    /// Largest timestamp of a chunk, in milliseconds.
    pub(crate) max_timestamp_ms: i64,
    /// When the last chunk came, in seconds since 1970.
    pub(crate) appended_s: u32,
    /// Everything below this offset of the streamlet was durable.
    pub(crate) floor: i64,
    /// Nothing follows `position`, ever.
    pub(crate) sealed: bool,
    /// It was sealed there because chunks behind it never counted. They may be there still: then
    /// this mark may not be durable yet.
    pub(crate) cut: bool,
}

impl SegmentMark {
    /// The bytes, and where in the file they stand.
    pub(crate) fn encode(&self, key: &SegmentKey) -> (u64, [u8; MARK_BYTES]) {
        let mut out = [0; MARK_BYTES];
        out[..4].copy_from_slice(&MARK_MAGIC.to_le_bytes());
        let ends = u32::from(self.sealed) | u32::from(self.cut) << 1;
        out[4..8].copy_from_slice(&ends.to_le_bytes());
        out[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..24].copy_from_slice(&self.position.to_le_bytes());
        out[24..32].copy_from_slice(&self.first.to_le_bytes());
        out[32..40].copy_from_slice(&self.end.to_le_bytes());
        out[40..48].copy_from_slice(&self.max_timestamp_ms.to_le_bytes());
        out[48..52].copy_from_slice(&self.appended_s.to_le_bytes());
        out[52..60].copy_from_slice(&self.floor.to_le_bytes());
        out[60..68].copy_from_slice(&self.offsets.to_le_bytes());
        let crc = key.checksum(0, &out[..MARK_BYTES - 4]);
        out[MARK_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        (MARKS[(self.sequence % 2) as usize] as u64, out)
    }

    /// The later of the marks in a first block.
    pub(crate) fn decode(block: &[u8], key: &SegmentKey) -> Option<Self> {
        let marks = MARKS.iter().filter_map(|at| Self::decode_at(block.get(*at..)?, key));
        marks.max_by_key(|it| it.sequence)
    }

    fn decode_at(bytes: &[u8], key: &SegmentKey) -> Option<Self> {
        let bytes = bytes.get(..MARK_BYTES)?;
        let crc = key.checksum(0, &bytes[..MARK_BYTES - 4]);
        if u32_at(bytes, 0) != MARK_MAGIC || u32_at(bytes, MARK_BYTES - 4) != crc {
            return None;
        }
        Some(Self {
            sealed: u32_at(bytes, 4) != 0,
            cut: u32_at(bytes, 4) & 2 != 0,
            sequence: u64_at(bytes, 8),
            position: u64_at(bytes, 16),
            first: i64_at(bytes, 24),
            end: i64_at(bytes, 32),
            max_timestamp_ms: i64_at(bytes, 40),
            appended_s: u32_at(bytes, 48),
            floor: i64_at(bytes, 52),
            offsets: i64_at(bytes, 60),
        })
    }

    /// Of a segment that has nothing but its head.
    pub(crate) fn none() -> Self {
        Self {
            sequence: 0,
            position: DATA_START,
            first: 0,
            end: 0,
            offsets: 0,
            max_timestamp_ms: -1,
            appended_s: 0,
            floor: i64::MIN,
            sealed: false,
            cut: false,
        }
    }
}

/// The reference that precedes each chunk in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRef {
    /// Length of the chunk.
    pub(crate) bytes: u32,
    /// The chunk's own CRC-32C.
    pub(crate) crc: u32,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) base: i64,
    /// Offset of the last record.
    pub(crate) last: i64,
    pub(crate) max_timestamp_ms: i64,
    /// When it came, in seconds since 1970.
    pub(crate) appended_s: u32,
    /// Everything below this place of the segment was durable when this chunk was appended.
    pub(crate) durable: u64,
    /// Everything below this offset of the streamlet was durable when this chunk was appended.
    pub(crate) floor: i64,
}

impl ChunkRef {
    /// The reference of a checked chunk, with the log's own base offset and leader epoch: those in
    /// its head are whatever the producer put there.
    pub(crate) fn of(
        head: &ChunkHead,
        base: i64,
        leader_epoch: LeaderEpoch,
        appended_s: u32,
        durable: u64,
        floor: i64,
    ) -> Self {
        Self {
            bytes: head.bytes as u32,
            crc: head.crc,
            leader_epoch,
            base,
            last: base + i64::from(head.last_offset_delta),
            max_timestamp_ms: head.max_timestamp_ms,
            appended_s,
            durable,
            floor,
        }
    }

    pub(crate) fn encode(&self, key: &SegmentKey, position: u64) -> [u8; REF_BYTES] {
        let mut out = [0; REF_BYTES];
        out[..4].copy_from_slice(&REF_MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        out[8..12].copy_from_slice(&self.crc.to_le_bytes());
        out[12..16].copy_from_slice(&self.leader_epoch.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.base.to_le_bytes());
        out[24..32].copy_from_slice(&self.last.to_le_bytes());
        out[32..40].copy_from_slice(&self.durable.to_le_bytes());
        out[40..48].copy_from_slice(&self.floor.to_le_bytes());
        out[48..56].copy_from_slice(&self.max_timestamp_ms.to_le_bytes());
        out[56..60].copy_from_slice(&self.appended_s.to_le_bytes());
        let crc = key.checksum(position, &out[..REF_BYTES - 4]);
        out[REF_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The reference at the start of `bytes`, if it is one of this segment and this place.
    pub(crate) fn decode(bytes: &[u8], key: &SegmentKey, position: u64) -> Option<Self> {
        let bytes = bytes.get(..REF_BYTES)?;
        if u32_at(bytes, 0) != REF_MAGIC {
            return None;
        }
        if key.checksum(position, &bytes[..REF_BYTES - 4]) != u32_at(bytes, REF_BYTES - 4) {
            return None;
        }
        Some(Self {
            bytes: u32_at(bytes, 4),
            crc: u32_at(bytes, 8),
            leader_epoch: LeaderEpoch(u32_at(bytes, 12).cast_signed()),
            base: i64_at(bytes, 16),
            last: i64_at(bytes, 24),
            durable: u64_at(bytes, 32),
            floor: i64_at(bytes, 40),
            max_timestamp_ms: i64_at(bytes, 48),
            appended_s: u32_at(bytes, 56),
        })
    }

    /// Reference, chunk and padding.
    pub(crate) fn entry_bytes(&self) -> u64 {
        entry_bytes(self.bytes as usize)
    }

    /// True if the chunk is the one that this reference was written for.
    pub(crate) fn accepts(&self, chunk: &[u8]) -> bool {
        tidemill_wire::chunk::verify(chunk).is_ok_and(|head| {
            head.bytes == self.bytes as usize
                && head.crc == self.crc
                && head.base_offset == self.base
                && head.last_offset() == self.last
                && head.leader_epoch == self.leader_epoch.0
        })
    }
}

/// The length in a segment of a chunk of `chunk` bytes, with its reference and padding.
pub(crate) fn entry_bytes(chunk: usize) -> u64 {
    (REF_BYTES + chunk).next_multiple_of(8) as u64
}

#[cfg(any(test, fuzzing))]
impl SegmentMark {
    /// Sets the checksum of these bytes right.
    pub(crate) fn seal(bytes: &mut [u8], key: &SegmentKey) {
        let Some(mark) = bytes.get_mut(..MARK_BYTES) else { return };
        let crc = key.checksum(0, &mark[..MARK_BYTES - 4]);
        mark[MARK_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    }
}

#[cfg(any(test, fuzzing))]
impl ChunkRef {
    /// Sets the checksum of these bytes right, as of a reference at this place.
    pub(crate) fn seal(bytes: &mut [u8], key: &SegmentKey, position: u64) {
        let crc = key.checksum(position, &bytes[..REF_BYTES - 4]);
        bytes[REF_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    }
}

impl SegmentKey {
    /// CRC-32C over the segment's identity, the position and the bytes, which are at most a mark's.
    fn checksum(&self, position: u64, bytes: &[u8]) -> u32 {
        // One pass over one piece: this is done for each chunk that comes or goes.
        let mut covered = [0; PLACE_BYTES + MARK_BYTES];
        covered[..16].copy_from_slice(&self.stream.0);
        covered[16..20].copy_from_slice(&self.streamlet.0.to_le_bytes());
        covered[20..24].copy_from_slice(&self.index.0.to_le_bytes());
        covered[24..32].copy_from_slice(&self.group.0.to_le_bytes());
        covered[32..40].copy_from_slice(&self.epoch.0.to_le_bytes());
        covered[40..PLACE_BYTES].copy_from_slice(&position.to_le_bytes());
        let end = PLACE_BYTES + bytes.len();
        covered[PLACE_BYTES..end].copy_from_slice(bytes);
        crc32c(&covered[..end])
    }
}
