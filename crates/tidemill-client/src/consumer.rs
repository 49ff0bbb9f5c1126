//! Consumer: streamlets are fetched from their leaders, the next chunks while these are processed.
//!
//! ```text
//! assign ─▶ positions ─▶ fetch ─▶ answer ─▶ chunks that wait ─▶ poll ─▶ Batch ─▶ records
//!               ▲                   │ next fetch at once, while there is room
//!               └─ where to go on ──┘
//! ```
//!
//! # Use
//!
//! ```text
//! let mut consumer = client.consumer(ConsumerOptions::default());
//! consumer.assign_stream("events", Start::Earliest)?;
//! while let Some(batch) = consumer.poll(Duration::from_secs(1))? {
//!     for record in batch.records() {
//!         let record = record?;
//!     }
//! }
//! ```
//!
//! # Invariants
//!
//! - A streamlet's records come in the order of their offsets, none twice and none left out, from
//!   the start on: those that isolation hides are hidden, those that were deleted are an error or a
//!   new start, as [`OutOfRange`] says.
//! - Nothing whose checksum is wrong is given out.
//! - Fetched records that were not taken are bounded by [`ConsumerOptions::buffer_bytes`] and one
//!   answer of each node.
//!
//! Read in this order: `walk`, `position`, `shared`, `fetch`, `driver`.

