//! A pool of used blocks: a block costs no allocation.

use crate::block::{Block, Payload, Routing};
use crate::rows::Rows;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use tidemill_types::SliceId;

/// Blocks kept at most. Each is a few words; its rows went back to their own pool.
const KEPT: usize = 1_024;
/// The most routings kept, those of them that rest, and the rows of the longest.
const ROUTINGS_KEPT: usize = 32;
const ROUTINGS_RESTING: usize = 8;
const ROUTING_ROWS_MAX: usize = 1 << 16;

/// Empty blocks, and the memory of their routings. The memory that has rested longest is used
/// first, as in [`crate::rows::RowsPool`].
pub(crate) struct BlockPool {
    free: ArrayQueue<Arc<Block>>,
    routings: ArrayQueue<Routing>,
}

impl BlockPool {
    pub(crate) fn new() -> Self {
        Self { free: ArrayQueue::new(KEPT), routings: ArrayQueue::new(ROUTINGS_KEPT) }
    }

    /// A routing to be written over.
    pub(crate) fn take_routing(&self) -> Routing {
        let rested = self.routings.len() > ROUTINGS_RESTING;
        rested.then(|| self.routings.pop()).flatten().unwrap_or_default()
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
            let routing = inner.routing.take();
            let is_short = |it: &Routing| it.order.capacity() <= ROUTING_ROWS_MAX;
            if let Some(routing) = routing.filter(is_short) {
                // A full pool lets the memory go.
                drop(self.routings.push(routing));
            }
            // A full pool lets the block go.
            drop(self.free.push(block));
        }
    }
}
