//! Names and numbers of streams, groups and segments.
//!
//! Invariant: a name from outside never becomes a path; folders are named by the stream's id.

use crate::options::STREAMLETS_MAX;
use std::{fmt, path::PathBuf};
use tidemill_types::{GroupIx, Incarnation, SegmentEpoch, SegmentIx, StreamletIx};

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
    /// Parses the form that `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 32 || digits.iter().any(|it| !matches!(it, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

/// Groups that a streamlet can make in one incarnation of its node.
const GROUPS_OF_AN_INCARNATION: u64 = 1 << 28;

/// All groups of all incarnations are below.
const GROUPS_END: u64 = (u32::MAX as u64 + 1) * GROUPS_OF_AN_INCARNATION;

/// The first group of a streamlet that is opened in this incarnation. Readers remember groups by
/// number, so no number is given twice, even if no file of the group is left on the disk.
pub(crate) fn first_group(incarnation: Incarnation) -> GroupIx {
    GroupIx(u64::from(incarnation.0) * GROUPS_OF_AN_INCARNATION)
}

/// The first epoch of an incarnation, which is in the upper half: no other incarnation of any node
/// of the cluster makes the same epoch.
pub(crate) fn first_epoch(incarnation: Incarnation) -> SegmentEpoch {
    SegmentEpoch(u64::from(incarnation.0) << 32)
}

/// The incarnation in which a segment was made.
pub(crate) fn incarnation_of(epoch: SegmentEpoch) -> Incarnation {
    Incarnation((epoch.0 >> 32) as u32)
}

/// The identity of a segment file. No two files of a cluster have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentKey {
    /// The stream.
    pub stream: StreamId,
    /// The streamlet's number, from 0.
    pub streamlet: StreamletIx,
    /// The group's number in the streamlet, from 0; it grows, with gaps where the log was opened
    /// again.
    pub group: GroupIx,
    /// The segment's number in the group, from 0.
    pub index: SegmentIx,
    /// The use of a file: it grows with each segment of this log, so a recycled file has a new one.
    /// Its upper half is the incarnation of the node that made the segment.
    pub epoch: SegmentEpoch,
}

impl fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "streamlet {} group {} segment {}", self.streamlet, self.group, self.index)
    }
}

impl SegmentKey {
    /// The name of the segment's file in the stream's folder.
    pub(crate) fn file_name(&self) -> PathBuf {
        self.name().file_name()
    }

    /// The part of the identity that the file's name has.
    pub(crate) fn name(&self) -> SegmentName {
        SegmentName { streamlet: self.streamlet, group: self.group, index: self.index }
    }
}

/// The identity of a segment within its stream, as its file's name has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentName {
    pub(crate) streamlet: StreamletIx,
    pub(crate) group: GroupIx,
    pub(crate) index: SegmentIx,
}

impl SegmentName {
    fn file_name(self) -> PathBuf {
        let (streamlet, group, index) = (self.streamlet.0, self.group.0, self.index.0);
        PathBuf::from(format!("{streamlet:08x}-{group:012x}-{index:04x}.seg"))
    }

    /// Reads a file's name. None if no segment can have it.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(".seg")?.split('-');
        let streamlet = u32::from_str_radix(parts.next()?, 16).ok()?;
        let group = u64::from_str_radix(parts.next()?, 16).ok()?;
        let index = u32::from_str_radix(parts.next()?, 16).ok()?;
        let possible = streamlet < STREAMLETS_MAX && group < GROUPS_END;
        (parts.next().is_none() && possible).then_some(Self {
            streamlet: StreamletIx(streamlet),
            group: GroupIx(group),
            index: SegmentIx(index),
        })
    }
}

/// True if a stream may have this name: 1 to 249 of `a-z A-Z 0-9 . _ -`, not `.` or `..`.
#[must_use]
pub fn is_stream_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(good)
}

#[cfg(test)]
mod tests;
