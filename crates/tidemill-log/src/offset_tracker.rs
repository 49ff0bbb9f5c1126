//! A streamlet's counter of offsets, its high watermark, and the subscribers that wait for them.
//!
//! ```text
//! start ── acknowledged, visible ── high watermark ── in flight: offset taken, not landed ── next
//! ```
//!
//! An append takes its offsets in one step under one lock, writes in parallel with others, and
//! lands in any order; the watermark passes a chunk when all before it have landed. So readers see
//! a prefix of the appended chunks, and an acknowledged chunk has no gap before it.
//!
//! Chunks *land* when they are as durable here as the stream asks. The watermark passes what has
//! landed here and is on enough copies elsewhere: a leader that is alone waits for no copies, a
//! copy goes as far as its leader says.
//!
//! Any number of notifications may wait for one offset, in the order of their registration.
//!
//! Invariants: the watermark never goes back; each notification is sent exactly once, and never
//! under a lock: functions that move an offset return the notifications to send.

use crate::{
    error::{AppendError, ReplicaRefusal},
    role::{Landing, StreamletRole},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tidemill_types::{LeaderEpoch, Offset};

/// Called once, when an append counts or never will.
pub type OnDurable = Box<dyn FnOnce(Result<(), AppendError>) + Send>;
/// Called once, when there are data to read.
pub type OnData = Box<dyn FnOnce() + Send>;

struct InFlight {
    base: i64,
    last: i64,
    landed: bool,
    /// The first that asked. Others are in [`OffsetTracker::waiters`].
    notice: Option<OnDurable>,
}

/// The key of a waiting subscriber: the offset, then a number in the order of registration.
pub(crate) type WaitKey = (i64, u64);

/// Offsets of one streamlet. Its owner holds the lock.
pub(crate) struct OffsetTracker {
    /// The first offset that readers may ask for.
    start: i64,
    watermark: i64,
    next: i64,
    /// All below has landed: it was there when the log was opened.
    recovered: i64,
    /// Copies elsewhere have all below. [`i64::MAX`] if none are waited for.
    replicated: i64,
    role: StreamletRole,
    flights: VecDeque<InFlight>,
    failed: Option<AppendError>,
    /// Subscribers that wait for the watermark to pass an offset, beside those of `flights`.
    waiters: BTreeMap<WaitKey, OnDurable>,
    readers: BTreeMap<WaitKey, OnData>,
    next_turn: u64,
}

/// Offsets that an append took, and the epoch under which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenOffsets {
    pub(crate) base: i64,
    pub(crate) epoch: LeaderEpoch,
}

/// Notifications to send once no lock is held.
#[derive(Default)]
#[must_use]
pub(crate) struct Notifications {
    durable: Vec<(OnDurable, Result<(), AppendError>)>,
    data: Vec<OnData>,
}

impl Notifications {
    /// Readers come first: a producer that hears that a chunk counts and then reads finds it.
    pub(crate) fn send(self) {
        self.data.into_iter().for_each(|notice| notice());
        self.durable.into_iter().for_each(|(notice, outcome)| notice(outcome));
    }
}

/// The outcome of a registration.
pub(crate) enum Registration {
    /// It will be called.
    Waits,
    /// Call it now.
    Now(OnDurable, Result<(), AppendError>),
}

impl OffsetTracker {
    /// All below `next` has landed.
    pub(crate) fn new(start: i64, next: i64, role: StreamletRole, landing: Landing) -> Self {
        let mut tracker = Self {
            start,
            watermark: start.min(next),
            next,
            recovered: next,
            replicated: start,
            role,
            flights: VecDeque::new(),
            failed: None,
            waiters: BTreeMap::new(),
            readers: BTreeMap::new(),
            next_turn: 0,
        };
        tracker.set_landing(landing);
        let nobody_waits = tracker.advance();
        debug_assert!(nobody_waits.durable.is_empty() && nobody_waits.data.is_empty());
        tracker
    }

