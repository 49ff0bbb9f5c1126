//! Which rows changed: since the last checkpoint, and in the one under way.
//!
//! ```text
//! normal         a change marks its row
//! checkpointing  the marks so far are frozen: their rows are written out, some each cycle; before
//!                one of them changes again, it is written out at once, as it was
//! ```
//!
//! So a checkpoint begins at no cost, writes what was there when it began, and a change costs one
//! bit more than without (ChronoStream III-B; there an overlay takes the changes and is merged
//! afterwards, here the old row is put aside and nothing is left to merge).

/// Marks by row number.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Changed since the last checkpoint began; 64 rows a word.
    changed: Vec<u64>,
    /// To be written out for the checkpoint under way.
    frozen: Vec<u64>,
    /// How many those are.
    left: usize,
    /// Words before this one are written out.
    from: usize,
}

impl Marks {
    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        (self.changed.capacity() + self.frozen.capacity()) * size_of::<u64>()
    }

    /// Which of 64 rows changed since the last checkpoint began.
    pub(super) fn changed(&self, word: usize) -> u64 {
        self.changed.get(word).copied().unwrap_or(0)
    }

    /// A row is about to change, or has just been made. Gives back whether it must be written out
    /// first, as it is.
    #[inline]
    pub(super) fn mark(&mut self, row: usize) -> bool {
        let (word, bit) = (row / 64, 1 << (row % 64));
        if word >= self.changed.len() {
            self.changed.resize(word + 1, 0);
        }
        self.changed[word] |= bit;
        self.left > 0 && self.thaw(word, bit)
    }

    #[inline]
    fn thaw(&mut self, word: usize, bit: u64) -> bool {
        let is_frozen = self.frozen.get(word).is_some_and(|it| it & bit != 0);
        if is_frozen {
            self.frozen[word] &= !bit;
            self.left -= 1;
        }
        is_frozen
    }

    /// A checkpoint begins: the rows marked so far belong to it.
    ///
    /// # Panics
    /// Panics if rows of the last one are left: an error of the engine.
    pub(super) fn freeze(&mut self) {
        assert_eq!(self.left, 0, "a checkpoint begins when the one before is written out");
        self.frozen = std::mem::take(&mut self.changed);
        self.left = self.frozen.iter().map(|word| word.count_ones() as usize).sum();
        self.from = 0;
    }

    /// Rows that are still to be written out.
    #[must_use]
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// A row that is still to be written out; it is then.
    pub(super) fn next_frozen(&mut self) -> Option<usize> {
        if self.left == 0 {
            self.frozen = Vec::new();
            return None;
        }
        while self.frozen[self.from] == 0 {
            self.from += 1;
        }
        let bit = self.frozen[self.from].trailing_zeros();
        self.frozen[self.from] &= self.frozen[self.from] - 1;
        self.left -= 1;
        Some(self.from * 64 + bit as usize)
    }

    /// Forgets what changed; what is frozen stays so.
    pub(super) fn forget(&mut self) {
        self.changed.clear();
    }
}
