//! A sink that keeps its rows in memory: for tests and small results.
//!
//! Rows show only once their cycle is committed.

use crate::table::grid;
use arrow_array::RecordBatch;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tidemill_flow::{Block, OperatorError, Payload, Sink, SinkError, TIME_COLUMN};
use tidemill_node::preview::Preview;
use tidemill_operators::custom::{Record, read_records};
use tidemill_types::{Cycle, SliceId};

/// The rows that a [`collected`] sink has committed. Shown as text it is a table of all of them.
#[derive(Clone, Debug, Default)]
pub struct Collected(Arc<Mutex<Vec<RecordBatch>>>);

impl Collected {
    /// The rows so far, in order.
    #[must_use]
    pub fn batches(&self) -> Vec<RecordBatch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of rows so far.
    #[must_use]
    pub fn rows(&self) -> usize {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().map(RecordBatch::num_rows).sum()
    }

    /// Reads every row so far, in order:
    /// `words.read(|row| Ok((row.str("word")?.map(str::to_owned), row.i64("n")?)))`.
    ///
    /// # Errors
    /// The first error of `each`: there is no such column, or it is of another type.
    pub fn read<T>(
        &self,
        mut each: impl FnMut(&Record<'_>) -> Result<T, OperatorError>,
    ) -> Result<Vec<T>, OperatorError> {
        let mut all = Vec::new();
        for batch in self.batches() {
            all.extend(read_records(&batch, &mut each)?);
        }
        Ok(all)
    }
}

/// A table with a head, or `no rows`.
impl fmt::Display for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batches = self.batches();
        let Some(first) = batches.first() else { return f.write_str("no rows") };
        let preview = Preview::new("", "", &first.schema(), self.rows());
        let mut keep = preview.sink(None);
        for batch in batches {
            let block = Block::whole(Payload::Arrow(batch), SliceId(0));
            keep.write(Cycle::FIRST, &[Arc::new(block)]).map_err(|_| fmt::Error)?;
        }
        let text = |cell: &Option<String>| cell.as_deref().unwrap_or("null").to_owned();
        let rows: Vec<Vec<String>> =
            preview.rows().iter().map(|row| row.iter().map(text).collect()).collect();
        f.write_str(&grid(&preview.columns, &preview.numeric, &rows))
    }
}

/// A sink that keeps its rows, and where they are found. Memory grows with the rows.
#[must_use]
pub fn collected() -> (impl Sink, Collected) {
    let rows = Collected::default();
    (CollectingSink { pending: Vec::new(), rows: rows.clone() }, rows)
}

struct CollectingSink {
    /// Of cycles that are not committed, in their order.
    pending: Vec<(Cycle, RecordBatch)>,
    rows: Collected,
}

impl Sink for CollectingSink {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        for block in blocks {
            let mut batch = block.batch();
            if let Ok(index) = batch.schema().index_of(TIME_COLUMN) {
                batch.remove_column(index);
            }
            self.pending.push((cycle, batch));
        }
        Ok(())
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        let due = self.pending.partition_point(|(it, _)| *it <= cycle);
        let mut held = self.rows.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend(self.pending.drain(..due).map(|(_, batch)| batch));
        Ok(())
    }

    fn forgets(&self) -> bool {
        true
    }

    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
