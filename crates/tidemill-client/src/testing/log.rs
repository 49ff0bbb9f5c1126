//! A node that keeps chunks in memory: enough of a broker to test producers and consumers against,
//! with faults when a test wants them.

use super::{FakeNode, Reply, versions_answer};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};
use tidemill_env::{World, lock::Mutex};
use tidemill_wire::{
    chunk::{ChunkHead, LeaderEpoch, stamp},
    kafka::{ApiKey, ErrorCode, KafkaUuid, RequestHead, message::*, text},
    records::{Records, inflate},
};

/// The fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It is not done, and the connection is closed.
    CloseBefore,
    /// It is done, and the connection is closed in place of an answer.
    CloseAfter,
    /// It is not done; the answer has this code.
    Code(ErrorCode),
    /// It is not done; the answer says neither so nor otherwise.
    LeaveOut,
}

/// A producer's epoch, and of its last chunks first and next sequence number and base offset.
type Sent = (i16, Vec<(i32, i32, i64)>);

/// A streamlet.
#[derive(Default)]
pub(crate) struct FakeStreamlet {
    /// Chunks, as they are served.
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// By producer id: epoch, and first and next sequence number of the last five chunks.
    producers: BTreeMap<i64, Sent>,
    /// Aborted transactions: producer id and first offset.
    pub(crate) aborted: Vec<(i64, i64)>,
}

/// The node's state.
pub(crate) struct FakeState {
    address: String,
    pub(crate) streams: BTreeMap<String, Vec<FakeStreamlet>>,
    pub(super) next_producer_id: i64,
    /// Asked before each request.
    pub(crate) fault: Box<dyn FnMut(ApiKey) -> Fault + Send>,
    /// Committed offsets by group, stream and streamlet.
    pub(crate) committed: BTreeMap<(String, String, i32), i64>,
    /// Transactions by their id.
    pub(crate) transactions: BTreeMap<String, super::transactions::FakeTransaction>,
    /// The ends of transactions.
    pub(crate) ended: Vec<TransactionEnd>,
    /// The number of further ends of transactions that do not reach all.
    pub(crate) deaf_ends: usize,
    /// Streamlets that do not hear them.
    pub(crate) deaf: Vec<(String, i32)>,
    /// The same of groups.
    pub(crate) is_group_deaf: bool,
    /// True if the end of a transaction is answered before all have it.
    pub(crate) is_slow: bool,
    /// Streamlets in which one is open that has lost its end.
    pub(crate) hanging: Vec<(String, i32)>,
    /// Offsets of one that has lost its end.
    pub(crate) undecided: Vec<(String, String, i32, i64)>,
    /// The ends of transactions in streamlets.
    pub(crate) fates: Vec<((String, i32), bool)>,
    /// In which epoch streamlets are led.
    pub(crate) leader_epoch: i32,
}

/// The end of a transaction: true if committed, its streamlets, its group.
pub(crate) type TransactionEnd = (bool, Vec<(String, i32)>, Option<String>);

/// See the module.
pub(crate) struct FakeLog {
    node: FakeNode,
    pub(crate) state: Arc<Mutex<FakeState>>,
}

impl FakeLog {
    /// A node with streams of these numbers of streamlets.
    pub(crate) fn start(streams: &[(&str, usize)]) -> Self {
        Self::start_in(&World::real(), "127.0.0.1:0", streams)
    }

    /// A node at an address of a world.
    pub(crate) fn start_in(world: &World, address: &str, streams: &[(&str, usize)]) -> Self {
        let new = |count: usize| (0..count).map(|_| FakeStreamlet::default()).collect();
        let streams = streams.iter().map(|(name, count)| ((*name).to_owned(), new(*count)));
        let state = Arc::new(Mutex::new(FakeState {
            address: String::new(),
            streams: streams.collect(),
            next_producer_id: 1000,
            fault: Box::new(|_| Fault::None),
            committed: BTreeMap::new(),
            transactions: BTreeMap::new(),
            ended: Vec::new(),
            deaf_ends: 0,
            deaf: Vec::new(),
            is_group_deaf: false,
            is_slow: false,
            hanging: Vec::new(),
            undecided: Vec::new(),
            fates: Vec::new(),
            leader_epoch: 0,
        }));
        let served = Arc::clone(&state);
        let reply = move |head: &RequestHead, content| served.lock().serve(head, content);
        let node = FakeNode::start_in(world, address, reply);
        state.lock().address = node.address().to_owned();
        Self { node, state }
    }

    pub(crate) fn address(&self) -> &str {
        self.node.address()
    }

