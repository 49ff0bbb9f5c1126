//! Produce: chunks are checked, appended, and acknowledged when they count.
//!
//! Appending is synchronous and happens in the order of requests. Only durability is awaited, so
//! several requests of a connection share one sync.

use crate::{
    answer::{Begun, ResponseFrame},
    api::Context,
    chunk_check::{self, RECORD_ERRORS_MAX},
    handler::transaction::add::produced,
    internal_topic::InternalTopic,
    partition::Appended,
    refusal::RequestRefusal,
};
use bytes::Bytes;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tidemill_log::AppendError;
use tidemill_wire::kafka::{
    ErrorCode, KafkaString, MessageError, RequestHead,
    message::{
        BatchIndexAndErrorMessage, PartitionProduceData, PartitionProduceResponse,
        ProduceRequestData, ProduceResponseData, TopicProduceResponse,
    },
    text,
};
use tokio::sync::oneshot;

/// An acknowledgement means that all in-sync replicas have it; here: that it is durable.
const ACKS_ALL: i16 = -1;
/// Chunks that are shorter than this are copied out of their frames.
const WHOLE_BYTES_MIN: usize = 8 << 10;

/// Records at fault of which each has its reason in an answer; of more each has its number alone.
const RECORD_REASONS_MAX: usize = 100;

/// Begins a produce request: when this returns, its chunks are appended.
pub(crate) async fn begin(context: &Context<'_>, mut body: Bytes) -> Result<Begun, MessageError> {
    let frame_bytes = body.len();
    let mut request = ProduceRequestData::read(&mut body, context.version())?;
    // The chunk's memory is its own only if nothing else holds it, not even what is left of it.
    drop(body);
    let acks = request.acks;
    if !(ACKS_ALL..=1).contains(&acks) {
        let refused =
            |_: &PartitionProduceData| Err(RequestRefusal::of(ErrorCode::InvalidRequiredAcks));
        let response = PartialResponse::new(request, refused).plain();
        return Ok(Begun::Now(ResponseFrame::of(context.head, &response)?));
    }
    if let Err(refusal) = produced(context, &request).await {
        let response = PartialResponse::new(request, |_| Err(refusal.clone())).plain();
        return Ok(match acks {
            0 => Begun::HangUp,
            _ => Begun::Now(ResponseFrame::of(context.head, &response)?),
        });
    }
    let mut appends = Vec::new();
    let timeout_ms = u64::try_from(request.timeout_ms).unwrap_or(0);
    // A copy, as of all that lives on: the frame's memory is the chunk's.
    let transactional = request.transactional_id.take().map(|it| text(it.as_str()));
    let response = PartialResponse::append(
        context,
        request,
        frame_bytes,
        transactional.as_ref(),
        &mut appends,
    )
    .await;
    match acks {
        0 if response.has_errors() => Ok(Begun::HangUp),
        0 => Ok(Begun::Silent),
        1 => Ok(Begun::Now(ResponseFrame::of(context.head, &response.plain())?)),
        _ => {
            let (pending, done) = PendingAppends::of(appends);
            if pending.remaining.load(Ordering::Acquire) == 0 {
                let response = response.with(&pending);
                return Ok(Begun::Now(ResponseFrame::of(context.head, &response)?));
            }
            let head = context.head.clone();
            Ok(Begun::Later(Box::pin(later(head, response, pending, done, timeout_ms))))
        }
    }
}

async fn later(
    head: RequestHead,
    response: PartialResponse,
    pending: Arc<PendingAppends>,
    done: oneshot::Receiver<()>,
    timeout_ms: u64,
) -> Result<Option<ResponseFrame>, MessageError> {
    let _late = tokio::time::timeout(Duration::from_millis(timeout_ms), done).await;
    ResponseFrame::of(&head, &response.with(&pending)).map(Some)
}

/// True if a chunk fills most of its frame, so that the log may keep the frame's memory.
fn fills(chunk_bytes: usize, frame_bytes: usize) -> bool {
    chunk_bytes >= WHOLE_BYTES_MIN && chunk_bytes >= frame_bytes / 8 * 7
}

/// Where an append's outcome goes in the response: topic and partition, by position.
type ResponsePlace = (usize, usize);

/// The outcome of an append. None: it is not known yet.
type AppendOutcome = Option<Result<(), AppendError>>;

/// Appends that must count before a request is answered.
struct PendingAppends {
    remaining: AtomicUsize,
    outcomes: Mutex<Vec<(ResponsePlace, AppendOutcome)>>,
    done: Mutex<Option<oneshot::Sender<()>>>,
}

impl PendingAppends {
    fn of(appends: Vec<(ResponsePlace, Appended)>) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (done, waits) = oneshot::channel();
        let pending = Arc::new(Self {
            remaining: AtomicUsize::new(appends.len()),
            outcomes: Mutex::new(appends.iter().map(|(place, _)| (*place, None)).collect()),
            done: Mutex::new(Some(done)),
        });
        for (index, (_, append)) in appends.into_iter().enumerate() {
            let pending = Arc::clone(&pending);
            append.on_durable(Box::new(move |outcome| pending.land(index, outcome)));
        }
        (pending, waits)
    }

    fn land(&self, index: usize, outcome: Result<(), AppendError>) {
        {
            let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes[index].1 = Some(outcome);
        }
        if self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(done) = done {
                let _gone = done.send(());
            }
        }
    }
}

