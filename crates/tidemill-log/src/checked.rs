//! What of a segment's file was found good lately, and may be sent without another look.
//!
//! ```text
//! an earlier life wrote it ………… │ this life wrote it: good when it was appended …………
//!      └ from … to: read, and found good, at_s at the earliest
//! ```
//!
//! Invariant: nothing is covered that nobody of this life has seen good within the span.

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
    written_from: u64,
    from: u64,
    to: u64,
    at_s: u32,
}

impl Checked {
    /// Of a file in which this life writes from that place on.
    pub(crate) fn new(written_from: u64) -> Self {
        Self { written_from, from: 0, to: 0, at_s: 0 }
    }

    /// Whether the chunk at this place may have been found good lately, for all that can be said
    /// without its reference.
    pub(crate) fn may_cover(&self, position: u64, lately: Lately) -> bool {
        let was_read = position >= self.from && position < self.to && lately.has(self.at_s);
        lately.span_s > 0 && (position >= self.written_from || was_read)
    }

    /// Whether the chunk at this place was found good lately.
    pub(crate) fn covers(&self, position: u64, reference: &ChunkRef, lately: Lately) -> bool {
        let was_written = position >= self.written_from && lately.has(reference.appended_s);
        let was_read = position >= self.from
            && position + reference.entry_bytes() <= self.to
            && lately.has(self.at_s);
        was_written || was_read
    }

    /// The bytes from `from` up to `to` were read and are good.
    pub(crate) fn note(&mut self, from: u64, to: u64, lately: Lately) {
        let adjoins = from >= self.from && from <= self.to && lately.has(self.at_s);
        if adjoins {
            self.to = self.to.max(to);
        } else {
            (self.from, self.to, self.at_s) = (from, to, lately.now_s);
        }
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
        let checked = Checked::new(8192);
        let of = |now_s| Lately { now_s, span_s: 300 };
        let reference = reference(1_000);
        assert!(checked.covers(8192, &reference, of(1_000)));
        assert!(checked.covers(9000, &reference, of(1_299)));
        assert!(!checked.covers(9000, &reference, of(1_300)), "too long ago");
        assert!(!checked.covers(9000, &reference, of(999)), "still to come: the clock was set");
        assert!(!checked.covers(8184, &reference, of(1_000)), "an earlier life's");
        assert!(!checked.covers(9000, &reference, Lately { now_s: 1_000, span_s: 0 }), "never");
    }

    #[test]
    fn what_was_read_counts_from_the_first_of_it() {
        let mut checked = Checked::new(u64::MAX);
        let of = |now_s| Lately { now_s, span_s: 10 };
        let reference = reference(0);
        let bytes = reference.entry_bytes();
        checked.note(4096, 4096 + bytes, of(100));
        checked.note(4096 + bytes, 4096 + 2 * bytes, of(105));
        assert!(checked.covers(4096, &reference, of(109)));
        assert!(checked.covers(4096 + bytes, &reference, of(109)));
        assert!(!checked.covers(4096 + bytes + 8, &reference, of(109)), "not all of it");
        assert!(!checked.covers(4096 + bytes, &reference, of(110)), "by the oldest");
        checked.note(4096 + 2 * bytes, 4096 + 3 * bytes, of(110));
        assert!(!checked.covers(4096, &reference, of(110)), "that is forgotten");
        assert!(checked.covers(4096 + 2 * bytes, &reference, of(119)));
        checked.note(4096, 4096 + bytes, of(111));
        assert!(!checked.covers(4096 + 2 * bytes, &reference, of(111)), "one range");
        assert!(checked.covers(4096, &reference, of(111)));
    }
}
