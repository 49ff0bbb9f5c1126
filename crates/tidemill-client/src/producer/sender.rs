//! The producer's thread: takes chunks from the queues that are due and sends them to their leaders.
//!
//! ```text
//! schedule ─ due queues ─▶ by leader: Node { waiting queues, requests under way } ─▶ requests
//!    ▲                                                                                  │
//!    └───────────── answers, on the connection's thread: delivered, again, failed ◀─────┘
//! ```
//!
//! Nothing here waits but in [`Schedule::sleep`](super::schedule::Schedule::sleep): a node that is
//! away, or slow, holds up its own streamlets only.

use super::{
    Delivered, ProduceError,
    answer_policy::{self, AnswerDecision},
    chunk::FinishedChunk,
    identity::{IdentityState, ProducerIdentity},
    producer_core::ProducerCore,
    queue::{ChunkQueue, NotNow, Readiness},
    request::{Answers, RequestChunk, RequestChunks, id_of},
    stream::ProducerStreamlet,
};
use crate::{
    CallError, Refusal,
    backoff::rest_us,
    cluster::{Metadata, NodeRoute},
    connection::{Connection, RequestOptions},
    options::micros,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tidemill_env::sync::atomic::{AtomicUsize, Ordering};
use tidemill_types::NodeId;
use tidemill_wire::kafka::{
    ApiKey, ErrorCode,
    message::{InitProducerIdRequestData, ProduceRequestData},
    produce_frame,
};

/// The pause between checks of queues without a known or reachable leader, in microseconds.
const LOOK_US: u64 = 50_000;
/// Metadata older than this are asked for again, in microseconds: streams may have grown.
const METADATA_AGE_US: u64 = 60_000_000;

/// The thread's state of a node.
#[derive(Default)]
struct NodeQueue {
    /// Streamlets that have something to send, in turn.
    waiting: VecDeque<Arc<ProducerStreamlet>>,
    in_flight: Arc<AtomicUsize>,
}

/// See the module.
pub(super) struct ProducerThread {
    shared: Arc<ProducerCore>,
    nodes: BTreeMap<NodeId, NodeQueue>,
    due: Vec<usize>,
}

impl ProducerThread {
    pub(super) fn new(shared: Arc<ProducerCore>) -> Self {
        Self { shared, nodes: BTreeMap::new(), due: Vec::new() }
    }

    /// The body of the thread.
    pub(super) fn run(mut self) {
        while !self.shared.closed.load(Ordering::Acquire) {
            self.shared.schedule.begin_turn();
            let now_us = self.shared.cluster.now_us();
            let until_us = self.turn(now_us);
            self.shared.schedule.sleep(self.shared.cluster.now_us(), until_us);
        }
    }

    /// Does everything that can be done now. Returns when there may be more.
    fn turn(&mut self, now_us: u64) -> u64 {
        let cluster = &self.shared.cluster;
        let tend_us = cluster.tend(now_us).unwrap_or(u64::MAX);
        let metadata = cluster.metadata();
        if now_us.saturating_sub(metadata.at_us) > METADATA_AGE_US {
            cluster.refresh();
        }
        self.grow(&metadata);
        let ask_us = self.ask_identity(now_us);
        self.shared.schedule.take_due(now_us, &mut self.due);
        let due: Vec<Arc<ProducerStreamlet>> = {
            let all = self.shared.streamlets.read();
            self.due.drain(..).filter_map(|place| all.get(place).cloned()).collect()
        };
        for streamlet in &due {
            self.route(streamlet, &metadata, now_us);
        }
        let mut until_us = tend_us.min(ask_us).min(now_us.saturating_add(METADATA_AGE_US));
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            until_us = until_us.min(self.serve(id, &metadata, now_us));
        }
        until_us
    }

    fn grow(&self, metadata: &Metadata) {
        let streams = self.shared.streams.lock();
        for (name, stream) in streams.iter() {
            let count = metadata.streams.get(name).map_or(0, |it| it.streamlet_count());
            let count = usize::try_from(count).unwrap_or(0);
            if count > stream.count() {
                self.shared.grow(stream, count);
            }
        }
    }

    /// Puts a streamlet that is due into its leader's turn, or has it looked at later.
    fn route(&mut self, streamlet: &Arc<ProducerStreamlet>, metadata: &Metadata, now_us: u64) {
        let mut queue = streamlet.lock();
        queue.due_us = None;
        let readiness = queue.readiness(now_us);
        match readiness {
            Readiness::Idle => return,
            Readiness::At(at_us) => return self.shared.put(streamlet, &mut queue, at_us),
            Readiness::Ready => {}
        }
        match metadata.leader(&streamlet.stream, streamlet.index) {
            Some(leader) => {
                drop(queue);
                let waiting = &mut self.nodes.entry(leader).or_default().waiting;
                if !waiting.iter().any(|it| it.place == streamlet.place) {
                    waiting.push_back(Arc::clone(streamlet));
                }
            }
            None => {
                let known = metadata.streams.get(&*streamlet.stream);
                let code = known.map_or(ErrorCode::UnknownTopicOrPartition, |it| it.code);
                let code = if code.is_error() { code } else { ErrorCode::LeaderNotAvailable };
                queue.note_obstacle(Refusal { code, message: None });
                let expired = expire(streamlet, &mut queue, now_us);
                self.shared.put(streamlet, &mut queue, now_us.saturating_add(LOOK_US));
                drop(queue);
                self.shared.finish(expired);
                self.shared.cluster.refresh();
            }
        }
    }

    /// Sends the chunks that wait for a node, as far as allowed. Returns when to call again.
    fn serve(&mut self, id: NodeId, metadata: &Metadata, now_us: u64) -> u64 {
        let Some(node) = self.nodes.get_mut(&id) else { return u64::MAX };
        if node.waiting.is_empty() {
            return u64::MAX;
        }
        let connection = match self.shared.cluster.route_to(id, now_us) {
            NodeRoute::Ready(connection) => connection,
            NodeRoute::Opening { .. } => return u64::MAX,
            way => {
                let look_us = now_us.saturating_add(LOOK_US);
                let (error, look_us) = match way {
                    NodeRoute::Resting { error, until_us } => (Some(error), look_us.min(until_us)),
                    _ => (None, look_us),
                };
                // They are looked at again by themselves: their leader may be another one then.
                for streamlet in std::mem::take(&mut node.waiting) {
                    let mut queue = streamlet.lock();
                    if let Some(error) = &error {
                        queue.note_obstacle(error);
                    }
                    let expired = expire(&streamlet, &mut queue, now_us);
                    self.shared.put(&streamlet, &mut queue, look_us);
                    drop(queue);
                    self.shared.finish(expired);
                }
                self.shared.cluster.refresh();
                return u64::MAX;
            }
        };
        let in_flight = Arc::clone(&node.in_flight);
        while in_flight.load(Ordering::Acquire) < self.shared.options.in_flight {
            let parts = self.take_parts(id, metadata, now_us);
            if parts.parts.is_empty() {
                break;
            }
            self.send(&connection, &in_flight, parts, now_us);
        }
        u64::MAX
    }

    /// Takes chunks for one request off the queues that wait for a node.
    fn take_parts(&mut self, id: NodeId, metadata: &Metadata, now_us: u64) -> RequestChunks {
        let mut parts = RequestChunks::default();
        let Some(node) = self.nodes.get_mut(&id) else { return parts };
        let holding = self.shared.holding.lock().clone();
        let mut spent: Option<ProducerIdentity> = None;
        let mut finished = Vec::new();
        for _ in 0..node.waiting.len() {
            let Some(streamlet) = node.waiting.pop_front() else { break };
            let mut queue = streamlet.lock();
            if metadata.leader(&streamlet.stream, streamlet.index) != Some(id) {
                self.shared.put(&streamlet, &mut queue, 0);
                continue;
            }
            finished.extend(expire(&streamlet, &mut queue, now_us));
            let room = match parts.parts.is_empty() {
                true => usize::MAX,
                false => self.shared.options.request_bytes.saturating_sub(parts.bytes),
            };
            match (queue.next(now_us, holding.identity(), room), &holding) {
                (Ok((serial, chunk)), _) => {
                    let more = queue.readiness(now_us);
                    if let Readiness::At(at_us) = more {
                        self.shared.put(&streamlet, &mut queue, at_us);
                    }
                    drop(queue);
                    if more == Readiness::Ready {
                        node.waiting.push_back(Arc::clone(&streamlet));
                    }
                    let id = id_of(metadata, &streamlet.stream);
                    parts.push(RequestChunk { streamlet, serial, id }, chunk);
                }
                (Err(NotNow::TooLong), _) => {
                    drop(queue);
                    node.waiting.push_front(streamlet);
                    break;
                }
                (Err(NotNow::NeedsIdentity(_)), IdentityState::Refused(refusal)) => {
                    let outcome = Err(ProduceError::NoProducerId(refusal.clone()));
                    let given_up = queue.drain_all().into_iter();
                    finished.extend(
                        given_up.map(|chunk| FinishedChunk { chunk, outcome: outcome.clone() }),
                    );
                }
                (Err(NotNow::NeedsIdentity(before)), _) => {
                    spent = spent.or(before);
                    drop(queue);
                    node.waiting.push_back(streamlet);
                }
                (Err(NotNow::NotReady), _) => {
                    if let Readiness::At(at_us) = queue.readiness(now_us) {
                        self.shared.put(&streamlet, &mut queue, at_us);
                    }
                }
            }
        }
        if self.shared.holding.lock().replace(spent) {
            self.shared.schedule.ring();
        }
        self.shared.finish(finished);
        parts
    }

    fn send(
        &self,
        connection: &Connection,
        in_flight: &Arc<AtomicUsize>,
        parts: RequestChunks,
        now_us: u64,
    ) {
        let shared = &self.shared;
        shared.counts.requests.fetch_add(1, Ordering::Relaxed);
        let timeout = shared.cluster.options().request_timeout;
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let (produce, parts) = parts.finish(shared.options.acks.code(), timeout_ms);
        let version = match connection.version(ApiKey::Produce) {
            Ok(version) => version,
            Err(error) => return answered(shared, &parts, Err(&error)),
        };
        in_flight.fetch_add(1, Ordering::AcqRel);
        let asking = RequestOptions {
            version,
            deadline_us: now_us.saturating_add(micros(timeout)),
            more_bytes: 0,
            answer: produce.acks != 0,
        };
        let (shared, in_flight) = (Arc::clone(shared), Arc::clone(in_flight));
        let (asked, answer_comes) = (connection.clone(), asking.answer);
        let then = Box::new(move |answer: Result<Bytes, CallError>| {
            in_flight.fetch_sub(1, Ordering::AcqRel);
            if answer_comes {
                let answer =
                    answer.and_then(|it| asked.read_answer::<ProduceRequestData>(version, it));
                match &answer {
                    Ok(answer) => answered(&shared, &parts, Ok(Some(&Answers::of(answer)))),
                    Err(error) => answered(&shared, &parts, Err(error)),
                }
            } else {
                answered(&shared, &parts, answer.as_ref().map(|_| None));
            }
            shared.schedule.ring();
        });
        let write = |version, id, client: &_| produce_frame(&produce, version, id, client);
        connection.send_pieces(ApiKey::Produce, &asking, write, then);
    }

    /// Asks for a producer id, if one is wanted. Returns when to try again.
    fn ask_identity(&self, now_us: u64) -> u64 {
        let shared = &self.shared;
        if !shared.options.idempotent {
            return u64::MAX;
        }
        let mut holding = shared.holding.lock();
        match *holding {
            IdentityState::Wanted { not_before_us } if not_before_us > now_us => {
                return not_before_us;
            }
            IdentityState::Wanted { .. } => {}
            _ => return u64::MAX,
        }
        let connection = match shared.cluster.route_to_any(now_us) {
            NodeRoute::Ready(connection) => connection,
            NodeRoute::Resting { until_us, .. } | NodeRoute::Opening { until_us } => {
                return until_us;
            }
            NodeRoute::Unknown => return u64::MAX,
        };
        let version = match connection.version(ApiKey::InitProducerId) {
            Ok(version) => version,
            Err(CallError::Unsupported { .. }) => {
                let message = "the node gives out none: say `idempotent: false`".to_owned();
                let code = ErrorCode::UnsupportedVersion;
                *holding = IdentityState::Refused(Refusal { code, message: Some(message) });
                return u64::MAX;
            }
            // It has ended in this moment, and will be opened again.
            Err(_) => return now_us.saturating_add(LOOK_US),
        };
        *holding = IdentityState::Asked;
        drop(holding);
        let request = InitProducerIdRequestData::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(i32::MAX)
            .with_producer_id(-1)
            .with_producer_epoch(-1);
        let patience_us = micros(shared.cluster.options().request_timeout);
        let asking = RequestOptions::answered(version, now_us.saturating_add(patience_us));
        let (shared, asked) = (Arc::clone(shared), connection.clone());
        let then = Box::new(move |answer: Result<Bytes, CallError>| {
            let read =
                answer.and_then(|it| asked.read_answer::<InitProducerIdRequestData>(version, it));
            let rest_us = micros(shared.cluster.options().backoff);
            let later = IdentityState::Wanted {
                not_before_us: shared.cluster.now_us().saturating_add(rest_us),
            };
            let holding = match read {
                Err(_) => later,
                Ok(answer) => match Refusal::of(answer.error_code, None) {
                    None => IdentityState::Held(ProducerIdentity::of(
                        answer.producer_id,
                        answer.producer_epoch,
                    )),
                    Some(refusal) if refusal.code.is_retriable() => later,
                    Some(refusal) => IdentityState::Refused(refusal),
                },
            };
            *shared.holding.lock() = holding;
            shared.schedule.ring();
        });
        connection.send(&request, &asking, then);
        u64::MAX
    }
}

