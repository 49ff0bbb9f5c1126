//! A pool of blocks for read-ahead: a block goes back when its last reference is dropped.
//!
//! Fresh memory would cost more: the system zeroes each of its pages before the first write.
//!
//! Invariant: at most `kept_max` free blocks, and none of them for longer than two rounds of
//! maintenance.

use bytes::Bytes;
use std::{io, sync::Arc};
use tidemill_env::lock::Mutex;

/// Memory that waits to be used again, at most.
const KEPT_BYTES_MAX: usize = 128 << 20;

/// Blocks of one length.
#[derive(Debug)]
pub(crate) struct BlockPool {
    block_bytes: usize,
    kept_max: usize,
    kept: Mutex<FreeBlocks>,
}

/// The free blocks.
#[derive(Debug, Default)]
struct FreeBlocks {
    blocks: Vec<Vec<u8>>,
    /// The fewest free blocks since the last trim: they were not needed.
    fewest: usize,
}

/// A block with something in it.
struct PooledBlock {
    bytes: Vec<u8>,
    filled: usize,
    blocks: Arc<BlockPool>,
}

impl AsRef<[u8]> for PooledBlock {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for PooledBlock {
    fn drop(&mut self) {
        let mut kept = self.blocks.kept.lock();
        if kept.blocks.len() < self.blocks.kept_max {
            kept.blocks.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl BlockPool {
    pub(crate) fn new(block_bytes: usize) -> Arc<Self> {
        let block_bytes = block_bytes.max(4096);
        let kept_max = KEPT_BYTES_MAX / block_bytes;
        Arc::new(Self { block_bytes, kept_max, kept: Mutex::default() })
    }

    /// A block whose first bytes `fill` has written: up to `want` of them. `fill` returns their
    /// number.
    pub(crate) fn filled(
        self: &Arc<Self>,
        want: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Bytes> {
        if want > self.block_bytes || want < self.block_bytes / 8 {
            // Too long for a block, or a waste of one.
            return fresh(want, fill);
        }
        let mut kept = self.kept.lock();
        let again = kept.blocks.pop();
        kept.fewest = kept.fewest.min(kept.blocks.len());
        drop(kept);
        let bytes = again.unwrap_or_else(|| vec![0; self.block_bytes]);
        let mut block = PooledBlock { bytes, filled: 0, blocks: Arc::clone(self) };
        block.filled = fill(&mut block.bytes[..want])?.min(want);
        Ok(Bytes::from_owner(block))
    }

    /// Frees the blocks that were not needed since the last call.
    pub(crate) fn trim(&self) {
        let mut kept = self.kept.lock();
        let unused = kept.fewest.min(kept.blocks.len());
        let gone: Vec<Vec<u8>> = kept.blocks.drain(..unused).collect();
        kept.fewest = kept.blocks.len();
        drop(kept);
        drop(gone);
    }
}

/// As [`BlockPool::filled`], in memory that is not used again.
pub(crate) fn fresh(
    want: usize,
    fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<Bytes> {
    let mut bytes = vec![0; want];
    let filled = fill(&mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_again_once_nobody_has_a_part_of_it() {
        let blocks = BlockPool::new(8192);
        let of = |byte: u8, want: usize| {
            let fill = |into: &mut [u8]| {
                into.fill(byte);
                Ok(into.len() - 1)
            };
            blocks.filled(want, fill).unwrap()
        };
        let first = of(1, 8192);
        assert_eq!(first, [1; 8191][..]);
        let (place, part) = (first.as_ptr(), first.slice(10..20));
        drop(first);
        let second = of(2, 5000);
        assert_ne!(second.as_ptr(), place);
        assert_eq!(part, [1; 10][..], "a part holds all of it");
        drop(part);
        let third = of(3, 4096);
        assert_eq!(third.as_ptr(), place);
        assert_eq!(third, [3; 4095][..], "nothing of what was there before is seen");
        assert_eq!(of(4, 100_000).len(), 99_999);
        assert_eq!(of(5, 10).len(), 9);
        let failed = blocks.filled(8192, |_| Err(io::Error::other("no")));
        assert!(failed.is_err());
        drop((second, third));
        let kept = || blocks.kept.lock().blocks.len();
        assert_eq!(kept(), 3);
        blocks.trim();
        let one = of(6, 8192);
        assert_eq!(kept(), 2, "they were in use until now");
        blocks.trim();
        drop(one);
        assert_eq!(kept(), 1, "two were never needed");
    }
}
