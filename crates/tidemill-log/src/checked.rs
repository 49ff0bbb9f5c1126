//! What of a segment's file was found good lately, and may be sent without another look.
//!
//! ```text
//! an earlier life wrote it ………… │ this life wrote it: good when it was appended …………
//!      └ from … to: read, and found good, at_s at the earliest
//! ```
//!
//! Invariant: nothing is covered that nobody of this life has seen good within the span; nor what
//! stands in a file that somebody else has written to since; nor what may have come from the disk
//! again since.

use crate::format::ChunkRef;

/// Now, and how long ago is lately. In whole seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lately {
    pub(crate) now_s: u32,
    pub(crate) span_s: u32,
}

impl Lately {
    /// Whether that moment was within the span; one that is still to come was not.
    pub(crate) fn has(self, then_s: u32) -> bool {
        self.now_s.checked_sub(then_s).is_some_and(|ago| ago < self.span_s)
    }
}

/// What of one file was found good, and when.
pub(crate) struct Checked {
    /// This life wrote what stands from here on, and when it last did: µs since 1970.
    written_from: u64,
    written_us: i64,
    /// This was read, at this time, and when anybody had last written to the file before that.
    from: u64,
    to: u64,
    at_s: u32,
    changed_us: i64,
}

impl Checked {
    /// Of a file in which this life writes from that place on.
    pub(crate) fn new(written_from: u64) -> Self {
        let (written_us, changed_us) = (i64::MIN, i64::MIN);
        Self { written_from, written_us, from: 0, to: 0, at_s: 0, changed_us }
    }

    /// This life wrote something, and it is so late now.
    pub(crate) fn wrote(&mut self, now_us: i64) {
        self.written_us = now_us;
    }

    /// Whether the file, which was changed then, is as it was when so much of it was found good.
    pub(crate) fn is_as_left(&self, changed_us: i64) -> bool {
        changed_us <= self.written_us
    }

    /// Whether the chunk at this place may have been found good lately, for all that can be said
    /// without its reference.
    pub(crate) fn may_cover(&self, position: u64, lately: Lately) -> bool {
        let was_read = position >= self.from && position < self.to && lately.has(self.at_s);
        lately.span_s > 0 && (position >= self.written_from || was_read)
    }

    /// Whether the chunk at this place was found good lately, in a file that was changed then.
    pub(crate) fn covers(
        &self,
        position: u64,
        reference: &ChunkRef,
        lately: Lately,
        changed_us: i64,
    ) -> bool {
        let was_read = position >= self.from
            && position + reference.entry_bytes() <= self.to
            && lately.has(self.at_s)
            && changed_us == self.changed_us;
        was_read || self.covers_written(position, reference.appended_s, lately, changed_us)
    }

    /// As [`Self::covers`], of one that this life wrote.
    pub(crate) fn covers_written(
        &self,
        position: u64,
        appended_s: u32,
        lately: Lately,
        changed_us: i64,
    ) -> bool {
        position >= self.written_from && lately.has(appended_s) && self.is_as_left(changed_us)
    }

    /// The bytes from `from` up to `to` were read and are good. Before that the file had last been
    /// changed at that time.
    pub(crate) fn note(&mut self, from: u64, to: u64, lately: Lately, changed_us: i64) {
        let adjoins = from >= self.from
            && from <= self.to
            && lately.has(self.at_s)
            && changed_us == self.changed_us;
        if adjoins {
            self.to = self.to.max(to);
        } else {
            (self.from, self.to, self.at_s) = (from, to, lately.now_s);
            self.changed_us = changed_us;
        }
    }

