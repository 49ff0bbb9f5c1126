//! Fetch: records at once, or records that arrive in time.

use crate::{
    Broker,
    answer::{Begun, ResponseFrame},
    api::Context,
    fetch_answer::{TopicAnswer, answer},
    frame::MemoryCharge,
    internal_topic::InternalTopic,
    session::{
        AnswerRoom, DueRecords, FetchPlace, FetchPosition, FetchSession, FetchTopic, SessionEpoch,
        missing,
    },
};
use bytes::Bytes;
use std::{sync::atomic::Ordering, time::Duration};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString, KafkaUuid, MessageError,
    message::{FetchRequestData, fetch_request::FetchPartition},
};
use tokio::time::{Instant, timeout_at};

/// The epoch of a request without a session, or that ends its session.
const FINAL_EPOCH: i32 = -1;
/// The epoch of a request that asks for a new session.
const INITIAL_EPOCH: i32 = 0;
/// The first version that names topics by their ids. (KIP-516.)
const IDS_FROM_VERSION: i16 = 13;
/// Longest wait of a fetch that has nothing to say.
const WAIT_MS_MAX: u64 = 600_000;

/// A fetch that finds the memory for answers used up waits until there is room for this much.
const LEAST_BYTES: usize = 64 << 10;

/// The state of a connection between fetches without a session.
#[derive(Default)]
pub(crate) struct ConnectionFetches {
    plain: FetchSession,
    /// For `plain`.
    charge: Option<MemoryCharge>,
}

/// Answers a fetch.
pub(crate) async fn begin(
    context: &Context<'_>,
    fetching: &mut ConnectionFetches,
    mut body: Bytes,
) -> Result<Begun, MessageError> {
    let mut request = FetchRequestData::read(&mut body, context.version())?;
    drop(body);
    if context.version() < 7 {
        request.session_epoch = FINAL_EPOCH;
    }
    let mut how = FetchBounds::of(context, &request);
    let broker = context.broker;
    let now_ms = broker.world.clock.monotonic_micros() / 1000;
    let (id, epoch) = (request.session_id, request.session_epoch);
    let (error, session_id, topics) = match epoch {
        FINAL_EPOCH => {
            broker.sessions.remove(id);
            let ConnectionFetches { plain, charge } = fetching;
            let charge = charge.get_or_insert_with(|| MemoryCharge::new(&broker.sessions.others));
            let topics = whole(context, (plain, charge), request, &mut how).await;
            (ErrorCode::None, 0, topics)
        }
        INITIAL_EPOCH => {
            broker.sessions.remove(id);
            let mut session = FetchSession::default();
            let mut charge = MemoryCharge::new(&broker.sessions.others);
            let topics = whole(context, (&mut session, &mut charge), request, &mut how).await;
            let id = broker.new_session_id();
            let max = broker.settings.limits.fetch_sessions;
            let kept = session.len() > 0
                && broker.sessions.add(id, (session, by_id(context)), now_ms, max).is_some();
            (ErrorCode::None, if kept { id } else { 0 }, topics)
        }
        _ => match broker.sessions.next(SessionEpoch { id, epoch }, by_id(context), now_ms) {
            Err(error) => (error, 0, Vec::new()),
            Ok(session) => {
                let mut session = session.lock().await;
                ask(context, &mut session, &request, false);
                for topic in &request.forgotten_topics_data {
                    for partition in &topic.partitions {
                        session.forget(&place(context, &topic.topic, topic.topic_id, *partition));
                    }
                }
                drop(request);
                // What is asked for is in the session, which has a bound of its own.
                context.holds(0);
                session.mend(|place| find(broker, place), |name| broker.topic(name).is_some());
                session.set_committed(how.committed);
                if broker.sessions.resized(id, session.weight()) {
                    session.look_where_it_moved(broker.log.start_moves());
                    let mut found = wait(&mut session, &mut how).await;
                    session.add_moved(&mut found, broker.log.start_moves());
                    (ErrorCode::None, id, session.tell(found, false))
                } else {
                    (ErrorCode::FetchSessionIdNotFound, 0, Vec::new())
                }
            }
        },
    };
    let partitions = || topics.iter().flat_map(|it| &it.partitions);
    let bytes: usize = partitions().map(|it| it.bytes()).sum();
    let counts = &broker.counts;
    counts.fetched_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    counts.fetched_records.fetch_add(partitions().map(|it| it.records()).sum(), Ordering::Relaxed);
    let answer = answer(context.head, error, session_id, topics);
    let charge = Some(how.charge);
    Ok(Begun::Now(ResponseFrame { charge, ..answer.unwrap_or_default() }))
}

/// The limits of one fetch: time, bytes, memory.
struct FetchBounds {
    committed: bool,
    min_bytes: usize,
    room_bytes: usize,
    end: Instant,
    /// The charge for the records found.
    charge: MemoryCharge,
}

