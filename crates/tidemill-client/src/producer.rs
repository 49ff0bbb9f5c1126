//! Producer: records become chunks, chunks go to their leaders, several requests under way at once.
//!
//! ```text
//! send ─▶ queue of the streamlet ─▶ the producer's thread ─▶ a connection a leader
//!           a chunk is closed when it      closes chunks that have
//!           is full, by the sender         lingered, builds requests
//! ```
//!
//! # Use
//!
//! ```text
//! let producer = client.producer(ProducerOptions::default());
//! let events = producer.stream("events")?;
//! events.send(&NewRecord { key: Some(b"k"), value: Some(b"v"), ..NewRecord::default() })?;
//! producer.flush(Duration::from_secs(30))?;
//! ```
//!
//! # Invariants
//!
//! - Each accepted record's outcome is reported exactly once: to its callback, else to `flush`.
//! - With [`ProducerOptions::idempotent`] a record is in its streamlet once, and in the order of
//!   `send`, whatever fails in between, if its outcome is a delivery.
//! - At most [`ProducerOptions::buffer_bytes`] wait to be sent; `send` blocks at the limit.
//!
//! Read in this order: `partitioner`, `queue`, `answer_policy`, `shared`, `sender`.

use crate::{Client, admin::Admin, cluster::Cluster};
use std::{sync::Arc, time::Duration};
use tidemill_env::{
    Thread,
    lock::Mutex,
    sync::{atomic::Ordering, mpsc},
};
use tidemill_wire::records::ChunkBuilder;
pub use tidemill_wire::{
    chunk::Codec,
    records::{Compression, Header},
};

mod answer_policy;
mod budget;
mod chunk;
mod delivery;
mod identity;
mod options;
mod partitioner;
mod producer_core;
mod queue;
mod request;
mod schedule;
mod sender;
mod stream;

pub use delivery::{Delivered, FlushError, ProduceError};
pub(crate) use identity::ProducerIdentity;
pub use options::{Acks, ProducerOptions};
use producer_core::ProducerCore;
use stream::ProducerStream;

#[cfg(test)]
mod tests;

/// A record to be sent. Everything is copied before `send` returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewRecord<'a> {
    /// The key: records of one key go to one streamlet, the one that Kafka's own client chooses.
    pub key: Option<&'a [u8]>,
    /// The value; none is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers, in order.
    pub headers: &'a [Header<'a>],
    /// The timestamp in milliseconds since 1970; none: now.
    pub timestamp_ms: Option<i64>,
    /// The streamlet; none: by the key, or without a key, one after the other.
    pub streamlet: Option<i32>,
}

impl NewRecord<'_> {
    fn bytes_most(&self) -> usize {
        ChunkBuilder::record_bytes_most(self.key, self.value, self.headers.iter().copied())
    }
}

/// Counts of a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerStats {
    /// Records that count.
    pub delivered_records: u64,
    /// Bytes of the chunks they are in, compressed.
    pub delivered_bytes: u64,
    /// Those chunks.
    pub delivered_chunks: u64,
    /// Records that could not be delivered.
    pub failed_records: u64,
    /// Requests sent.
    pub requests: u64,
    /// Chunks that had to be sent again.
    pub retries: u64,
    /// Bytes that wait or are under way.
    pub buffered_bytes: usize,
}

/// See the module. Dropping it drops undelivered records; call [`Self::flush`] before.
pub struct Producer {
    shared: Arc<ProducerCore>,
    thread: Mutex<Option<Box<dyn Thread>>>,
}

/// A stream to write to. Cheap to clone, to be used by any number of threads.
#[derive(Clone)]
pub struct StreamWriter {
    shared: Arc<ProducerCore>,
    stream: Arc<ProducerStream>,
}

impl Client {
    /// A producer of this client's cluster. It has a thread, and connections of its own.
    #[must_use]
    pub fn producer(&self, options: ProducerOptions) -> Producer {
        let cluster = Cluster::new(&self.world, &self.options);
        let shared = Arc::new(ProducerCore::new(cluster, options.bounded()));
        let weak = Arc::downgrade(&shared);
        let ring = move || {
            if let Some(shared) = weak.upgrade() {
                shared.schedule.ring();
            }
        };
        shared.cluster.on_change(Arc::new(ring));
        let sender = sender::ProducerThread::new(Arc::clone(&shared));
        let thread = self.world.spawn.spawn("client-produce", Box::new(move || sender.run()));
        Producer { shared, thread: Mutex::new(Some(thread)) }
    }
}

