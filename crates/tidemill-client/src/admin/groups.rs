//! Consumer groups: list, describe, delete, and the offsets they have committed.

use super::{Admin, AdminError, about};
use crate::{Refusal, connection::Connection};
use std::{collections::BTreeMap, time::Duration};
use tidemill_types::NodeId;
use tidemill_wire::kafka::{
    ApiKey, ErrorCode,
    message::{
        DeleteGroupsRequestData, DescribeGroupsRequestData, FindCoordinatorRequestData,
        ListGroupsRequestData, OffsetCommitRequestData, OffsetFetchRequestData,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::OffsetFetchRequestGroup,
    },
    text,
};

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// Its name.
    pub name: String,
    /// Its kind: `consumer` for groups that share streams.
    pub protocol_type: String,
    /// Its state, such as `Stable` or `Empty`; empty if the node did not say.
    pub state: String,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its name.
    pub name: String,
    /// Its state, such as `Stable` or `Empty`.
    pub state: String,
    /// The assignment of its streamlets, such as `range`.
    pub assignor: String,
    /// Its members.
    pub members: Vec<Member>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id, given by the coordinator.
    pub id: String,
    /// Its name, if it is a static member.
    pub instance: Option<String>,
    /// The client's own name.
    pub client_id: String,
    /// Where it comes from.
    pub host: String,
}

/// An offset that a group has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    /// The next record to be processed.
    pub offset: i64,
    /// The text that was committed beside it.
    pub metadata: String,
}

/// The committer of offsets: a member of a generation of its group, or a stranger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupCommitter {
    pub(crate) generation: i32,
    pub(crate) member: String,
}

impl Default for GroupCommitter {
    fn default() -> Self {
        Self { generation: -1, member: String::new() }
    }
}

/// GroupOffsets by stream and streamlet.
pub(crate) type GroupOffsets = BTreeMap<String, BTreeMap<i32, i64>>;

fn group(name: &str) -> String {
    format!("group `{name}`")
}

impl Admin {
    /// All groups of all nodes, by name.
    ///
    /// # Errors
    /// A node does not answer.
    pub fn groups(&self) -> Result<Vec<GroupSummary>, AdminError> {
        let metadata = self.metadata(Some(&[]))?;
        let mut groups = BTreeMap::new();
        for node in metadata.nodes.keys() {
            let answer = self.again(|| {
                let answer =
                    self.node(*node)?.call(&ListGroupsRequestData::default(), Duration::ZERO)?;
                Refusal::check(answer.error_code, None).map_err(about("groups"))?;
                Ok(answer)
            })?;
            for it in &answer.groups {
                let name = it.group_id.as_str().to_owned();
                let summary = GroupSummary {
                    name: name.clone(),
                    protocol_type: it.protocol_type.as_str().to_owned(),
                    state: it.group_state.as_str().to_owned(),
                };
                groups.insert(name, summary);
            }
        }
        Ok(groups.into_values().collect())
    }

    /// A connection to the node that keeps a group.
    pub(crate) fn coordinator(&self, name: &str) -> Result<Connection, AdminError> {
        self.coordinator_of(name, 0, &group(name))
    }

    /// A connection to the node that keeps the transactions of an id.
    pub(crate) fn transaction_coordinator(&self, id: &str) -> Result<Connection, AdminError> {
        self.coordinator_of(id, 1, &format!("transactional id `{id}`"))
    }

    fn coordinator_of(
        &self,
        name: &str,
        key_type: i8,
        subject: &str,
    ) -> Result<Connection, AdminError> {
        self.again(|| {
            let connection = self.any()?;
            let version = connection.version(ApiKey::FindCoordinator)?;
            let request = match version {
                4.. => {
                    FindCoordinatorRequestData::default().with_coordinator_keys(vec![text(name)])
                }
                _ => FindCoordinatorRequestData::default().with_key(text(name)),
            };
            let request = request.with_key_type(key_type);
            let answer = connection.call(&request, Duration::ZERO)?;
            let (code, message, id, host, port) = match answer.coordinators.first() {
                Some(it) if version >= 4 => {
                    (it.error_code, &it.error_message, it.node_id, &it.host, it.port)
                }
                _ => {
                    let it = &answer;
                    (it.error_code, &it.error_message, it.node_id, &it.host, it.port)
                }
            };
            Refusal::check(code, message.as_ref()).map_err(about(subject))?;
            let id = NodeId(id);
            self.cluster.learn(id, host.as_str(), port);
            Ok(self.node(id)?)
        })
    }

    /// One group.
    ///
    /// # Errors
    /// No node answers, or there is no such group. (Nodes of before Kafka 4.0 show a group that
    /// does not exist as one in the state `Dead`.)
    pub fn describe_group(&self, name: &str) -> Result<GroupDescription, AdminError> {
        self.again(|| {
            let request = DescribeGroupsRequestData::default().with_groups(vec![text(name)]);
            let answer = self.coordinator(name)?.call(&request, Duration::ZERO)?;
            let found = answer.groups.first().ok_or_else(|| {
                about(group(name))(Refusal { code: ErrorCode::GroupIdNotFound, message: None })
            })?;
            Refusal::check(found.error_code, found.error_message.as_ref())
                .map_err(about(group(name)))?;
            let members = found.members.iter().map(|it| Member {
                id: it.member_id.as_str().to_owned(),
                instance: it.group_instance_id.as_ref().map(|it| it.as_str().to_owned()),
                client_id: it.client_id.as_str().to_owned(),
                host: it.client_host.as_str().to_owned(),
            });
            Ok(GroupDescription {
                name: name.to_owned(),
                state: found.group_state.as_str().to_owned(),
                assignor: found.protocol_data.as_str().to_owned(),
                members: members.collect(),
            })
        })
    }

