//! The facts that a source asks of its node, because they are not in the chunks.
//!
//! A program with only a log gives no node; its sources then read all acknowledged records.
//!
//! Invariant: a transaction that was aborted below the last stable offset stays so, and that offset
//! never goes back: a resumed job reads the same records up to there.

use std::{collections::BTreeMap, sync::Arc};
use tidemill_log::{OnData, Stream, Streamlet};
use tidemill_types::{Offset, ProducerId, StreamletIx};

/// A node, as sources see it.
pub trait StreamNode: Send + Sync {
    /// The transactions of a streamlet; none if the node does not have this streamlet.
    fn transactions(&self, streamlet: &Arc<Streamlet>) -> Option<Arc<dyn Transactions>>;

    /// A consumer group's offsets of a stream.
    fn group(&self, group: &str, stream: &Arc<Stream>) -> Arc<dyn StreamGroup>;
}

/// A consumer group, and one stream.
pub trait StreamGroup: Send + Sync {
    /// The committed offsets by streamlet, that is, those of the next records.
    ///
    /// # Errors
    /// The group has members that are alive; the message says so.
    fn offsets(&self) -> Result<BTreeMap<StreamletIx, Offset>, String>;

    /// Commits offsets by streamlet, as a client outside the group. Blocks until they are durable,
    /// or are not committed; the node's log says why.
    fn commit(&self, offsets: &BTreeMap<StreamletIx, Offset>);
}

/// The transactions of a streamlet (KIP-98).
pub trait Transactions: Send + Sync {
    /// The last stable offset: the first of the oldest transaction that is open, or the end. Cheap:
    /// it is asked for each group of chunks.
    ///
    /// # Errors
    /// It is not known; the message says why.
    fn end_offset(&self) -> Result<i64, String>;

    /// Aborted transactions with records from `from` up to, not including, `to`. Asked only where
    /// there are chunks of transactions, and after [`Self::end_offset`].
    fn aborted(&self, from: i64, to: i64) -> Vec<AbortedTransaction>;

    /// Calls back once when there may be something to read at `offset`; at once, if that is so now.
    /// Dropping the result cancels it.
    fn on_readable(&self, offset: i64, notice: OnData) -> Box<dyn Send>;
}

/// A transaction that was aborted, in one streamlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Its producer.
    pub producer: ProducerId,
    /// The offset of its first record; it ends with the producer's next marker.
    pub first: Offset,
}