impl Producer {
    /// A stream to write to.
    ///
    /// # Errors
    /// No node answers, or there is no such stream: it is not made by itself.
    pub fn stream(&self, name: &str) -> Result<StreamWriter, ProduceError> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(ProduceError::Closed);
        }
        let meta = Admin::of(&self.shared.cluster).stream_meta(name)?;
        self.shared.cluster.want(name);
        if let Some(refusal) = self.refused_identity() {
            return Err(ProduceError::NoProducerId(refusal));
        }
        let mut streams = self.shared.streams.lock();
        let stream = streams
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(ProducerStream::new(name, self.shared.cluster.random())));
        let count = usize::try_from(meta.streamlet_count()).unwrap_or(0);
        self.shared.grow(stream, count);
        Ok(StreamWriter { shared: Arc::clone(&self.shared), stream: Arc::clone(stream) })
    }

    fn refused_identity(&self) -> Option<crate::Refusal> {
        match &*self.shared.holding.lock() {
            identity::IdentityState::Refused(refusal) => Some(refusal.clone()),
            _ => None,
        }
    }

    /// Sends everything that was accepted before this call, and waits for its outcome.
    ///
    /// # Errors
    /// Some outcome is not known in time, or some record sent since the last flush could not be
    /// delivered.
    pub fn flush(&self, patience: Duration) -> Result<(), FlushError> {
        let shared = &self.shared;
        shared.close_chunks();
        let began_us = shared.cluster.now_us();
        let mut waiting: Vec<_> = shared
            .all()
            .into_iter()
            .map(|streamlet| {
                let end = streamlet.lock().serials().1;
                (streamlet, end)
            })
            .collect();
        loop {
            let seen = shared.finished();
            waiting.retain(|(streamlet, end)| streamlet.lock().serials().0 < *end);
            if waiting.is_empty() {
                break;
            }
            let waited = Duration::from_micros(shared.cluster.now_us().saturating_sub(began_us));
            let Some(left) = patience.checked_sub(waited).filter(|it| !it.is_zero()) else {
                let left = |(streamlet, end): &(Arc<stream::ProducerStreamlet>, u64)| {
                    end.saturating_sub(streamlet.lock().serials().0)
                };
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                let chunks = waiting.iter().map(left).sum();
                let last = waiting.iter().find_map(|(it, _)| it.lock().last_obstacle());
                return Err(FlushError::TimedOut { chunks, waited_ms, last });
            };
            shared.wait_finished(seen, left);
        }
        let lost = std::mem::take(&mut *shared.lost.lock());
        match lost.first {
            Some(first) => Err(FlushError::Lost { records: lost.records, first }),
            None => Ok(()),
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn stats(&self) -> ProducerStats {
        let counts = &self.shared.counts;
        ProducerStats {
            delivered_records: counts.delivered_records.load(Ordering::Relaxed),
            delivered_bytes: counts.delivered_bytes.load(Ordering::Relaxed),
            delivered_chunks: counts.delivered_chunks.load(Ordering::Relaxed),
            failed_records: counts.failed_records.load(Ordering::Relaxed),
            requests: counts.requests.load(Ordering::Relaxed),
            retries: counts.retries.load(Ordering::Relaxed),
            buffered_bytes: self.shared.budget.used().0,
        }
    }

    /// Flushes, then ends the producer.
    ///
    /// # Errors
    /// As of [`Self::flush`]; the producer has ended all the same.
    pub fn close(self, patience: Duration) -> Result<(), FlushError> {
        self.flush(patience)
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.closed.store(true, Ordering::Release);
        shared.schedule.ring();
        shared.budget.wake();
        let thread = self.thread.get_mut().take();
        if let Some(thread) = thread {
            thread.join();
        }
        // No answer can change a queue any more once the connections have ended.
        shared.cluster.close();
        for streamlet in shared.all() {
            let given_up = streamlet.lock().drain_all();
            let finished = given_up
                .into_iter()
                .map(|chunk| chunk::FinishedChunk { chunk, outcome: Err(ProduceError::Closed) });
            shared.finish(finished.collect());
        }
    }
}

impl StreamWriter {
    /// The number of streamlets of the stream, as far as it is known.
    #[must_use]
    pub fn streamlets(&self) -> usize {
        self.stream.count()
    }

    /// Sends a record. It is delivered later: [`Producer::flush`] says whether.
    ///
    /// Waits while the producer's buffer is full, as long as
    /// [`ProducerOptions::block_timeout`](super::producer::ProducerOptions::block_timeout).
    ///
    /// # Errors
    /// The record cannot be sent: it is too long, there is no such streamlet, or no room for it.
    pub fn send(&self, record: &NewRecord<'_>) -> Result<(), ProduceError> {
        self.shared.send(&self.stream, record, None)
    }

    /// As [`Self::send`]; `done` is called once with the record's outcome, from a thread of the
    /// producer: it must be quick and must not wait for this producer.
    ///
    /// # Errors
    /// As of [`Self::send`]; `done` is not called then.
    pub fn send_then(
        &self,
        record: &NewRecord<'_>,
        done: impl FnOnce(Result<Delivered, ProduceError>) + Send + 'static,
    ) -> Result<(), ProduceError> {
        self.shared.send(&self.stream, record, Some(Box::new(done)))
    }

    /// Sends a record and waits for its outcome. The linger and the delivery timeout bound the
    /// wait.
    ///
    /// # Errors
    /// As of [`Self::send`], or it could not be delivered.
    pub fn send_and_wait(&self, record: &NewRecord<'_>) -> Result<Delivered, ProduceError> {
        let (tell, told) = mpsc::channel();
        self.send_then(record, move |outcome| drop(tell.send(outcome)))?;
        told.recv().unwrap_or(Err(ProduceError::Closed))
    }
}
