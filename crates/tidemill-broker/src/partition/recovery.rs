//! The history of a partition after a restart: a snapshot, and the chunks since.
//!
//! ```text
//! store: snapshot of all below 5000 ─┐
//! log:   ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈ 5000 ├▶ replay ─▶ 5821, the end
//! ```
//!
//! Nothing is read before somebody needs it: the first chunk of a producer, the first reader of
//! committed records. A snapshot is believed if the log has the chunk that it names as its last; a
//! log that was cut shorter by a power failure, and has grown since, does not.
//!
//! The log takes precedence over the snapshot. The coordinator decides about open transactions that
//! it does not know; only a log that lost acknowledged data can have such.

use super::{Partition, history::History, open_transactions::AbortedRange};
use crate::store::{MetadataStore, StoreBatch, StoreError, StoreTable};
use std::{ops::ControlFlow, sync::atomic::Ordering};
use tidemill_log::{ReadCursor, ReadError, ReadLimit, Streamlet};
use tidemill_wire::{
    chunk::ChunkHead,
    producers::{AbortedRecord, ProducersSnapshot},
    transactions::TransactionPartition,
};

/// Bytes of the log read at once.
const READ_BYTES: usize = 1 << 20;
/// Entries deleted in one batch.
const DELETED_TOGETHER: usize = 100_000;

/// Why the history of a partition is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The broker's own metadata.
    #[error(transparent)]
    MetadataStore(#[from] StoreError),
    /// The log.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The kinds of a partition's entries in the store.
const SNAPSHOT: u8 = 0;
const ABORTED: u8 = 1;

/// The batches that remove all entries of a stream's partitions from the store, those never opened
/// included.
pub(crate) fn forget_stored(
    store: &MetadataStore,
    stream: &[u8; 16],
) -> Result<Vec<StoreBatch>, StoreError> {
    let (mut batches, mut batch, mut count) = (Vec::new(), StoreBatch::default(), 0);
    // The keys begin with the stream's id.
    store.scan(StoreTable::Producers, stream, |key, _| {
        if count == DELETED_TOGETHER {
            batches.push(std::mem::take(&mut batch));
            count = 0;
        }
        batch.delete(StoreTable::Producers, key);
        count += 1;
        ControlFlow::Continue(())
    })?;
    batches.push(batch);
    Ok(batches)
}

fn key(place: &TransactionPartition, kind: u8) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    key.extend_from_slice(&place.stream);
    key.extend_from_slice(&place.index.to_be_bytes());
    key.push(kind);
    key
}

/// Under which a partition's snapshot is stored.
pub(super) fn snapshot_key(place: &TransactionPartition) -> Vec<u8> {
    key(place, SNAPSHOT)
}

/// Under which an aborted transaction is stored.
pub(super) fn aborted_key(place: &TransactionPartition, marker: i64) -> Vec<u8> {
    let mut key = key(place, ABORTED);
    // Offsets are not negative, so their bytes have their order.
    key.extend_from_slice(&marker.to_be_bytes());
    key
}

/// A chunk of the log, and the offset after it; none above the high watermark.
pub(super) fn chunk_at(streamlet: &Streamlet, offset: i64) -> Result<Option<ChunkHead>, ReadError> {
    let limit = ReadLimit { max_bytes: 0, at_least_one: true, below: i64::MAX };
    let read = streamlet.read(&mut ReadCursor::default(), offset, limit)?;
    Ok(read.chunks.first().and_then(|chunk| ChunkHead::read(chunk).ok()))
}

impl Partition {
    /// Makes sure that the history is known.
    pub(super) fn load(
        &self,
        ledger: &mut super::producer_ledger::ProducerLedger,
    ) -> Result<(), LoadError> {
        if ledger.history.is_some() {
            return Ok(());
        }
        let now_ms = self.now_ms();
        let snapshot = self.stored_snapshot()?;
        let (stored, obsolete) = self.stored_aborted(snapshot.as_ref().map(|it| it.upto))?;
        let (upto, mut history) = match snapshot {
            Some(snapshot) => {
                let ProducersSnapshot { upto, producers, ended, .. } = snapshot;
                (upto, History::restore(producers, &ended, stored, now_ms))
            }
            None => (0, History::default()),
        };
        ledger.stored_upto = upto;
        self.kept_upto.fetch_max(upto, Ordering::SeqCst);
        ledger.obsolete = obsolete;
        self.replay(&mut history, upto, now_ms)?;
        history.pass(self.streamlet.high_watermark());
        ledger.history = Some(history);
        Ok(())
    }

