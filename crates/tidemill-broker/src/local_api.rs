//! The broker's API for the rest of the node (HTTP, jobs): streams by name, committed records,
//! consumer groups, and figures.
//!
//! Invariant: a reader of [`Committed`] sees the records that a Kafka consumer with
//! `read_committed` sees.

mod group;
mod lag;

pub use group::GroupError;
pub use lag::{GroupLag, GroupLags};

use crate::{
    Broker,
    partition::{Partition, Readable},
    store::StoreError,
};
use std::sync::{Arc, atomic::Ordering};
use tidemill_log::{LogError, OnData, Stream, StreamSpec, Streamlet};
use tidemill_types::{Offset, ProducerId, StreamletIx};

/// Counts since the broker was opened, and the sizes of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were closed at once because there were too many.
    pub connections_refused: u64,
    /// Connections that the broker closed because of bad requests, or because their answers were
    /// not taken.
    pub connections_hostile: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes of chunks that producers sent.
    pub produced_bytes: u64,
    /// Records in them.
    pub produced_records: u64,
    /// Bytes of chunks that consumers were sent.
    pub fetched_bytes: u64,
    /// Records in them, from the offsets on that were asked for.
    pub fetched_records: u64,
}

/// A streamlet as readers of committed records see it.
pub struct Committed(Arc<Partition>);

/// A reader that waits; it is forgotten when this is dropped.
#[must_use = "the notice is forgotten when this is dropped"]
pub struct RecordWait(#[expect(dead_code, reason = "held until it is dropped")] Readable);

impl Broker {
    /// The counts and sizes of this moment.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let counts = &self.counts;
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        Figures {
            connections: of(&counts.connections),
            connections_refused: of(&counts.connections_refused),
            connections_hostile: of(&counts.connections_hostile),
            requests: of(&counts.requests),
            produced_bytes: of(&counts.produced_bytes),
            produced_records: of(&counts.produced_records),
            fetched_bytes: of(&counts.fetched_bytes),
            fetched_records: of(&counts.fetched_records),
        }
    }

    /// Why the broker's metadata takes no changes until the node starts again; none while it does.
    /// Then groups commit no offsets and no transaction ends.
    #[must_use]
    pub fn failure(&self) -> Option<StoreError> {
        self.store.failure()
    }

    /// The settings of a stream that does not say otherwise.
    #[must_use]
    pub fn stream_defaults(&self) -> StreamSpec {
        let defaults = self.log.options().defaults.clone();
        StreamSpec { streamlets: self.settings.partitions, ..defaults }
    }

    /// The stream of a name; made, if it is not there and clients may make streams.
    ///
    /// # Errors
    /// There is none and none may be made; the name is impossible; the disk failed.
    pub fn stream_or_new(&self, name: &str) -> Result<Arc<Stream>, LogError> {
        self.topic_or_new(name).map(|topic| Arc::clone(&topic.stream))
    }

    /// Removes a stream, as a Kafka client does it.
    ///
    /// # Errors
    /// There is none, or the disk failed and it is still there.
    pub fn delete_stream(&self, name: &str) -> Result<(), LogError> {
        let topic = self.topic(name).ok_or_else(|| LogError::Unknown(name.to_owned()))?;
        self.delete_topics(&[&topic]).pop().expect("one for each")
    }

    /// A streamlet as readers of committed records see it, if it is there.
    #[must_use]
    pub fn committed(&self, stream: &str, streamlet: StreamletIx) -> Option<Committed> {
        let index = i32::try_from(streamlet.0).ok()?;
        self.topic(stream)?.partition(index).map(Committed)
    }
}

impl Committed {
    /// The streamlet.
    #[must_use]
    pub fn streamlet(&self) -> &Arc<Streamlet> {
        &self.0.streamlet
    }

    /// The offset after the last visible record. None: the transactions of the streamlet cannot be
    /// read, and the log gives the reason.
    #[must_use]
    pub fn end_offset(&self) -> Option<i64> {
        self.0.last_stable_offset().ok()
    }

    /// Aborted transactions with records from `from` up to, not including, `to`: the producer, and
    /// the offset from which on its records are left out until a marker that says so.
    #[must_use]
    pub fn aborted(&self, from: i64, to: i64) -> Vec<(ProducerId, Offset)> {
        let aborted = self.0.aborted(from, to).into_iter();
        aborted.map(|it| (ProducerId(it.producer_id), Offset(it.first_offset))).collect()
    }

    /// Calls back once when there may be something to see at `offset`; at once, if that is so now.
    /// The callback must be quick and must not block.
    pub fn on_readable(&self, offset: i64, notice: OnData) -> RecordWait {
        RecordWait(self.0.on_readable(offset, true, notice))
    }
}
