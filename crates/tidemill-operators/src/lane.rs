//! The rows of a lane, slice by slice.
//!
//! ```text
//! blocks of a port      b0 [s2 s0 s0]   b1 [s0 s1]
//! parts, by slice       s0: b0 b1   s1: b1   s2: b0
//! ```
//!
//! - Parts are in ascending order of their slice; those of a slice keep the order of the blocks.
//! - A row is named by its block and its *number in the lane*: its place among the block's rows
//!   of this lane. [`Picked`] turns that into the row of the batch.

use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, cast::AsArray};
use arrow_select::take::{take, take_record_batch};
use std::{ops::Range, sync::Arc};
use tidemill_flow::{Block, OperatorError, TIME_COLUMN};
use tidemill_types::{Micros, SliceId};

/// The approximate number of rows whose keys are looked up before any of them changes a state: the
/// prefetched slots and groups of that many rows stay in a near cache.
pub(crate) const TAKEN_AT_ONCE: usize = 256;

/// Rows of one slice in one block: `count` rows from number `first` of the lane's rows there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPart {
    pub(crate) slice: SliceId,
    pub(crate) block: usize,
    pub(crate) first: usize,
    pub(crate) count: usize,
}

impl BlockPart {
    /// All rows of a stretch, as if they were of its first slice.
    pub(crate) fn of_stretch(parts: &[Self]) -> Self {
        Self { count: parts.iter().map(|part| part.count).sum(), ..parts[0] }
    }

    /// The numbers of its rows.
    pub(crate) fn rows(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// The parts of one port in one cycle. Each cycle reuses the memory of the one before.
#[derive(Debug, Default)]
pub(crate) struct PortParts {
    parts: Vec<BlockPart>,
}

impl PortParts {
    /// Reads the blocks of a port.
    pub(crate) fn read(&mut self, blocks: &[Arc<Block>], slices: &Range<u32>) {
        self.parts.clear();
        for (block, it) in blocks.iter().enumerate() {
            let mut first = 0;
            match &it.routing {
                Some(routing) => {
                    for slice in slices.clone() {
                        let at = slice as usize;
                        let count = (routing.starts[at + 1] - routing.starts[at]) as usize;
                        if count > 0 {
                            self.parts.push(BlockPart {
                                slice: SliceId(slice),
                                block,
                                first,
                                count,
                            });
                        }
                        first += count;
                    }
                }
                None if it.slice == Block::EVERY => {
                    let count = it.len();
                    let part = |slice| BlockPart { slice: SliceId(slice), block, first, count };
                    self.parts.extend(slices.clone().map(part));
                }
                None if slices.contains(&it.slice.0) => {
                    self.parts.push(BlockPart { slice: it.slice, block, first, count: it.len() });
                }
                None => {}
            }
        }
        if !self.parts.is_sorted_by_key(|part| part.slice) {
            self.parts.sort_by_key(|part| part.slice);
        }
    }

    /// All parts, in order.
    pub(crate) fn parts(&self) -> &[BlockPart] {
        &self.parts
    }

    /// The slices that have rows, with their parts.
    pub(crate) fn slices(&self) -> impl Iterator<Item = (SliceId, &[BlockPart])> {
        self.parts.chunk_by(|a, b| a.slice == b.slice).map(|parts| (parts[0].slice, parts))
    }

    /// Parts that also follow one another in a block, whatever their slices: a caller that treats each
    /// row by itself can read them as one.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = &[BlockPart]> {
        let goes_on =
            |a: &BlockPart, b: &BlockPart| a.block == b.block && a.first + a.count == b.first;
        self.parts.chunk_by(goes_on)
    }

    /// The parts of one slice.
    pub(crate) fn of(&self, slice: SliceId) -> &[BlockPart] {
        let start = self.parts.partition_point(|part| part.slice < slice);
        let end = self.parts.partition_point(|part| part.slice <= slice);
        &self.parts[start..end]
    }
}

/// The rows of a block that belong to a lane.
#[derive(Debug)]
pub(crate) struct PickedRows<'a> {
    /// All rows of the block.
    pub(crate) batch: RecordBatch,
    /// The lane's rows by number; none if they are all rows, as they stand.
    pub(crate) rows: Option<&'a [u32]>,
}

/// The lane's rows of a block by number; none if they are all rows, as they stand.
pub(crate) fn picked_rows<'a>(block: &'a Block, slices: &Range<u32>) -> Option<&'a [u32]> {
    let routing = block.routing.as_ref()?;
    let start = routing.starts[slices.start as usize] as usize;
    let end = routing.starts[slices.end as usize] as usize;
    let rows = &routing.order[start..end];
    // All rows, each once, in ascending order: as they stand.
    (rows.len() < block.len() || !rows.is_sorted()).then_some(rows)
}

/// The row of the batch that has this number in the lane.
#[inline]
pub(crate) fn row_at(rows: Option<&[u32]>, number: usize) -> usize {
    rows.map_or(number, |rows| rows[number] as usize)
}

impl<'a> PickedRows<'a> {
    /// The lane's rows of a block.
    pub(crate) fn new(block: &'a Block, slices: &Range<u32>) -> Self {
        Self { batch: block.batch(), rows: picked_rows(block, slices) }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.map_or(self.batch.num_rows(), <[u32]>::len)
    }

    /// The row of the batch that has this number in the lane.
    #[inline]
    pub(crate) fn row(&self, number: usize) -> usize {
        row_at(self.rows, number)
    }

    /// The rows of a part, as a batch; not copied if they are all rows, as they stand.
    pub(crate) fn part(&self, part: BlockPart) -> Result<RecordBatch, OperatorError> {
        match self.rows {
            None => Ok(self.batch.slice(part.first, part.count)),
            Some(rows) => {
                let rows = UInt32Array::from(rows[part.rows()].to_vec());
                take_record_batch(&self.batch, &rows).map_err(failed)
            }
        }
    }

    /// A column's values, by number in the lane.
    pub(crate) fn take(&self, column: &ArrayRef) -> Result<ArrayRef, OperatorError> {
        match self.rows {
            None => Ok(Arc::clone(column)),
            Some(rows) => take(column, &UInt32Array::from(rows.to_vec()), None).map_err(failed),
        }
    }
}

/// The event times of a batch, by row.
#[derive(Debug)]
pub(crate) struct Times<'a>(Option<&'a arrow_array::TimestampMicrosecondArray>);

impl<'a> Times<'a> {
    /// Finds the hidden time column.
    pub(crate) fn of(batch: &'a RecordBatch) -> Self {
        let column = batch.column_by_name(TIME_COLUMN);
        Self(column.and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>()))
    }

    /// The time of a row; none if it has no time.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<Micros> {
        self.0.and_then(|times| times.is_valid(row).then(|| Micros(times.value(row))))
    }

    /// The time of a row; a row without one counts as before all others.
    #[inline]
    pub(crate) fn at(&self, row: usize) -> i64 {
        self.get(row).unwrap_or(Micros::MIN).0
    }
}

/// A row for which an expression has no value.
pub(crate) fn no_value(error: tidemill_sql::EvaluationError) -> OperatorError {
    OperatorError::new(error.message)
}

/// An Arrow kernel refused a type that the schema promised.
pub(crate) fn failed(error: arrow_schema::ArrowError) -> OperatorError {
    OperatorError::new(error.to_string())
}