    /// Deletes a group that has no members, and the offsets it has committed.
    ///
    /// # Errors
    /// No node answers, there is no such group, or it has members.
    pub fn delete_group(&self, name: &str) -> Result<(), AdminError> {
        let request = DeleteGroupsRequestData::default().with_groups_names(vec![text(name)]);
        let answer = self.coordinator(name)?.call(&request, Duration::ZERO)?;
        for it in &answer.results {
            Refusal::check(it.error_code, None).map_err(about(group(name)))?;
        }
        Ok(())
    }

    /// The offsets that a group has committed, by stream and streamlet.
    ///
    /// # Errors
    /// No node answers, or the coordinator refuses.
    pub fn group_offsets(
        &self,
        name: &str,
    ) -> Result<BTreeMap<String, BTreeMap<i32, GroupOffset>>, AdminError> {
        self.again(|| {
            let connection = self.coordinator(name)?;
            let version = connection.version(ApiKey::OffsetFetch)?;
            let request = OffsetFetchRequestData::default();
            let request = match version {
                8.. => {
                    let row = OffsetFetchRequestGroup::default().with_group_id(text(name));
                    request.with_groups(vec![row.with_topics(None)])
                }
                _ => request.with_group_id(text(name)).with_topics(None),
            };
            // GroupOffsets of a transaction that is not decided are waited for.
            let request = request.with_require_stable(version >= 7);
            let answer = connection.call(&request, Duration::ZERO)?;
            Refusal::check(answer.error_code, None).map_err(about(group(name)))?;
            let mut offsets: BTreeMap<String, BTreeMap<i32, GroupOffset>> = BTreeMap::new();
            let mut note = |stream: &str, index, offset, metadata: Option<&str>, code| {
                Refusal::check(code, None).map_err(about(group(name)))?;
                if offset >= 0 {
                    let metadata = metadata.unwrap_or_default().to_owned();
                    let found = GroupOffset { offset, metadata };
                    offsets.entry(stream.to_owned()).or_default().insert(index, found);
                }
                Ok::<_, AdminError>(())
            };
            for topic in &answer.topics {
                for it in &topic.partitions {
                    let metadata = it.metadata.as_ref().map(|it| it.as_str());
                    let (index, offset) = (it.partition_index, it.committed_offset);
                    note(topic.name.as_str(), index, offset, metadata, it.error_code)?;
                }
            }
            for group_row in &answer.groups {
                Refusal::check(group_row.error_code, None).map_err(about(group(name)))?;
                for topic in &group_row.topics {
                    for it in &topic.partitions {
                        let metadata = it.metadata.as_ref().map(|it| it.as_str());
                        let (index, offset) = (it.partition_index, it.committed_offset);
                        note(topic.name.as_str(), index, offset, metadata, it.error_code)?;
                    }
                }
            }
            Ok(offsets)
        })
    }

    /// Commits offsets of a group that has no members, by stream and streamlet.
    ///
    /// # Errors
    /// No node answers, or the group has members, whose offsets are theirs to commit.
    pub fn commit_group_offsets(
        &self,
        name: &str,
        offsets: &BTreeMap<String, BTreeMap<i32, i64>>,
    ) -> Result<(), AdminError> {
        self.commit(name, &GroupCommitter::default(), offsets)
    }

    /// Commits offsets as this committer.
    pub(crate) fn commit(
        &self,
        name: &str,
        by: &GroupCommitter,
        offsets: &GroupOffsets,
    ) -> Result<(), AdminError> {
        let row = |(index, offset): (&i32, &i64)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(*index)
                .with_committed_offset(*offset)
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(Some(text("")))
        };
        let topic = |(stream, rows): (&String, &BTreeMap<i32, i64>)| {
            OffsetCommitRequestTopic::default()
                .with_name(text(stream))
                .with_partitions(rows.iter().map(row).collect())
        };
        let request = OffsetCommitRequestData::default()
            .with_group_id(text(name))
            .with_generation_id_or_member_epoch(by.generation)
            .with_member_id(text(&by.member))
            .with_topics(offsets.iter().map(topic).collect());
        // The same offsets again are the same offsets.
        self.again(|| {
            let connection = self.coordinator(name)?;
            let answer = connection.call(&request, Duration::ZERO)?;
            for it in answer.topics.iter().flat_map(|it| &it.partitions) {
                Refusal::check(it.error_code, None).map_err(about(group(name)))?;
            }
            let sent = offsets
                .iter()
                .flat_map(|(stream, rows)| rows.keys().map(move |index| (stream.as_str(), *index)));
            let spoken_of = answer.topics.iter().flat_map(|topic| {
                let rows = topic.partitions.iter();
                rows.map(move |it| (topic.name.as_str(), it.partition_index))
            });
            Ok(connection.check_spoken_of(ApiKey::OffsetCommit, sent, spoken_of)?)
        })
    }
}