fn expire(
    streamlet: &ProducerStreamlet,
    queue: &mut ChunkQueue,
    now_us: u64,
) -> Vec<FinishedChunk> {
    queue.expire(now_us, |last, after_us| ProduceError::TimedOut {
        stream: streamlet.stream.to_string(),
        streamlet: streamlet.index,
        after_ms: after_us / 1000,
        last: last.to_owned(),
    })
}

/// Applies the answer to a request, or its absence. `None` in place of answers: none is needed.
fn answered(
    shared: &ProducerCore,
    parts: &[RequestChunk],
    answers: Result<Option<&Answers<'_>>, &CallError>,
) {
    let mut finished = Vec::new();
    let mut refresh = false;
    for part in parts {
        let streamlet = &*part.streamlet;
        let unknown = Delivered { streamlet: streamlet.index, offset: None, append_time_ms: None };
        let refused = |refusal| ProduceError::Refused {
            stream: streamlet.stream.to_string(),
            streamlet: streamlet.index,
            refusal,
        };
        let mut queue = streamlet.lock();
        let Some(facts) = queue.facts(part.serial) else { continue };
        let (answer_policy, delivered, error) = match answers {
            Ok(None) => (AnswerDecision::Delivered, unknown, ProduceError::Closed),
            Ok(Some(answers)) => match answers.about(part) {
                None => {
                    let code = ErrorCode::UnknownServerError;
                    let message = Some("the answer does not speak of it".to_owned());
                    let error = refused(Refusal { code, message });
                    (AnswerDecision::Again { refresh: true }, unknown, error)
                }
                Some((delivered, None)) => {
                    (AnswerDecision::Delivered, delivered, ProduceError::Closed)
                }
                Some((_, Some(refusal))) => {
                    (answer_policy::of_code(refusal.code, facts), unknown, refused(refusal))
                }
            },
            Err(error) => {
                (answer_policy::of_error(error), unknown, ProduceError::Call(error.clone()))
            }
        };
        if matches!(answer_policy, AnswerDecision::Again { .. } | AnswerDecision::NewIdentity) {
            shared.counts.retries.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(
                stream = %streamlet.stream, streamlet = streamlet.index, %error, "sent again"
            );
        }
        refresh |= answer_policy == AnswerDecision::Again { refresh: true };
        let now_us = shared.cluster.now_us();
        let rest = |failures| {
            let random = shared.cluster.random();
            now_us.saturating_add(rest_us(failures, shared.cluster.options(), random))
        };
        finished.extend(queue.answered(part.serial, answer_policy, delivered, error, rest));
        finished.extend(expire(streamlet, &mut queue, now_us));
        match queue.readiness(now_us) {
            Readiness::Idle => queue.rest(),
            Readiness::At(at_us) => shared.put(streamlet, &mut queue, at_us),
            Readiness::Ready => shared.put(streamlet, &mut queue, 0),
        }
    }
    if refresh {
        shared.cluster.refresh();
    }
    shared.finish(finished);
}
