//! Two bits a row: changed since the last checkpoint, and part of the current one.
//!
//! ```text
//! normal         a change marks its row
//! checkpointing  the marks so far are frozen: their rows are written out, some each cycle; before
//!                one of them changes again, it is written out at once, as it was
//! ```
//!
//! So a checkpoint begins at no cost and writes the content as of its begin, and tracking costs a
//! change one bit. ("ChronoStream: Elastic Stateful Stream Computation in the Cloud", III-B, where
//! an overlay takes the changes and is merged afterwards. Here the old row is copied, and nothing
//! is left to merge.)

/// The bits of all rows, by row number.
#[derive(Debug, Default)]
pub(super) struct DirtyBits {
    /// 64 rows a word. A change reads both bits, so they are neighbours.
    words: Vec<DirtyWord>,
    /// True if some row changed since the last checkpoint began.
    has_changed: bool,
    /// The count of frozen rows.
    left: usize,
    /// The first word that may have a frozen row.
    from: usize,
}

/// The bits of 64 rows.
#[derive(Clone, Copy, Debug, Default)]
struct DirtyWord {
    /// Changed since the last checkpoint began.
    changed: u64,
    /// Part of the current checkpoint, and not written out yet.
    frozen: u64,
}

impl DirtyBits {
    /// The memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<DirtyWord>()
    }

    /// The rows among these 64 that changed since the last checkpoint began.
    pub(super) fn changed(&self, word: usize) -> u64 {
        self.words.get(word).map_or(0, |it| it.changed)
    }

    /// Marks a row that is about to change or was just made. Returns true if the row must be
    /// written out first, as it is.
    ///
    /// The code does not branch on the bits: rows come in no order, and a wrong prediction would
    /// wait for the cache miss.
    #[inline]
    pub(super) fn mark(&mut self, row: usize) -> bool {
        let (word, bit) = (row / 64, 1 << (row % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, DirtyWord::default());
        }
        let word = &mut self.words[word];
        let is_frozen = word.frozen & bit != 0;
        self.has_changed = true;
        word.changed |= bit;
        word.frozen &= !bit;
        self.left -= usize::from(is_frozen);
        is_frozen
    }

    /// Begins a checkpoint of the rows marked so far.
    ///
    /// # Panics
    /// Panics if rows of the last checkpoint are left, which is an error of the engine.
    pub(super) fn freeze(&mut self) {
        assert_eq!(self.left, 0, "a checkpoint begins when the one before is written out");
        if !std::mem::take(&mut self.has_changed) {
            return;
        }
        for word in &mut self.words {
            *word = DirtyWord { changed: 0, frozen: word.changed };
            self.left += word.frozen.count_ones() as usize;
        }
        self.from = 0;
    }

    /// The count of rows that are not written out yet.
    #[must_use]
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Takes the next row that is not written out yet.
    pub(super) fn next_frozen(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        while self.words[self.from].frozen == 0 {
            self.from += 1;
        }
        let frozen = &mut self.words[self.from].frozen;
        let bit = frozen.trailing_zeros();
        *frozen &= *frozen - 1;
        self.left -= 1;
        Some(self.from * 64 + bit as usize)
    }

    /// Removes the marks of changes. Frozen rows stay frozen.
    pub(super) fn forget(&mut self) {
        self.words.iter_mut().for_each(|it| it.changed = 0);
        self.has_changed = false;
    }
}
