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
//! Any number of notifications may wait for one offset, in the order of their registration.
//!
//! Invariants: the watermark never goes back; each notification is sent exactly once, and never
//! under a lock: functions that move an offset return the notifications to send.

use crate::error::AppendError;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

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
    flights: VecDeque<InFlight>,
    failed: Option<AppendError>,
    /// Subscribers that wait for the watermark to pass an offset, beside those of `flights`.
    waiters: BTreeMap<WaitKey, OnDurable>,
    readers: BTreeMap<WaitKey, OnData>,
    next_turn: u64,
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
    /// All below `next` is durable.
    pub(crate) fn new(start: i64, next: i64) -> Self {
        Self {
            start,
            watermark: next,
            next,
            flights: VecDeque::new(),
            failed: None,
            waiters: BTreeMap::new(),
            readers: BTreeMap::new(),
            next_turn: 0,
        }
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

    /// Takes the offsets of a chunk: its base offset.
    pub(crate) fn take(&mut self, offsets: i64) -> Result<i64, AppendError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let base = self.next;
        self.next += offsets;
        self.flights.push_back(InFlight { base, last: self.next - 1, landed: false, notice: None });
        Ok(base)
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
        let mut notices = Notifications::default();
        while self.flights.front().is_some_and(|it| it.landed) {
            let flight = self.flights.pop_front().expect("it is in front");
            self.watermark = flight.last + 1;
            notices.durable.extend(flight.notice.map(|it| (it, Ok(()))));
            let waited = due(&mut self.waiters, self.watermark);
            notices.durable.extend(waited.map(|it| (it, Ok(()))));
        }
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