    pub(crate) fn role(&self) -> StreamletRole {
        self.role
    }

    /// Sets the role. Readers are called, as their requests may be refused from now on. Appends
    /// that wait for copies are refused if this is no leader any more: whether they will count is
    /// for another node to say.
    pub(crate) fn set_role(&mut self, role: StreamletRole, landing: Landing) -> Notifications {
        self.role = role;
        self.set_landing(landing);
        let mut notices = self.advance();
        notices.data.extend(std::mem::take(&mut self.readers).into_values());
        if let StreamletRole::Copy(epoch) = role {
            let flights = self.flights.iter_mut().filter_map(|it| it.notice.take());
            let waiting: Vec<_> = flights.collect();
            let waiting =
                waiting.into_iter().chain(std::mem::take(&mut self.waiters).into_values());
            let refused = |it| (it, Err(AppendError::NotLeader { epoch }));
            notices.durable.extend(waiting.map(refused));
        }
        notices
    }

    fn set_landing(&mut self, landing: Landing) {
        self.replicated = match landing {
            Landing::Local => i64::MAX,
            Landing::Replicated => self.watermark,
        };
    }

    /// Copies elsewhere have all below `end`.
    pub(crate) fn set_replicated(&mut self, end: Offset) -> Notifications {
        self.replicated = self.replicated.max(end.0);
        self.advance()
    }

    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    pub(crate) fn watermark(&self) -> i64 {
        self.watermark
    }

    pub(crate) fn next(&self) -> i64 {
        self.next
    }

    /// The first offset that was taken and has not landed; the next offset if all have.
    pub(crate) fn first_in_flight(&self) -> i64 {
        self.flights.iter().find(|it| !it.landed).map_or(self.next, |it| it.base)
    }

    pub(crate) fn failed(&self) -> Option<&AppendError> {
        self.failed.as_ref()
    }

    /// Moves the start forward; never past the watermark, never back.
    pub(crate) fn move_start(&mut self, to: i64) {
        self.start = self.start.max(to.min(self.watermark));
    }

