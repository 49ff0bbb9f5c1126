//! Names and numbers of streams, groups and segments.
//!
//! Invariant: a name from outside never becomes a path; folders are named by the stream's id.

use crate::options::STREAMLETS_MAX;
use std::{fmt, path::PathBuf};

/// A stream's id: 128 random bits, made when the stream is, never used again. Written as 32
/// hexadecimal digits; it is a Kafka topic id as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub [u8; 16]);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl StreamId {
    /// Reads what `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 32 || digits.iter().any(|it| !matches!(it, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

/// Groups that a streamlet can make in one life of its log.
const GROUPS_OF_A_LIFE: u64 = 1 << 28;

/// All groups of all lives are below.
const GROUPS_END: u64 = (u32::MAX as u64 + 1) * GROUPS_OF_A_LIFE;

/// The first group of a streamlet that is opened in this life. Whoever remembers what was read of
/// groups remembers numbers; so none is given twice, though nothing of a group may be left on the
/// disk.
pub(crate) fn first_group(life: u32) -> u64 {
    u64::from(life) * GROUPS_OF_A_LIFE
}

/// Which segment of which streamlet. Two files never have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentKey {
    /// The stream.
    pub stream: StreamId,
    /// The streamlet's number, from 0.
    pub streamlet: u32,
    /// The group's number in the streamlet, from 0; it grows, with gaps where the log was opened
    /// again.
    pub group: u64,
    /// The segment's number in the group, from 0.
    pub index: u32,
    /// Grows with each segment made by this log; says which life of a recycled file this is.
    pub epoch: u64,
}

impl fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "streamlet {} group {} segment {}", self.streamlet, self.group, self.index)
    }
}

impl SegmentKey {
    /// The name of the segment's file in the stream's folder.
    pub(crate) fn file_name(&self) -> PathBuf {
        PathBuf::from(format!("{:08x}-{:012x}-{:04x}.seg", self.streamlet, self.group, self.index))
    }

    /// Streamlet, group and index from a file's name, if there can be such a segment.
    pub(crate) fn parse_file_name(name: &str) -> Option<(u32, u64, u32)> {
        let mut parts = name.strip_suffix(".seg")?.split('-');
        let streamlet = u32::from_str_radix(parts.next()?, 16).ok()?;
        let group = u64::from_str_radix(parts.next()?, 16).ok()?;
        let index = u32::from_str_radix(parts.next()?, 16).ok()?;
        let possible = streamlet < STREAMLETS_MAX && group < GROUPS_END;
        (parts.next().is_none() && possible).then_some((streamlet, group, index))
    }
}

/// Whether a stream may have this name: 1 to 249 of `a-z A-Z 0-9 . _ -`, not `.` or `..`.
#[must_use]
pub fn is_stream_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(good)
}

#[cfg(test)]
mod tests;
