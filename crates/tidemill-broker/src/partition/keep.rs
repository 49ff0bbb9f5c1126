//! Snapshots of a partition's history, so that a restart reads only a little of the log.
//!
//! ```text
//! advance ─▶ far enough ─▶ image of all below the end ─▶ durable up to there ─▶ store
//! ```
//!
//! An image is stored once all that it tells of is visible: so no snapshot knows a chunk that a
//! crash takes back. What is aborted is stored beside the snapshots, each once.

use super::{
    Partition,
    load::{aborted_key, chunk_at, snapshot_key},
    stable::AbortedRange,
};
use crate::store::{Batch, Table};
use std::sync::{Arc, atomic::Ordering};
use tidemill_wire::producers::{
    AbortedRecord, PRODUCERS_VERSION, ProducerRecord, ProducersSnapshot,
};

/// A snapshot is taken after so many bytes of chunks, or so many chunks.
const FAR_BYTES: u64 = 32 << 20;
const FAR_CHUNKS: u64 = 10_000;

/// A history as of an offset.
pub(super) struct Image {
    upto: i64,
    producers: Vec<ProducerRecord>,
    /// Those that the store does not have.
    aborted: Vec<AbortedRange>,
}

/// An image that may be stored.
pub(crate) struct Snapshot {
    partition: Arc<Partition>,
    upto: i64,
    /// What is to be stored.
    pub(crate) batch: Batch,
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

    /// What is to be stored now, if anything is: after many chunks, or if the node stops.
    pub(crate) fn snapshot(self: &Arc<Self>, stops: bool) -> Option<Snapshot> {
        let watermark = self.streamlet.high_watermark();
        if stops && self.far_chunks.load(Ordering::Relaxed) > 0 || self.is_far() {
            // Without its history it is made known first, but for a node that stops.
            let mut opened = if stops { Some(self.hold()) } else { self.open().ok() }?;
            let upto = self.streamlet.end_offset();
            let books = opened.books();
            let history = books.history.as_ref()?;
            books.image = Some(Image {
                upto,
                producers: history.records(self.now_ms()),
                aborted: history.stable().aborted_since(books.stored_upto).to_vec(),
            });
            self.far_bytes.store(0, Ordering::Relaxed);
            self.far_chunks.store(0, Ordering::Relaxed);
        } else if !self.has_image.load(Ordering::Relaxed) {
            return None;
        }
        let mut opened = self.hold();
        let books = opened.books();
        let ready = books.image.take_if(|it| it.upto <= watermark);
        self.has_image.store(books.image.is_some(), Ordering::Relaxed);
        let (image, obsolete) = (ready?, books.obsolete.clone());
        drop(opened);
        self.batch(image, &obsolete)
    }

    fn batch(self: &Arc<Self>, image: Image, obsolete: &[i64]) -> Option<Snapshot> {
        let mut batch = Batch::default();
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
        };
        for marker in obsolete {
            batch.delete(Table::Producers, aborted_key(&self.place, *marker));
        }
        for range in image.aborted {
            let AbortedRange { producer_id, first, marker, stable } = range;
            let record = AbortedRecord { producer_id, first, stable };
            batch.put(Table::Producers, aborted_key(&self.place, marker), record.encode());
        }
        batch.put(Table::Producers, snapshot_key(&self.place), snapshot.encode());
        let (partition, upto, obsolete) = (Arc::clone(self), image.upto, obsolete.len());
        Some(Snapshot { partition, upto, batch, obsolete })
    }

    /// Forgets producers that were idle for long, and what was aborted before the first offset.
    pub(crate) fn prune(&self) {
        let since_ms = self.now_ms().saturating_sub(self.shared.limits.producer_idle_ms);
        let mut opened = self.hold();
        let books = opened.books();
        let Some(history) = &mut books.history else { return };
        history.expire(since_ms, self.shared.limits.producers);
        let gone = history.prune(self.streamlet.start_offset());
        books.obsolete.extend(gone);
    }
}

impl Snapshot {
    /// It is stored.
    pub(crate) fn stored(self) {
        let mut opened = self.partition.hold();
        let books = opened.books();
        books.stored_upto = books.stored_upto.max(self.upto);
        books.obsolete.drain(..self.obsolete);
    }
}
