//! Blocks that were read by everyone, kept for the next: a block costs no allocation.

use crate::block::{Block, Payload, Routing};
use crate::rows::Rows;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use tidemill_types::SliceId;

/// Blocks kept at most. Each is a few words; its rows went back to their own pool.
const KEPT: usize = 1_024;

/// Empty blocks.
pub(crate) struct BlockPool {
    free: ArrayQueue<Arc<Block>>,
}

impl BlockPool {
    pub(crate) fn new() -> Self {
        Self { free: ArrayQueue::new(KEPT) }
    }

    /// A block with these parts.
    pub(crate) fn take(
        &self,
        payload: Payload,
        routing: Option<Routing>,
        slice: SliceId,
    ) -> Arc<Block> {
        let block = Block { payload, routing, slice };
        if let Some(mut used) = self.free.pop()
            && let Some(inner) = Arc::get_mut(&mut used)
        {
            *inner = block;
            return used;
        }
        Arc::new(block)
    }

    /// Takes back a block whose reader is done; kept only if it was the last one.
    pub(crate) fn give_back(&self, mut block: Arc<Block>) {
        if let Some(inner) = Arc::get_mut(&mut block) {
            inner.payload = Payload::Rows(Rows::hollow());
            inner.routing = None;
            // A full pool lets the block go.
            drop(self.free.push(block));
        }
    }
}
