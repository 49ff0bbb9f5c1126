//! A sink that counts rows and drops them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tidemill_flow::{Block, Sink, SinkError};
use tidemill_types::Cycle;

/// Counts rows and drops them.
#[derive(Debug, Default)]
pub struct BlackholeSink {
    rows: Arc<AtomicU64>,
}

impl BlackholeSink {
    /// A sink that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of rows so far, to be read by others while the sink is in use.
    #[must_use]
    pub fn rows(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rows)
    }
}

impl Sink for BlackholeSink {
    fn open(&mut self, _resume: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }

    fn write(&mut self, _cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let rows: usize = blocks.iter().map(|block| block.len()).sum();
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        Ok(())
    }

    fn commit(&mut self, _cycle: Cycle) -> Result<(), SinkError> {
        Ok(())
    }

    fn forgets(&self) -> bool {
        true
    }

    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
