//! Snappy as Kafka has it: in the frames of the Java library (Xerial), or one plain block.
//!
//! ```text
//! │ 82 "SNAPPY" 00 │ version i32 │ compatible i32 │ then: length i32 │ plain block │ length …
//! ```
//!
//! The numbers are big-endian. A plain block says how long it becomes; that is believed only as
//! far as its bytes could reach.

use super::{Unfit, damaged};
use crate::records::inflater::InflateOutput;
use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

const MAGIC: &[u8] = b"\x82SNAPPY\x00";
/// Magic and two versions.
const HEAD_BYTES: usize = 16;
/// The version and the oldest one that can read it.
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// Bytes of a block before it is compressed: as the Java library makes them.
const BLOCK_BYTES: usize = 32 * 1024;

/// Inflates either form.
pub(crate) fn inflate(packed: &[u8], output: &mut InflateOutput<'_>) -> Result<(), Unfit> {
    if !packed.starts_with(MAGIC) {
        return inflate_block(packed, output);
    }
    let mut rest = packed;
    while !rest.is_empty() {
        // Streams that were put one after the other have a head each.
        if rest.starts_with(MAGIC) {
            rest = rest.get(HEAD_BYTES..).ok_or_else(|| damaged("the head is cut short"))?;
            continue;
        }
        let (length, after) = rest.split_first_chunk().ok_or_else(|| damaged("a length is cut"))?;
        let length = u32::from_be_bytes(*length) as usize;
        let block =
            after.split_at_checked(length).ok_or_else(|| damaged("a block is cut short"))?;
        inflate_block(block.0, output)?;
        rest = block.1;
    }
    Ok(())
}

fn inflate_block(block: &[u8], output: &mut InflateOutput<'_>) -> Result<(), Unfit> {
    let length = decompress_len(block).map_err(damaged)?;
    // No three bytes of a block become more than 64.
    if length / 64 > block.len() / 3 {
        return Err(damaged("a block says that it becomes longer than it can"));
    }
    output.expect(length)?;
    let room = output.room(length);
    let length = Decoder::new().decompress(block, room).map_err(damaged)?;
    Ok(output.wrote(length)?)
}

/// Makes frames. Its tables, 32 KiB, are kept.
pub(crate) struct SnappyDeflater(Encoder);

impl Default for SnappyDeflater {
    fn default() -> Self {
        Self(Encoder::new())
    }
}

impl SnappyDeflater {
    /// Appends these bytes as frames, or says that it cannot.
    pub(crate) fn deflate(&mut self, plain: &[u8], into: &mut Vec<u8>) -> Option<()> {
        into.extend_from_slice(MAGIC);
        into.extend_from_slice(&VERSIONS);
        for block in plain.chunks(BLOCK_BYTES) {
            let at = into.len();
            let from = at + size_of::<u32>();
            into.resize(from + max_compress_len(block.len()), 0);
            let length = self.0.compress(block, &mut into[from..]).ok()?;
            into[at..from].copy_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
            into.truncate(from + length);
        }
        Some(())
    }
}
