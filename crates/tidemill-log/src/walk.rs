//! A walk over the chunks in a segment's file, which trusts no byte of it.
//!
//! Invariants: every chunk it returns was checked, reference and bytes; it reads at most the file,
//! and holds one block of it.

use crate::{
    block_pool::{self, BlockPool},
    format::{ChunkRef, REF_BYTES},
    ids::SegmentKey,
};
use bytes::Bytes;
use std::{io, sync::Arc};
use tidemill_env::DiskRead;

/// Least and most that is read ahead at once.
const AHEAD_BYTES_MIN: u64 = 4096;
const AHEAD_BYTES_MAX: u64 = 1 << 30;

/// Reads a segment's file block by block.
pub(crate) struct Walker {
    file: Arc<dyn DiskRead>,
    key: SegmentKey,
    /// The file's length when it was opened, and as far as it was looked at again.
    length: u64,
    /// Nothing is read ahead beyond this place.
    bound: u64,
    ahead: u64,
    block_start: u64,
    block: Bytes,
    blocks: Option<Arc<BlockPool>>,
}

impl Walker {
    /// Reads `ahead` bytes at once.
    pub(crate) fn new(file: Arc<dyn DiskRead>, key: SegmentKey, ahead: u64) -> io::Result<Self> {
        let length = file.length()?;
        let mut walker = Self {
            file,
            key,
            length,
            bound: u64::MAX,
            ahead: 0,
            block_start: 0,
            block: Bytes::new(),
            blocks: None,
        };
        walker.ahead(ahead);
        Ok(walker)
    }

    /// Takes memory for blocks from this pool.
    pub(crate) fn with_blocks(mut self, blocks: &Arc<BlockPool>) -> Self {
        self.blocks = Some(Arc::clone(blocks));
        self
    }

    /// Sets the length of a read ahead.
    pub(crate) fn ahead(&mut self, ahead: u64) {
        self.ahead = ahead.clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
    }

    /// Reads nothing ahead beyond `bound`, where nothing was written yet.
    pub(crate) fn bound(&mut self, bound: u64) {
        self.bound = bound;
    }

    /// Length of the file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes of the file; fewer at its end.
    pub(crate) fn bytes(&mut self, position: u64, count: usize) -> io::Result<Bytes> {
        let end = position.saturating_add(count as u64);
        let block_end = self.block_start + self.block.len() as u64;
        if position < self.block_start || end > block_end {
            if end > self.length {
                self.length = self.file.length()?;
            }
            let ahead = self.bound.saturating_sub(position).min(self.ahead);
            let want = (count as u64).max(ahead).min(self.length.saturating_sub(position));
            let want = usize::try_from(want).map_err(io::Error::other)?;
            let fill = |block: &mut [u8]| self.file.read_full_at(position, block);
            self.block = match &self.blocks {
                Some(blocks) => blocks.filled(want, fill)?,
                None => block_pool::fresh(want, fill)?,
            };
            self.block_start = position;
        }
        let from = (position - self.block_start) as usize;
        let to = (from + count).min(self.block.len());
        Ok(self.block.slice(from..to))
    }

    /// True if the block in memory has the reference at this position.
    pub(crate) fn holds(&self, position: u64) -> bool {
        let ahead = position.checked_sub(self.block_start);
        ahead.is_some_and(|it| it + (REF_BYTES as u64) <= self.block.len() as u64)
    }

    /// Drops the block: the file may have changed since it was read.
    pub(crate) fn forget(&mut self) {
        self.block = Bytes::new();
    }

    /// The reference at this place, if a good one is there.
    pub(crate) fn reference(&mut self, position: u64) -> io::Result<Option<ChunkRef>> {
        let bytes = self.bytes(position, REF_BYTES)?;
        Ok(ChunkRef::decode(&bytes, &self.key, position))
    }

    /// The chunk of a good reference, if it is the one that was written.
    pub(crate) fn chunk(
        &mut self,
        position: u64,
        reference: &ChunkRef,
    ) -> io::Result<Option<Bytes>> {
        let start = position + REF_BYTES as u64;
        let chunk = self.bytes(start, reference.bytes as usize)?;
        Ok((chunk.len() == reference.bytes as usize && reference.accepts(&chunk)).then_some(chunk))
    }

    /// Reference and chunk at this place, if both are good.
    pub(crate) fn entry(&mut self, position: u64) -> io::Result<Option<(ChunkRef, Bytes)>> {
        let Some(reference) = self.reference(position)? else { return Ok(None) };
        let chunk = self.chunk(position, &reference)?;
        Ok(chunk.map(|chunk| (reference, chunk)))
    }

    /// The next good reference at or after `from`, below `until`: references stand at multiples
    /// of 8.
    pub(crate) fn find(&mut self, from: u64, until: u64) -> io::Result<Option<(u64, ChunkRef)>> {
        let mut position = from.next_multiple_of(8);
        let until = until.min(self.length);
        while position + REF_BYTES as u64 <= until {
            let rest = usize::try_from(until - position).unwrap_or(usize::MAX);
            let window = self.bytes(position, rest.min(64 << 10))?;
            if window.len() < REF_BYTES {
                return Ok(None);
            }
            let last = window.len() - REF_BYTES;
            for at in (0..=last).step_by(8) {
                let place = position + at as u64;
                if let Some(found) = ChunkRef::decode(&window[at..], &self.key, place) {
                    return Ok(Some((place, found)));
                }
            }
            position += (last / 8 + 1) as u64 * 8;
        }
        Ok(None)
    }
}
