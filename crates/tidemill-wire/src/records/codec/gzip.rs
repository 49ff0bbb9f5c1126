//! gzip (RFC 1952), by `flate2`.

use super::{Unfit, damaged};
use crate::records::inflater::InflateOutput;
use flate2::{Compress, Compression, Crc, FlushCompress, Status, bufread::MultiGzDecoder};
use std::io::Read;

/// Bytes asked for at a time.
const PIECE_BYTES: usize = 64 * 1024;
/// Levels there are.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=9;
/// The default level: that of the Java client.
const LEVEL: i32 = 6;
/// A member's head: no name, no time, of an unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Inflates members until the bytes end.
pub(crate) fn inflate(packed: &[u8], output: &mut InflateOutput<'_>) -> Result<(), Unfit> {
    let mut members = MultiGzDecoder::new(packed);
    loop {
        let length = members.read(output.room(PIECE_BYTES)).map_err(damaged)?;
        if length == 0 {
            return Ok(());
        }
        output.wrote(length)?;
    }
}

/// Makes members. Its tables, some 300 KiB, are kept.
pub(crate) struct GzipDeflater(Compress);

impl GzipDeflater {
    /// A deflater of this level, or of the next one that there is.
    pub(crate) fn new(level: Option<i32>) -> Self {
        let level = level.unwrap_or(LEVEL).clamp(*LEVELS.start(), *LEVELS.end());
        Self(Compress::new(Compression::new(level.unsigned_abs()), false))
    }

    /// Appends a member of these bytes, or says that it cannot.
    pub(crate) fn deflate(&mut self, plain: &[u8], into: &mut Vec<u8>) -> Option<()> {
        into.extend_from_slice(&HEAD);
        self.0.reset();
        loop {
            // All but a few bytes fit at once; where they do not, the compressor says so.
            into.reserve(plain.len() / 2 + 64);
            let done = usize::try_from(self.0.total_in()).ok()?;
            match self.0.compress_vec(&plain[done..], into, FlushCompress::Finish).ok()? {
                Status::StreamEnd => break,
                Status::Ok | Status::BufError => {}
            }
        }
        let mut crc = Crc::new();
        crc.update(plain);
        into.extend_from_slice(&crc.sum().to_le_bytes());
        into.extend_from_slice(&crc.amount().to_le_bytes());
        Some(())
    }
}
