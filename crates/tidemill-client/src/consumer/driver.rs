//! The consumer's thread: looks up where to begin, begins to fetch, and helps when something fails.
//!
//! While all is well it sleeps: answers ask for the next ones by themselves.

use super::{
    ConsumeError,
    consumer_core::{ConsumerCore, ConsumerState, StreamletKey},
    fetch,
    position::{Position, PositionFault, PositionPhase},
};
use crate::{
    Refusal,
    admin::{Admin, AdminError, OffsetAt, streamlet},
    backoff::rest_us,
    cluster::{Metadata, NodeRoute},
    connection::Connection,
    options::micros,
};
use std::{collections::BTreeMap, sync::Arc};
use tidemill_types::NodeId;
use tidemill_wire::kafka::{ErrorCode, KafkaUuid};

/// The pause between two attempts while there is an obstacle, in microseconds.
const LOOK_US: u64 = 50_000;
/// The same while all is well: requests that are overdue are noticed then.
const IDLE_US: u64 = 1_000_000;
/// Metadata older than this are asked for again, in microseconds.
const METADATA_AGE_US: u64 = 60_000_000;

/// The body of the thread. `admin` has connections of its own, on which nothing waits for records.
pub(super) fn run(shared: &Arc<ConsumerCore>, admin: &Admin) {
    loop {
        let now_us = shared.cluster.now_us();
        let tend_us = shared.cluster.tend(now_us).unwrap_or(u64::MAX);
        let metadata = shared.cluster.metadata();
        if now_us.saturating_sub(metadata.at_us) > METADATA_AGE_US {
            shared.cluster.refresh();
        }
        start(shared, admin, now_us);
        check_ids(shared, &metadata);
        let all_well = ask_nodes(shared, &metadata, now_us);
        let look_us = if all_well { IDLE_US } else { LOOK_US };
        let until_us = now_us.saturating_add(look_us).min(tend_us).min(rests_until(shared, now_us));
        if !shared.sleep(now_us, until_us) {
            return;
        }
    }
}

/// When the first rest of a streamlet is over.
fn rests_until(shared: &ConsumerCore, now_us: u64) -> u64 {
    let state = shared.lock();
    let rests = state.positions.values().map(|it| it.not_before_us).filter(|it| *it > now_us);
    rests.min().unwrap_or(u64::MAX)
}

/// One question for offsets, and the partitions that it is for.
type OffsetQuery = (OffsetAt, Vec<(i32, u64)>);

/// Looks up where to begin, where that is not known.
fn start(shared: &ConsumerCore, admin: &Admin, now_us: u64) {
    let mut wanted = BTreeMap::<(Arc<str>, (i64, u8)), OffsetQuery>::new();
    {
        let state = shared.lock();
        for ((stream, index), position) in &state.positions {
            if let PositionPhase::Starting(at) = position.phase
                && position.not_before_us <= now_us
            {
                let key = (Arc::clone(stream), order_of(at));
                let entry = wanted.entry(key).or_insert_with(|| (at, Vec::new()));
                entry.1.push((*index, position.epoch));
            }
        }
    }
    for ((stream, _), (at, rows)) in wanted {
        let indexes: Vec<i32> = rows.iter().map(|(index, _)| *index).collect();
        let found = admin.offsets_of(&stream, &indexes, at);
        for (index, epoch) in rows {
            let outcome = match &found {
                Ok(found) => match found.get(&index) {
                    Some(Ok(found)) => Ok(found.offset),
                    Some(Err(error)) => Err(error.clone()),
                    None => continue,
                },
                Err(error) => Err(error.clone()),
            };
            started(shared, &(Arc::clone(&stream), index), epoch, outcome);
        }
    }
}

/// Something to sort by.
fn order_of(at: OffsetAt) -> (i64, u8) {
    match at {
        OffsetAt::Earliest => (0, 0),
        OffsetAt::Latest => (0, 1),
        OffsetAt::LatestCommitted => (0, 2),
        OffsetAt::Time(time_ms) => (time_ms, 3),
    }
}

fn started(
    shared: &ConsumerCore,
    place: &StreamletKey,
    epoch: u64,
    outcome: Result<i64, AdminError>,
) {
    let mut state = shared.lock();
    let Some(position) = state.positions.get_mut(place).filter(|it| it.epoch == epoch) else {
        return;
    };
    match outcome {
        Ok(offset) => {
            position.phase = PositionPhase::Fetching(offset.max(0));
            position.good();
            state.unhinder(place);
        }
        Err(error) if error.is_passing() || matches!(error, AdminError::Call(_)) => {
            let random = shared.cluster.random();
            let now_us = shared.cluster.now_us();
            let rest = |failures| {
                now_us.saturating_add(rest_us(failures, shared.cluster.options(), random))
            };
            position.rest(rest);
            state.hinder(place, &error.to_string().into(), now_us);
            // They say whether it is there at all.
            shared.cluster.refresh();
        }
        Err(error) => {
            state.stop(place, ConsumeError::Lookup(error));
            drop(state);
            shared.tell();
        }
    }
}

