//! One fetch: a request to a node, and the effects of its answer.
//!
//! The connection's reader thread walks the answer and sends the next fetch before the user has
//! taken anything: so the node reads, the network carries and the user processes at the same time.

use super::{
    Isolation,
    batch::{AnswerFrame, PackedBatch},
    consumer_core::{ConsumerCore, ConsumerEvent, ConsumerState, StreamletKey},
    position::{PositionFault, PositionPhase},
    walk::{AbortedTransaction, walk},
};
use crate::{
    CallError, Refusal,
    backoff::rest_us,
    cluster::Metadata,
    connection::{Connection, RequestOptions},
    options::micros,
};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tidemill_types::{NodeId, ProducerId};
use tidemill_wire::kafka::{
    ApiKey, KafkaUuid,
    message::{
        FetchRequestData, FetchResponseData,
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::{FetchableTopicResponse, PartitionData},
    },
    text,
};

/// The time a node waits for records while others of its streamlets are not in the fetch.
const WAIT_SHORT: Duration = Duration::from_millis(5);
/// The rest after an answer without records that came too early, in microseconds.
const REST_US: u64 = 5_000;
/// The first version that names streams by id, and not by name.
const BY_ID: i16 = 13;

/// A fetch from one node.
pub(super) struct Fetch {
    node: NodeId,
    request: FetchRequestData,
    version: i16,
    /// The streamlets that are asked for, with the epoch of their assignment and the offset.
    asked: BTreeMap<StreamletKey, (u64, i64)>,
    names: BTreeMap<[u8; 16], Arc<str>>,
}

/// Builds the fetch of a node, if there is something to fetch, and notes that it is under way.
pub(super) fn prepare(
    shared: &ConsumerCore,
    state: &mut ConsumerState,
    metadata: &Metadata,
    (node, connection): (NodeId, &Connection),
    now_us: u64,
) -> Option<Fetch> {
    let options = &shared.options;
    if state.asked.contains(&node) || !state.has_room(options) {
        return None;
    }
    let version = connection.version(ApiKey::Fetch).ok()?;
    let share_bytes = state.share_bytes(options);
    let mut asked = BTreeMap::new();
    let mut wait = options.fetch_wait;
    let mut rows: Vec<(Arc<str>, KafkaUuid, FetchPartition)> = Vec::new();
    for (place, position) in &state.positions {
        let PositionPhase::Fetching(offset) = position.phase else { continue };
        let led = metadata.leader(&position.stream, position.streamlet) == Some(node);
        if !led || position.not_before_us > now_us {
            continue;
        }
        if position.buffered_bytes >= share_bytes {
            // It will have its turn when some of it is taken: the others must not hold it up.
            wait = wait.min(WAIT_SHORT);
            continue;
        }
        asked.insert(place.clone(), (position.epoch, offset));
        let row = FetchPartition::default()
            .with_partition(position.streamlet)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(offset)
            .with_last_fetched_epoch(-1)
            .with_log_start_offset(-1)
            .with_partition_max_bytes(i32::try_from(position.bytes).unwrap_or(i32::MAX));
        rows.push((Arc::clone(&position.stream), position.id, row));
    }
    if rows.is_empty() {
        return None;
    }
    // The first ones get what an answer may have: each time it is another one's turn.
    state.turn = state.turn.wrapping_add(1);
    let turn = state.turn % rows.len();
    rows.rotate_left(turn);
    let by_id = version >= BY_ID && rows.iter().all(|(_, id, _)| *id != KafkaUuid::ZERO);
    let version = if by_id { version } else { version.min(BY_ID - 1) };
    let mut names = BTreeMap::new();
    let mut topics: Vec<FetchTopic> = Vec::new();
    let mut places: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for (stream, id, row) in rows {
        let place = *places.entry(Arc::clone(&stream)).or_insert_with(|| {
            let topic = FetchTopic::default();
            topics.push(match by_id {
                true => topic.with_topic_id(id),
                false => topic.with_topic(text(&stream)),
            });
            topics.len() - 1
        });
        names.insert(id.to_bytes(), stream);
        topics[place].partitions.push(row);
    }
    let small = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
    let request = FetchRequestData::default()
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(small(options.fetch_bytes_min))
        .with_max_bytes(small(options.fetch_bytes))
        .with_isolation_level(i8::from(options.isolation == Isolation::Committed))
        .with_session_id(0)
        .with_session_epoch(-1)
        .with_topics(topics);
    state.asked.insert(node);
    Some(Fetch { node, request, version, asked, names })
}

