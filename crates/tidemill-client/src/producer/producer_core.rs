//! The state that the producer's thread, senders of records and the connections' reader threads
//! share.

use super::{
    Delivered, NewRecord, ProduceError, ProducerOptions,
    budget::BufferBudget,
    chunk::{DeliveryCallback, FinishedChunk, ProducerChunk},
    identity::IdentityState,
    queue::{Appended, ChunkQueue, QueueRules},
    schedule::Schedule,
    stream::{ProducerStream, ProducerStreamlet},
};
use crate::{buffers::Buffers, cluster::Cluster, options::micros};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tidemill_env::{
    lock::{Condvar, Mutex, RwLock},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use tidemill_types::limits::RECORD_BYTES_MAX;

/// See the module.
pub(super) struct ProducerCore {
    pub(super) cluster: Cluster,
    pub(super) options: ProducerOptions,
    pub(super) rules: QueueRules,
    pub(super) schedule: Schedule,
    pub(super) budget: BufferBudget,
    pub(super) holding: Mutex<IdentityState>,
    pub(super) streams: Mutex<BTreeMap<String, Arc<ProducerStream>>>,
    /// All streamlets of all streams.
    pub(super) streamlets: RwLock<Vec<Arc<ProducerStreamlet>>>,
    pub(super) closed: AtomicBool,
    pub(super) counts: ProducerCounts,
    memory: Buffers,
    /// Lost records that no callback has reported.
    pub(super) lost: Mutex<LostRecords>,
    finished: Mutex<u64>,
    /// Rings when chunks are finished.
    some_finished: Condvar,
}

/// Counts since the producer began.
#[derive(Default)]
pub(super) struct ProducerCounts {
    pub(super) delivered_records: AtomicU64,
    pub(super) delivered_bytes: AtomicU64,
    pub(super) delivered_chunks: AtomicU64,
    pub(super) failed_records: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) retries: AtomicU64,
}

/// Records that could not be delivered and had no callback.
#[derive(Default)]
pub(super) struct LostRecords {
    pub(super) records: u64,
    pub(super) first: Option<ProduceError>,
}