    pub(crate) fn hang_up(&self) {
        self.node.hang_up();
    }

    pub(crate) fn on_request(&self, fault: impl FnMut(ApiKey) -> Fault + Send + 'static) {
        self.state.lock().fault = Box::new(fault);
    }

    /// The values in a streamlet, in order.
    pub(crate) fn values(&self, stream: &str, streamlet: usize) -> Vec<Vec<u8>> {
        let state = self.state.lock();
        let mut values = Vec::new();
        for chunk in &state.streams[stream][streamlet].chunks {
            let head = ChunkHead::check(chunk).unwrap();
            let mut scratch = Vec::new();
            let plain = inflate(&head, &chunk[61..], 1 << 24, &mut scratch).unwrap();
            for record in Records::new(&head, plain) {
                values.push(record.unwrap().value.unwrap_or_default().to_vec());
            }
        }
        values
    }

    /// Appends a chunk as it is, whatever it is; its records get the next offsets.
    pub(crate) fn put(&self, stream: &str, streamlet: usize, chunk: Vec<u8>) {
        let mut state = self.state.lock();
        state.streams.get_mut(stream).unwrap()[streamlet].put(chunk);
    }
}

impl FakeStreamlet {
    fn put(&mut self, mut chunk: Vec<u8>) {
        let records = ChunkHead::read(&chunk).map_or(1, |head| i64::from(head.record_count));
        stamp(&mut chunk, self.end, LeaderEpoch(3));
        self.end += records;
        self.chunks.push(chunk);
    }

    /// Appends a chunk of an idempotent producer as Kafka does.
    fn append(&mut self, chunk: &[u8]) -> Result<i64, ErrorCode> {
        let head = ChunkHead::check(chunk).map_err(|_| ErrorCode::CorruptMessage)?;
        let next = (i64::from(head.base_sequence) + i64::from(head.record_count)) & 0x7fff_ffff;
        let at = self.end;
        if head.producer_id >= 0 {
            let known = self.producers.get(&head.producer_id);
            match known {
                Some((epoch, _)) if head.producer_epoch < *epoch => {
                    return Err(ErrorCode::InvalidProducerEpoch);
                }
                Some((epoch, last)) if head.producer_epoch == *epoch => {
                    let same = |it: &&(i32, i32, i64)| {
                        it.0 == head.base_sequence && i64::from(it.1) == next
                    };
                    if last.iter().find(same).is_some() {
                        return Err(ErrorCode::DuplicateSequenceNumber);
                    }
                    if last.last().is_some_and(|it| it.1 != head.base_sequence) {
                        return Err(ErrorCode::OutOfOrderSequenceNumber);
                    }
                }
                _ if head.base_sequence != 0 => return Err(ErrorCode::OutOfOrderSequenceNumber),
                _ => {}
            }
            let entry = self.producers.entry(head.producer_id).or_default();
            if entry.0 != head.producer_epoch {
                *entry = (head.producer_epoch, Vec::new());
            }
            entry.1.push((head.base_sequence, next as i32, at));
            if entry.1.len() > 5 {
                entry.1.remove(0);
            }
        }
        self.put(chunk.to_vec());
        Ok(at)
    }

    /// Forgets all producers, as a log does whose records of them have expired.
    pub(crate) fn forget_producers(&mut self) {
        self.producers.clear();
    }
}

/// The id of a stream.
fn id_of(name: &str) -> KafkaUuid {
    KafkaUuid::from_parts(7, name.bytes().fold(1, |sum, it| sum * 31 + u64::from(it)))
}

impl FakeState {
    fn name_of(&self, name: &str, id: KafkaUuid) -> String {
        let named = self.streams.keys().find(|it| id_of(it) == id);
        if name.is_empty() { named.cloned().unwrap_or_default() } else { name.to_owned() }
    }