use crate::{
    Client,
    admin::Admin,
    cluster::{Cluster, StreamMeta},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tidemill_env::{Thread, lock::Mutex};
use tidemill_types::{Offset, StreamletIx};
use tidemill_wire::kafka::KafkaUuid;
pub use tidemill_wire::records::{Header, Headers};

mod batch;
mod consumer_core;
mod driver;
mod error;
mod fetch;
mod options;
mod position;
mod walk;

pub use batch::{Batch, Received, Taken};
pub use consumer_core::Listener;
use consumer_core::{ConsumerCore, ConsumerEvent, ConsumerState, StreamletKey};
pub use error::ConsumeError;
pub use options::{ConsumerOptions, Isolation, OutOfRange, Start};
pub use position::Obstacle;
use position::{Position, PositionPhase};

#[cfg(test)]
mod tests;

/// See the module.
pub struct Consumer {
    shared: Arc<ConsumerCore>,
    admin: Admin,
    thread: Mutex<Option<Box<dyn Thread>>>,
    /// Memory for inflated records.
    scratch: Vec<u8>,
}

impl Client {
    /// A consumer of this client's cluster. It has a thread, and connections of its own.
    #[must_use]
    pub fn consumer(&self, options: ConsumerOptions) -> Consumer {
        let admin = self.admin();
        let cluster = Cluster::new(&self.world, &self.options);
        let shared = Arc::new(ConsumerCore::new(cluster, options));
        let weak = Arc::downgrade(&shared);
        let ring = move || {
            if let Some(shared) = weak.upgrade() {
                shared.ring();
            }
        };
        shared.cluster.on_change(Arc::new(ring));
        let (driven, asked) = (Arc::clone(&shared), admin.clone());
        let body = Box::new(move || driver::run(&driven, &asked));
        let thread = self.world.spawn.spawn("client-consume", body);
        Consumer { shared, admin, thread: Mutex::new(Some(thread)), scratch: Vec::new() }
    }
}

impl Consumer {
    /// Consumes all streamlets that a stream has now.
    ///
    /// # Errors
    /// No node answers, or there is no such stream.
    pub fn assign_stream(&mut self, stream: &str, start: Start) -> Result<(), ConsumeError> {
        let meta = self.admin.stream_meta(stream)?;
        let all = meta.streamlets.keys().map(|index| (*index, start)).collect();
        self.assign_known(stream, &meta, &all);
        Ok(())
    }

    /// Consumes some streamlets of a stream, each from its start on. Records of them that were
    /// fetched before and not taken are dropped.
    ///
    /// # Errors
    /// No node answers, or there is no such stream or streamlet: then nothing is assigned.
    pub fn assign(&self, stream: &str, starts: &BTreeMap<i32, Start>) -> Result<(), ConsumeError> {
        let meta = self.admin.stream_meta(stream)?;
        if let Some(index) = starts.keys().find(|it| !meta.streamlets.contains_key(it)) {
            return Err(ConsumeError::NoStreamlet {
                stream: stream.to_owned(),
                streamlet: *index,
                count: meta.streamlet_count(),
            });
        }
        self.assign_known(stream, &meta, starts);
        Ok(())
    }

    fn assign_known(&self, stream: &str, meta: &StreamMeta, starts: &BTreeMap<i32, Start>) {
        let name: Arc<str> = stream.into();
        let mut state = self.shared.lock();
        for (index, start) in starts {
            self.begin(&mut state, (Arc::clone(&name), *index), meta.id, *start);
        }
        drop(state);
        self.shared.cluster.want(stream);
        self.shared.ring();
    }

    fn begin(&self, state: &mut ConsumerState, place: StreamletKey, id: KafkaUuid, start: Start) {
        state.next_epoch += 1;
        let epoch_and_bytes = (state.next_epoch, self.shared.options.streamlet_bytes);
        let position = Position::new(place.clone(), id, start, epoch_and_bytes);
        state.positions.insert(place, position);
    }

    /// Goes on at this offset of a consumed streamlet; fetched records of it that were not taken
    /// are dropped. The offset is not checked here: if it does not exist, [`OutOfRange`] decides
    /// later. False: the streamlet is not consumed.
    pub fn seek(&self, stream: &str, streamlet: StreamletIx, offset: Offset) -> bool {
        let place = (Arc::from(stream), streamlet.0.cast_signed());
        let mut state = self.shared.lock();
        let Some(id) = state.positions.get(&place).map(|it| it.id) else { return false };
        self.begin(&mut state, place, id, Start::Offset(offset.0));
        drop(state);
        self.shared.ring();
        true
    }

    /// Consumes a streamlet no longer.
    pub fn unassign(&mut self, stream: &str, streamlet: i32) {
        let place = (Arc::from(stream), streamlet);
        self.shared.lock().positions.remove(&place);
    }

    /// The records of the next chunk; waits for them up to `patience`. None: there were none.
    ///
    /// # Errors
    /// A streamlet has stopped. Each stop is returned once; the other streamlets go on.
    pub fn poll(&mut self, patience: Duration) -> Result<Option<Batch>, ConsumeError> {
        match self.shared.take(patience) {
            None => Ok(None),
            Some(ConsumerEvent::Error { error, .. }) => Err(error),
            Some(ConsumerEvent::Chunk { packed, .. }) => {
                let scratch = std::mem::take(&mut self.scratch);
                packed.unpack(self.shared.options.inflated_bytes_max, scratch).map(Some)
            }
        }
    }

    /// The records of the next chunk of one streamlet, if they are there; `scratch` is memory to
    /// inflate them in. For a consumer with [`ConsumerOptions::apart`]; any thread may call it.
    ///
    /// # Errors
    /// The streamlet has stopped. The stop is returned once.
    pub fn take_of(
        &self,
        stream: &Arc<str>,
        streamlet: i32,
        scratch: Vec<u8>,
    ) -> Result<Taken, ConsumeError> {
        match self.shared.take_of(&(Arc::clone(stream), streamlet)) {
            Err(next) => Ok(Taken::Nothing { next }),
            Ok(ConsumerEvent::Error { error, .. }) => Err(error),
            Ok(ConsumerEvent::Chunk { packed, .. }) => {
                let inflated_bytes_max = self.shared.options.inflated_bytes_max;
                packed.unpack(inflated_bytes_max, scratch).map(Taken::Batch)
            }
        }
    }

    /// Calls this, from any thread, when records have arrived, with their streamlets. It must be
    /// quick, and must not drop the consumer.
    pub fn on_arrival(&self, call: Listener) {
        self.shared.listen(call);
    }

    /// Gives a batch back whose records are not needed any more: its memory is used for the next.
    pub fn recycle(&mut self, batch: Batch) {
        if let Some(scratch) = batch.into_scratch() {
            self.scratch = scratch;
        }
    }

    /// The position of each streamlet: the offset at which `poll` will go on, or a later one if the
    /// records between are hidden. None while the start is being looked up.
    #[must_use]
    pub fn positions(&self) -> BTreeMap<(String, i32), Option<i64>> {
        let state = self.shared.lock();
        let mut positions: BTreeMap<(String, i32), Option<i64>> = state
            .positions
            .iter()
            .map(|((stream, index), position)| {
                let fetched = match position.phase {
                    PositionPhase::Fetching(offset) => Some(offset),
                    PositionPhase::Starting(_) => None,
                    PositionPhase::Stopped => position.taken,
                };
                ((stream.to_string(), *index), fetched)
            })
            .collect();
        // What waits has been fetched, but not taken: the first of it counts.
        for waiting in state.waiting.iter().rev() {
            let ConsumerEvent::Chunk { epoch, packed } = waiting else { continue };
            let place = (Arc::clone(&packed.stream), packed.streamlet);
            if state.positions.get(&place).is_some_and(|it| it.epoch == *epoch) {
                let first = packed.head.base_offset.max(packed.from);
                positions.insert((packed.stream.to_string(), packed.streamlet), Some(first));
            }
        }
        positions
    }

    /// The end of each streamlet when it was last fetched: how far there is to go.
    #[must_use]
    pub fn ends(&self) -> BTreeMap<(String, i32), i64> {
        let state = self.shared.lock();
        let end = |position: &Position| {
            Some(((position.stream.to_string(), position.streamlet), position.end?))
        };
        state.positions.values().filter_map(end).collect()
    }

    /// The current obstacle to fetching, if there is one. Fetches are repeated meanwhile.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.shared.lock().obstacle().cloned()
    }

    /// Commits where this consumer is, as offsets of a group without members.
    ///
    /// # Errors
    /// No node answers, or the group has members, whose offsets are theirs to commit.
    pub fn commit(&self, group: &str) -> Result<(), ConsumeError> {
        let mut offsets: BTreeMap<String, BTreeMap<i32, i64>> = BTreeMap::new();
        for ((stream, index), offset) in self.positions() {
            if let Some(offset) = offset {
                offsets.entry(stream).or_default().insert(index, offset);
            }
        }
        if !offsets.is_empty() {
            self.admin.commit_group_offsets(group, &offsets)?;
        }
        Ok(())
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.ring();
        // Whatever the thread waits for ends.
        self.admin.close();
        self.shared.cluster.close();
        let thread = self.thread.get_mut().take();
        if let Some(thread) = thread {
            thread.join();
        }
    }
}
