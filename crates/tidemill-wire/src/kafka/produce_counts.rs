//! Counts of the parts of a produce request, taken before it is read: a list of empty topics needs
//! a hundred times as much memory as it has bytes.
//!
//! Chunks are skipped, so that a long request with few partitions costs no more than a short one.
//!
//! Invariants: nothing is allocated; a request that [`super::Message::read`] reads has these
//! counts, and one without counts cannot be read. A test compares the two.

use super::message::ApiKey;
use kacrab_protocol::version::request_header_version;
use std::ops::RangeInclusive;

#[cfg(test)]
mod tests;

/// Versions of the body that there are.
const VERSIONS: RangeInclusive<i16> = 3..=13;
/// The first version that names topics by id.
const BY_ID: i16 = 13;
const ID_BYTES: usize = 16;

/// The number of values that a produce request becomes when it is read, each with memory of its
/// own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProduceCounts {
    /// Topics, whether they are there or not.
    pub topics: usize,
    /// Partitions of all topics.
    pub partitions: usize,
    /// Tagged fields, of the head too.
    pub tags: usize,
    /// Bytes of all names of topics.
    pub name_bytes: usize,
}

/// Counts the parts of a produce request, from the content of its frame. None: it cannot be read.
/// Of an unknown version only the head is counted.
#[must_use]
pub fn count_produce(content: &[u8]) -> Option<ProduceCounts> {
    let mut rest = ByteCursor(content);
    let (key, version) = (rest.short()?, rest.short()?);
    let mut counts = ProduceCounts::default();
    // The correlation id.
    rest.skip(4)?;
    let client_id = rest.short()?;
    rest.skip(usize::try_from(client_id).unwrap_or(0))?;
    if request_header_version(key, version) >= 2 {
        rest.tags(&mut counts)?;
    }
    if !VERSIONS.contains(&version) {
        return Some(counts);
    }
    let flexible = super::is_flexible(ApiKey::Produce, version);
    let _transactional_id = rest.text(flexible)?;
    // Acks and timeout.
    rest.skip(2 + 4)?;
    for _ in 0..rest.count(flexible)? {
        counts.topics += 1;
        if version >= BY_ID {
            rest.skip(ID_BYTES)?;
        } else {
            counts.name_bytes += rest.text(flexible)?;
        }
        for _ in 0..rest.count(flexible)? {
            counts.partitions += 1;
            // Its number.
            rest.skip(4)?;
            let chunk_bytes = rest.count(flexible)?;
            rest.skip(chunk_bytes)?;
            if flexible {
                rest.tags(&mut counts)?;
            }
        }
        if flexible {
            rest.tags(&mut counts)?;
        }
    }
    if flexible {
        rest.tags(&mut counts)?;
    }
    Some(counts)
}

/// The bytes that are not counted yet.
struct ByteCursor<'a>(&'a [u8]);

impl ByteCursor<'_> {
    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    fn short(&mut self) -> Option<i16> {
        let (two, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i16::from_be_bytes(*two))
    }

    fn varint(&mut self) -> Option<u32> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A length: of an array, or of bytes. Of none it is 0.
    fn count(&mut self, flexible: bool) -> Option<usize> {
        if flexible {
            return usize::try_from(self.varint()?.saturating_sub(1)).ok();
        }
        let (four, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(usize::try_from(i32::from_be_bytes(*four)).unwrap_or(0))
    }

    /// Steps over a string: its bytes.
    fn text(&mut self, flexible: bool) -> Option<usize> {
        let bytes =
            if flexible { self.count(true)? } else { usize::try_from(self.short()?).unwrap_or(0) };
        self.skip(bytes)?;
        Some(bytes)
    }

    fn tags(&mut self, counts: &mut ProduceCounts) -> Option<()> {
        for _ in 0..self.varint()? {
            counts.tags += 1;
            let _tag = self.varint()?;
            let bytes = self.varint()?;
            self.skip(usize::try_from(bytes).ok()?)?;
        }
        Some(())
    }
}
