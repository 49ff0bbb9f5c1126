//! Why a consumer cannot go on with a streamlet.

use crate::{AdminError, Refusal};

/// See the module. Where a streamlet is named, that streamlet has stopped: the others go on, and
/// [`assign`](super::Consumer::assign) lets it begin again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsumeError {
    /// The stream, or where to begin in it, could not be looked up.
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
        count: i32,
    },
    /// The offset to go on at is not there.
    #[error("stream `{stream}` streamlet {streamlet}: offset {offset} is not there; {hint}")]
    OutOfRange {
        /// The stream.
        stream: String,
        /// The streamlet.
        streamlet: i32,
        /// The offset.
        offset: i64,
        /// The existing range, as far as it is known.
        hint: String,
    },
    /// Damage in the log, or on the way from it.
    #[error("stream `{stream}` streamlet {streamlet} at offset {offset}: {reason}")]
    Damaged {
        /// The stream.
        stream: String,
        /// The streamlet.
        streamlet: i32,
        /// The first offset that cannot be read.
        offset: i64,
        /// The fault.
        reason: String,
    },
    /// The node refused to serve the streamlet, for good.
    #[error("stream `{stream}` streamlet {streamlet}: {refusal}")]
    Refused {
        /// The stream.
        stream: String,
        /// The streamlet.
        streamlet: i32,
        /// The node's refusal.
        refusal: Refusal,
    },
    /// The stream was deleted and made anew: its offsets are not those of before.
    #[error("stream `{stream}` was deleted and made anew: its offsets begin again")]
    MadeAnew {
        /// The stream.
        stream: String,
    },
    /// The consumer was closed.
    #[error("the consumer is closed")]
    Closed,
}
