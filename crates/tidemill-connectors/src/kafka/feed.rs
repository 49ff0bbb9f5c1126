//! One consumer for all partitions of a topic, and a feed of records for each of them.
//!
//! ```text
//! the consumer's threads ─▶ its buffer, a share for each partition
//!          │ wakes                            │ take_of(partition)
//!          ▼                                  ▼
//!   PartitionWakers ─▶ waker ─▶ slice ─▶ KafkaFeed
//! ```
//!
//! Invariants: a partition that nobody reads from holds up no other; a slice that found nothing is
//! woken when something comes; the wakers do not keep the consumer alive, whose threads call them.

use super::cluster::consume_error;
use crate::record_source::{RecordFeed, no_longer_stored};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tidemill_client::{
    Client, Consumer,
    consumer::{Batch, ConsumeError, ConsumerOptions, Isolation, Obstacle, Start, Taken},
};
use tidemill_env::World;
use tidemill_flow::{ErrorKind, Read, SourceError, SourceWaker};
use tidemill_types::{Offset, SliceId, StreamletIx, job};
use tidemill_wire::records::Record;

/// Fetched bytes of all partitions that wait to be read.
const BUFFER_BYTES: usize = 64 << 20;
/// Most bytes of a partition in an answer, and the fewest.
const PARTITION_BYTES: (usize, usize) = (64 << 10, 1 << 20);
/// Most bytes of an answer.
const ANSWER_BYTES: usize = 8 << 20;
/// Delay until a slice with an end offset is polled again, in microseconds. The records before its end may
/// be hidden, so that nothing ever wakes it.
const LOOK_US: u64 = 20_000;

/// The consumer of a topic, for the feeds of its partitions.
pub(super) struct Hub {
    world: World,
    consumer: Consumer,
    topic: Arc<str>,
    partition_wakers: Arc<PartitionWakers>,
}

/// By partition, the waker of its slice.
struct PartitionWakers(Mutex<Vec<PartitionWaker>>);

#[derive(Clone, Default)]
struct PartitionWaker {
    waker: Option<SourceWaker>,
    /// The slice waits for its waker.
    waiting: bool,
    /// True if records have come since the last take.
    has_data: bool,
}

impl PartitionWakers {
    fn lock(&self) -> MutexGuard<'_, Vec<PartitionWaker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, partitions: impl Iterator<Item = i32>) {
        let mut wakers: Vec<SourceWaker> = Vec::new();
        {
            let mut partition_wakers = self.lock();
            for partition in partitions {
                let Some(partition_waker) =
                    usize::try_from(partition).ok().and_then(|it| partition_wakers.get_mut(it))
                else {
                    continue;
                };
                partition_waker.has_data = true;
                if std::mem::take(&mut partition_waker.waiting) {
                    wakers.extend(partition_waker.waker.clone());
                }
            }
        }
        wakers.iter().for_each(|waker| waker());
    }
}

impl Hub {
    /// Begins to fetch records of each partition from its start.
    ///
    /// # Errors
    /// No broker answers, or the topic is not there.
    pub(super) fn new(
        world: &World,
        client: &Client,
        (topic, isolation): (&str, job::Isolation),
        starts: impl ExactSizeIterator<Item = i64>,
    ) -> Result<Arc<Self>, ConsumeError> {
        let count = starts.len();
        let (least, most) = PARTITION_BYTES;
        let options = ConsumerOptions {
            isolation: seen(isolation),
            apart: true,
            buffer_bytes: BUFFER_BYTES,
            streamlet_bytes: (BUFFER_BYTES / count.max(1) / 2).clamp(least, most),
            fetch_bytes: ANSWER_BYTES,
            ..ConsumerOptions::default()
        };
        let consumer = client.consumer(options);
        let partition_wakers =
            Arc::new(PartitionWakers(Mutex::new(vec![PartitionWaker::default(); count])));
        let woken_by = Arc::clone(&partition_wakers);
        consumer.on_arrival(Arc::new(move |arrived| woken_by.wake(arrived.iter().map(|it| it.1))));
        let starts: BTreeMap<i32, Start> = (0..).zip(starts.map(Start::Offset)).collect();
        consumer.assign(topic, &starts)?;
        Ok(Arc::new(Self { world: world.clone(), consumer, topic: topic.into(), partition_wakers }))
    }

    /// Begins to fetch those of partitions that were added, each from its start.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub(super) fn add(&self, starts: &BTreeMap<SliceId, i64>) -> Result<(), ConsumeError> {
        let count = starts.keys().next_back().map_or(0, |last| last.index() + 1);
        let start =
            |(slice, offset): (&SliceId, &i64)| (slice.0.cast_signed(), Start::Offset(*offset));
        let starts: BTreeMap<i32, Start> = starts.iter().map(start).collect();
        let mut partition_wakers = self.partition_wakers.lock();
        if partition_wakers.len() < count {
            partition_wakers.resize_with(count, PartitionWaker::default);
        }
        drop(partition_wakers);
        self.consumer.assign(&self.topic, &starts)
    }

    /// The obstacle to fetching, if there is one.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        self.consumer.obstacle()
    }
}

