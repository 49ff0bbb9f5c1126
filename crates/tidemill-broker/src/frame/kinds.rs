//! How long a request of each kind may be, and what its bytes become when they are read: many small
//! things, each with its answer.
//!
//! The factors were measured with an allocator that counts, on requests of the shortest things that
//! there are in each kind, as many as make lists grow at their end. A test compares them with the
//! types that the kinds with the most are made of.

use tidemill_wire::kafka::ApiKey;

#[cfg(test)]
mod tests;

/// The longest request that is neither a produce request nor a list of names.
const PLAIN_BYTES_MAX: usize = 16 << 20;
/// The longest list of names: some 20,000 as programs make them.
const NAMES_BYTES_MAX: usize = 1 << 20;
/// Requests that are longer than this are charged for what they become when they are read.
const CHEAP_BYTES: usize = 64 << 10;
/// Bytes of memory for each byte of a request, until its answer is written. Partitions, members and
/// settings are longer than the names of names alone, of which each can be a single byte.
const PLAIN_FACTOR: usize = 128;
const NAMES_FACTOR: usize = 352;
/// Bytes of memory for each byte of a request that waits, with nothing left of how it was read.
const WAITING_FACTOR: usize = 8;

/// A kind of request, as its first two bytes say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub(super) i16);

impl Kind {
    /// Chunks are not read into smaller things.
    fn is_produce(self) -> bool {
        self.0 == ApiKey::Produce as i16
    }

    fn is_names(self) -> bool {
        const NAMES: [ApiKey; 7] = [
            ApiKey::FindCoordinator,
            ApiKey::DescribeGroups,
            ApiKey::ListGroups,
            ApiKey::DeleteGroups,
            ApiKey::DeleteTopics,
            ApiKey::DescribeTransactions,
            ApiKey::ListTransactions,
        ];
        NAMES.iter().any(|it| *it as i16 == self.0)
    }

    /// The most bytes of one; no bound of its own, if none.
    pub(super) fn bytes_max(self) -> Option<usize> {
        match self {
            it if it.is_produce() => None,
            it if it.is_names() => Some(NAMES_BYTES_MAX),
            _ => Some(PLAIN_BYTES_MAX),
        }
    }

    /// The memory for one of this length, from when it is read until it is answered.
    pub(super) fn reading_bytes(self, length: usize) -> usize {
        match self {
            it if it.is_produce() || length <= CHEAP_BYTES => length,
            it if it.is_names() => length * NAMES_FACTOR,
            _ => length * PLAIN_FACTOR,
        }
    }
}

/// The memory for a request of this length that was read and waits, for records or for others.
pub(crate) fn waiting_bytes(length: usize) -> usize {
    length * WAITING_FACTOR
}
