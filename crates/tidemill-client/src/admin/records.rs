//! Deleting the oldest records of streamlets.

use super::{Admin, AdminError, about, streamlet};
use crate::Refusal;
use std::collections::BTreeMap;
use tidemill_types::NodeId;
use tidemill_wire::kafka::{
    ErrorCode,
    message::{
        DeleteRecordsRequestData,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
    },
    text,
};

impl Admin {
    /// Deletes records before an offset, by streamlet; -1 stands for the end. Returns the offset at
    /// which each streamlet starts now.
    ///
    /// # Errors
    /// No node answers, there is no such streamlet, or an offset is beyond its end. Streamlets led
    /// by other nodes may have been cut.
    pub fn delete_records(
        &self,
        name: &str,
        before: &BTreeMap<i32, i64>,
    ) -> Result<BTreeMap<i32, i64>, AdminError> {
        let metadata = self.metadata(Some(&[name]))?;
        let mut by_leader: BTreeMap<NodeId, Vec<DeleteRecordsPartition>> = BTreeMap::new();
        for (index, offset) in before {
            let Some(leader) = metadata.leader(name, *index) else {
                let refusal = Refusal { code: ErrorCode::UnknownTopicOrPartition, message: None };
                return Err(about(streamlet(name, *index))(refusal));
            };
            by_leader.entry(leader).or_default().push(
                DeleteRecordsPartition::default().with_partition_index(*index).with_offset(*offset),
            );
        }
        let mut starts = BTreeMap::new();
        for (leader, rows) in by_leader {
            let topic = DeleteRecordsTopic::default().with_name(text(name)).with_partitions(rows);
            let request = DeleteRecordsRequestData::default()
                .with_topics(vec![topic])
                .with_timeout_ms(self.timeout_ms());
            let answer = self.node(leader)?.call(&request, self.request_timeout())?;
            for it in answer.topics.iter().flat_map(|it| &it.partitions) {
                Refusal::check(it.error_code, None)
                    .map_err(about(streamlet(name, it.partition_index)))?;
                starts.insert(it.partition_index, it.low_watermark);
            }
        }
        Ok(starts)
    }
}
