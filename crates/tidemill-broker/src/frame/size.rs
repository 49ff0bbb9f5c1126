//! Bounds of requests by kind: their length, and the memory of their parsed form, which has many
//! small parts and an answer to each.
//!
//! The factors were measured with a counting allocator, on requests of the shortest parts of each
//! kind, in numbers that make lists grow at their end. A test compares them with the sizes of the
//! types that are needed most.
//!
//! A produce request is mostly chunks, which are not parsed. Its other parts are counted before it
//! is read.

use crate::requests::{RequestKind, SizeClass};
use tidemill_wire::kafka::{ProduceCounts, count_produce};

#[cfg(test)]
mod tests;

/// The longest request that is neither a produce request nor a list of names.
const PLAIN_BYTES_MAX: usize = 16 << 20;
/// The longest list of names: some 20,000 as programs make them.
const NAMES_BYTES_MAX: usize = 1 << 20;
/// A longer request is charged for its parsed form.
const CHEAP_BYTES: usize = 64 << 10;
/// Bytes of memory for each byte of a request, until its answer is written. Partitions, members and
/// settings are longer than the names of names alone, of which each can be a single byte.
const PLAIN_FACTOR: usize = 128;
const NAMES_FACTOR: usize = 352;
/// The parsed form of a request has at most this many times the budget.
const BEYOND_FACTOR: usize = 8;
/// Bytes of memory for each thing in a produce request, until its answer is written.
const TOPIC_BYTES: usize = 512;
const PARTITION_BYTES: usize = 1_024;
const TAG_BYTES: usize = 256;
/// Bytes of memory for each byte of a topic's name: it stands in the answer too.
const NAME_FACTOR: usize = 4;

/// A kind of request, as its first two bytes say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameKind(pub(super) i16);

/// Why a request is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is none.
    Nothing,
    /// It has more small things than there is memory for.
    TooMuch(ProduceCounts),
}

impl FrameKind {
    /// The size class of a request of this kind. One that is not answered is a plain one.
    fn size(self) -> SizeClass {
        RequestKind::of(self.0).map_or(SizeClass::Plain, |it| it.size)
    }

    /// Bytes of memory for each byte of one that is not short, chunks aside.
    fn factor(self) -> usize {
        if self.size() == SizeClass::Names { NAMES_FACTOR } else { PLAIN_FACTOR }
    }

    /// The longest frame of this kind with such a budget. None: it has no bound of its own.
    pub(super) fn bytes_max(self, budget_bytes: usize) -> Option<usize> {
        let max = match self.size() {
            SizeClass::Chunks => return None,
            SizeClass::Names => NAMES_BYTES_MAX,
            SizeClass::Plain => PLAIN_BYTES_MAX,
        };
        let beyond = budget_bytes.saturating_mul(BEYOND_FACTOR) / self.factor();
        Some(max.min(beyond.max(CHEAP_BYTES)))
    }

    /// The memory for one with this content, from when it is read until it is answered.
    pub(super) fn reading_bytes(
        self,
        content: &[u8],
        budget_bytes: usize,
    ) -> Result<usize, Unread> {
        let length = content.len();
        if self.size() != SizeClass::Chunks {
            let factor = if length <= CHEAP_BYTES { 1 } else { self.factor() };
            return Ok(length * factor);
        }
        match count_produce(content) {
            Some(counts) => {
                let things = counted_bytes(counts);
                let fits = things <= budget_bytes;
                if fits { Ok(length + things) } else { Err(Unread::TooMuch(counts)) }
            }
            // Whoever reads it says what is wrong with it, and takes little for that.
            None if length <= CHEAP_BYTES => Ok(length),
            None => Err(Unread::Nothing),
        }
    }
}

/// The memory for all but the bytes of a produce request.
fn counted_bytes(counts: ProduceCounts) -> usize {
    counts.topics * TOPIC_BYTES
        + counts.partitions * PARTITION_BYTES
        + counts.tags * TAG_BYTES
        + counts.name_bytes * NAME_FACTOR
}
