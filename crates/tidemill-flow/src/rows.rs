//! Byte records in Arrow's binary layout, pooled: a relay of small messages allocates nothing.

use crate::block::rows_schema;
use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use tidemill_state::prefetch;

/// Pieces of memory that rest in a pool, at most.
const RESTING_MAX: usize = 8;

/// Memory is prefetched before it is written: this many bytes at once, this far behind the last one
/// written. Rested memory is in no near cache; a record of 1 KiB costs a fifth less this way.
const ASKED_AT_ONCE: usize = 512;
const ASKED_AHEAD: usize = 1536;
/// Bytes that come at once.
const LINE: usize = 64;

/// Byte records, back to back, with the offset of each: `offsets[i]..offsets[i + 1]`.
#[derive(Debug)]
pub struct Rows {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    /// Memory is prefetched up to here.
    asked: usize,
    /// The pool that takes the memory back from the last reader.
    home: Option<Arc<RowsPool>>,
}

/// Memory of finished [`Rows`], for reuse. The memory that has rested longest is used first, and
/// only if enough rests: memory that another core has just read is still in that core's caches, and
/// writing it again at once costs more than all the rest of a relay.
#[derive(Debug)]
pub struct RowsPool {
    free: ArrayQueue<(Vec<i32>, Vec<u8>)>,
    resting: usize,
}

impl RowsPool {
    /// A pool of up to `count` pieces of memory, a quarter of them at rest, at most eight: with
    /// more at rest, the next piece is in no cache.
    #[must_use]
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            free: ArrayQueue::new(count.max(1)),
            resting: (count / 4).min(RESTING_MAX),
        })
    }

    /// As [`Self::new`] with none at rest: for memory that the system writes to, as it copies bytes
    /// from a socket. Less of the caches goes to waiting memory.
    pub(crate) fn restless(count: usize) -> Arc<Self> {
        Arc::new(Self { free: ArrayQueue::new(count.max(1)), resting: 0 })
    }

    fn pop(&self) -> (Vec<i32>, Vec<u8>) {
        let rested = self.free.len() > self.resting;
        rested.then(|| self.free.pop()).flatten().unwrap_or_default()
    }

    /// Rows with the content of used memory, to be filled from a frame without zeroing first.
    /// [`Rows::checked`] must follow.
    #[must_use]
    pub fn take_as_it_is(self: &Arc<Self>) -> Rows {
        let (offsets, bytes) = self.pop();
        Rows { offsets, bytes, asked: 0, home: Some(Arc::clone(self)) }
    }

    /// Empty rows, in used memory where there is some.
    #[must_use]
    pub fn take(self: &Arc<Self>) -> Rows {
        let (mut offsets, mut bytes) = self.pop();
        offsets.clear();
        bytes.clear();
        offsets.push(0);
        Rows { offsets, bytes, asked: 0, home: Some(Arc::clone(self)) }
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: Vec::new(), asked: 0, home: None }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            // A full pool lets the memory go.
            let memory = (std::mem::take(&mut self.offsets), std::mem::take(&mut self.bytes));
            drop(home.free.push(memory));
        }
    }
}

impl Rows {
    /// Rows without any memory, not even that of one offset, for a used block.
    pub(crate) fn hollow() -> Self {
        Self { offsets: Vec::new(), bytes: Vec::new(), asked: 0, home: None }
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns true if there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size in bytes: records and their offsets.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.offsets.len() * 4
    }

    /// The records back to back.
    #[must_use]
    pub fn values(&self) -> &[u8] {
        &self.bytes
    }

    /// The start of each record, and the end of the last one.
    #[must_use]
    pub fn offsets(&self) -> &[i32] {
        &self.offsets
    }

    /// Record `index`.
    ///
    /// # Panics
    /// Panics if there is no such record.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// The records in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.offsets.windows(2).map(|pair| &self.bytes[pair[0] as usize..pair[1] as usize])
    }

    /// Reserves memory for `records` more records of `bytes` bytes in all.
    pub fn reserve(&mut self, records: usize, bytes: usize) {
        self.offsets.reserve(records);
        self.bytes.reserve(bytes);
    }

    /// Adds a record.
    ///
    /// # Panics
    /// Panics past 2 GiB; blocks are flushed long before.
    #[inline]
    pub fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.end_record();
    }

    /// Adds a record that `write` appends to the bytes.
    #[inline]
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.end_record();
    }

    #[inline]
    fn end_record(&mut self) {
        let end = i32::try_from(self.bytes.len()).expect("blocks are flushed long before 2 GiB");
        if self.asked < self.bytes.len() + ASKED_AHEAD {
            self.ask();
        }
        self.offsets.push(end);
    }

    /// Prefetches the memory to be written next.
    fn ask(&mut self) {
        let written = self.bytes.len();
        let from = self.asked.max(written);
        self.asked = written + ASKED_AHEAD + ASKED_AT_ONCE;
        for place in (from..self.asked).step_by(LINE) {
            prefetch(&self.bytes, place);
        }
    }

    /// Takes both parts to be filled from a frame; [`Self::checked`] must follow.
    pub fn parts_mut(&mut self) -> (&mut Vec<i32>, &mut Vec<u8>) {
        (&mut self.offsets, &mut self.bytes)
    }

    /// Returns true if the offsets start at 0, never fall, and end at the end of the bytes.
    #[must_use]
    pub fn checked(&self) -> bool {
        self.offsets.first() == Some(&0)
            && self.offsets.windows(2).all(|pair| pair[0] <= pair[1])
            && self.offsets.last().is_some_and(|end| usize::try_from(*end) == Ok(self.bytes.len()))
    }

    /// One binary column with a copy of the records.
    #[must_use]
    pub fn to_batch(&self) -> RecordBatch {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets.clone()));
        let column = BinaryArray::new(offsets, Buffer::from(self.bytes.as_slice()), None);
        RecordBatch::try_new(rows_schema(), vec![Arc::new(column) as ArrayRef])
            .expect("one binary column, as the schema says")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        /// In memory that others have used, too.
        #[test]
        fn records_are_read_as_they_were_pushed(
            blocks in vec(vec(vec(any::<u8>(), 0..3_000), 0..20), 1..12),
        ) {
            let pool = RowsPool::new(4);
            for records in &blocks {
                let mut rows = pool.take();
                for (number, record) in records.iter().enumerate() {
                    match number % 2 {
                        0 => rows.push(record),
                        _ => rows.push_with(|bytes| bytes.extend_from_slice(record)),
                    }
                }
                prop_assert!(rows.checked());
                prop_assert_eq!(rows.len(), records.len());
                prop_assert!(rows.iter().eq(records.iter().map(Vec::as_slice)));
            }
        }
    }

    #[test]
    fn rows_with_room_stay_where_they_are() {
        let mut rows = RowsPool::new(1).take();
        rows.reserve(1_000, 1_000 * 50);
        let places = |rows: &Rows| (rows.values().as_ptr(), rows.offsets().as_ptr());
        let before = places(&rows);
        (0..1_000).for_each(|_| rows.push(&[7; 50]));
        assert_eq!(places(&rows), before);
    }
}
