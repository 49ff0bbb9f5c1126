//! LZ4 frames (the LZ4 frame format 1.6), around the blocks of `lz4_flex`.
//!
//! ```text
//! │ magic u32 │ FLG │ BD │ content size u64, if FLG says │ HC │ blocks … │ 0 u32 │ checksum u32, if
//! block: length u32, top bit if it is not compressed │ bytes │ checksum u32, if FLG says
//! ```
//!
//! The numbers are little-endian. The frame is read here and not by `lz4_flex`, so that blocks
//! inflate straight to where they are wanted, and so that no memory is taken for a block size that
//! is only claimed.

use super::{Unfit, damaged};
use crate::records::inflater::InflateOutput;
use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into_with_dict,
    get_maximum_output_size,
};
use std::hash::Hasher;
use twox_hash::XxHash32;

const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();
/// The first of the sixteen magic numbers of frames to be skipped.
const MAGIC_SKIP: u32 = 0x184d_2a50;
/// The distance by which a block may refer to earlier ones, in bytes.
pub(crate) const HISTORY_BYTES: usize = 64 * 1024;

/// Version 1, blocks not linked, no checksums; blocks of at most 64 KiB.
const FLAGS: [u8; 2] = [0x60, 0x40];
/// Bytes of a block that we write, before it is compressed.
const BLOCK_BYTES: usize = 64 * 1024;
/// The ratio of a block's inflated length to its packed one that memory is first taken for.
const RATIO_BELIEVED: usize = 8;
/// The top bit of a block's length: the block is not compressed.
const PLAIN: u32 = 1 << 31;

/// The head of a frame.
struct FrameHeader {
    is_linked: bool,
    has_block_checksums: bool,
    has_checksum: bool,
    content_bytes: Option<u64>,
    block_bytes_max: usize,
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Result<&'a [u8; N], Unfit> {
    let (taken, rest) = bytes.split_first_chunk().ok_or_else(|| damaged("it is cut short"))?;
    *bytes = rest;
    Ok(taken)
}

fn take_bytes<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Unfit> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or_else(|| damaged("it is cut short"))?;
    *bytes = rest;
    Ok(taken)
}

/// True if the blocks of the first frame need those before them.
pub(crate) fn is_linked(frame: &[u8]) -> bool {
    frame.strip_prefix(&MAGIC).and_then(|it| it.first()).is_some_and(|flags| flags & 0b10_0000 == 0)
}

impl FrameHeader {
    /// Reads the head after the magic number.
    fn take(bytes: &mut &[u8]) -> Result<Self, Unfit> {
        let head = *bytes;
        let [flags, sizes] = *take(bytes)?;
        if flags >> 6 != 1 || flags & 0b10 != 0 || sizes & 0b1000_1111 != 0 {
            return Err(damaged("the head has a version or flags that nobody knows"));
        }
        if flags & 1 != 0 {
            return Err(damaged("it needs a dictionary"));
        }
        let block_bytes_max = match sizes >> 4 {
            size @ 4..=7 => 1 << (8 + 2 * size),
            _ => return Err(damaged("the head has a block size that nobody knows")),
        };
        let content_bytes = match flags & 0b1000 {
            0 => None,
            _ => Some(u64::from_le_bytes(*take(bytes)?)),
        };
        let hashed = &head[..head.len() - bytes.len()];
        let [checksum] = *take(bytes)?;
        if checksum != (XxHash32::oneshot(0, hashed) >> 8) as u8 {
            return Err(damaged("the checksum of the head is wrong"));
        }
        Ok(Self {
            is_linked: flags & 0b10_0000 == 0,
            has_block_checksums: flags & 0b1_0000 != 0,
            has_checksum: flags & 0b100 != 0,
            content_bytes,
            block_bytes_max,
        })
    }