    /// The snapshot in the store, if the log bears it out.
    fn stored_snapshot(&self) -> Result<Option<ProducersSnapshot>, LoadError> {
        let stored = self.shared.store.get(StoreTable::Producers, &snapshot_key(&self.place))?;
        let Some(stored) = stored else { return Ok(None) };
        let topic = self.streamlet.stream_name();
        let partition = self.streamlet.index();
        let Ok(snapshot) = ProducersSnapshot::decode(&stored) else {
            tracing::warn!(topic, partition, "a snapshot of producers that is not readable");
            return Ok(None);
        };
        if snapshot.upto > self.streamlet.high_watermark() {
            tracing::warn!(topic, partition, "the log ends before a snapshot of its producers");
            return Ok(None);
        }
        if snapshot.last_base >= self.streamlet.start_offset() {
            let borne_out = match chunk_at(&self.streamlet, snapshot.last_base) {
                Ok(head) => head.is_some_and(|it| {
                    (it.base_offset, it.crc) == (snapshot.last_base, snapshot.last_crc)
                }),
                // Retention came in between.
                Err(ReadError::OutOfRange { .. }) => true,
                Err(ReadError::Disk { path, error }) => {
                    return Err(ReadError::Disk { path, error }.into());
                }
                // What is damaged says nothing against it.
                Err(ReadError::Corrupt { .. } | ReadError::Missing { .. }) => true,
            };
            if !borne_out {
                tracing::warn!(topic, partition, "the log is not that of a snapshot of producers");
                return Ok(None);
            }
        }
        Ok(Some(snapshot))
    }

    /// Aborted transactions in the store that belong to a snapshot of all below `upto`, and the
    /// markers of those that do not, or that ended before the log starts.
    fn stored_aborted(
        &self,
        upto: Option<i64>,
    ) -> Result<(Vec<AbortedRange>, Vec<i64>), LoadError> {
        let prefix = key(&self.place, ABORTED);
        let start = self.streamlet.start_offset();
        let (mut found, mut obsolete) = (Vec::new(), Vec::new());
        self.shared.store.scan(StoreTable::Producers, &prefix, |key, value| {
            let marker = key[prefix.len()..].first_chunk::<8>().map(|it| i64::from_be_bytes(*it));
            match (marker, AbortedRecord::decode(value)) {
                (Some(marker), Ok(it)) if marker >= start && upto.is_some_and(|to| marker < to) => {
                    let AbortedRecord { producer_id, first, stable } = it;
                    found.push(AbortedRange { producer_id, first, marker, stable });
                }
                (Some(marker), _) => obsolete.push(marker),
                (None, _) => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok((found, obsolete))
    }

    /// Reads the heads of the chunks from `from` on.
    fn replay(&self, history: &mut History, from: i64, now_ms: u64) -> Result<(), LoadError> {
        let mut cursor = ReadCursor::default();
        let mut next = from.max(self.streamlet.start_offset());
        loop {
            let limit = ReadLimit { max_bytes: READ_BYTES, ..ReadLimit::default() };
            let skip = match self.streamlet.read(&mut cursor, next, limit) {
                Ok(read) if read.chunks.is_empty() => return Ok(()),
                Ok(read) => {
                    for chunk in &read.chunks {
                        history.replay(chunk, now_ms);
                        self.advance(chunk.len());
                    }
                    next = read.next_offset;
                    continue;
                }
                Err(ReadError::OutOfRange { start, .. }) if start > next => start,
                // Whoever reads there is told. What follows still counts.
                Err(ReadError::Corrupt { next: Some(after), .. })
                | Err(ReadError::Missing { next: after, .. })
                    if after > next =>
                {
                    after
                }
                Err(ReadError::Corrupt { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let topic = self.streamlet.stream_name();
            tracing::warn!(topic, from = next, to = skip, "producers of these offsets not known");
            next = skip;
        }
    }
}
