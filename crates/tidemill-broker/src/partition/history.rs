//! Producers and transactions of a partition, as its chunks tell of them.
//!
//! ```text
//! chunk of a client ─▶ check ─▶ Append ─ appended ─▶ took        heads, read again ─▶ replay
//!                        └────▶ Repeated                         snapshot ─▶ restore
//! marker ─────────────────────── appended ─▶ ended
//! ```
//!
//! The same chunks make the same history, whether they are taken one by one or replayed after a
//! restart; a test compares the two. Plain synchronous functions: no clock, no disk, no lock.
//!
//! Invariants: a transaction is open in at most one place a producer; each open one is known to
//! both halves.

use super::open_transactions::{AbortedRange, OpenTransactions};
use crate::transaction::state::ProducerIdentity;
use crate::{
    producer::state::{
        Producer, Producers, SequenceDecision, SequenceError, Sequenced, TakenChunk, signed,
    },
    refusal::RequestRefusal,
};
use tidemill_types::{Offset, ProducerId};
use tidemill_wire::{
    chunk::ChunkHead,
    kafka::ErrorCode,
    producers::{ProducerRecord, TakenRecord},
    records::read_control,
};

#[cfg(test)]
mod tests;

/// The decision about a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkStep {
    /// It is here already.
    Repeated(TakenChunk),
    /// Append it. If it begins a transaction in this partition, its coordinator must know.
    Append { begins: bool },
}

/// Why a chunk is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HistoryError {
    /// Its place among the chunks of its producer.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// It is of no transaction, and its producer has one open here.
    #[error("producer {producer_id} has a transaction open, and the chunk is not of it")]
    NotTransactional {
        /// Whose.
        producer_id: i64,
    },
}

/// Producers and transactions of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    producers: Producers,
    stable: OpenTransactions,
}

impl History {
    pub(crate) fn producers(&self) -> &Producers {
        &self.producers
    }

    pub(crate) fn stable(&self) -> &OpenTransactions {
        &self.stable
    }

    /// Decides about a client's chunk. See [`Producers::check`] for `from_start`.
    pub(crate) fn check(
        &self,
        chunk: &Sequenced,
        from_start: bool,
    ) -> Result<ChunkStep, HistoryError> {
        if let SequenceDecision::Repeated(taken) = self.producers.check(chunk, from_start)? {
            return Ok(ChunkStep::Repeated(taken));
        }
        let producer_id = chunk.producer_id;
        let producer = self.producers.get(producer_id);
        let is_open = producer.is_some_and(|it| it.open.is_some());
        if is_open && !chunk.transactional {
            return Err(HistoryError::NotTransactional { producer_id });
        }
        // A chunk of a newer epoch is no part of what an older one began.
        let of_it = is_open && producer.is_some_and(|it| it.epoch == chunk.epoch);
        Ok(ChunkStep::Append { begins: chunk.transactional && !of_it })
    }

    /// A chunk was appended at these offsets, first and last.
    pub(crate) fn took(&mut self, chunk: &Sequenced, offsets: (i64, i64), now_ms: u64) {
        let producer = self.producers.take(chunk, offsets, now_ms);
        if chunk.transactional && producer.open.is_none() {
            producer.open = Some(offsets.0);
            self.stable.begin(ProducerId(chunk.producer_id), Offset(offsets.0));
        }
    }

    /// A marker was appended: the producer's transaction ended, if it had one open.
    pub(crate) fn ended(
        &mut self,
        ended: ProducerIdentity,
        commit: bool,
        marker: Offset,
        now_ms: u64,
    ) {
        let producer = self.producers.end(ended, now_ms);
        if let Some(first) = producer.open.take() {
            self.stable.end(first, marker.0, commit);
        }
    }

    /// True if a marker would end something: a transaction, or an earlier epoch.
    pub(crate) fn needs_marker(&self, ended: ProducerIdentity) -> bool {
        let producer = self.producers.get(ended.id);
        producer.is_some_and(|it| it.open.is_some() || it.epoch < ended.epoch)
    }