impl FetchBounds {
    fn of(context: &Context<'_>, request: &FetchRequestData) -> Self {
        let most = usize::try_from(context.broker.settings.limits.fetch_bytes.0);
        let asked = usize::try_from(request.max_bytes).unwrap_or(0);
        let wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0).min(WAIT_MS_MAX);
        Self {
            committed: request.isolation_level == 1,
            min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
            room_bytes: asked.min(most.unwrap_or(usize::MAX)),
            charge: MemoryCharge::new(&context.broker.answers),
            end: Instant::now() + Duration::from_millis(wait_ms),
        }
    }
}

/// A request that names all partitions it wants. One of more than there is room for is answered at
/// once, and nothing of it is kept.
async fn whole(
    context: &Context<'_>,
    (session, charge): (&mut FetchSession, &mut MemoryCharge),
    request: FetchRequestData,
    how: &mut FetchBounds,
) -> Vec<TopicAnswer> {
    ask(context, session, &request, true);
    drop(request);
    session.keep_asked();
    session.set_committed(how.committed);
    let has_room = charge.set(session.bytes());
    if has_room {
        context.holds(0);
    } else {
        how.end = Instant::now();
    }
    let mut found = wait(session, how).await;
    session.fill(&mut found);
    let topics = session.tell(found, true);
    if !has_room {
        *session = FetchSession::default();
        charge.set(0);
    }
    topics
}

/// True if this version names topics by id.
fn by_id(context: &Context<'_>) -> bool {
    context.version() >= IDS_FROM_VERSION
}

fn place(context: &Context<'_>, name: &KafkaString, id: KafkaUuid, partition: i32) -> FetchPlace {
    if by_id(context) {
        (id, KafkaString::from_static(""), partition)
    } else {
        (KafkaUuid::ZERO, name.clone(), partition)
    }
}

/// Takes over the partitions of a request. `is_whole`: they replace all others.
fn ask(
    context: &Context<'_>,
    session: &mut FetchSession,
    request: &FetchRequestData,
    is_whole: bool,
) {
    let broker = context.broker;
    session.begin_round(is_whole);
    for asked in &request.topics {
        let first = place(context, &asked.topic, asked.topic_id, 0);
        let topic = find(broker, &first);
        let (id, name, _) = first;
        let partitions = asked.partitions.iter().map(|it| (it.partition, asked_of(it)));
        session.ask((id, &name), topic.as_ref().map_err(|it| *it), partitions);
    }
}

fn asked_of(partition: &FetchPartition) -> FetchPosition {
    FetchPosition {
        offset: partition.fetch_offset,
        max_bytes: usize::try_from(partition.partition_max_bytes).unwrap_or(0),
        leader_epoch: partition.current_leader_epoch,
        last_epoch: partition.last_fetched_epoch,
    }
}

/// The topic of a place, by its id or its name.
fn find(broker: &Broker, place: &FetchPlace) -> Result<FetchTopic, ErrorCode> {
    let (id, name, _) = place;
    let (topic, internal) = if *id == KafkaUuid::ZERO {
        (broker.topic(name.as_str()), InternalTopic::named(broker, name.as_str()))
    } else {
        (broker.topics.get_by_id(&broker.log, *id), InternalTopic::of_id(broker, *id))
    };
    match topic {
        Some(topic) => Ok(FetchTopic::Stream(topic)),
        None if internal.is_some() => Ok(FetchTopic::Internal),
        None => Err(missing(place)),
    }
}

/// Reads until there are enough bytes, more than fits, an error, or no time left. While it waits it
/// holds no records.
async fn wait(session: &mut FetchSession, how: &mut FetchBounds) -> DueRecords {
    let wake = session.wake();
    let mut found = look(session, how, DueRecords::default()).await;
    while found.bytes < how.min_bytes && !found.failed && !found.full && session.len() > 0 {
        session.wait_for_more(&found);
        found.let_go();
        how.charge.shrink(0);
        let notified = timeout_at(how.end, wake.notify.notified()).await.is_ok();
        if !notified && found.bytes == 0 {
            session.renew(&mut found);
            break;
        }
        // A notice that is there already does not let the time run out by itself.
        let is_late = !notified || Instant::now() >= how.end;
        found = look(session, how, found).await;
        if is_late {
            break;
        }
    }
    found
}

/// Reads due partitions once there is memory for their records.
async fn look(session: &mut FetchSession, how: &mut FetchBounds, before: DueRecords) -> DueRecords {
    loop {
        let bytes = how.charge.set_most(how.room_bytes, LEAST_BYTES);
        if bytes > 0 || how.room_bytes == 0 {
            let found = session.look(AnswerRoom { bytes }, before);
            how.charge.force(found.bytes);
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
