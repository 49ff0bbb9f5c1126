//! The nodes of the cluster and the leaders of streamlets, as of the last answer.
//!
//! Invariants: numbers of streamlets from outside are bounded; streams that an answer does not
//! mention stay as they were.

use std::collections::BTreeMap;
use tidemill_types::{LeaderEpoch, NodeId, address};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString, KafkaUuid,
    message::{
        MetadataRequestData, MetadataResponseData, metadata_request::MetadataRequestTopic,
        metadata_response::MetadataResponseTopic,
    },
    text,
};

#[cfg(test)]
mod tests;

/// Streamlets of a stream, at most; further ones are not seen.
const STREAMLETS_MAX: i32 = 1_000_000;

/// A cluster at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// Addresses of the nodes, by id.
    pub(crate) nodes: BTreeMap<NodeId, String>,
    /// The node that makes changes.
    pub(crate) controller: Option<NodeId>,
    /// Streams that were asked for, by name.
    pub(crate) streams: BTreeMap<String, StreamMeta>,
    /// When the answer came, on the monotonic clock; 0 if none has.
    pub(crate) at_us: u64,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamMeta {
    /// The node's error code for it.
    pub(crate) code: ErrorCode,
    /// Its id; zero if the node does not know ids.
    pub(crate) id: KafkaUuid,
    /// True if it is the cluster's own.
    pub(crate) internal: bool,
    /// By their numbers. There may be gaps while a stream is being made.
    pub(crate) streamlets: BTreeMap<i32, StreamletMeta>,
}

/// A streamlet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamletMeta {
    /// The node that takes and serves its records; none while there is none.
    pub(crate) leader: Option<NodeId>,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) replicas: Vec<i32>,
    pub(crate) in_sync: Vec<i32>,
}

impl StreamMeta {
    /// Its id as 32 hexadecimal digits.
    pub(crate) fn id_text(&self) -> String {
        self.id.to_bytes().iter().map(|it| format!("{it:02x}")).collect()
    }

    /// The number of streamlets: one more than the highest index.
    pub(crate) fn streamlet_count(&self) -> i32 {
        self.streamlets.last_key_value().map_or(0, |(index, _)| index + 1)
    }
}

/// A request for some streams, or for all.
pub(crate) fn request(streams: Option<&mut dyn Iterator<Item = &str>>) -> MetadataRequestData {
    let row = |name: &str| MetadataRequestTopic::default().with_name(Some(text(name)));
    MetadataRequestData::default()
        .with_topics(streams.map(|it| it.map(row).collect()))
        .with_allow_auto_topic_creation(false)
}

impl Metadata {
    /// Reads an answer, over the metadata known before.
    pub(crate) fn read(answer: &MetadataResponseData, before: &Self, now_us: u64) -> Self {
        let nodes = answer.brokers.iter().filter_map(|it| {
            let port = u16::try_from(it.port).ok()?;
            Some((NodeId(it.node_id), address::join(it.host.as_str(), port)))
        });
        let mut streams = before.streams.clone();
        for topic in &answer.topics {
            let Some(name) = topic.name.as_ref().map(KafkaString::as_str) else { continue };
            let meta = StreamMeta::read(topic);
            match streams.get_mut(name) {
                // A stream of which the leaders cannot be told for a moment has its streamlets yet.
                Some(known) if meta.code.is_error() && meta.code.is_retriable() => {
                    known.code = meta.code;
                    if meta.code == ErrorCode::UnknownTopicOrPartition {
                        known.streamlets.clear();
                    }
                }
                _ => {
                    streams.insert(name.to_owned(), meta);
                }
            }
        }
        let controller = (answer.controller_id >= 0).then_some(NodeId(answer.controller_id));
        Self { nodes: nodes.collect(), controller, streams, at_us: now_us.max(1) }
    }

    /// The leader of a streamlet.
    pub(crate) fn leader(&self, stream: &str, streamlet: i32) -> Option<NodeId> {
        self.streams.get(stream)?.streamlets.get(&streamlet)?.leader
    }
}

impl StreamMeta {
    fn read(topic: &MetadataResponseTopic) -> Self {
        let known = |it: &i32| (0..STREAMLETS_MAX).contains(it);
        let streamlets = topic.partitions.iter().filter(|it| known(&it.partition_index));
        Self {
            code: ErrorCode::from(topic.error_code),
            id: topic.topic_id,
            internal: topic.is_internal,
            streamlets: streamlets
                .map(|it| {
                    let meta = StreamletMeta {
                        leader: (it.leader_id >= 0).then_some(NodeId(it.leader_id)),
                        leader_epoch: LeaderEpoch(it.leader_epoch),
                        replicas: it.replica_nodes.clone(),
                        in_sync: it.isr_nodes.clone(),
                    };
                    (it.partition_index, meta)
                })
                .collect(),
        }
    }
}