    /// All below `watermark` is visible.
    pub(crate) fn pass(&mut self, watermark: i64) {
        self.stable.pass(watermark);
    }

    /// Forgets producers that were not heard of since `since_ms`, and the idlest of more than
    /// `max`.
    pub(crate) fn expire(&mut self, since_ms: i64, max: usize) {
        self.producers.expire(since_ms);
        self.producers.bound(max);
    }

    /// As [`Self::expire`], for the count alone.
    pub(crate) fn bound(&mut self, max: usize) {
        self.producers.bound(max);
    }

    /// Forgets transactions that were aborted below the given start. Returns the offsets of their
    /// markers.
    pub(crate) fn prune(&mut self, start: i64) -> Vec<i64> {
        self.stable.prune(start)
    }

    /// A chunk that is in the log: it was checked when it was appended.
    pub(crate) fn replay(&mut self, chunk: &[u8], now_ms: u64) {
        let Ok(head) = ChunkHead::read(chunk) else { return };
        if head.is_control() {
            if let Some(marker) = read_control(chunk) {
                let (id, epoch) = (marker.producer_id, marker.producer_epoch);
                let ended = ProducerIdentity { id, epoch };
                self.ended(ended, marker.is_commit, Offset(head.base_offset), now_ms);
            }
        } else if let Some(sequenced) = Sequenced::of(&head) {
            self.took(&sequenced, (head.base_offset, head.last_offset()), now_ms);
        }
    }

    /// The producers, as they are stored.
    pub(crate) fn records(&self, now_ms: u64) -> Vec<ProducerRecord> {
        let record = |(id, it): (i64, &Producer)| ProducerRecord {
            id,
            epoch: it.epoch,
            timestamp_ms: it.timestamp_ms,
            idle_ms: u64::try_from(signed(now_ms).saturating_sub(it.seen_ms)).unwrap_or(0),
            open: it.open,
            taken: it.taken.iter().map(|it| TakenRecord::from(*it)).collect(),
        };
        self.producers.list().into_iter().map(record).collect()
    }

    /// Those of them of which a transaction has ended, as they are stored.
    pub(crate) fn ended_ids(&self) -> Vec<i64> {
        let all = self.producers.list().into_iter();
        all.filter(|(_, it)| it.has_ended).map(|(id, _)| id).collect()
    }

    /// A history as it was stored.
    pub(crate) fn restore(
        records: Vec<ProducerRecord>,
        ended: &[i64],
        aborted: Vec<AbortedRange>,
        now_ms: u64,
    ) -> Self {
        let mut history = Self::default();
        history.stable.restore(aborted);
        for record in records {
            if let Some(first) = record.open {
                history.stable.begin(ProducerId(record.id), Offset(first));
            }
            let producer = Producer {
                epoch: record.epoch,
                taken: record.taken.into_iter().map(TakenChunk::from).collect(),
                timestamp_ms: record.timestamp_ms,
                seen_ms: signed(now_ms).saturating_sub(signed(record.idle_ms)),
                open: record.open,
                has_ended: ended.binary_search(&record.id).is_ok(),
            };
            history.producers.put(record.id, producer);
        }
        history
    }
}

impl From<TakenChunk> for TakenRecord {
    fn from(taken: TakenChunk) -> Self {
        let TakenChunk { first, last, base_offset, last_offset } = taken;
        Self { first, last, base_offset, last_offset }
    }
}

impl From<TakenRecord> for TakenChunk {
    fn from(record: TakenRecord) -> Self {
        let TakenRecord { first, last, base_offset, last_offset } = record;
        Self { first, last, base_offset, last_offset }
    }
}

impl From<HistoryError> for RequestRefusal {
    fn from(error: HistoryError) -> Self {
        let code = match &error {
            HistoryError::Sequence(SequenceError::OldEpoch { .. }) => {
                ErrorCode::InvalidProducerEpoch
            }
            HistoryError::Sequence(SequenceError::OutOfOrder { .. }) => {
                ErrorCode::OutOfOrderSequenceNumber
            }
            HistoryError::NotTransactional { .. } => ErrorCode::InvalidTxnState,
        };
        Self::with(code, &error)
    }
}
