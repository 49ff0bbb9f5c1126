//! The producers of a partition: the epoch and the last chunks of each (KIP-98).
//!
//! ```text
//! producer 17 ─ epoch 3 ─ [0..4] [5..5] [6..9] [10..10] [11..30]     sequence numbers, newest last
//!                          └ a chunk with exactly these is a repetition: it gets the old offsets
//! ```
//!
//! A sequence number counts the records of one producer id and epoch in one partition; after
//! 2³¹ − 1 comes 0. A producer has at most five chunks in flight, so five are remembered.
//!
//! Plain synchronous functions: moments are arguments, in milliseconds of a clock that only moves
//! forward. Nothing here knows whether a chunk is durable, or of transactions.
//!
//! Invariants: a chunk is taken if its first number follows the last one taken, if it is the
//! first of its epoch and has number 0, or if nothing is known of its producer; an epoch never
//! goes back.

use crate::transaction::state::ProducerIdentity;
use hashbrown::HashMap;
use tidemill_wire::chunk::ChunkHead;

#[cfg(test)]
mod tests;

/// Chunks of a producer that are remembered: as many as clients have in flight at most.
pub(crate) const WINDOW: usize = 5;

/// A chunk of an idempotent producer, as its head says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequenced {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    /// Sequence number of the first record.
    pub(crate) first: i32,
    /// Sequence number of the last record.
    pub(crate) last: i32,
    /// Largest timestamp, in milliseconds since 1970, as the producer says.
    pub(crate) timestamp_ms: i64,
    pub(crate) transactional: bool,
}

/// A chunk that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenChunk {
    /// Sequence numbers of the first and the last record.
    pub(crate) first: i32,
    pub(crate) last: i32,
    /// Offsets of the first and the last record.
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
}

/// One producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) epoch: i16,
    /// The last chunks of this epoch, oldest first; [`WINDOW`] at most.
    pub(crate) taken: Vec<TakenChunk>,
    /// Of its last chunk, as the producer says, in milliseconds since 1970; -1 if there is none.
    pub(crate) timestamp_ms: i64,
    /// When it was last heard of, by the monotonic clock; below 0 if that was long before the node
    /// started.
    pub(crate) seen_ms: i64,
    /// The offset at which its open transaction begins.
    pub(crate) open: Option<i64>,
    /// A transaction of it has ended here.
    pub(crate) has_ended: bool,
}

/// The decision about a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceDecision {
    /// It is new: append it.
    Append,
    /// It is here already.
    Repeated(TakenChunk),
}

/// Why a chunk is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SequenceError {
    /// A newer instance of the producer has been here.
    #[error("epoch {epoch} of producer {producer_id} is over: it is at {current}")]
    OldEpoch {
        /// Whose.
        producer_id: i64,
        /// The chunk's.
        epoch: i16,
        /// The newest that was here.
        current: i16,
    },
    /// A chunk before this one is missing, or this one is too old to be remembered.
    #[error("producer {producer_id} sends sequence number {found}, and {expected} is next")]
    OutOfOrder {
        /// Whose.
        producer_id: i64,
        /// The number that would be taken.
        expected: i32,
        /// The chunk's.
        found: i32,
    },
}

/// The producers of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producers {
    all: HashMap<i64, Producer>,
}

/// The number that is `count` after another; 0 comes after the last.
pub(crate) fn sequence_after(number: i32, count: i32) -> i32 {
    number.wrapping_add(count) & i32::MAX
}

/// A time of the monotonic clock, which begins at 0 with each start. Times before the start are
/// negative.
pub(crate) fn signed(monotonic_ms: u64) -> i64 {
    i64::try_from(monotonic_ms).unwrap_or(i64::MAX)
}

impl Sequenced {
    /// None: the chunk is of no idempotent producer.
    pub(crate) fn of(head: &ChunkHead) -> Option<Self> {
        (head.producer_id >= 0 && head.base_sequence >= 0).then(|| Self {
            producer_id: head.producer_id,
            epoch: head.producer_epoch,
            first: head.base_sequence,
            last: sequence_after(head.base_sequence, head.last_offset_delta),
            timestamp_ms: head.max_timestamp_ms,
            transactional: head.is_transactional(),
        })
    }

    /// Its producer.
    pub(crate) fn producer(&self) -> ProducerIdentity {
        ProducerIdentity { id: self.producer_id, epoch: self.epoch }
    }
}

impl Producer {
    fn new(epoch: i16, now_ms: u64) -> Self {
        Self {
            epoch,
            taken: Vec::new(),
            timestamp_ms: -1,
            seen_ms: signed(now_ms),
            open: None,
            has_ended: false,
        }
    }

