//! Producer ids: each is given out once, in the life of the data.
//!
//! ```text
//! given out │ left of the block in memory │ not reserved yet
//!           ▲ next                        ▲ end, as stored
//! ```
//!
//! Ids are taken from blocks. The end of a block is durable before its first id is given out, so a
//! crash costs the rest of a block and no id comes twice. The very first block begins with the time
//! of day in microseconds: should the store ever be lost, ids still differ from those in the log.

use crate::store::{MetadataStore, StoreBatch, StoreError, StoreTable};
use std::sync::Arc;
use tidemill_env::World;
use tidemill_wire::producers::{decode_ids_end, encode_ids_end};

/// Under which the end of the newest block is stored.
const KEY: &[u8] = b"producer-ids";

/// Ids reserved at once.
pub(crate) const BLOCK: i64 = 1000;

/// A block of ids that nobody else has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdBlock {
    next: i64,
    end: i64,
}

impl IdBlock {
    /// The block that is reserved by storing its end; `stored` is the end that is stored now.
    pub(crate) fn after(stored: i64) -> Option<Self> {
        Some(Self { next: stored, end: stored.checked_add(BLOCK)? })
    }

    /// The end of the block, which is stored before its first id is used.
    pub(crate) fn end(&self) -> i64 {
        self.end
    }

    /// The next id, if there is one left.
    pub(crate) fn take(&mut self) -> Option<i64> {
        let id = self.next;
        (id < self.end).then(|| {
            self.next += 1;
            id
        })
    }
}

/// Where producer ids come from.
pub(crate) struct ProducerIds {
    world: World,
    store: Arc<MetadataStore>,
    block: tokio::sync::Mutex<IdBlock>,
}

impl ProducerIds {
    pub(crate) fn new(world: &World, store: &Arc<MetadataStore>) -> Self {
        let (world, store) = (world.clone(), Arc::clone(store));
        Self { world, store, block: tokio::sync::Mutex::default() }
    }

    /// An id that nobody has had.
    pub(crate) async fn take(&self) -> Result<i64, StoreError> {
        let mut block = self.block.lock().await;
        if let Some(id) = block.take() {
            return Ok(id);
        }
        let stored = match self.store.get(StoreTable::Settings, KEY)? {
            Some(stored) => decode_ids_end(&stored)
                .ok_or_else(|| self.store.unreadable(StoreTable::Settings))?,
            None => self.world.clock.wall_micros().max(0),
        };
        // There are enough for 292,000 years of a million a second.
        let none_left = || self.store.unreadable(StoreTable::Settings);
        let mut next = IdBlock::after(stored).ok_or_else(none_left)?;
        let mut batch = StoreBatch::default();
        batch.put(StoreTable::Settings, KEY, encode_ids_end(next.end()));
        self.store.commit(batch).await?;
        let id = next.take().ok_or_else(none_left)?;
        *block = next;
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_gives_each_id_once_and_then_none() {
        let mut block = IdBlock::after(5000).unwrap();
        assert_eq!(block.end(), 6000);
        let ids: Vec<i64> = std::iter::from_fn(|| block.take()).collect();
        assert_eq!(ids, (5000..6000).collect::<Vec<_>>());
        assert_eq!(block.take(), None);
    }

    #[test]
    fn nothing_is_reserved_before_the_first_block_and_none_wraps_around() {
        assert_eq!(IdBlock::default().take(), None);
        assert_eq!(IdBlock::after(i64::MAX - 10), None);
    }
}
