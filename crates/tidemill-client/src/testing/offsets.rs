//! Enough of a group coordinator: offsets, without members.

use super::{
    Reply,
    log::{FakeState, Fault},
};
use tidemill_wire::kafka::{ErrorCode, RequestHead, message::*, text};

impl FakeState {
    pub(super) fn commit(&mut self, head: &RequestHead, asked: &OffsetCommitRequestData) -> Reply {
        use offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
        let mut topics = Vec::new();
        for topic in &asked.topics {
            let mut rows = Vec::new();
            for it in &topic.partitions {
                let key = (asked.group_id.to_string(), topic.name.to_string(), it.partition_index);
                self.committed.insert(key, it.committed_offset);
                rows.push(
                    OffsetCommitResponsePartition::default()
                        .with_partition_index(it.partition_index),
                );
            }
            topics.push(
                OffsetCommitResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(rows),
            );
        }
        Reply::message(head, &OffsetCommitResponseData::default().with_topics(topics))
    }

    pub(super) fn fetch_offsets(
        &self,
        head: &RequestHead,
        asked: &OffsetFetchRequestData,
        fault: Fault,
    ) -> Reply {
        use offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
        };
        let told = match fault {
            Fault::Code(code) => code.code(),
            _ if !self.undecided.is_empty() => ErrorCode::UnstableOffsetCommit.code(),
            _ => 0,
        };
        let groups = asked.groups.iter().map(|group| {
            let of_group =
                self.committed.iter().filter(|((it, ..), _)| *it == group.group_id.to_string());
            let topics = of_group.map(|((_, stream, index), offset)| {
                let row = OffsetFetchResponsePartitions::default()
                    .with_partition_index(*index)
                    .with_error_code(told)
                    .with_committed_offset(*offset);
                OffsetFetchResponseTopics::default()
                    .with_name(text(stream))
                    .with_partitions(vec![row])
            });
            OffsetFetchResponseGroup::default()
                .with_group_id(group.group_id.clone())
                .with_topics(topics.collect())
        });
        Reply::message(head, &OffsetFetchResponseData::default().with_groups(groups.collect()))
    }
}