    fn serve(&mut self, head: &RequestHead, mut content: Bytes) -> Reply {
        let key = ApiKey::from_i16(head.key).expect("the client asks what there is");
        if key == ApiKey::ApiVersions {
            return versions_answer(head);
        }
        let fault = (self.fault)(key);
        if fault == Fault::CloseBefore {
            return Reply::Close;
        }
        let version = head.version;
        if fault == Fault::LeaveOut {
            return match key {
                ApiKey::AddPartitionsToTxn => {
                    Reply::message(head, &AddPartitionsToTxnResponseData::default())
                }
                ApiKey::Produce => Reply::message(head, &ProduceResponseData::default()),
                ApiKey::OffsetCommit => Reply::message(head, &OffsetCommitResponseData::default()),
                ApiKey::TxnOffsetCommit => {
                    Reply::message(head, &TxnOffsetCommitResponseData::default())
                }
                key => panic!("{key:?} has nothing to leave out"),
            };
        }
        let reply = match key {
            ApiKey::Metadata => {
                let asked = MetadataRequestData::read(&mut content, version).unwrap();
                self.metadata(head, &asked)
            }
            ApiKey::InitProducerId => {
                let asked = InitProducerIdRequestData::read(&mut content, version).unwrap();
                let (code, producer_id, epoch) = match fault {
                    Fault::Code(code) => (code, -1, -1),
                    _ => self.init(&asked),
                };
                let answer = InitProducerIdResponseData::default().with_error_code(code.code());
                let answer = answer.with_producer_id(producer_id).with_producer_epoch(epoch);
                Reply::message(head, &answer)
            }
            ApiKey::Produce => {
                let asked = ProduceRequestData::read(&mut content, version).unwrap();
                self.produce(head, &asked, fault)
            }
            ApiKey::ListOffsets => {
                let asked = ListOffsetsRequestData::read(&mut content, version).unwrap();
                self.list_offsets(head, &asked)
            }
            ApiKey::Fetch => {
                let asked = FetchRequestData::read(&mut content, version).unwrap();
                self.fetch(head, &asked, fault)
            }
            ApiKey::FindCoordinator => self.find_coordinator(head, &mut content),
            ApiKey::OffsetCommit => {
                let asked = OffsetCommitRequestData::read(&mut content, version).unwrap();
                self.commit(head, &asked)
            }
            ApiKey::OffsetFetch => {
                let asked = OffsetFetchRequestData::read(&mut content, version).unwrap();
                self.fetch_offsets(head, &asked, fault)
            }
            key => match self.transact(head, key, &mut content, fault) {
                Some(reply) => reply,
                None => return Reply::Close,
            },
        };
        if fault == Fault::CloseAfter { Reply::Close } else { reply }
    }

    fn host_port(&self) -> (&str, i32) {
        let (host, port) = self.address.rsplit_once(':').unwrap();
        (host, port.parse().unwrap())
    }

    fn metadata(&self, head: &RequestHead, asked: &MetadataRequestData) -> Reply {
        use metadata_response::{
            MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
        };
        let (host, port) = self.host_port();
        let broker = MetadataResponseBroker::default().with_node_id(3).with_host(text(host));
        let names: Vec<String> = match &asked.topics {
            None => self.streams.keys().cloned().collect(),
            Some(rows) => rows.iter().map(|it| it.name.as_ref().unwrap().to_string()).collect(),
        };
        let topic = |name: &String| {
            let row = MetadataResponseTopic::default().with_name(Some(text(name)));
            let Some(streamlets) = self.streams.get(name) else {
                return row.with_error_code(3);
            };
            let partition = |index| {
                MetadataResponsePartition::default()
                    .with_partition_index(index)
                    .with_leader_id(3)
                    .with_leader_epoch(if head.version >= 7 { self.leader_epoch } else { -1 })
            };
            let row = if head.version >= 10 { row.with_topic_id(id_of(name)) } else { row };
            row.with_partitions((0..streamlets.len() as i32).map(partition).collect())
        };
        let answer = MetadataResponseData::default()
            .with_brokers(vec![broker.with_port(port)])
            .with_controller_id(3)
            .with_topics(names.iter().map(topic).collect());
        Reply::message(head, &answer)
    }

    fn produce(&mut self, head: &RequestHead, asked: &ProduceRequestData, fault: Fault) -> Reply {
        use produce_response::{PartitionProduceResponse, TopicProduceResponse};
        let mut responses = Vec::new();
        for topic in &asked.topic_data {
            let name = self.name_of(topic.name.as_str(), topic.topic_id);
            let mut rows = Vec::new();
            for part in &topic.partition_data {
                let streamlets = self.streams.get_mut(&name);
                let streamlet = streamlets.and_then(|it| it.get_mut(part.index as usize));
                let outcome = match (fault, streamlet) {
                    (Fault::Code(code), _) => Err(code),
                    (_, None) => Err(ErrorCode::UnknownTopicOrPartition),
                    (_, Some(streamlet)) => streamlet.append(part.records.as_ref().unwrap()),
                };
                let row = PartitionProduceResponse::default().with_index(part.index);
                rows.push(match outcome {
                    Ok(offset) => row.with_base_offset(offset),
                    Err(code) => row.with_error_code(code.code()).with_base_offset(-1),
                });
            }
            responses.push(
                TopicProduceResponse::default()
                    .with_name(topic.name.clone())
                    .with_topic_id(topic.topic_id)
                    .with_partition_responses(rows),
            );
        }
        if asked.acks == 0 {
            return Reply::Nothing;
        }
        Reply::message(head, &ProduceResponseData::default().with_responses(responses))
    }