    /// The last sequence number of its epoch; -1 if there is none.
    pub(crate) fn last_sequence(&self) -> i32 {
        self.taken.last().map_or(-1, |it| it.last)
    }

    fn begin_epoch(&mut self, epoch: i16) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.taken.clear();
        }
    }

    /// Decides about a chunk of this producer.
    fn check(&self, chunk: &Sequenced) -> Result<SequenceDecision, SequenceError> {
        let Sequenced { producer_id, epoch, first, last, .. } = *chunk;
        if epoch < self.epoch {
            return Err(SequenceError::OldEpoch { producer_id, epoch, current: self.epoch });
        }
        let of_epoch = if epoch == self.epoch { self.taken.as_slice() } else { &[] };
        let same = of_epoch.iter().rev().find(|it| it.first == first && it.last == last);
        if let Some(taken) = same {
            return Ok(SequenceDecision::Repeated(*taken));
        }
        let expected = of_epoch.last().map_or(0, |it| sequence_after(it.last, 1));
        if first == expected {
            Ok(SequenceDecision::Append)
        } else {
            Err(SequenceError::OutOfOrder { producer_id, expected, found: first })
        }
    }
}

impl Producers {
    /// Decides about a chunk. An unknown producer may begin with any sequence number, as it may
    /// have been forgotten; with `from_start` it must begin at 0, as producers do whose epoch ends
    /// with each transaction (KIP-890).
    pub(crate) fn check(
        &self,
        chunk: &Sequenced,
        from_start: bool,
    ) -> Result<SequenceDecision, SequenceError> {
        match self.all.get(&chunk.producer_id) {
            Some(producer) => producer.check(chunk),
            None if from_start && chunk.first != 0 => Err(SequenceError::OutOfOrder {
                producer_id: chunk.producer_id,
                expected: 0,
                found: chunk.first,
            }),
            None => Ok(SequenceDecision::Append),
        }
    }

    /// Takes over a chunk that was appended.
    pub(crate) fn take(
        &mut self,
        chunk: &Sequenced,
        offsets: (i64, i64),
        now_ms: u64,
    ) -> &mut Producer {
        let producer = self.entry(chunk.producer(), now_ms);
        if producer.taken.len() >= WINDOW {
            producer.taken.remove(0);
        }
        producer.taken.push(TakenChunk {
            first: chunk.first,
            last: chunk.last,
            base_offset: offsets.0,
            last_offset: offsets.1,
        });
        producer.timestamp_ms = chunk.timestamp_ms;
        producer
    }

    /// A transaction was ended with this epoch: chunks of earlier ones are refused from now on.
    pub(crate) fn end(&mut self, ended: ProducerIdentity, now_ms: u64) -> &mut Producer {
        let producer = self.entry(ended, now_ms);
        producer.has_ended = true;
        producer
    }

    fn entry(&mut self, asked: ProducerIdentity, now_ms: u64) -> &mut Producer {
        let ProducerIdentity { id, epoch } = asked;
        let producer = self.all.entry(id).or_insert_with(|| Producer::new(epoch, now_ms));
        producer.begin_epoch(epoch);
        producer.seen_ms = signed(now_ms);
        producer
    }

    pub(crate) fn get(&self, producer_id: i64) -> Option<&Producer> {
        self.all.get(&producer_id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Puts a producer there, as it was.
    pub(crate) fn put(&mut self, producer_id: i64, producer: Producer) {
        self.all.insert(producer_id, producer);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, by id.
    pub(crate) fn list(&self) -> Vec<(i64, &Producer)> {
        let mut all: Vec<_> = self.all.iter().map(|(id, it)| (*id, it)).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// Forgets producers that were not heard of since `since_ms`, unless they have a transaction
    /// open.
    pub(crate) fn expire(&mut self, since_ms: i64) {
        self.all.retain(|_, it| it.open.is_some() || it.seen_ms >= since_ms);
    }

    /// If there are more than `max`, forgets those that were not heard of for longest, and some
    /// more, so that this is seldom needed. Those with an open transaction stay.
    pub(crate) fn bound(&mut self, max: usize) {
        if self.all.len() <= max {
            return;
        }
        let idle = self.all.iter().filter(|(_, it)| it.open.is_none());
        let mut idle: Vec<(i64, i64)> = idle.map(|(id, it)| (it.seen_ms, *id)).collect();
        idle.sort_unstable();
        let many = self.all.len() - max + max / 16;
        for (_, id) in idle.into_iter().take(many) {
            self.all.remove(&id);
        }
    }
}
