//! The state that the consumer's thread, its user and the connections' reader threads share.

use super::{
    ConsumeError, ConsumerOptions,
    batch::PackedBatch,
    position::{Obstacle, Position, PositionPhase},
};
use crate::{cluster::Cluster, options::micros};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use tidemill_env::lock::{Condvar, Mutex, MutexGuard};
use tidemill_types::NodeId;

/// A streamlet of a stream.
pub(super) type StreamletKey = (Arc<str>, i32);

/// See the module.
pub(super) struct ConsumerCore {
    /// Connections on which nodes wait with their answers until there are records.
    pub(super) cluster: Cluster,
    pub(super) options: ConsumerOptions,
    state: Mutex<ConsumerState>,
    /// Rings when there is something for the user.
    something: Condvar,
    /// Rings when there is something for the consumer's thread.
    work: Condvar,
    /// Is told which streamlets have something for the user.
    listener: Mutex<Option<Listener>>,
}

/// Takes the streamlets for which something has come, by stream and number.
pub type Listener = Arc<dyn Fn(&BTreeSet<(Arc<str>, i32)>) + Send + Sync>;

#[derive(Default)]
pub(super) struct ConsumerState {
    pub(super) positions: BTreeMap<StreamletKey, Position>,
    /// The events that wait for the user.
    pub(super) waiting: VecDeque<ConsumerEvent>,
    pub(super) waiting_bytes: usize,
    /// For whom something has come that the listener has not been told.
    pub(super) arrived: BTreeSet<StreamletKey>,
    /// Nodes that have been asked.
    pub(super) asked: BTreeSet<NodeId>,
    pub(super) next_epoch: u64,
    /// Counts fetches, so that each begins with another streamlet.
    pub(super) turn: usize,
    pub(super) closed: bool,
    rung: bool,
    /// True once an obstacle was logged.
    hindered: bool,
}

/// Something for the user.
pub(super) enum ConsumerEvent {
    /// A chunk, of an assignment of this epoch.
    Chunk { epoch: u64, packed: PackedBatch },
    /// The end of a streamlet.
    Error { epoch: u64, place: StreamletKey, error: ConsumeError },
}

