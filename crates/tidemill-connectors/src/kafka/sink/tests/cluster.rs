//! A broker that keeps the offset of a group: enough of Kafka for transactions without rows.

use crate::kafka::testing::{serve, versions, written};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use tidemill_env::World;
use tidemill_wire::kafka::{
    ApiKey, ErrorCode, RequestHead,
    message::{
        AddOffsetsToTxnResponseData, CreateTopicsRequestData, CreateTopicsResponseData,
        EndTxnResponseData, FindCoordinatorResponseData, InitProducerIdResponseData,
        MetadataResponseData, OffsetFetchRequestData, OffsetFetchResponseData,
        TxnOffsetCommitRequestData, TxnOffsetCommitResponseData,
        create_topics_response::CreatableTopicResult,
        find_coordinator_response::Coordinator,
        metadata_response::MetadataResponseBroker,
        offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
        },
        txn_offset_commit_response::{
            TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
        },
    },
    text,
};

/// The one topic.
pub(super) const TOPIC: &str = "t";

/// One that may not be made.
pub(super) const REFUSED: &str = "refused";

/// See the module.
#[derive(Clone)]
pub(super) struct Cluster {
    address: String,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// What the next end of a transaction commits: an offset and its metadata.
    open: Option<(i64, String)>,
    committed: Option<(i64, String)>,
    commits: u32,
    /// Topics that were to be made, and whether that was only to be looked at.
    topics: Vec<(String, bool)>,
    closers: Vec<Arc<dyn Fn() + Send + Sync>>,
}

impl Cluster {
    pub(super) fn start() -> Self {
        let world = World::real();
        let listener = world.net.listen("127.0.0.1:0").unwrap();
        let cluster = Self { address: listener.address().unwrap(), kept: Arc::default() };
        let (broker, spawn) = (cluster.clone(), world.clone());
        let accept = move || {
            while let Ok(connection) = listener.accept() {
                broker.kept.lock().unwrap().closers.push(Arc::clone(&connection.closer));
                let broker = broker.clone();
                let serving = Box::new(move || {
                    drop(serve(connection, |head, asked, content| {
                        broker.answer(head, asked, content)
                    }))
                });
                drop(spawn.spawn.spawn("broker", serving));
            }
        };
        drop(world.spawn.spawn("broker", Box::new(accept)));
        cluster
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// How many transactions were committed.
    pub(super) fn commits(&self) -> u32 {
        self.kept.lock().unwrap().commits
    }

    /// Topics that were to be made, and whether that was only to be looked at.
    pub(super) fn topics(&self) -> Vec<(String, bool)> {
        self.kept.lock().unwrap().topics.clone()
    }

    /// Closes all connections.
    pub(super) fn hang_up(&self) {
        self.kept.lock().unwrap().closers.drain(..).for_each(|close| close());
    }

    fn answer(&self, head: &RequestHead, asked: ApiKey, content: Bytes) -> Vec<u8> {
        self.kept.lock().unwrap().answer(&self.address, (head, asked), content)
    }
}

impl Kept {
    fn answer(
        &mut self,
        address: &str,
        (head, asked): (&RequestHead, ApiKey),
        mut content: Bytes,
    ) -> Vec<u8> {
        let (host, port) = address.rsplit_once(':').unwrap();
        let port = port.parse().unwrap();
        match asked {
            // Without how a transaction was decided.
            ApiKey::ApiVersions => {
                written(head, &versions(&[ApiKey::DescribeTransactions, ApiKey::DescribeProducers]))
            }
            ApiKey::Metadata => {
                let broker = MetadataResponseBroker::default().with_node_id(3);
                let broker = broker.with_host(text(host)).with_port(port);
                written(head, &MetadataResponseData::default().with_brokers(vec![broker]))
            }
            ApiKey::FindCoordinator => {
                let row = Coordinator::default().with_node_id(3).with_host(text(host));
                let rows = vec![row.with_port(port)];
                written(head, &FindCoordinatorResponseData::default().with_coordinators(rows))
            }
            ApiKey::CreateTopics => {
                let asked = CreateTopicsRequestData::read(&mut content, head.version).unwrap();
                let topic = &asked.topics[0];
                self.topics.push((topic.name.to_string(), asked.validate_only));
                let code = if topic.name.to_string() == REFUSED {
                    ErrorCode::TopicAuthorizationFailed
                } else {
                    ErrorCode::None
                };
                let row = CreatableTopicResult::default().with_name(topic.name.clone());
                let rows = vec![row.with_error_code(i16::from(code))];
                written(head, &CreateTopicsResponseData::default().with_topics(rows))
            }
            ApiKey::InitProducerId => {
                self.open = None;
                written(head, &InitProducerIdResponseData::default().with_producer_id(1))
            }
            ApiKey::OffsetFetch => {
                let asked = OffsetFetchRequestData::read(&mut content, head.version).unwrap();
                let group = asked.groups[0].group_id.clone();
                let group = OffsetFetchResponseGroup::default().with_group_id(group);
                let topics = self.committed.iter().map(|(offset, metadata)| {
                    let row =
                        OffsetFetchResponsePartitions::default().with_committed_offset(*offset);
                    let row = row.with_metadata(Some(text(metadata)));
                    let topic = OffsetFetchResponseTopics::default().with_name(text(TOPIC));
                    topic.with_partitions(vec![row])
                });
                let groups = vec![group.with_topics(topics.collect())];
                written(head, &OffsetFetchResponseData::default().with_groups(groups))
            }
            ApiKey::AddOffsetsToTxn => written(head, &AddOffsetsToTxnResponseData::default()),
            ApiKey::TxnOffsetCommit => {
                let asked = TxnOffsetCommitRequestData::read(&mut content, head.version).unwrap();
                let row = &asked.topics[0].partitions[0];
                let metadata = row.committed_metadata.as_ref().unwrap().to_string();
                self.open = Some((row.committed_offset, metadata));
                let row = TxnOffsetCommitResponsePartition::default();
                let topic = TxnOffsetCommitResponseTopic::default().with_name(text(TOPIC));
                let topics = vec![topic.with_partitions(vec![row])];
                written(head, &TxnOffsetCommitResponseData::default().with_topics(topics))
            }
            ApiKey::EndTxn => {
                self.committed = self.open.take();
                self.commits += 1;
                written(head, &EndTxnResponseData::default())
            }
            other => panic!("transactions without rows do not ask for {other:?}"),
        }
    }
}