/// Sends a fetch. The state must not be locked.
pub(super) fn send(
    shared: &Arc<ConsumerCore>,
    connection: &Connection,
    fetch: Fetch,
    sent_us: u64,
) {
    let options = &shared.options;
    let patience = shared.cluster.options().request_timeout.saturating_add(options.fetch_wait);
    let asking = RequestOptions {
        version: fetch.version,
        deadline_us: sent_us.saturating_add(micros(patience)),
        more_bytes: options.fetch_bytes,
        answer: true,
    };
    let Fetch { node, request, version, asked, names } = fetch;
    let early_us = u64::from(request.max_wait_ms.unsigned_abs()) * 1000 / 4;
    let (shared, asked_of) = (Arc::clone(shared), connection.clone());
    let then = Box::new(move |answer: Result<Bytes, CallError>| {
        let frame = answer.as_ref().ok().cloned();
        let read =
            answer.and_then(|content| asked_of.read_answer::<FetchRequestData>(version, content));
        let now_us = shared.cluster.now_us();
        let next = {
            let mut state = shared.lock();
            state.asked.remove(&node);
            match read {
                Ok(answer) => {
                    let frame =
                        AnswerFrame::new(frame.unwrap_or_default(), shared.cluster.buffers());
                    let before = state.waiting.len();
                    take(&shared, &mut state, &asked, &names, answer, &frame);
                    // A node that does not wait though it has nothing is not to be kept busy.
                    if state.waiting.len() == before && now_us.saturating_sub(sent_us) < early_us {
                        rest_a_little(&mut state, &asked, now_us);
                    }
                }
                Err(error) => {
                    all_failed(&shared, &mut state, asked, &error);
                    if matches!(error, CallError::BadAnswer { .. }) {
                        drop(state);
                        asked_of.end(error);
                        state = shared.lock();
                    }
                }
            }
            let metadata = shared.cluster.metadata();
            match state.closed {
                true => None,
                false => prepare(&shared, &mut state, &metadata, (node, &asked_of), now_us),
            }
        };
        shared.tell();
        match next {
            Some(next) => send(&shared, &asked_of, next, now_us),
            None => shared.ring(),
        }
    });
    connection.send(&request, &asking, then);
}

/// The end of the rest after a number of failures in a row.
fn rest_until(shared: &ConsumerCore) -> impl Fn(u32) -> u64 {
    let random = shared.cluster.random();
    let now_us = shared.cluster.now_us();
    let options = shared.cluster.options().clone();
    move |failures| now_us.saturating_add(rest_us(failures, &options, random))
}

/// There is no answer.
fn all_failed(
    shared: &ConsumerCore,
    state: &mut ConsumerState,
    asked: BTreeMap<StreamletKey, (u64, i64)>,
    error: &CallError,
) {
    let (rest, now_us) = (rest_until(shared), shared.cluster.now_us());
    let why = (*error != CallError::Closed).then(|| error.to_string().into());
    for (place, (epoch, _)) in asked {
        if let Some(position) = state.positions.get_mut(&place).filter(|it| it.epoch == epoch) {
            position.rest(&rest);
            why.iter().for_each(|why| state.hinder(&place, why, now_us));
        }
    }
    if why.is_some() {
        shared.cluster.refresh();
    }
}

fn rest_a_little(
    state: &mut ConsumerState,
    asked: &BTreeMap<StreamletKey, (u64, i64)>,
    now_us: u64,
) {
    for (place, (epoch, _)) in asked {
        if let Some(position) = state.positions.get_mut(place).filter(|it| it.epoch == *epoch) {
            position.not_before_us = position.not_before_us.max(now_us.saturating_add(REST_US));
        }
    }
}

