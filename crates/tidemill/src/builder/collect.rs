//! A sink that keeps its rows in memory: for tests and small results.
//!
//! Rows show only once their cycle is committed.

use arrow_array::RecordBatch;
use std::sync::{Arc, Mutex, PoisonError};
use tidemill_flow::{Block, Sink, SinkError, TIME_COLUMN};
use tidemill_types::Cycle;

/// The rows that a [`collected`] sink has committed.
#[derive(Clone, Debug, Default)]
pub struct Collected(Arc<Mutex<Vec<RecordBatch>>>);

impl Collected {
    /// The rows so far, in order.
    #[must_use]
    pub fn batches(&self) -> Vec<RecordBatch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many rows there are so far.
    #[must_use]
    pub fn rows(&self) -> usize {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().map(RecordBatch::num_rows).sum()
    }
}

/// A sink that keeps its rows, and where they are found. Memory grows with the rows.
#[must_use]
pub fn collected() -> (impl Sink, Collected) {
    let rows = Collected::default();
    (CollectingSink { pending: Vec::new(), rows: rows.clone() }, rows)
}

struct CollectingSink {
    pending: Vec<RecordBatch>,
    rows: Collected,
}

impl Sink for CollectingSink {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }

    fn write(&mut self, _: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        for block in blocks {
            let mut batch = block.batch();
            if let Ok(index) = batch.schema().index_of(TIME_COLUMN) {
                batch.remove_column(index);
            }
            self.pending.push(batch);
        }
        Ok(())
    }

    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        let mut held = self.rows.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.append(&mut self.pending);
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
