//! The answers that clients of a virtual log got, and the check that they still hold.
//!
//! Written against the definition of the promises alone: entries by position and node, and the
//! coordinator's record.

use crate::copy_set::{CopySet, VirtualLogRecord};
use std::collections::{BTreeMap, BTreeSet};
use tidemill_types::{Incarnation, LogPosition, NodeId, VirtualLogEpoch};

/// An entry: the epoch that wrote it and a number of its own.
pub(super) type EntryValue = (VirtualLogEpoch, u64);

/// The entries of a node by position.
pub(super) type EntryMap = BTreeMap<LogPosition, EntryValue>;

/// The answers that clients got.
#[derive(Default)]
pub(super) struct Promises {
    /// The entries that producers were told are safe.
    pub(super) acknowledged: EntryMap,
    /// The entries that consumers have read.
    pub(super) read: EntryMap,
    /// Entries that no copy of their segment had any more. What is left of them promises nothing.
    lost: BTreeSet<(LogPosition, EntryValue)>,
    /// The node that acknowledged under each epoch.
    pub(super) acknowledgers: BTreeMap<VirtualLogEpoch, NodeId>,
    /// Acknowledgements ever.
    pub(super) acknowledged_total: usize,
}

impl Promises {
    /// A consumer reads these entries.
    pub(super) fn read(&mut self, entries: &EntryMap, from: LogPosition, to: LogPosition) {
        for (position, entry) in entries.range(from..to.max(from)) {
            if !self.lost.contains(&(*position, *entry)) {
                let known = self.read.insert(*position, *entry);
                assert!(known.is_none_or(|known| known == *entry), "{position} was {known:?}");
            }
        }
    }

    /// A leader acknowledges these entries.
    pub(super) fn acknowledge(
        &mut self,
        (epoch, node): (VirtualLogEpoch, NodeId),
        entries: &EntryMap,
        from: LogPosition,
        to: LogPosition,
    ) {
        let leader = *self.acknowledgers.entry(epoch).or_insert(node);
        assert_eq!(leader, node, "two nodes acknowledge under epoch {epoch}");
        for (position, entry) in entries.range(from..to) {
            self.lost.remove(&(*position, *entry));
        }
        self.read(entries, from, to);
        for (position, entry) in entries.range(from..to) {
            self.acknowledged_total += 1;
            let known = self.acknowledged.insert(*position, *entry);
            assert!(known.is_none_or(|known| known == *entry), "{position} was {known:?}");
        }
    }

    /// Every full copy of a segment has what was promised in it.
    pub(super) fn check(
        &self,
        record: &VirtualLogRecord,
        nodes: &BTreeMap<NodeId, (Incarnation, &EntryMap)>,
    ) {
        for (position, entry) in &self.acknowledged {
            for copy in covering(record, *position).iter() {
                let (generation, entries) = nodes[&copy.node];
                if generation == copy.generation {
                    let held = entries.get(position);
                    assert_eq!(held, Some(entry), "node {} at {position}", copy.node);
                }
            }
        }
    }

    /// Promises end where every copy of a segment has lost something.
    pub(super) fn end_where_all_is_lost(
        &mut self,
        record: &VirtualLogRecord,
        generations: &BTreeMap<NodeId, Incarnation>,
    ) {
        let is_held = |position: &LogPosition| {
            covering(record, *position)
                .iter()
                .any(|copy| generations[&copy.node] == copy.generation)
        };
        let lost = self.read.iter().filter(|(position, _)| !is_held(position));
        self.lost.extend(lost.map(|(position, entry)| (*position, *entry)));
        self.acknowledged.retain(|position, _| is_held(position));
        self.read.retain(|position, _| is_held(position));
    }
}

/// The copies of the segment that covers a position.
fn covering(record: &VirtualLogRecord, position: LogPosition) -> &CopySet {
    let mut segments = record.closed.iter().chain([&record.open]);
    let covering = segments.rfind(|segment| segment.from <= position);
    &covering.expect("the first segment begins at position 0").set
}
