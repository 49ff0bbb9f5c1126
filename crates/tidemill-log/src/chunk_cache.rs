//! The appended chunks that stay in memory: the youngest, over all streams, up to a bound.
//!
//! Invariant: all segments together keep at most the bound, once an append has returned.

use crate::segment::Segment;
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};
use tidemill_env::lock::Mutex;

/// The order in which kept chunks go.
#[derive(Default)]
struct CacheQueue {
    chunks: VecDeque<(Weak<Segment>, u64)>,
    bytes: u64,
}

/// The persistence manager's memory.
pub(crate) struct ChunkCache {
    bound: u64,
    kept: Mutex<CacheQueue>,
}

impl ChunkCache {
    pub(crate) fn new(bound: u64) -> Self {
        Self { bound, kept: Mutex::default() }
    }

    /// True if the cache keeps anything at all.
    pub(crate) fn is_on(&self) -> bool {
        self.bound > 0
    }

    /// Bytes kept now.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept.lock().bytes
    }

    /// Counts a chunk that a segment has just cached. Chunks of one segment must come here in the
    /// order of the segment's cache.
    pub(crate) fn keep(&self, segment: &Arc<Segment>, bytes: u64) {
        let mut kept = self.kept.lock();
        kept.chunks.push_back((Arc::downgrade(segment), bytes));
        kept.bytes += bytes;
        let mut gone = Vec::new();
        while kept.bytes > self.bound {
            let Some((segment, bytes)) = kept.chunks.pop_front() else { break };
            kept.bytes -= bytes;
            gone.push(segment);
        }
        drop(kept);
        gone.iter().filter_map(Weak::upgrade).for_each(|segment| segment.forget_oldest());
    }
}