    fn list_offsets(&self, head: &RequestHead, asked: &ListOffsetsRequestData) -> Reply {
        use list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
        let topics = asked.topics.iter().map(|topic| {
            let rows = topic.partitions.iter().map(|it| {
                let streamlets = self.streams.get(topic.name.as_str());
                let streamlet = streamlets.and_then(|all| all.get(it.partition_index as usize));
                let row = ListOffsetsPartitionResponse::default()
                    .with_partition_index(it.partition_index);
                match streamlet {
                    None => row.with_error_code(3),
                    Some(streamlet) => row.with_offset(streamlet.offset_at(it.timestamp)),
                }
            });
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(rows.collect())
        });
        Reply::message(head, &ListOffsetsResponseData::default().with_topics(topics.collect()))
    }

    fn fetch(&self, head: &RequestHead, asked: &FetchRequestData, fault: Fault) -> Reply {
        use fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
        let mut room = asked.max_bytes as usize;
        let mut any = false;
        let mut responses = Vec::new();
        for topic in &asked.topics {
            let name = self.name_of(topic.topic.as_str(), topic.topic_id);
            let mut rows = Vec::new();
            for part in &topic.partitions {
                let streamlets = self.streams.get(&name);
                let streamlet = streamlets.and_then(|all| all.get(part.partition as usize));
                let row = PartitionData::default().with_partition_index(part.partition);
                let code = match (fault, streamlet) {
                    (Fault::Code(code), _) => code,
                    (_, None) => ErrorCode::UnknownTopicOrPartition,
                    (_, Some(it)) if !(it.start..=it.end).contains(&part.fetch_offset) => {
                        ErrorCode::OffsetOutOfRange
                    }
                    _ => ErrorCode::None,
                };
                let Some(streamlet) = streamlet.filter(|_| code == ErrorCode::None) else {
                    rows.push(row.with_error_code(code.code()));
                    continue;
                };
                let mut records = Vec::new();
                for chunk in &streamlet.chunks {
                    // What is no chunk is served to whoever asks.
                    let after = ChunkHead::read(chunk).map_or(i64::MAX, |it| it.last_offset());
                    if after < part.fetch_offset {
                        continue;
                    }
                    if any && chunk.len() > room {
                        break;
                    }
                    any = true;
                    room = room.saturating_sub(chunk.len());
                    records.extend_from_slice(chunk);
                }
                let aborted = streamlet.aborted.iter().map(|(producer_id, first)| {
                    AbortedTransaction::default()
                        .with_producer_id(*producer_id)
                        .with_first_offset(*first)
                });
                rows.push(
                    row.with_high_watermark(streamlet.end)
                        .with_last_stable_offset(streamlet.end)
                        .with_log_start_offset(streamlet.start)
                        .with_aborted_transactions(Some(aborted.collect()))
                        .with_records(Some(records.into())),
                );
            }
            responses.push(
                FetchableTopicResponse::default()
                    .with_topic(topic.topic.clone())
                    .with_topic_id(topic.topic_id)
                    .with_partitions(rows),
            );
        }
        Reply::message(head, &FetchResponseData::default().with_responses(responses))
    }

    fn find_coordinator(&self, head: &RequestHead, content: &mut Bytes) -> Reply {
        use find_coordinator_response::Coordinator;
        let asked = FindCoordinatorRequestData::read(content, head.version).unwrap();
        let (host, port) = self.host_port();
        let rows = asked.coordinator_keys.iter().map(|key| {
            Coordinator::default()
                .with_key(key.clone())
                .with_node_id(3)
                .with_host(text(host))
                .with_port(port)
        });
        let answer = FindCoordinatorResponseData::default().with_coordinators(rows.collect());
        Reply::message(head, &answer)
    }
}

impl FakeStreamlet {
    fn offset_at(&self, timestamp: i64) -> i64 {
        match timestamp {
            -2 => self.start,
            -1 => self.end,
            time => {
                let heads = self.chunks.iter().map(|it| ChunkHead::read(it).unwrap());
                heads
                    .into_iter()
                    .find(|it| it.max_timestamp_ms >= time)
                    .map_or(-1, |it| it.base_offset)
            }
        }
    }
}