/// Stops streamlets of streams that are not the ones they were.
fn check_ids(shared: &ConsumerCore, metadata: &Metadata) {
    let mut state = shared.lock();
    let anew: Vec<StreamletKey> = state
        .positions
        .iter()
        .filter(|((stream, _), position)| {
            let now = metadata.streams.get(&**stream).map_or(KafkaUuid::ZERO, |it| it.id);
            position.phase != PositionPhase::Stopped
                && position.id != KafkaUuid::ZERO
                && now != KafkaUuid::ZERO
                && now != position.id
        })
        .map(|(place, _)| place.clone())
        .collect();
    for place in &anew {
        state.stop(place, ConsumeError::MadeAnew { stream: place.0.to_string() });
    }
    drop(state);
    if !anew.is_empty() {
        shared.tell();
    }
}

/// Asks the leaders of streamlets that are to be fetched and were not asked. Says whether nothing
/// is in the way.
fn ask_nodes(shared: &Arc<ConsumerCore>, metadata: &Metadata, now_us: u64) -> bool {
    let mut all_well = true;
    let mut leaders: BTreeMap<NodeId, bool> = BTreeMap::new();
    let mut leaderless: Vec<StreamletKey> = Vec::new();
    {
        let state = shared.lock();
        for (place, position) in &state.positions {
            match position.phase {
                PositionPhase::Stopped => continue,
                PositionPhase::Starting(_) => all_well = false,
                PositionPhase::Fetching(_) => {}
            }
            all_well &= position.not_before_us <= now_us;
            match metadata.leader(&position.stream, position.streamlet) {
                Some(leader) => {
                    leaders.insert(leader, state.asked.contains(&leader));
                }
                None => {
                    all_well = false;
                    leaderless.push(place.clone());
                    shared.cluster.refresh();
                }
            }
        }
    }
    miss_leaders(shared, metadata, &leaderless);
    for (leader, asked) in leaders {
        if asked {
            continue;
        }
        match shared.cluster.route_to(leader, now_us) {
            NodeRoute::Ready(connection) => ask(shared, metadata, leader, &connection, now_us),
            NodeRoute::Opening { .. } => {}
            NodeRoute::Resting { error, .. } => {
                all_well = false;
                let (why, mut state) = (error.to_string().into(), shared.lock());
                for place in led_by(&state, metadata, leader) {
                    state.hinder(&place, &why, now_us);
                }
                drop(state);
                shared.cluster.refresh();
            }
            NodeRoute::Unknown => {
                all_well = false;
                shared.cluster.refresh();
            }
        }
    }
    all_well
}

/// The streamlets that are fetched from a node.
fn led_by(state: &ConsumerState, metadata: &Metadata, leader: NodeId) -> Vec<StreamletKey> {
    let is_led = |it: &Position| metadata.leader(&it.stream, it.streamlet) == Some(leader);
    let led =
        state.positions.iter().filter(|(_, it)| it.phase != PositionPhase::Stopped && is_led(it));
    led.map(|(place, _)| place.clone()).collect()
}

/// Notes streamlets without a leader, and stops those of streams that are gone.
fn miss_leaders(shared: &ConsumerCore, metadata: &Metadata, leaderless: &[StreamletKey]) {
    let patience_us = micros(shared.cluster.options().request_timeout);
    let (mut stopped, now_us) = (false, shared.cluster.now_us());
    let mut state = shared.lock();
    for place in leaderless {
        // Nothing was said of it yet.
        let Some(stream) = metadata.streams.get(&*place.0) else { continue };
        let position = state.positions.get_mut(place);
        let Some(position) = position.filter(|it| it.phase != PositionPhase::Stopped) else {
            continue;
        };
        let code = match stream.code {
            ErrorCode::None if stream.streamlets.contains_key(&place.1) => {
                ErrorCode::LeaderNotAvailable
            }
            ErrorCode::None => ErrorCode::UnknownTopicOrPartition,
            code => code,
        };
        let refusal = Refusal { code, message: None };
        let obstacle = format!("{}: {refusal}", streamlet(&place.0, place.1));
        let policy = shared.options.out_of_range;
        // It was said then, and not now: a cluster that is away says nothing.
        match position.refused(refusal, policy, metadata.at_us, patience_us) {
            PositionFault::Stop(error) => {
                state.stop(place, error);
                stopped = true;
            }
            PositionFault::Again { .. } | PositionFault::Restart(_) => {
                state.hinder(place, &obstacle.into(), now_us);
            }
        }
    }
    drop(state);
    if stopped {
        shared.tell();
    }
}

fn ask(
    shared: &Arc<ConsumerCore>,
    metadata: &Metadata,
    leader: NodeId,
    connection: &Connection,
    now_us: u64,
) {
    let fetch = {
        let mut state = shared.lock();
        fetch::prepare(shared, &mut state, metadata, (leader, connection), now_us)
    };
    if let Some(fetch) = fetch {
        fetch::send(shared, connection, fetch, now_us);
    }
}
