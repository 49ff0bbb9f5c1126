//! The streams of a log, found by name and by id.
//!
//! Invariant: both have the same streams.

use crate::{ids::StreamId, stream::Stream};
use std::{collections::BTreeMap, sync::Arc};

/// All streams of a log.
pub(super) struct StreamTable {
    names: BTreeMap<String, Arc<Stream>>,
    ids: BTreeMap<StreamId, Arc<Stream>>,
}

impl StreamTable {
    pub(super) fn new(names: BTreeMap<String, Arc<Stream>>) -> Self {
        let ids = names.values().map(|it| (it.id(), Arc::clone(it))).collect();
        Self { names, ids }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<Stream>> {
        self.names.get(name)
    }

    pub(super) fn get_by_id(&self, id: StreamId) -> Option<&Arc<Stream>> {
        self.ids.get(&id)
    }

    /// All of them, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.names.values()
    }

    pub(super) fn add(&mut self, stream: &Arc<Stream>) {
        self.names.insert(stream.name().to_owned(), Arc::clone(stream));
        self.ids.insert(stream.id(), Arc::clone(stream));
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(stream) = self.names.remove(name) {
            self.ids.remove(&stream.id());
        }
    }
}

#[cfg(test)]
mod tests;
