//! A consumer's options, and the offset at which it begins.

use std::time::Duration;

/// Whose records are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All that are durable, those of transactions that are open or were aborted among them.
    #[default]
    Uncommitted,
    /// Records in no transaction, or in a committed one. An open transaction holds up the records
    /// behind it.
    Committed,
}

/// Where to begin in a streamlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the first record that is kept.
    Earliest,
    /// With the next record that is written.
    Latest,
    /// At this offset.
    Offset(i64),
    /// With the first record that has this timestamp or a later one, in milliseconds since 1970;
    /// without one, with the next record that is written.
    Time(i64),
}

/// The reaction to an offset that is not there: records were deleted, or the stream was made anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutOfRange {
    /// The consumer goes on with the first record that is kept.
    Earliest,
    /// The consumer goes on with the next record that is written.
    Latest,
    /// The streamlet stops, and `poll` says so.
    #[default]
    Stop,
}

/// The options of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// Whose records are seen. Default all.
    pub isolation: Isolation,
    /// The reaction to an offset that is not there. Default: the streamlet stops.
    pub out_of_range: OutOfRange,
    /// Most bytes of one answer, over all streamlets of a node, if one chunk alone is not longer.
    /// Default 16 MiB.
    pub fetch_bytes: usize,
    /// Most bytes of one streamlet in an answer, if one chunk alone is not longer. Default 2 MiB.
    pub streamlet_bytes: usize,
    /// The time a node waits for records when there are none. Default 500 ms.
    pub fetch_wait: Duration,
    /// The fewest bytes a node answers with before that time. Default 1.
    pub fetch_bytes_min: usize,
    /// Fetched bytes that wait to be taken; at the limit no more are fetched. One answer of each
    /// node may come on top. Default 32 MiB.
    pub buffer_bytes: usize,
    /// The most bytes that the records of one chunk may have, inflated. Default 64 MiB.
    pub inflated_bytes_max: usize,
    /// Streamlets are taken from one by one, with [`Consumer::take_of`]: each has a share of the
    /// buffer to itself, so one that is not taken from holds up no other. Default not.
    ///
    /// [`Consumer::take_of`]: super::Consumer::take_of
    pub apart: bool,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            isolation: Isolation::default(),
            out_of_range: OutOfRange::default(),
            fetch_bytes: 16 << 20,
            streamlet_bytes: 2 << 20,
            fetch_wait: Duration::from_millis(500),
            fetch_bytes_min: 1,
            buffer_bytes: 32 << 20,
            inflated_bytes_max: 64 << 20,
            apart: false,
        }
    }
}
