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
    /// 64 rows a word. Both kinds stand side by side: a change looks at both.
    words: Vec<Word>,
    /// Some row changed since the last checkpoint began.
    has_changed: bool,
    /// How many rows are frozen.
    left: usize,
    /// No row before this word is.
    from: usize,
}

/// Marks of 64 rows, a bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Changed since the last checkpoint began.
    changed: u64,
    /// To be written out for the checkpoint under way.
    frozen: u64,
}

impl Marks {
    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<Word>()
    }

    /// Which of 64 rows changed since the last checkpoint began.
    pub(super) fn changed(&self, word: usize) -> u64 {
        self.words.get(word).map_or(0, |it| it.changed)
    }

    /// A row is about to change, or has just been made. Gives back whether it must be written out
    /// first, as it is.
    ///
    /// Without a branch on what is marked: rows come in no order, and a guess that was wrong would
    /// wait for the mark to come into the cache.
    #[inline]
    pub(super) fn mark(&mut self, row: usize) -> bool {
        let (word, bit) = (row / 64, 1 << (row % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, Word::default());
        }
        let word = &mut self.words[word];
        let is_frozen = word.frozen & bit != 0;
        self.has_changed = true;
        word.changed |= bit;
        word.frozen &= !bit;
        self.left -= usize::from(is_frozen);
        is_frozen
    }

    /// A checkpoint begins: the rows marked so far belong to it.
    ///
    /// # Panics
    /// Panics if rows of the last one are left: an error of the engine.
    pub(super) fn freeze(&mut self) {
        assert_eq!(self.left, 0, "a checkpoint begins when the one before is written out");
        if !std::mem::take(&mut self.has_changed) {
            return;
        }
        for word in &mut self.words {
            *word = Word { changed: 0, frozen: word.changed };
            self.left += word.frozen.count_ones() as usize;
        }
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

    /// Forgets what changed; what is frozen stays so.
    pub(super) fn forget(&mut self) {
        self.words.iter_mut().for_each(|it| it.changed = 0);
        self.has_changed = false;
    }
}
