//! Inflating the records of a chunk, never beyond a limit.
//!
//! ```text
//! codec ─▶ InflateOutput: │ seen │ not seen by the walk │ room ──▶   kept whole: the result of `inflate`
//!                  └───── dropped when there is enough ─┘     walked: read by `check_records`
//! ```
//!
//! Invariants: an output that is kept has at most the limit and one byte, and grows by doubling; an
//! output that is walked holds a few pieces and one record, whatever the limit is. The length that
//! a stream claims can refuse it, and is never a reason to take memory.

use super::{
    RecordsError,
    check::Walk,
    codec::{Unfit, gzip, lz4, snappy, zstd},
};
use crate::chunk::{ChunkHead, Codec};
use std::cell::RefCell;

#[cfg(test)]
mod tests;

/// The length from which a walked output drops the bytes it no longer needs.
const DROP_BYTES: usize = 128 * 1024;
/// A buffer for walking that is longer than this is not kept.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// The buffers of a thread, kept from chunk to chunk: at most 5 MiB.
#[derive(Default)]
struct ThreadBuffers {
    zstd: zstd::Decompressor,
    walked: Vec<u8>,
}

thread_local! {
    static KEPT: RefCell<ThreadBuffers> = RefCell::default();
}

/// The length of this thread's buffer for walking.
#[cfg(test)]
pub(super) fn kept_bytes() -> usize {
    KEPT.with_borrow(|kept| kept.walked.len())
}

/// Where a codec writes to.
pub(super) struct InflateOutput<'a> {
    bytes: &'a mut Vec<u8>,
    /// The written part of `bytes`.
    used: usize,
    /// Everything that was ever written.
    total: usize,
    limit_bytes: usize,
    walk: Option<&'a mut Walk>,
    /// The walked part of `bytes`.
    walked: usize,
}

impl InflateOutput<'_> {
    /// True if all of it is kept; false if it is walked.
    pub(super) fn is_kept(&self) -> bool {
        self.walk.is_none()
    }

    /// Everything that was written.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// The error that the limit is reached.
    pub(super) fn over(&self) -> RecordsError {
        RecordsError::TooLarge { limit_bytes: self.limit_bytes }
    }

    /// Refuses the stream if `bytes` more would be over the limit.
    pub(super) fn expect(&self, bytes: usize) -> Result<(), RecordsError> {
        if bytes > self.limit_bytes - self.total { Err(self.over()) } else { Ok(()) }
    }

    /// Room that there is without taking more memory.
    pub(super) fn spare(&self) -> usize {
        self.bytes.len() - self.used
    }

    /// Room for `want` bytes, or for one byte more than the limit permits if that is less. So there
    /// is always some, and filling it shows that the stream is over the limit.
    pub(super) fn room(&mut self, want: usize) -> &mut [u8] {
        self.room_after(0, want).1
    }

    /// As [`Self::room`], with the last `history` bytes that were written.
    pub(super) fn room_after(&mut self, history: usize, want: usize) -> (&[u8], &mut [u8]) {
        let most = (self.limit_bytes - self.total).saturating_add(1);
        let end = self.used.saturating_add(want.min(most));
        let have = self.bytes.len();
        if have < end {
            let grown = end.max(have.saturating_mul(2).min(self.used.saturating_add(most)));
            self.bytes.reserve_exact(grown - have);
            self.bytes.resize(grown, 0);
        }
        let (before, room) = self.bytes[..end].split_at_mut(self.used);
        (&before[self.used - history..], room)
    }

    /// The last `bytes` that were put into the room.
    pub(super) fn fresh(&self, bytes: usize) -> &[u8] {
        &self.bytes[self.used..self.used + bytes]
    }

    /// Takes over the bytes that were put into the room.
    pub(super) fn wrote(&mut self, bytes: usize) -> Result<(), RecordsError> {
        self.expect(bytes)?;
        self.used += bytes;
        self.total += bytes;
        let Some(walk) = &mut self.walk else { return Ok(()) };
        self.walked += walk.feed(&self.bytes[self.walked..self.used])?;
        let drop = self.walked.min(self.used.saturating_sub(lz4::HISTORY_BYTES));
        if drop >= DROP_BYTES {
            self.bytes.copy_within(drop..self.used, 0);
            self.used -= drop;
            self.walked -= drop;
        }
        Ok(())
    }
}

fn run(
    codec: Codec,
    packed: &[u8],
    output: &mut InflateOutput<'_>,
    zstd: &mut zstd::Decompressor,
) -> Result<(), RecordsError> {
    let done = match codec {
        Codec::None => Err(Unfit::Damaged("it is not compressed".to_owned())),
        Codec::Gzip => gzip::inflate(packed, output),
        Codec::Snappy => snappy::inflate(packed, output),
        Codec::Lz4 => lz4::inflate(packed, output),
        Codec::Zstd => zstd::inflate(packed, output, zstd),
    };
    match done {
        Ok(()) => Ok(()),
        Err(Unfit::Damaged(why)) => Err(RecordsError::Packed { codec, why }),
        Err(Unfit::Refused(error)) => Err(error),
    }
}

/// The records of a chunk as they are without compression.
///
/// `body` are the bytes of the chunk after its head; if they are not compressed they are returned
/// as they are. Else they are inflated into `scratch`, which never shrinks here, so that a caller
/// that keeps it takes its memory only once. It becomes at most `limit_bytes` and one byte long.
/// Each thread keeps a Zstandard decompressor of at most 4 MiB.
///
/// # Errors
/// The codec is not known, the stream is damaged, or it inflates to more than the limit.
pub fn inflate<'a>(
    head: &ChunkHead,
    body: &'a [u8],
    limit_bytes: usize,
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], RecordsError> {
    let codec = codec(head)?;
    if codec == Codec::None {
        return Ok(body);
    }
    let mut output =
        InflateOutput { bytes: scratch, used: 0, total: 0, limit_bytes, walk: None, walked: 0 };
    let mut kept = KEPT.take();
    let done = run(codec, body, &mut output, &mut kept.zstd);
    KEPT.set(kept);
    let length = output.total;
    done.map(|()| &scratch[..length])
}

/// Inflates a body and walks the records in it without keeping them. Returns how long they are, and
/// how many bytes at their end are no whole record.
pub(super) fn walk(
    codec: Codec,
    body: &[u8],
    limit_bytes: usize,
    walk: &mut Walk,
) -> Result<(usize, usize), RecordsError> {
    let mut kept = KEPT.take();
    let (mut bytes, walk) = (std::mem::take(&mut kept.walked), Some(walk));
    let mut output =
        InflateOutput { bytes: &mut bytes, used: 0, total: 0, limit_bytes, walk, walked: 0 };
    let done = run(codec, body, &mut output, &mut kept.zstd);
    let lengths = (output.total, output.used - output.walked);
    kept.zstd.trim();
    if bytes.len() <= KEPT_BYTES_MAX {
        kept.walked = bytes;
    }
    KEPT.set(kept);
    done.map(|()| lengths)
}

/// The codec that a head names.
pub(super) fn codec(head: &ChunkHead) -> Result<Codec, RecordsError> {
    head.codec().map_err(|_| RecordsError::Codec(head.attributes & 7))
}