    /// Inflates the frame's blocks and checks the bytes after them.
    fn inflate(&self, bytes: &mut &[u8], output: &mut InflateOutput<'_>) -> Result<(), Unfit> {
        let from = output.total();
        let mut hash = XxHash32::with_seed(0);
        loop {
            let said = u32::from_le_bytes(*take(bytes)?);
            let length = (said & !PLAIN) as usize;
            if said == 0 {
                break;
            }
            let block = take_bytes(bytes, length)?;
            if self.has_block_checksums {
                check(u32::from_le_bytes(*take(bytes)?), XxHash32::oneshot(0, block))?;
            }
            let length = match said & PLAIN {
                0 => self.inflate_block(block, output.total() - from, output)?,
                _ => self.copy_block(block, output)?,
            };
            if self.has_checksum {
                hash.write(output.fresh(length));
            }
            output.wrote(length)?;
        }
        if self.has_checksum {
            check(u32::from_le_bytes(*take(bytes)?), hash.finish_32())?;
        }
        match self.content_bytes {
            Some(said) if said != (output.total() - from) as u64 => {
                Err(damaged("the content is not as long as the head says"))
            }
            _ => Ok(()),
        }
    }

    fn copy_block(&self, block: &[u8], output: &mut InflateOutput<'_>) -> Result<usize, Unfit> {
        if block.len() > self.block_bytes_max {
            return Err(damaged("a block is longer than the head says"));
        }
        output.expect(block.len())?;
        output.room(block.len())[..block.len()].copy_from_slice(block);
        Ok(block.len())
    }

    /// Inflates a block, of a frame that has become `frame_bytes` before it.
    fn inflate_block(
        &self,
        block: &[u8],
        frame_bytes: usize,
        output: &mut InflateOutput<'_>,
    ) -> Result<usize, Unfit> {
        // No byte of a block becomes more than 255. Most become far less: clients that say blocks
        // of 4 MiB fill but a little of the one that they send.
        let most = block.len().saturating_mul(255).min(self.block_bytes_max);
        let believed = block.len().saturating_mul(RATIO_BELIEVED).max(BLOCK_BYTES);
        let mut want = believed.max(output.spare()).min(most);
        let history_bytes = if self.is_linked { frame_bytes.min(HISTORY_BYTES) } else { 0 };
        loop {
            let (history, room) = output.room_after(history_bytes, want);
            let is_cut = room.len() < want;
            match decompress_into_with_dict(block, room, history) {
                Err(DecompressError::OutputTooSmall { .. }) if is_cut => {
                    return Err(output.over().into());
                }
                Err(DecompressError::OutputTooSmall { .. }) if want < most => {
                    want = want.saturating_mul(4).min(most);
                }
                other => return other.map_err(damaged),
            }
        }
    }
}

fn check(said: u32, is: u32) -> Result<(), Unfit> {
    if said == is { Ok(()) } else { Err(damaged("a checksum is wrong")) }
}

/// Inflates frames until the bytes end.
pub(crate) fn inflate(packed: &[u8], output: &mut InflateOutput<'_>) -> Result<(), Unfit> {
    let mut rest = packed;
    while !rest.is_empty() {
        let magic = *take(&mut rest)?;
        if magic == MAGIC {
            FrameHeader::take(&mut rest)?.inflate(&mut rest, output)?;
        } else if u32::from_le_bytes(magic) & !0xf == MAGIC_SKIP {
            let length = u32::from_le_bytes(*take(&mut rest)?) as usize;
            take_bytes(&mut rest, length)?;
        } else {
            return Err(damaged("it does not begin as a frame does"));
        }
    }
    Ok(())
}

/// Makes frames. Its table, 16 KiB, is kept.
pub(crate) struct Lz4Deflater(CompressTable);

impl Default for Lz4Deflater {
    fn default() -> Self {
        Self(CompressTable::large())
    }
}

impl Lz4Deflater {
    /// Appends these bytes as a frame, or says that it cannot.
    pub(crate) fn deflate(&mut self, plain: &[u8], into: &mut Vec<u8>) -> Option<()> {
        into.extend_from_slice(&MAGIC);
        into.extend_from_slice(&FLAGS);
        into.push((XxHash32::oneshot(0, &FLAGS) >> 8) as u8);
        for block in plain.chunks(BLOCK_BYTES) {
            let at = into.len();
            let from = at + size_of::<u32>();
            into.resize(from + get_maximum_output_size(block.len()), 0);
            let length = compress_into_with_table(block, &mut into[from..], &mut self.0).ok()?;
            let mut said = u32::try_from(length).ok()?;
            into.truncate(from + length);
            if length >= block.len() {
                into.truncate(from);
                into.extend_from_slice(block);
                said = u32::try_from(block.len()).ok()? | PLAIN;
            }
            into[at..from].copy_from_slice(&said.to_le_bytes());
        }
        into.extend_from_slice(&0_u32.to_le_bytes());
        Some(())
    }
}
