//! Rows picked from many batches, copied together once.

use crate::lane::failed;
use crate::row_store::{PieceId, RowStore};
use arrow_array::{RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_select::{interleave::interleave_record_batch, take::take_record_batch};
use tidemill_flow::{OperatorError, SliceRuns};
use tidemill_types::SliceId;

/// Rows in one batch at most.
pub(crate) const GATHERED_ROWS_MAX: usize = 65_536;

/// Picked rows, in the order of picking.
#[derive(Debug, Default)]
pub(crate) struct RowPicker {
    sources: Vec<RecordBatch>,
    picks: Vec<(usize, usize)>,
    /// The sources that are pieces of the slice being picked from, by piece.
    pieces: Vec<(PieceId, usize)>,
    runs: SliceRuns,
    /// Those of the rows that were copied together last.
    finished: SliceRuns,
}

impl RowPicker {
    /// Adds a batch to pick from.
    pub(crate) fn source(&mut self, batch: &RecordBatch) -> usize {
        self.sources.push(batch.clone());
        self.sources.len() - 1
    }

    /// Says that rows of a slice follow.
    pub(crate) fn next_slice(&mut self, slice: SliceId) {
        self.runs.begin(slice, self.picks.len());
        self.pieces.clear();
    }

    /// Picks a row of a source.
    pub(crate) fn pick(&mut self, source: usize, row: usize) {
        self.picks.push((source, row));
    }

    /// Picks a row that the slice holds.
    pub(crate) fn pick_held<T>(&mut self, held: &RowStore<T>, slot: u32) {
        let (piece, row) = held.place(slot);
        let known = self.pieces.iter().rev().find(|(id, _)| *id == piece);
        let source = match known {
            Some((_, source)) => *source,
            None => {
                let source = self.source(held.batch(piece));
                self.pieces.push((piece, source));
                source
            }
        };
        self.picks.push((source, row as usize));
    }

    /// The number of picked rows.
    pub(crate) fn len(&self) -> usize {
        self.picks.len()
    }

    /// Copies the picked rows together, and forgets them and their sources.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>, OperatorError> {
        let batch = match (&self.sources[..], self.picks.is_empty()) {
            (_, true) => None,
            ([one], false) => Some(Self::of_one(one, &self.picks)?),
            (_, false) => {
                let sources: Vec<&RecordBatch> = self.sources.iter().collect();
                Some(interleaved(&sources, &self.picks)?)
            }
        };
        self.sources.clear();
        self.picks.clear();
        self.pieces.clear();
        self.finished = self.runs.take();
        Ok(batch)
    }

    /// Of which slices the rows were that were copied together last.
    pub(crate) fn runs(&mut self) -> SliceRuns {
        std::mem::take(&mut self.finished)
    }

    fn of_one(one: &RecordBatch, picks: &[(usize, usize)]) -> Result<RecordBatch, OperatorError> {
        let in_order = picks.iter().enumerate().all(|(nth, (_, row))| nth == *row);
        if in_order {
            return Ok(one.slice(0, picks.len()));
        }
        let rows: UInt32Array = picks.iter().map(|(_, row)| *row as u32).collect();
        take_record_batch(one, &rows).map_err(failed)
    }
}

/// Rows `(batch, row)` of batches of one schema, in this order; there may be no columns.
pub(crate) fn interleaved(
    batches: &[&RecordBatch],
    rows: &[(usize, usize)],
) -> Result<RecordBatch, OperatorError> {
    if batches[0].num_columns() == 0 {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        return RecordBatch::try_new_with_options(batches[0].schema(), Vec::new(), &options)
            .map_err(failed);
    }
    interleave_record_batch(batches, rows).map_err(failed)
}
