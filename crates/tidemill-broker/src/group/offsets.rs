//! The offsets of one group: committed ones, and pending ones of open transactions.
//!
//! A pending offset is invisible until its transaction commits. Then it replaces the committed one,
//! even one that was committed later than it was sent.

use std::collections::BTreeMap;
use tidemill_wire::groups::{OffsetKey, OffsetRecord};

/// A topic's name, and a partition's number.
pub(crate) type TopicPartition = (String, u32);

/// The offsets of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupOffsets {
    committed: BTreeMap<TopicPartition, OffsetRecord>,
    /// By producer id.
    pending: BTreeMap<i64, BTreeMap<TopicPartition, OffsetRecord>>,
}

/// The key of a place.
pub(crate) fn key(group: &str, place: &TopicPartition) -> OffsetKey {
    OffsetKey { group: group.to_owned(), topic: place.0.clone(), partition: place.1 }
}

impl GroupOffsets {
    pub(crate) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    /// The count of offsets, committed and pending.
    pub(crate) fn size(&self) -> usize {
        self.committed.len() + self.pending.values().map(BTreeMap::len).sum::<usize>()
    }

    pub(crate) fn get(&self, place: &TopicPartition) -> Option<&OffsetRecord> {
        self.committed.get(place)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&TopicPartition, &OffsetRecord)> {
        self.committed.iter()
    }

    /// True if an open transaction holds an offset for this partition.
    pub(crate) fn is_pending(&self, place: &TopicPartition) -> bool {
        self.pending.values().any(|it| it.contains_key(place))
    }

    /// Pending offsets, by producer.
    pub(crate) fn pending(&self) -> &BTreeMap<i64, BTreeMap<TopicPartition, OffsetRecord>> {
        &self.pending
    }

    /// Pending offsets of one producer's transaction.
    pub(crate) fn pending_of(&self, producer_id: i64) -> BTreeMap<TopicPartition, OffsetRecord> {
        self.pending.get(&producer_id).cloned().unwrap_or_default()
    }

    pub(crate) fn commit(&mut self, place: TopicPartition, record: OffsetRecord) {
        self.committed.insert(place, record);
    }

    pub(crate) fn delete(&mut self, place: &TopicPartition) {
        self.committed.remove(place);
    }

    pub(crate) fn stage(&mut self, producer_id: i64, place: TopicPartition, record: OffsetRecord) {
        self.pending.entry(producer_id).or_default().insert(place, record);
    }

    /// A transaction has ended.
    pub(crate) fn end(&mut self, producer_id: i64, commit: bool) {
        let held = self.pending.remove(&producer_id).unwrap_or_default();
        if commit {
            self.committed.extend(held);
        }
    }

    /// Places whose offsets may go: committed before `since_ms`, and no transaction holds another.
    pub(crate) fn older_than(&self, since_ms: u64) -> Vec<TopicPartition> {
        let old = self.committed.iter().filter(|(_, it)| it.since_ms < since_ms);
        old.filter(|(place, _)| !self.is_pending(place)).map(|(place, _)| place.clone()).collect()
    }
}