/// Whose records are seen, as the client says it.
pub(super) fn seen(isolation: job::Isolation) -> Isolation {
    match isolation {
        job::Isolation::Committed => Isolation::Committed,
        job::Isolation::Uncommitted => Isolation::Uncommitted,
    }
}

/// Records of a partition.
pub(super) struct KafkaFeed {
    hub: Arc<Hub>,
    partition: SliceId,
    /// The next record's offset, or one before it.
    offset: i64,
    /// The first offset that the partition had when the job was planned.
    kept_from: i64,
    /// Nothing at this offset or behind it is asked for.
    below: i64,
    batch: Option<Batch>,
    /// To inflate the next batch in.
    memory: Vec<u8>,
}

impl KafkaFeed {
    /// Records of a partition from `offset` on; it has kept those from `kept_from` on.
    pub(super) fn new(hub: &Arc<Hub>, partition: SliceId, offset: i64, kept_from: i64) -> Self {
        let (hub, memory) = (Arc::clone(hub), Vec::new());
        Self { hub, partition, offset, kept_from, below: i64::MAX, batch: None, memory }
    }

    fn partition_waker<T>(&self, with: impl FnOnce(&mut PartitionWaker) -> T) -> Option<T> {
        self.hub.partition_wakers.lock().get_mut(self.partition.index()).map(with)
    }
}

impl RecordFeed for KafkaFeed {
    fn offset(&self) -> i64 {
        self.offset
    }

    /// The broker reports records deleted since the job was planned, and a lost end, when the offset is
    /// fetched: an error then.
    fn seek(&mut self, offset: i64, is_end: bool) -> Result<(), SourceError> {
        if !is_end && offset < self.kept_from {
            return Err(no_longer_stored(offset, self.kept_from));
        }
        if !self.hub.consumer.seek(&self.hub.topic, StreamletIx(self.partition.0), Offset(offset)) {
            return Err(SourceError::new("it is not read"));
        }
        self.offset = offset;
        Ok(())
    }

    fn fill(&mut self, _: usize, below: i64) -> Result<bool, SourceError> {
        self.below = below;
        if self.offset >= below {
            return Ok(false);
        }
        if self.batch.is_some() {
            return Ok(true);
        }
        // Reset before the take: records that come after it set it again.
        self.partition_waker(|partition_waker| partition_waker.has_data = false);
        let partition = self.partition.0.cast_signed();
        let memory = std::mem::take(&mut self.memory);
        let taken = self.hub.consumer.take_of(&self.hub.topic, partition, memory);
        match taken.map_err(consume_error)? {
            Taken::Batch(batch) => self.batch = Some(batch),
            // All up to there is read or hidden. Where reading has no end that makes no difference,
            // and a position stays behind a record.
            Taken::Nothing { next: Some(next) } if below < i64::MAX => {
                self.offset = self.offset.max(next.min(below));
            }
            Taken::Nothing { .. } => {}
        }
        Ok(self.batch.is_some())
    }

    fn each(
        &mut self,
        max: usize,
        below: i64,
        take: &mut dyn FnMut(i64, &Record<'_>),
    ) -> Result<usize, SourceError> {
        let Some(batch) = &mut self.batch else { return Ok(0) };
        let (mut offset, mut given) = (self.offset, 0);
        let outcome = batch.each(max, below, |record| {
            (offset, given) = (record.offset.saturating_add(1), given + 1);
            let record = Record {
                offset_delta: 0,
                timestamp_ms: record.timestamp_ms,
                key: record.key,
                value: record.value,
                headers: record.headers,
            };
            take(offset - 1, &record);
        });
        let more = outcome.map_err(|error| {
            SourceError::of_kind(ErrorKind::Corrupt, error.to_string()).with_source(error)
        })?;
        if !more {
            offset = offset.max(batch.next_offset().min(below));
            self.memory = self.batch.take().map(Batch::into_memory).unwrap_or_default();
        } else if given < max {
            // The next record is behind the end.
            offset = offset.max(below);
        }
        self.offset = offset;
        // What is hidden does not come here.
        Ok(0)
    }

    fn wake_by(&mut self, waker: SourceWaker) {
        self.partition_waker(|partition_waker| {
            *partition_waker = PartitionWaker { waker: Some(waker), ..PartitionWaker::default() }
        });
    }

    fn wait(&mut self) -> Read {
        let woken = self.partition_waker(|partition_waker| {
            partition_waker.waiting = partition_waker.waker.is_some() && !partition_waker.has_data;
            partition_waker.waiting
        });
        let until = match (woken, self.below) {
            (Some(true), i64::MAX) => Some(u64::MAX),
            (Some(true), _) => Some(self.hub.world.clock.monotonic_micros() + LOOK_US),
            _ => None,
        };
        Read::Idle { until }
    }
}
