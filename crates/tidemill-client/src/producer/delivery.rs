//! The outcome of a record.

use crate::{AdminError, CallError, Refusal};

/// A record that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The streamlet it is in.
    pub streamlet: i32,
    /// Its offset there; none if it is unknown: without acks, or when an earlier attempt had
    /// written it.
    pub offset: Option<i64>,
    /// The timestamp that the log gave it, in milliseconds since 1970; none if it keeps its own.
    pub append_time_ms: Option<i64>,
}

/// Why a record is not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProduceError {
    /// The stream could not be looked up.
    #[error(transparent)]
    Lookup(#[from] AdminError),
    /// The stream has no such streamlet.
    #[error("stream `{stream}` has no streamlet {streamlet}: it has {count}, counted from 0")]
    NoStreamlet {
        /// The stream.
        stream: String,
        /// The requested streamlet.
        streamlet: i32,
        /// The number of streamlets.
        count: usize,
    },
    /// The record is longer than the producer takes.
    #[error("a record of {bytes} bytes: the producer takes at most {max}")]
    TooLarge {
        /// Its length, at most a few bytes too much.
        bytes: usize,
        /// The longest that is taken.
        max: usize,
    },
    /// The producer's buffer stayed full.
    #[error(
        "no room for the record within {waited_ms} ms: {buffer_bytes} bytes wait to be sent; is \
         the node slow, or away?"
    )]
    Full {
        /// The wait for room, in milliseconds.
        waited_ms: u64,
        /// The size of the buffer.
        buffer_bytes: usize,
    },
    /// The node refused the chunk that the record was in, for good.
    #[error("stream `{stream}` streamlet {streamlet}: {refusal}")]
    Refused {
        /// The stream.
        stream: String,
        /// The streamlet.
        streamlet: i32,
        /// The node's refusal.
        refusal: Refusal,
    },
    /// It could not be delivered in time. If it was sent, it may be there all the same.
    #[error("stream `{stream}` streamlet {streamlet}: not delivered within {after_ms} ms; {last}")]
    TimedOut {
        /// The stream.
        stream: String,
        /// The streamlet.
        streamlet: i32,
        /// The time of all attempts, in milliseconds.
        after_ms: u64,
        /// The last obstacle.
        last: String,
    },
    /// The node cannot be sent to at all.
    #[error(transparent)]
    Call(#[from] CallError),
    /// No producer id was given out, which an idempotent producer needs.
    #[error("no producer id: {0}")]
    NoProducerId(Refusal),
    /// The producer was closed before it was delivered.
    #[error("the producer was closed before the record was delivered")]
    Closed,
}

/// Why not all records that were sent before are delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlushError {
    /// Some still wait.
    #[error(
        "{chunks} chunks were not delivered within {waited_ms} ms{}",
        .last.as_deref().map(|it| format!("; {it}")).unwrap_or_default()
    )]
    TimedOut {
        /// Chunks that wait.
        chunks: u64,
        /// The wait for them, in milliseconds.
        waited_ms: u64,
        /// The last obstacle of one of them, if any is known.
        last: Option<String>,
    },
    /// Some records sent since the last flush without a callback could not be delivered.
    #[error("{records} records were not delivered; the first because: {first}")]
    Lost {
        /// The number of records.
        records: u64,
        /// Why the first of them was not.
        first: ProduceError,
    },
}