impl ConsumerCore {
    pub(super) fn new(cluster: Cluster, options: ConsumerOptions) -> Self {
        Self {
            cluster,
            options,
            state: Mutex::default(),
            something: Condvar::new(),
            work: Condvar::new(),
            listener: Mutex::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ConsumerState> {
        self.state.lock()
    }

    /// Wakes the consumer's thread.
    pub(super) fn ring(&self) {
        self.lock().rung = true;
        self.work.notify_one();
    }

    /// Wakes the user. The state must not be locked.
    pub(super) fn tell(&self) {
        self.something.notify_all();
        let listener = self.listener.lock().clone();
        if let Some(listener) = listener {
            let arrived = std::mem::take(&mut self.lock().arrived);
            if !arrived.is_empty() {
                listener(&arrived);
            }
        }
    }

    pub(super) fn listen(&self, listener: Listener) {
        *self.listener.lock() = Some(listener);
    }

    /// Takes the next thing of a streamlet, if it has one; else gives back where it is fetched.
    pub(super) fn take_of(&self, place: &StreamletKey) -> Result<ConsumerEvent, Option<i64>> {
        let mut state = self.lock();
        if let Some((waiting, room)) = state.take(&self.options, Some(place)) {
            if room {
                state.rung = true;
                self.work.notify_one();
            }
            return Ok(waiting);
        }
        match state.positions.get(place).map(|it| &it.phase) {
            Some(PositionPhase::Fetching(offset)) => Err(Some(*offset)),
            _ => Err(None),
        }
    }

    /// Lets the consumer's thread sleep until it is rung, or a moment. False: it has ended.
    pub(super) fn sleep(&self, now_us: u64, until_us: u64) -> bool {
        let mut state = self.lock();
        if !state.rung && !state.closed {
            let wait = Duration::from_micros(until_us.saturating_sub(now_us).max(1));
            state = self.work.wait_timeout(state, wait).0;
        }
        state.rung = false;
        !state.closed
    }

    /// Takes the next event for the user; waits for it up to `patience`.
    pub(super) fn take(&self, patience: Duration) -> Option<ConsumerEvent> {
        let mut state = self.lock();
        let mut deadline_us = None;
        loop {
            if let Some((waiting, room)) = state.take(&self.options, None) {
                if room {
                    state.rung = true;
                    self.work.notify_one();
                }
                return Some(waiting);
            }
            if state.closed {
                return None;
            }
            let now_us = self.cluster.now_us();
            let deadline_us =
                *deadline_us.get_or_insert_with(|| now_us.saturating_add(micros(patience)));
            let left_us = deadline_us.checked_sub(now_us).filter(|it| *it > 0)?;
            let wait = Duration::from_micros(left_us);
            state = self.something.wait_timeout(state, wait).0;
        }
    }
}

impl ConsumerEvent {
    fn is_of(&self, place: &StreamletKey) -> bool {
        match self {
            Self::Chunk { packed, .. } => packed.streamlet == place.1 && packed.stream == place.0,
            Self::Error { place: of, .. } => of == place,
        }
    }
}

impl ConsumerState {
    /// Notes that something stands in a streamlet's way; it is logged when the first is hindered.
    pub(super) fn hinder(&mut self, place: &StreamletKey, why: &Arc<str>, now_us: u64) {
        let Some(position) = self.positions.get_mut(place) else { return };
        position.hinder(why, now_us);
        if !std::mem::replace(&mut self.hindered, true) {
            tracing::warn!(stream = %place.0, streamlet = place.1, obstacle = %why,
                "a consumer cannot fetch; it goes on trying");
        }
    }

    /// The oldest obstacle of a streamlet.
    pub(super) fn obstacle(&self) -> Option<&Obstacle> {
        if !self.hindered {
            return None;
        }
        let fetched = self.positions.values().filter(|it| it.phase != PositionPhase::Stopped);
        fetched.filter_map(|it| it.obstacle.as_ref()).min_by_key(|it| it.since_us)
    }

    /// Notes that a streamlet was fetched; it is logged when that was the last that was hindered.
    pub(super) fn unhinder(&mut self, place: &StreamletKey) {
        if self.hindered && self.obstacle().is_none() {
            self.hindered = false;
            tracing::info!(stream = %place.0, streamlet = place.1, "a consumer can fetch again");
        }
    }

    /// True if more may be fetched.
    pub(super) fn has_room(&self, options: &ConsumerOptions) -> bool {
        options.apart || self.waiting_bytes < options.buffer_bytes
    }

    /// Bytes of one streamlet that may wait before it is not asked for any more.
    pub(super) fn share_bytes(&self, options: &ConsumerOptions) -> usize {
        let share = options.buffer_bytes / self.positions.len().max(1);
        share.max(options.streamlet_bytes)
    }

    /// The next thing, of any streamlet or of one, that is not of an assignment that is over, and
    /// whether there is room now that was not before: then more can be asked for.
    fn take(
        &mut self,
        options: &ConsumerOptions,
        of: Option<&StreamletKey>,
    ) -> Option<(ConsumerEvent, bool)> {
        let share_bytes = self.share_bytes(options);
        let had_room = self.has_room(options);
        loop {
            let next = match of {
                None => 0,
                Some(place) => self.waiting.iter().position(|it| it.is_of(place))?,
            };
            let waiting = self.waiting.remove(next)?;
            let (epoch, place, bytes, next) = match &waiting {
                ConsumerEvent::Chunk { epoch, packed } => {
                    let place = (Arc::clone(&packed.stream), packed.streamlet);
                    let next = packed.head.last_offset().saturating_add(1);
                    (*epoch, place, packed.chunk.len(), Some(next))
                }
                ConsumerEvent::Error { epoch, place, .. } => (*epoch, place.clone(), 0, None),
            };
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
            let Some(position) = self.positions.get_mut(&place) else { continue };
            if position.epoch != epoch {
                continue;
            }
            let had_share = position.buffered_bytes < share_bytes;
            position.buffered_bytes = position.buffered_bytes.saturating_sub(bytes);
            let has_share = position.buffered_bytes < share_bytes;
            if next.is_some() {
                position.taken = next;
            }
            let room = self.has_room(options) && (!had_room || has_share && !had_share);
            return Some((waiting, room));
        }
    }

    /// Ends a streamlet with an error that the user will be told.
    pub(super) fn stop(&mut self, place: &StreamletKey, error: ConsumeError) {
        let Some(position) = self.positions.get_mut(place) else { return };
        position.phase = PositionPhase::Stopped;
        let epoch = position.epoch;
        self.waiting.push_back(ConsumerEvent::Error { epoch, place: place.clone(), error });
        self.arrived.insert(place.clone());
    }
}

#[cfg(test)]
mod tests {
    //! Obstacles of some streamlets and not of others.

    use super::*;
    use crate::consumer::Start;
    use tidemill_wire::kafka::KafkaUuid;

    #[test]
    fn an_obstacle_of_one_streamlet_stays_whatever_comes_of_another() {
        let mut state = ConsumerState::default();
        let stream: Arc<str> = "events".into();
        let places = [0, 1, 2].map(|it| (Arc::clone(&stream), it));
        for place in &places {
            let position = Position::new(place.clone(), KafkaUuid::ZERO, Start::Offset(0), (1, 1));
            state.positions.insert(place.clone(), position);
        }
        let fetched = |state: &mut ConsumerState, place: &StreamletKey| {
            state.positions.get_mut(place).unwrap().good();
            state.unhinder(place);
        };
        state.hinder(&places[1], &"node 1 is away".into(), 30);
        state.hinder(&places[0], &"node 0 is away".into(), 20);
        state.hinder(&places[1], &"node 1 does not answer".into(), 40);
        fetched(&mut state, &places[2]);
        fetched(&mut state, &places[0]);
        let obstacle = state.obstacle().unwrap();
        assert_eq!((&*obstacle.why, obstacle.since_us), ("node 1 does not answer", 30));
        assert!(state.hindered);
        fetched(&mut state, &places[1]);
        assert_eq!((state.obstacle(), state.hindered), (None, false));
        // What has stopped is not fetched any more.
        state.hinder(&places[1], &"node 1 is away".into(), 50);
        state.positions.get_mut(&places[1]).unwrap().phase = PositionPhase::Stopped;
        assert_eq!(state.obstacle(), None);
    }
}
