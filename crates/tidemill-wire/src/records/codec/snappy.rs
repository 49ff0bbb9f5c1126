//! Snappy as Kafka has it: in the frames of the Java library (Xerial), or one plain block.
//!
//! ```text
//! │ 82 "SNAPPY" 00 │ version i32 │ compatible i32 │ then: length i32 │ plain block │ length …
//! ```
//!
//! The numbers are big-endian. A plain block says how long it becomes; that is believed only as
//! far as its bytes could reach.

use super::{Unfit, damaged};
use crate::records::inflate::Output;
use snap::raw::{Decoder, decompress_len};

const MAGIC: &[u8] = b"\x82SNAPPY\x00";
/// Magic and two versions.
const HEAD_BYTES: usize = 16;

/// Inflates either form.
pub(crate) fn inflate(packed: &[u8], output: &mut Output<'_>) -> Result<(), Unfit> {
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

fn inflate_block(block: &[u8], output: &mut Output<'_>) -> Result<(), Unfit> {
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
