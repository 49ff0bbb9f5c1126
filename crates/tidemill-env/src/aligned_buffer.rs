//! Bytes in memory that begin where a disk wants them to, so that a file takes them from where they
//! are (`O_DIRECT`).
//!
//! ```text
//! memory  │ before │ bytes ………………… │ room ……… │ rest │
//!                  └ a multiple of BLOCK_BYTES
//! ```
//!
//! Invariant: all memory is initialised, so that room may be handed out as it is. Its content then
//! is old data of the same owner.

use std::ops::{Deref, DerefMut, Range};

/// The alignment of positions in files, addresses in memory and lengths that every disk accepts.
pub const BLOCK_BYTES: usize = 4096;

/// A buffer that grows, and begins at a multiple of [`BLOCK_BYTES`] in memory.
#[derive(Default)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    /// Where the bytes begin in it.
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// Bytes that it can have without growing.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.len() - self.start
    }

    /// Makes it longer by `bytes`, and returns the new range. Its content is undefined: write over
    /// it.
    ///
    /// # Panics
    /// Panics if it would be longer than memory can be.
    #[inline]
    pub fn grow(&mut self, bytes: usize) -> Range<usize> {
        let end = self.length.checked_add(bytes).expect("no buffer is longer than memory");
        if end > self.capacity() {
            self.move_to(end);
        }
        let grown = self.length..end;
        self.length = end;
        grown
    }

    /// Gets memory for `bytes` or twice the capacity, so that small additions do not move it each
    /// time.
    #[cold]
    fn move_to(&mut self, bytes: usize) {
        let capacity = bytes.max(self.capacity().saturating_mul(2));
        // Memory that the system has just given is zero already, and is not touched for that.
        let memory = vec![0; capacity + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        let mut moved = Self { memory, start, length: self.length };
        moved.copy_from_slice(self);
        *self = moved;
    }

    /// Adds these bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let grown = self.grow(bytes.len());
        self[grown].copy_from_slice(bytes);
    }

    /// Appends `bytes` zeros.
    pub fn extend_zeros(&mut self, bytes: usize) {
        let grown = self.grow(bytes);
        self[grown].fill(0);
    }

    /// Shortens it to `bytes`; its memory is kept.
    pub fn truncate(&mut self, bytes: usize) {
        self.length = self.length.min(bytes);
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

impl Clone for AlignedBuffer {
    /// Other memory begins at another place.
    fn clone(&self) -> Self {
        let mut clone = Self::default();
        clone.extend_from_slice(self);
        clone
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuffer").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
