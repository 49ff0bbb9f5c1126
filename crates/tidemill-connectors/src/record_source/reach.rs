//! The streamlets of a stream, or partitions of a topic, that a job reads, and their ranges of offsets.
//!
//! ```text
//! streamlets   0 … first - 1          first …
//! begin        as the job says        at their first record: they were added since it began
//! ```
//!
//! A resumed job keeps its noted ranges and adds streamlets that are new.

use super::began::Began;
use std::ops::Range;
use tidemill_types::SliceId;

/// From which offset a streamlet is read and, if that ends, up to, not including, which.
pub(crate) type Bounds = (i64, Option<i64>);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The number of streamlets when the job began.
    first: u32,
    /// By streamlet.
    bounds: Vec<Bounds>,
}

impl Reach {
    /// Of a job that begins. With a checkpoint of an earlier run the note of that run counts: where
    /// the checkpoint has no place in a streamlet, it was added since, and is read from the first
    /// record that it has, as `kept_from` says.
    pub(crate) fn begins(
        mut bounds: Vec<Bounds>,
        noted: Option<&Began>,
        kept_from: impl Fn(usize) -> i64,
    ) -> Self {
        let first = noted.map_or(bounds.len(), |it| it.reach().first as usize);
        for (index, (start, until)) in bounds.iter_mut().enumerate().skip(first) {
            *start = kept_from(index);
            *until = until.map(|it| it.max(*start));
        }
        Self { first: first as u32, bounds }
    }

    /// As it was noted.
    pub(super) fn of(first: Option<u32>, bounds: Vec<Bounds>) -> Self {
        Self { first: first.unwrap_or(bounds.len() as u32), bounds }
    }

    /// The number of streamlets when the job began.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The number of streamlets.
    pub(crate) fn len(&self) -> u32 {
        self.bounds.len() as u32
    }

    /// From where to where, by streamlet.
    pub(crate) fn bounds(&self) -> &[Bounds] {
        &self.bounds
    }

    /// Takes in those that it lacks of `count`, each of which has had records from an offset on, and is
    /// read for ever. Gives back which they are.
    pub(crate) fn take_in(
        &mut self,
        count: usize,
        kept_from: impl Fn(usize) -> i64,
    ) -> Range<usize> {
        let added = self.bounds.len()..count.max(self.bounds.len());
        self.bounds.extend(added.clone().map(|index| (kept_from(index), None)));
        added
    }

    /// The total number of records, if reading ends.
    pub(crate) fn total(&self) -> Option<u64> {
        let lengths = self.bounds.iter().map(|(start, until)| until.map(|it| it - start));
        let total: Option<i64> = lengths.sum();
        total.and_then(|it| u64::try_from(it).ok())
    }

    /// Where a streamlet begins.
    pub(crate) fn start_of(&self, slice: SliceId) -> i64 {
        self.bounds.get(slice.index()).map_or(0, |(start, _)| *start)
    }
}
