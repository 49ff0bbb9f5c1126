//! Snapshots of a partition's history, so that a restart reads only a little of the log.
//!
//! ```text
//! advance ─▶ far enough ─┬▶ image of all below the end ─▶ durable up to there ─▶ store
//! records are removed ───┘
//! ```
//!
//! The state of producers is stored before a client deletes their records. When retention removes
//! records, which are older, it is stored soon afterwards.
//!
//! An image is stored once all of its records are visible, so no snapshot knows a chunk that a
//! crash takes back. Aborted transactions are stored beside the snapshots, each once.

use super::{
    Partition,
    open_transactions::AbortedRange,
    producer_ledger::LedgerGuard,
    recovery::{LoadError, aborted_key, chunk_at, snapshot_key},
};
use crate::{
    producer::state::signed,
    store::{StoreBatch, StoreTable},
};
use std::sync::{Arc, atomic::Ordering};
use tidemill_wire::producers::{
    AbortedRecord, PRODUCERS_VERSION, ProducerRecord, ProducersSnapshot,
};

/// A snapshot is taken after this many bytes of chunks, or this many chunks.
const FAR_BYTES: u64 = 32 << 20;
const FAR_CHUNKS: u64 = 10_000;

/// A history as of an offset.
pub(super) struct HistoryImage {
    upto: i64,
    producers: Vec<ProducerRecord>,
    ended: Vec<i64>,
    /// Those that the store does not have.
    aborted: Vec<AbortedRange>,
}

/// An image that may be stored.
pub(crate) struct Snapshot {
    partition: Arc<Partition>,
    upto: i64,
    /// The batch for the store.
    pub(crate) batch: StoreBatch,
    obsolete: usize,
}

impl Partition {
    /// A chunk was appended, or read again.
    pub(super) fn advance(&self, bytes: usize) {
        self.far_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.far_chunks.fetch_add(1, Ordering::Relaxed);
    }

    fn is_far(&self) -> bool {
        self.far_bytes.load(Ordering::Relaxed) >= FAR_BYTES
            || self.far_chunks.load(Ordering::Relaxed) >= FAR_CHUNKS
    }

    /// The snapshot that is due now, if any: after many chunks, when the log no longer holds
    /// records that the store has not covered, or when the node stops.
    pub(crate) fn snapshot(self: &Arc<Self>, stops: bool) -> Option<Snapshot> {
        if !stops && self.storing.load(Ordering::SeqCst) {
            return None;
        }
        let watermark = self.streamlet.high_watermark();
        let start = self.streamlet.start_offset();
        if stops && self.far_chunks.load(Ordering::Relaxed) > 0 || self.is_far() {
            // Without its history it is made known first, but for a node that stops.
            let mut opened = if stops { Some(self.hold()) } else { self.open().ok() }?;
            self.take_image(&mut opened)?;
        } else if !self.is_kept(start) && start > self.imaged_start.load(Ordering::Relaxed) {
            // Once for each start: a store that fails is not asked over and over.
            self.imaged_start.store(start, Ordering::Relaxed);
            self.take_image(&mut self.hold())?;
        } else if !self.has_image.load(Ordering::Relaxed) {
            return None;
        }
        let mut opened = self.hold();
        let ledger = opened.ledger();
        let ready = ledger.image.take_if(|it| it.upto <= watermark);
        self.has_image.store(ledger.image.is_some(), Ordering::Relaxed);
        let (image, obsolete) = (ready?, ledger.obsolete.clone());
        drop(opened);
        self.batch(image, &obsolete)
    }

    /// Takes an image of the history, if that is known.
    fn take_image(&self, opened: &mut LedgerGuard<'_>) -> Option<()> {
        let upto = self.streamlet.end_offset();
        let ledger = opened.ledger();
        let history = ledger.history.as_ref()?;
        ledger.image = Some(HistoryImage {
            upto,
            producers: history.records(self.now_ms()),
            ended: history.ended_ids(),
            aborted: history.stable().aborted_since(ledger.stored_upto).to_vec(),
        });
        self.has_image.store(true, Ordering::Relaxed);
        self.far_bytes.store(0, Ordering::Relaxed);
        self.far_chunks.store(0, Ordering::Relaxed);
        Some(())
    }

    /// True if the store covers all known records below an offset.
    pub(crate) fn is_kept(&self, before: i64) -> bool {
        before <= self.kept_upto.load(Ordering::SeqCst)
    }

    /// Prepares the deletion of records below an offset: the state of their producers must be
    /// stored first. True if it is not stored yet; the next [`Self::snapshot`] has it. Reads the
    /// log if need be.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(crate) fn keep_below(&self, before: i64) -> Result<bool, LoadError> {
        if before > self.streamlet.high_watermark() || self.is_kept(before) {
            return Ok(false);
        }
        let mut opened = self.open()?;
        if self.is_kept(before) {
            return Ok(false);
        }
        if opened.history().producers().is_empty() {
            // Nor is there anything of them in the log.
            self.kept_upto.fetch_max(before, Ordering::SeqCst);
            return Ok(false);
        }
        self.take_image(&mut opened);
        Ok(true)
    }

    fn batch(self: &Arc<Self>, image: HistoryImage, obsolete: &[i64]) -> Option<Snapshot> {
        let mut batch = StoreBatch::default();
        let last = image.upto - 1;
        let head = if last >= self.streamlet.start_offset() {
            // If it cannot be read there is no snapshot this time.
            Some(chunk_at(&self.streamlet, last).ok()??)
        } else {
            None
        };
        let snapshot = ProducersSnapshot {
            version: PRODUCERS_VERSION,
            upto: image.upto,
            last_base: head.as_ref().map_or(-1, |it| it.base_offset),
            last_crc: head.as_ref().map_or(0, |it| it.crc),
            producers: image.producers,
            ended: image.ended,
        };
        for marker in obsolete {
            batch.delete(StoreTable::Producers, aborted_key(&self.place, *marker));
        }
        for range in image.aborted {
            let AbortedRange { producer_id, first, marker, stable } = range;
            let record = AbortedRecord { producer_id, first, stable };
            batch.put(StoreTable::Producers, aborted_key(&self.place, marker), record.encode());
        }
        batch.put(StoreTable::Producers, snapshot_key(&self.place), snapshot.encode());
        let (partition, upto, obsolete) = (Arc::clone(self), image.upto, obsolete.len());
        self.storing.store(true, Ordering::SeqCst);
        Some(Snapshot { partition, upto, batch, obsolete })
    }

    /// Forgets idle producers, and transactions that were aborted below the start of the log.
    pub(crate) fn prune(&self) {
        let idle_ms = signed(self.shared.limits.producer_idle_ms);
        let since_ms = signed(self.now_ms()).saturating_sub(idle_ms);
        let mut opened = self.hold();
        let ledger = opened.ledger();
        let Some(history) = &mut ledger.history else { return };
        history.expire(since_ms, self.shared.limits.producers);
        let gone = history.prune(self.streamlet.start_offset());
        ledger.obsolete.extend(gone);
    }
}

impl Snapshot {
    /// It is stored.
    pub(crate) fn stored(self) {
        let mut opened = self.partition.hold();
        let ledger = opened.ledger();
        ledger.stored_upto = ledger.stored_upto.max(self.upto);
        ledger.obsolete.drain(..self.obsolete);
        self.partition.kept_upto.fetch_max(self.upto, Ordering::SeqCst);
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.partition.storing.store(false, Ordering::SeqCst);
    }
}