impl ProducerCore {
    pub(super) fn new(cluster: Cluster, options: ProducerOptions) -> Self {
        let rules = QueueRules {
            idempotent: options.idempotent,
            compression: options.compression,
            linger_us: micros(options.linger),
            batch_bytes: options.batch_bytes,
            in_flight: options.in_flight,
            delivery_timeout_us: micros(options.delivery_timeout),
        };
        Self {
            cluster,
            rules,
            schedule: Schedule::default(),
            budget: BufferBudget::new(options.buffer_bytes),
            holding: Mutex::new(IdentityState::Wanted { not_before_us: 0 }),
            streams: Mutex::default(),
            streamlets: RwLock::default(),
            closed: AtomicBool::new(false),
            counts: ProducerCounts::default(),
            memory: Buffers::default(),
            lost: Mutex::default(),
            finished: Mutex::new(0),
            some_finished: Condvar::new(),
            options,
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<ProducerStreamlet>> {
        self.streamlets.read().clone()
    }

    /// Gives a stream the streamlets that it has.
    pub(super) fn grow(&self, stream: &ProducerStream, count: usize) {
        let mut all = self.streamlets.write();
        for index in stream.count()..count {
            let place = all.len();
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            let streamlet =
                ProducerStreamlet::new(stream, index, place, ChunkQueue::new(self.rules));
            let streamlet = Arc::new(streamlet);
            all.push(Arc::clone(&streamlet));
            stream.push(streamlet);
        }
    }

    /// See [`super::StreamWriter::send`].
    pub(super) fn send(
        &self,
        stream: &ProducerStream,
        record: &NewRecord<'_>,
        mut done: Option<DeliveryCallback>,
    ) -> Result<(), ProduceError> {
        let (bytes, max) = (record.bytes_most(), RECORD_BYTES_MAX.min(self.options.buffer_bytes));
        if bytes > max {
            return Err(ProduceError::TooLarge { bytes, max });
        }
        let clock = &self.cluster.world().clock;
        let timestamp_ms = record.timestamp_ms.unwrap_or_else(|| clock.wall_micros() / 1000);
        let mut wait: Option<BufferWait> = None;
        loop {
            let mut streamlet = self.choose(stream, record)?;
            let mut queue = streamlet.lock();
            let free = record.streamlet.is_none() && record.key.is_none();
            if free && wait.is_none() && stream.count() > 1 && queue.would_begin(record) {
                if queue.close() {
                    self.put(&streamlet, &mut queue, 0);
                }
                drop(queue);
                let metadata = self.cluster.metadata();
                let good = |index| metadata.leader(&stream.name, index).is_some();
                streamlet = stream.advance(good).ok_or(ProduceError::Closed)?;
                queue = streamlet.lock();
            }
            if self.closed.load(Ordering::Acquire) {
                return Err(ProduceError::Closed);
            }
            let closed = queue.closed_serial();
            let now_us = || clock.monotonic_micros();
            let take = |bytes| self.budget.try_take(bytes);
            let appended = queue
                .append(record, timestamp_ms, &mut done, now_us, take)
                .map_err(|_| ProduceError::TooLarge { bytes, max })?;
            // Also when there was no room: what was full before it is closed now.
            if queue.closed_serial() != closed {
                if let Some(memory) = self.memory.take() {
                    queue.give_memory(memory);
                }
                self.put(&streamlet, &mut queue, 0);
            }
            match appended {
                Appended::Yes { first: true } => {
                    let due_us = now_us().saturating_add(self.rules.linger_us);
                    self.put(&streamlet, &mut queue, due_us);
                    return Ok(());
                }
                Appended::Yes { first: false } => return Ok(()),
                Appended::NoRoom => {
                    drop(queue);
                    let wait = wait.get_or_insert_with(|| BufferWait::begin(self));
                    wait.on(self)?;
                }
            }
        }
    }

    fn choose(
        &self,
        stream: &ProducerStream,
        record: &NewRecord<'_>,
    ) -> Result<Arc<ProducerStreamlet>, ProduceError> {
        let chosen = match (record.streamlet, record.key) {
            (Some(index), _) => usize::try_from(index).ok().and_then(|it| stream.get(it)),
            (None, Some(key)) => stream.of_key(key),
            (None, None) => stream.current(),
        };
        chosen.ok_or_else(|| ProduceError::NoStreamlet {
            stream: stream.name.to_string(),
            streamlet: record.streamlet.unwrap_or(0),
            count: stream.count(),
        })
    }

    /// Has the sender look at a queue at a moment, if it does not earlier.
    pub(super) fn put(&self, streamlet: &ProducerStreamlet, queue: &mut ChunkQueue, due_us: u64) {
        if queue.due_us.is_none_or(|before| due_us < before) {
            self.schedule.put(streamlet.place, due_us, queue.due_us);
            queue.due_us = Some(due_us);
        }
    }

    /// Closes all chunks that have records, so that they are sent.
    pub(super) fn close_chunks(&self) {
        for streamlet in self.all() {
            let mut queue = streamlet.lock();
            if queue.close() {
                self.put(&streamlet, &mut queue, 0);
            }
        }
    }

    /// Reports the outcome of chunks, and gives their bytes back. No queue is locked.
    pub(super) fn finish(&self, finished: Vec<FinishedChunk>) {
        if finished.is_empty() {
            return;
        }
        for FinishedChunk { chunk, outcome } in finished {
            self.finish_one(chunk, outcome);
        }
        *self.finished.lock() += 1;
        self.some_finished.notify_all();
    }

    fn finish_one(&self, mut chunk: ProducerChunk, outcome: Result<Delivered, ProduceError>) {
        let records = u64::from(chunk.records);
        let counts = &self.counts;
        match &outcome {
            Ok(_) => {
                counts.delivered_records.fetch_add(records, Ordering::Relaxed);
                counts.delivered_bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                counts.delivered_chunks.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                counts.failed_records.fetch_add(records, Ordering::Relaxed);
                let unheard = records.saturating_sub(chunk.dones.len() as u64);
                let mut lost = self.lost.lock();
                lost.records += unheard;
                if unheard > 0 {
                    lost.first.get_or_insert_with(|| error.clone());
                }
            }
        }
        self.budget.give(chunk.reserved);
        for (place, done) in std::mem::take(&mut chunk.dones) {
            let place = i64::from(place);
            let of_record = |it: &Delivered| Delivered {
                offset: it.offset.map(|offset| offset.saturating_add(place)),
                ..*it
            };
            done(outcome.as_ref().map(of_record).map_err(Clone::clone));
        }
        self.memory.give_back(chunk.into_bytes());
    }

    /// Waits until chunks are finished, up to `patience`.
    pub(super) fn wait_finished(&self, seen: u64, patience: Duration) {
        let finished = self.finished.lock();
        if *finished == seen {
            drop(self.some_finished.wait_timeout(finished, patience));
        }
    }

    /// A count of the rounds in which chunks were finished.
    pub(super) fn finished(&self) -> u64 {
        *self.finished.lock()
    }
}

/// Waiting for room in the buffer.
struct BufferWait {
    began_us: u64,
    /// The count of returned bytes before the last attempt.
    freed: Option<u64>,
}

impl BufferWait {
    fn begin(shared: &ProducerCore) -> Self {
        Self { began_us: shared.cluster.now_us(), freed: None }
    }

    /// Waits after an attempt that found no room; the first time, only for the next attempt.
    fn on(&mut self, shared: &ProducerCore) -> Result<(), ProduceError> {
        let freed = self.freed.replace(shared.budget.used().1);
        let Some(freed) = freed else { return Ok(()) };
        let patience_us = micros(shared.options.block_timeout);
        let waited_us = shared.cluster.now_us().saturating_sub(self.began_us);
        let Some(left_us) = patience_us.checked_sub(waited_us).filter(|it| *it > 0) else {
            return Err(ProduceError::Full {
                waited_ms: waited_us / 1000,
                buffer_bytes: shared.options.buffer_bytes,
            });
        };
        // If all room is in chunks that linger, nobody would give any back for a while.
        if !shared.all().iter().any(|it| it.lock().is_moving()) {
            shared.close_chunks();
        }
        shared.budget.wait(freed, Duration::from_micros(left_us));
        Ok(())
    }
}
