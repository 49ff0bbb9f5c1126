//! What the consumer's thread, its user and the connections' reader threads share.

use super::{
    ConsumeError, ConsumerOptions,
    batch::Packed,
    position::{Phase, Position},
};
use crate::{cluster::Cluster, options::micros};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

/// A streamlet of a stream.
pub(super) type Place = (Arc<str>, i32);

/// See the module.
pub(super) struct Shared {
    /// Connections on which nodes wait with their answers until there are records.
    pub(super) cluster: Cluster,
    pub(super) options: ConsumerOptions,
    state: Mutex<State>,
    /// Rings when there is something for the user.
    something: Condvar,
    /// Rings when there is something for the consumer's thread.
    work: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) positions: BTreeMap<Place, Position>,
    /// What waits for the user.
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) waiting_bytes: usize,
    /// Nodes that have been asked.
    pub(super) asked: BTreeSet<i32>,
    pub(super) next_epoch: u64,
    /// Counts fetches, so that each begins with another streamlet.
    pub(super) turn: usize,
    pub(super) closed: bool,
    rung: bool,
    /// The last thing that stood in the way; none once records come again.
    pub(super) obstacle: Option<String>,
}

/// Something for the user.
pub(super) enum Waiting {
    /// A chunk, of an assignment of this epoch.
    Chunk { epoch: u64, packed: Packed },
    /// The end of a streamlet.
    Error { epoch: u64, place: Place, error: ConsumeError },
}

impl Shared {
    pub(super) fn new(cluster: Cluster, options: ConsumerOptions) -> Self {
        Self {
            cluster,
            options,
            state: Mutex::default(),
            something: Condvar::new(),
            work: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    /// Wakes the consumer's thread.
    pub(super) fn ring(&self) {
        self.lock().rung = true;
        self.work.notify_one();
    }

    /// Wakes the user.
    pub(super) fn tell(&self) {
        self.something.notify_all();
    }

    /// Lets the consumer's thread sleep until it is rung, or a moment. False: it has ended.
    pub(super) fn sleep(&self, now_us: u64, until_us: u64) -> bool {
        let mut state = self.lock();
        if !state.rung && !state.closed {
            let wait = Duration::from_micros(until_us.saturating_sub(now_us).max(1));
            state = self.work.wait_timeout(state, wait).expect("no panic while held").0;
        }
        state.rung = false;
        !state.closed
    }

    /// Takes the next thing for the user; waits for it for so long.
    pub(super) fn take(&self, patience: Duration) -> Option<Waiting> {
        let mut state = self.lock();
        let mut deadline_us = None;
        loop {
            if let Some((waiting, room)) = state.take(&self.options) {
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
            state = self.something.wait_timeout(state, wait).expect("no panic while held").0;
        }
    }
}

impl State {
    /// Whether more may be asked for.
    pub(super) fn has_room(&self, options: &ConsumerOptions) -> bool {
        self.waiting_bytes < options.buffer_bytes
    }

    /// Bytes of one streamlet that may wait before it is not asked for any more.
    pub(super) fn share_bytes(&self, options: &ConsumerOptions) -> usize {
        let share = options.buffer_bytes / self.positions.len().max(1);
        share.max(options.streamlet_bytes)
    }

    /// The next thing that is not of an assignment that is over, and whether there is room now that
    /// was not before: then more can be asked for.
    fn take(&mut self, options: &ConsumerOptions) -> Option<(Waiting, bool)> {
        let share_bytes = self.share_bytes(options);
        let had_room = self.has_room(options);
        loop {
            let waiting = self.waiting.pop_front()?;
            let (epoch, place, bytes, next) = match &waiting {
                Waiting::Chunk { epoch, packed } => {
                    let place = (Arc::clone(&packed.stream), packed.streamlet);
                    let next = packed.head.last_offset().saturating_add(1);
                    (*epoch, place, packed.chunk.len(), Some(next))
                }
                Waiting::Error { epoch, place, .. } => (*epoch, place.clone(), 0, None),
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
    pub(super) fn stop(&mut self, place: &Place, error: ConsumeError) {
        let Some(position) = self.positions.get_mut(place) else { return };
        position.phase = Phase::Stopped;
        let epoch = position.epoch;
        self.waiting.push_back(Waiting::Error { epoch, place: place.clone(), error });
    }
}
