//! Ends of transactions are told: to partitions by a marker, to groups by applying their offsets.

use crate::{
    group::registry::GroupRegistry,
    partition::{Partition, TransactionMark},
    transaction::entry::{MarkerTarget, TransactionEntry},
};
use std::sync::Arc;

/// Writes a transaction's end to a partition.
pub(super) fn mark_partition(
    entry: &Arc<TransactionEntry>,
    partition: &Partition,
    mark: TransactionMark,
    place: MarkerTarget,
) {
    let (marked, at) = (Arc::clone(entry), place.clone());
    let notice = move |outcome: Result<(), _>| {
        marked.marked(&at, outcome.is_ok());
    };
    if let Err(error) = partition.end_transaction(mark, Box::new(notice))
        && entry.marked(&place, false)
    {
        let topic = partition.streamlet.stream_name();
        let (id, index) = (&entry.id, partition.place.index);
        tracing::warn!(id, topic, index, %error, "a transaction's end waits for its disk");
    }
}

/// Lets the offsets count that a transaction holds for a group, or drops them.
pub(super) fn mark_group(
    entry: &Arc<TransactionEntry>,
    groups: &Arc<GroupRegistry>,
    mark: TransactionMark,
    group: String,
) {
    let (entry, groups) = (Arc::clone(entry), Arc::clone(groups));
    tokio::spawn(async move {
        let ended = groups.end_transaction(&group, mark.producer.id, mark.commit).await;
        if entry.marked(&MarkerTarget::Group(group.clone()), ended.is_ok())
            && let Err(error) = ended
        {
            tracing::warn!(id = entry.id, group, %error, "a transaction's end waits for its disk");
        }
    });
}