/// A response that waits for durability alone.
struct PartialResponse(Vec<TopicProduceResponse>);

impl PartialResponse {
    fn new(
        request: ProduceRequestData,
        mut one: impl FnMut(&PartitionProduceData) -> Result<(), RequestRefusal>,
    ) -> Self {
        let topics = request.topic_data.into_iter().map(|topic| {
            let partition = |it: PartitionProduceData| match one(&it) {
                Ok(()) => appended(it.index, -1, -1, -1),
                Err(refusal) => refused(it.index, &refusal),
            };
            TopicProduceResponse {
                partition_responses: topic.partition_data.into_iter().map(partition).collect(),
                name: topic.name,
                topic_id: topic.topic_id,
                ..TopicProduceResponse::default()
            }
        });
        Self(topics.collect())
    }

    /// Appends all chunks of a request.
    async fn append(
        context: &Context<'_>,
        request: ProduceRequestData,
        frame_bytes: usize,
        transactional: Option<&KafkaString>,
        appends: &mut Vec<(ResponsePlace, Appended)>,
    ) -> Self {
        let broker = context.broker;
        let by_id = context.version() >= 13;
        let mut record_errors_left = RECORD_ERRORS_MAX;
        let mut topics = Vec::with_capacity(request.topic_data.len());
        for (topic_at, asked) in request.topic_data.into_iter().enumerate() {
            let topic = if by_id {
                broker.topics.get_by_id(&broker.log, asked.topic_id)
            } else {
                broker.topic(asked.name.as_str())
            };
            let internal = if by_id {
                InternalTopic::of_id(broker, asked.topic_id)
            } else {
                InternalTopic::named(broker, asked.name.as_str())
            };
            let missing = match (internal, &topic) {
                (Some(internal), None) => internal.refusal(),
                (None, None) if by_id => RequestRefusal::of(ErrorCode::UnknownTopicId),
                _ => RequestRefusal::of(ErrorCode::UnknownTopicOrPartition),
            };
            // A copy, so that what is answered does not hold the frame.
            let name = text(asked.name.as_str());
            drop(asked.name);
            let mut partitions = Vec::with_capacity(asked.partition_data.len());
            for (at, part) in asked.partition_data.into_iter().enumerate() {
                let partition = topic.as_ref().and_then(|topic| topic.partition(part.index));
                let outcome = match partition {
                    None => Err(missing.clone()),
                    Some(partition) => {
                        let chunk = part.records.unwrap_or_default();
                        let live = &partition.live;
                        let (whole, version) = (fills(chunk.len(), frame_bytes), context.version());
                        let checked = chunk_check::check(broker, live, chunk, whole, version).await;
                        let append = |it| partition.append(context, it, transactional);
                        let start = |it| (it, partition.streamlet.start_offset());
                        checked.and_then(append).map(start)
                    }
                };
                partitions.push(match outcome {
                    Err(mut refusal) => {
                        refusal.records.truncate(record_errors_left);
                        record_errors_left -= refusal.records.len();
                        refused(part.index, &refusal)
                    }
                    Ok((append, start)) => {
                        let (base, time_ms) = (append.base_offset(), append.append_time_ms());
                        let answer = appended(part.index, base, time_ms, start);
                        appends.push(((topic_at, at), append));
                        answer
                    }
                });
            }
            topics.push(TopicProduceResponse {
                name,
                topic_id: asked.topic_id,
                partition_responses: partitions,
                ..TopicProduceResponse::default()
            });
        }
        Self(topics)
    }

    fn has_errors(&self) -> bool {
        let mut partitions = self.0.iter().flat_map(|it| &it.partition_responses);
        partitions.any(|it| it.error_code != 0)
    }

    fn plain(self) -> ProduceResponseData {
        ProduceResponseData { responses: self.0, ..ProduceResponseData::default() }
    }

    /// Fills in the outcomes of the appends. Those without one are late.
    fn with(mut self, pending: &PendingAppends) -> ProduceResponseData {
        let outcomes = pending.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        for ((topic, partition), outcome) in outcomes.iter() {
            let refusal = match outcome {
                Some(Ok(())) => continue,
                Some(Err(error)) => RequestRefusal::from(error.clone()),
                None => RequestRefusal::of(ErrorCode::RequestTimedOut),
            };
            let answer = &mut self.0[*topic].partition_responses[*partition];
            *answer = refused(answer.index, &refusal);
        }
        drop(outcomes);
        self.plain()
    }
}

fn appended(
    index: i32,
    base_offset: i64,
    log_append_time_ms: i64,
    log_start_offset: i64,
) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        base_offset,
        log_append_time_ms,
        log_start_offset,
        ..PartitionProduceResponse::default()
    }
}

fn refused(index: i32, refusal: &RequestRefusal) -> PartitionProduceResponse {
    let reason = refusal.reason();
    // Clients show the batch's reason for a record without one of its own.
    let own = reason.clone().filter(|_| refusal.records.len() <= RECORD_REASONS_MAX);
    let record_error = |record: &u32| BatchIndexAndErrorMessage {
        batch_index: i32::try_from(*record).unwrap_or(i32::MAX),
        batch_index_error_message: own.clone(),
        ..BatchIndexAndErrorMessage::default()
    };
    PartitionProduceResponse {
        record_errors: refusal.records.iter().map(record_error).collect(),
        index,
        error_code: refusal.code.code(),
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
        error_message: reason,
        ..PartitionProduceResponse::default()
    }
}