/// Takes an answer in.
fn take(
    shared: &ConsumerCore,
    state: &mut ConsumerState,
    asked: &BTreeMap<StreamletKey, (u64, i64)>,
    names: &BTreeMap<[u8; 16], Arc<str>>,
    answer: FetchResponseData,
    frame: &Arc<AnswerFrame>,
) {
    let whole = Refusal::of(answer.error_code, None);
    for (topic, row) in
        answer.responses.iter().flat_map(|it| it.partitions.iter().map(move |row| (it, row)))
    {
        let Some(stream) = name_of(topic, names) else { continue };
        let place: StreamletKey = (stream, row.partition_index);
        // Nobody asked for it, or does not any more.
        let Some((epoch, offset)) = asked.get(&place).copied() else { continue };
        let known = state.positions.get(&place);
        if known.is_none_or(|it| it.epoch != epoch || it.phase != PositionPhase::Fetching(offset)) {
            continue;
        }
        let refusal = whole.clone().or_else(|| Refusal::of(row.error_code, None));
        match refusal {
            Some(refusal) => refused(shared, state, &place, refusal),
            None => take_chunks(shared, state, &place, row, frame),
        }
    }
    if let Some(refusal) = whole {
        let (why, now_us) = (refusal.to_string().into(), shared.cluster.now_us());
        let rest = rest_until(shared);
        for (place, (epoch, _)) in asked {
            if let Some(position) = state.positions.get_mut(place).filter(|it| it.epoch == *epoch) {
                position.rest(&rest);
                state.hinder(place, &why, now_us);
            }
        }
    }
}

fn name_of(
    topic: &FetchableTopicResponse,
    names: &BTreeMap<[u8; 16], Arc<str>>,
) -> Option<Arc<str>> {
    if topic.topic.is_empty() {
        names.get(&topic.topic_id.to_bytes()).cloned()
    } else {
        Some(topic.topic.as_str().into())
    }
}

fn refused(
    shared: &ConsumerCore,
    state: &mut ConsumerState,
    place: &StreamletKey,
    refusal: Refusal,
) {
    let Some(position) = state.positions.get_mut(place) else { return };
    let patience_us = micros(shared.cluster.options().request_timeout);
    let now_us = shared.cluster.now_us();
    let obstacle = refusal.to_string();
    match position.refused(refusal, shared.options.out_of_range, now_us, patience_us) {
        PositionFault::Again { refresh } => {
            position.rest(rest_until(shared));
            state.hinder(place, &obstacle.into(), now_us);
            if refresh {
                shared.cluster.refresh();
            }
        }
        PositionFault::Restart(at) => position.phase = PositionPhase::Starting(at),
        PositionFault::Stop(error) => state.stop(place, error),
    }
}

fn take_chunks(
    shared: &ConsumerCore,
    state: &mut ConsumerState,
    place: &StreamletKey,
    row: &PartitionData,
    frame: &Arc<AnswerFrame>,
) {
    let Some(position) = state.positions.get_mut(place) else { return };
    let PositionPhase::Fetching(from) = position.phase else { return };
    position.end = Some(row.high_watermark);
    let aborted: Option<Vec<AbortedTransaction>> =
        (shared.options.isolation == Isolation::Committed).then(|| {
            let rows = row.aborted_transactions.iter().flatten();
            let aborted = rows.map(|it| AbortedTransaction {
                first_offset: it.first_offset,
                producer_id: ProducerId(it.producer_id),
            });
            aborted.collect()
        });
    let empty = Bytes::new();
    let walked = walk(row.records.as_ref().unwrap_or(&empty), from, aborted.as_deref());
    position.phase = PositionPhase::Fetching(walked.next);
    position.good();
    let trouble = position.walked(walked.end, walked.next);
    let epoch = position.epoch;
    let (mut bytes, buffers) = (0, shared.cluster.buffers());
    if !walked.chunks.is_empty() {
        state.arrived.insert(place.clone());
    }
    for seen in walked.chunks {
        bytes += seen.bytes.len();
        // Where nobody may take it for long, a chunk must not keep the memory of a whole answer.
        let (chunk, frame) = match shared.options.apart {
            true => (Bytes::copy_from_slice(&seen.bytes), AnswerFrame::new(Bytes::new(), buffers)),
            false => (seen.bytes, Arc::clone(frame)),
        };
        let packed = PackedBatch {
            stream: Arc::clone(&place.0),
            streamlet: place.1,
            from,
            head: seen.head,
            chunk,
            frame,
        };
        state.waiting.push_back(ConsumerEvent::Chunk { epoch, packed });
    }
    position.buffered_bytes += bytes;
    state.waiting_bytes += bytes;
    state.unhinder(place);
    if let Some(PositionFault::Stop(error)) = trouble {
        state.stop(place, error);
    }
}
