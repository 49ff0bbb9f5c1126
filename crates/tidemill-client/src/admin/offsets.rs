//! Offsets of streamlets by time: one request to each leader, for all of its streamlets.

use super::{Admin, AdminError, about, streamlet};
use crate::{CallError, Refusal, cluster::Metadata};
use std::{collections::BTreeMap, time::Duration};
use tidemill_types::NodeId;
use tidemill_wire::kafka::{
    ErrorCode,
    message::{
        ListOffsetsRequestData,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    },
    text,
};

#[cfg(test)]
mod tests;

/// Which offset of a streamlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetAt {
    /// That of the first record that is kept.
    Earliest,
    /// That which the next record will get.
    Latest,
    /// That which follows the last record that readers of committed transactions may see.
    LatestCommitted,
    /// That of the first record with this timestamp or a later one, in milliseconds since 1970.
    Time(i64),
}

/// An offset that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The offset; that of the end if no record is as late as was asked for.
    pub offset: i64,
    /// The timestamp of the record there, in milliseconds since 1970, when a time was asked for and
    /// there is such a record.
    pub timestamp_ms: Option<i64>,
}

/// Offsets by streamlet, or why there is none.
pub(crate) type OffsetResults = BTreeMap<i32, Result<Offset, AdminError>>;

impl OffsetAt {
    /// Timestamp and isolation level as the protocol says them.
    fn asked(self) -> (i64, i8) {
        match self {
            Self::Earliest => (-2, 0),
            Self::Latest => (-1, 0),
            Self::LatestCommitted => (-1, 1),
            Self::Time(time_ms) => (time_ms.max(0), 0),
        }
    }
}

impl Admin {
    /// An offset of each streamlet of a stream.
    ///
    /// # Errors
    /// No node answers, there is no such stream, or a streamlet's offset could not be learnt.
    pub fn offsets(&self, name: &str, at: OffsetAt) -> Result<BTreeMap<i32, Offset>, AdminError> {
        self.again_elsewhere(|| {
            let meta = self.stream_meta(name)?;
            let indexes: Vec<i32> = meta.streamlets.keys().copied().collect();
            let found = self.offsets_of(name, &indexes, at)?;
            found.into_iter().map(|(index, found)| Ok((index, found?))).collect()
        })
    }

    /// An offset of some streamlets. One that no leader answers for has an error of its own.
    pub(crate) fn offsets_of(
        &self,
        name: &str,
        indexes: &[i32],
        at: OffsetAt,
    ) -> Result<OffsetResults, AdminError> {
        let mut found: OffsetResults = BTreeMap::new();
        let mut missing: Vec<i32> = indexes.to_vec();
        let asked = self.again(|| {
            let metadata = self.metadata(Some(&[name]))?;
            let some = self.ask_leaders(&metadata, name, &missing, at);
            // What the metadata do not know will not be there a little later either.
            let known = |index: &i32| {
                let meta = metadata.streams.get(name);
                meta.is_some_and(|it| it.streamlets.contains_key(index))
            };
            missing = some
                .iter()
                .filter(|(index, it)| {
                    it.as_ref().is_err_and(AdminError::is_passing) && known(index)
                })
                .map(|(index, _)| *index)
                .collect();
            found.extend(some);
            match missing.first().and_then(|it| found.get(it)) {
                Some(Err(error)) => Err(error.clone()),
                _ => Ok(()),
            }
        });
        match asked {
            Err(error) if found.is_empty() && !indexes.is_empty() => return Err(error),
            _ => {}
        }
        // Where no record is as late as that, what comes next is.
        if matches!(at, OffsetAt::Time(_)) {
            let none = |it: &&i32| matches!(found.get(*it), Some(Ok(it)) if it.offset < 0);
            let at_end: Vec<i32> = indexes.iter().filter(none).copied().collect();
            if !at_end.is_empty() {
                found.extend(self.offsets_of(name, &at_end, OffsetAt::Latest)?);
            }
        }
        Ok(found)
    }

    fn ask_leaders(
        &self,
        metadata: &Metadata,
        name: &str,
        indexes: &[i32],
        at: OffsetAt,
    ) -> OffsetResults {
        let mut found = OffsetResults::new();
        let mut by_leader: BTreeMap<NodeId, Vec<i32>> = BTreeMap::new();
        for index in indexes {
            match metadata.leader(name, *index) {
                Some(leader) => by_leader.entry(leader).or_default().push(*index),
                None => {
                    let known = metadata.streams.get(name);
                    let code = match known.is_some_and(|it| it.streamlets.contains_key(index)) {
                        true => ErrorCode::LeaderNotAvailable,
                        false => ErrorCode::UnknownTopicOrPartition,
                    };
                    let refusal = Refusal { code, message: None };
                    found.insert(*index, Err(about(streamlet(name, *index))(refusal)));
                }
            }
        }
        for (leader, indexes) in by_leader {
            match self.ask_leader(leader, name, &indexes, at) {
                Ok(some) => found.extend(some),
                Err(error) => {
                    found.extend(indexes.iter().map(|it| (*it, Err(error.clone().into()))));
                }
            }
        }
        found
    }

    fn ask_leader(
        &self,
        leader: NodeId,
        name: &str,
        indexes: &[i32],
        at: OffsetAt,
    ) -> Result<OffsetResults, CallError> {
        let (timestamp, isolation_level) = at.asked();
        let row = |index: &i32| {
            ListOffsetsPartition::default()
                .with_partition_index(*index)
                .with_current_leader_epoch(-1)
                .with_timestamp(timestamp)
        };
        let topic = ListOffsetsTopic::default()
            .with_name(text(name))
            .with_partitions(indexes.iter().map(row).collect());
        let connection = self.node(leader)?;
        let version = connection.version(tidemill_wire::kafka::ApiKey::ListOffsets)?;
        let request = ListOffsetsRequestData::default()
            .with_replica_id(-1)
            // Version 1 has no isolation.
            .with_isolation_level(if version >= 2 { isolation_level } else { 0 })
            .with_topics(vec![topic]);
        let answer = connection.call(&request, Duration::ZERO)?;
        let rows = answer.topics.iter().flat_map(|it| &it.partitions);
        let mut found: OffsetResults = rows
            .filter(|it| indexes.contains(&it.partition_index))
            .map(|it| {
                let offset = Offset {
                    offset: it.offset,
                    timestamp_ms: (it.timestamp >= 0).then_some(it.timestamp),
                };
                let subject = streamlet(name, it.partition_index);
                let outcome = Refusal::check(it.error_code, None).map_err(about(subject));
                (it.partition_index, outcome.map(|()| offset))
            })
            .collect();
        for index in indexes {
            found.entry(*index).or_insert_with(|| {
                let refusal = Refusal { code: ErrorCode::UnknownTopicOrPartition, message: None };
                Err(about(streamlet(name, *index))(refusal))
            });
        }
        Ok(found)
    }
}