    /// What stands at this place was not in the system's memory and was read from the disk; so
    /// was, maybe, what follows, because the system reads ahead.
    pub(crate) fn came_from_disk(&mut self, position: u64) {
        self.to = self.to.min(position);
        self.written_from = u64::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{format::DATA_START, testing::batch};

    fn reference(appended_s: u32) -> ChunkRef {
        let head = crate::ChunkHead::check(&batch(10)).unwrap();
        ChunkRef::of(&head, appended_s, DATA_START, 0)
    }

    #[test]
    fn what_this_life_wrote_counts_for_the_span() {
        let mut checked = Checked::new(8192);
        checked.wrote(7);
        let of = |now_s| Lately { now_s, span_s: 300 };
        let reference = reference(1_000);
        assert!(checked.covers(8192, &reference, of(1_000), 7));
        assert!(checked.covers(9000, &reference, of(1_299), 7));
        assert!(!checked.covers(9000, &reference, of(1_300), 7), "too long ago");
        assert!(!checked.covers(9000, &reference, of(999), 7), "still to come: the clock was set");
        assert!(!checked.covers(8184, &reference, of(1_000), 7), "an earlier life's");
        let never = Lately { now_s: 1_000, span_s: 0 };
        assert!(!checked.covers(9000, &reference, never, 7), "never");
    }

    #[test]
    fn what_others_wrote_to_is_not_covered() {
        let mut checked = Checked::new(8192);
        let (lately, reference) = (Lately { now_s: 1_000, span_s: 300 }, reference(1_000));
        assert!(!checked.covers(8192, &reference, lately, 3), "nobody said when it was written");
        checked.wrote(7);
        assert!(checked.covers(8192, &reference, lately, 3), "the system's clock is behind");
        assert!(!checked.covers(8192, &reference, lately, 8));
        let end = 4096 + reference.entry_bytes();
        checked.note(4096, end, lately, 8);
        assert!(checked.covers(4096, &reference, lately, 8), "as it was when it was read");
        assert!(!checked.covers(4096, &reference, lately, 9));
        checked.note(end, end + reference.entry_bytes(), lately, 9);
        assert!(!checked.covers(4096, &reference, lately, 9), "it was read before that");
        assert!(checked.covers(end, &reference, lately, 9));
    }

    #[test]
    fn what_came_from_the_disk_again_is_not_covered() {
        let (lately, reference) = (Lately { now_s: 1_000, span_s: 300 }, reference(1_000));
        let bytes = reference.entry_bytes();
        let mut checked = Checked::new(4096 + 4 * bytes);
        checked.wrote(7);
        checked.note(4096, 4096 + 3 * bytes, lately, 7);
        let covered = |checked: &Checked| {
            let places = (0..6).map(|it| 4096 + it * bytes);
            places.map(|it| checked.covers(it, &reference, lately, 7)).collect::<Vec<_>>()
        };
        assert_eq!(covered(&checked), [true, true, true, false, true, true]);
        checked.came_from_disk(4096 + 3 * bytes);
        assert_eq!(covered(&checked), [true, true, true, false, false, false], "read ahead");
        checked.came_from_disk(4096 + bytes);
        assert_eq!(covered(&checked), [true, false, false, false, false, false]);
        checked.note(4096 + bytes, 4096 + 2 * bytes, lately, 7);
        assert_eq!(covered(&checked), [true, true, false, false, false, false], "it goes on");
        checked.came_from_disk(0);
        assert_eq!(covered(&checked), [false; 6]);
    }

    #[test]
    fn what_was_read_counts_from_the_first_of_it() {
        let mut checked = Checked::new(u64::MAX);
        let of = |now_s| Lately { now_s, span_s: 10 };
        let reference = reference(0);
        let bytes = reference.entry_bytes();
        checked.note(4096, 4096 + bytes, of(100), 7);
        checked.note(4096 + bytes, 4096 + 2 * bytes, of(105), 7);
        assert!(checked.covers(4096, &reference, of(109), 7));
        assert!(checked.covers(4096 + bytes, &reference, of(109), 7));
        assert!(!checked.covers(4096 + bytes + 8, &reference, of(109), 7), "not all of it");
        assert!(!checked.covers(4096 + bytes, &reference, of(110), 7), "by the oldest");
        checked.note(4096 + 2 * bytes, 4096 + 3 * bytes, of(110), 7);
        assert!(!checked.covers(4096, &reference, of(110), 7), "that is forgotten");
        assert!(checked.covers(4096 + 2 * bytes, &reference, of(119), 7));
        checked.note(4096, 4096 + bytes, of(111), 7);
        assert!(!checked.covers(4096 + 2 * bytes, &reference, of(111), 7), "one range");
        assert!(checked.covers(4096, &reference, of(111), 7));
    }
}