    /// Takes the offsets of a chunk of a leader's own.
    pub(crate) fn take(&mut self, offsets: i64) -> Result<TakenOffsets, AppendError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.role {
            StreamletRole::Leader(epoch) => Ok(self.take_next(offsets, epoch)),
            StreamletRole::Copy(epoch) => Err(AppendError::NotLeader { epoch }),
        }
    }

    /// Takes the offsets of a chunk that a leader sent to this copy: they must be the next ones.
    pub(crate) fn take_replica(
        &mut self,
        sent: TakenOffsets,
        offsets: i64,
    ) -> Result<TakenOffsets, AppendError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.role {
            StreamletRole::Leader(epoch) => Err(ReplicaRefusal::Leads { epoch }.into()),
            StreamletRole::Copy(epoch) if sent.epoch > epoch => {
                Err(ReplicaRefusal::Epoch { sent: sent.epoch, known: epoch }.into())
            }
            StreamletRole::Copy(_) if sent.base != self.next => {
                let (sent, expected) = (Offset(sent.base), Offset(self.next));
                Err(ReplicaRefusal::Offset { sent, expected }.into())
            }
            StreamletRole::Copy(_) => Ok(self.take_next(offsets, sent.epoch)),
        }
    }

    fn take_next(&mut self, offsets: i64, epoch: LeaderEpoch) -> TakenOffsets {
        let base = self.next;
        self.next += offsets;
        self.flights.push_back(InFlight { base, last: self.next - 1, landed: false, notice: None });
        TakenOffsets { base, epoch }
    }

    /// Gives the offsets back that were taken last. False if others were taken since.
    pub(crate) fn give_back(&mut self, base: i64) -> bool {
        let last = self.flights.back().is_some_and(|it| it.base == base);
        if last {
            self.flights.pop_back();
            self.next = base;
        }
        last
    }

    fn find(&mut self, base: i64) -> Option<&mut InFlight> {
        let index = self.flights.binary_search_by_key(&base, |it| it.base).ok()?;
        self.flights.get_mut(index)
    }

    /// Chunks count from now on, in the order of their offsets.
    pub(crate) fn land(&mut self, bases: impl IntoIterator<Item = i64>) -> Notifications {
        for base in bases {
            if let Some(flight) = self.find(base) {
                flight.landed = true;
            }
        }
        self.advance()
    }

    /// Moves the watermark as far as it may go.
    fn advance(&mut self) -> Notifications {
        let mut notices = Notifications::default();
        if self.watermark < self.recovered {
            self.watermark = self.watermark.max(self.recovered.min(self.replicated));
        }
        while self.flights.front().is_some_and(|it| it.landed && it.last < self.replicated) {
            let flight = self.flights.pop_front().expect("it is in front");
            self.watermark = flight.last + 1;
            notices.durable.extend(flight.notice.map(|it| (it, Ok(()))));
            let waited = due(&mut self.waiters, self.watermark);
            notices.durable.extend(waited.map(|it| (it, Ok(()))));
        }
        notices.durable.extend(due(&mut self.waiters, self.watermark).map(|it| (it, Ok(()))));
        notices.data.extend(due(&mut self.readers, self.watermark));
        notices
    }

    /// Fails all chunks in flight, and wakes the readers. A failed streamlet can still be closed.
    pub(crate) fn fail(&mut self, error: AppendError) -> Notifications {
        let mut notices = Notifications::default();
        if self.is_closed() || (self.failed.is_some() && !matches!(error, AppendError::Closed)) {
            return notices;
        }
        let flights = std::mem::take(&mut self.flights);
        let first = flights.into_iter().filter_map(|it| it.notice);
        let waiting = first.chain(std::mem::take(&mut self.waiters).into_values());
        notices.durable.extend(waiting.map(|it| (it, Err(error.clone()))));
        notices.data.extend(std::mem::take(&mut self.readers).into_values());
        self.failed = Some(error);
        notices
    }

    /// Registers a notification for when the watermark has passed `offset`.
    pub(crate) fn on_visible(&mut self, offset: i64, notice: OnDurable) -> Registration {
        if offset < self.watermark {
            return Registration::Now(notice, Ok(()));
        }
        if let Some(error) = &self.failed {
            return Registration::Now(notice, Err(error.clone()));
        }
        match self.find(offset) {
            Some(flight) if flight.notice.is_none() => flight.notice = Some(notice),
            _ => {
                let turn = self.turn(offset);
                self.waiters.insert(turn, notice);
            }
        }
        Registration::Waits
    }

    fn turn(&mut self, offset: i64) -> WaitKey {
        self.next_turn += 1;
        (offset, self.next_turn)
    }

    fn is_closed(&self) -> bool {
        matches!(self.failed, Some(AppendError::Closed))
    }

    /// Registers a notification for when offset `after` can be read. It comes back if that is so
    /// now, or if the streamlet is closed. A failed streamlet keeps it until it is closed: a reader
    /// that was notified at once would register again at once.
    pub(crate) fn on_data(&mut self, after: i64, notice: OnData) -> Result<WaitKey, OnData> {
        if after < self.watermark || self.is_closed() {
            return Err(notice);
        }
        let turn = self.turn(after);
        self.readers.insert(turn, notice);
        Ok(turn)
    }

    pub(crate) fn forget(&mut self, reader: WaitKey) {
        self.readers.remove(&reader);
    }
}

/// Takes out all entries for offsets below `watermark`. Costs nothing if there are none.
fn due<T>(waiting: &mut BTreeMap<WaitKey, T>, watermark: i64) -> impl Iterator<Item = T> {
    std::iter::from_fn(move || {
        let first = waiting.first_entry().filter(|it| it.key().0 < watermark)?;
        Some(first.remove())
    })
}

/// An error that all waiters get.
pub(crate) fn failure(text: &str) -> AppendError {
    AppendError::Failed(Arc::from(text))
}

#[cfg(test)]
mod tests;
