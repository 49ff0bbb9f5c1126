//! A streamlet's counter of offsets, its high watermark, and who waits for them.
//!
//! ```text
//! start ── acknowledged, visible ── high watermark ── in flight: offset taken, not landed ── next
//! ```
//!
//! An append takes its offsets in one step under one lock, writes in parallel with others, and
//! lands in any order; the watermark passes a chunk when all before it have landed. So readers
//! see a prefix of what was appended, and an acknowledged chunk has no gap before it.
//!
//! Any number of notices may wait for one offset: each has a place of its own, in the order in
//! which they came.
//!
//! Invariants: the watermark never goes back; each notice is given exactly once, and never while
//! a lock is held here: the functions that move things return what is to be called.

use crate::error::AppendError;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Called once, when an append counts or never will.
pub type OnDurable = Box<dyn FnOnce(Result<(), AppendError>) + Send>;
/// Called once, when there are data to read.
pub type OnData = Box<dyn FnOnce() + Send>;

struct Flight {
    base: i64,
    last: i64,
    landed: bool,
    /// The first that asked. Others are in [`Progress::waiters`].
    notice: Option<OnDurable>,
}

/// A place in a queue that is ordered by offset, then by who came first.
pub(crate) type Turn = (i64, u64);

/// Offsets of one streamlet. Its owner holds the lock.
pub(crate) struct Progress {
    /// The first offset that readers may ask for.
    start: i64,
    watermark: i64,
    next: i64,
    flights: VecDeque<Flight>,
    failed: Option<AppendError>,
    /// Who waits for the watermark to pass an offset, beside the notices of flights.
    waiters: BTreeMap<Turn, OnDurable>,
    readers: BTreeMap<Turn, OnData>,
    next_turn: u64,
}

/// What is to be called once no lock is held.
#[derive(Default)]
#[must_use]
pub(crate) struct Notices {
    durable: Vec<(OnDurable, Result<(), AppendError>)>,
    data: Vec<OnData>,
}

impl Notices {
    /// Readers come first: whoever is told that a chunk counts, and then asks for news, finds it.
    pub(crate) fn give(self) {
        self.data.into_iter().for_each(|notice| notice());
        self.durable.into_iter().for_each(|(notice, outcome)| notice(outcome));
    }
}

/// What a registration of a notice came to.
pub(crate) enum Registered {
    /// It will be called.
    Waits,
    /// Call it now.
    Now(OnDurable, Result<(), AppendError>),
}

impl Progress {
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
        self.flights.push_back(Flight { base, last: self.next - 1, landed: false, notice: None });
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

    fn find(&mut self, base: i64) -> Option<&mut Flight> {
        let index = self.flights.binary_search_by_key(&base, |it| it.base).ok()?;
        self.flights.get_mut(index)
    }

    /// Chunks count from now on, in the order of their offsets.
    pub(crate) fn land(&mut self, bases: impl IntoIterator<Item = i64>) -> Notices {
        for base in bases {
            if let Some(flight) = self.find(base) {
                flight.landed = true;
            }
        }
        let mut notices = Notices::default();
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

    /// Nothing lands any more: all in flight fail, and readers are told to look. What failed can
    /// still be closed.
    pub(crate) fn fail(&mut self, error: AppendError) -> Notices {
        let mut notices = Notices::default();
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

    /// Asks for a notice when the watermark has passed `offset`.
    pub(crate) fn on_visible(&mut self, offset: i64, notice: OnDurable) -> Registered {
        if offset < self.watermark {
            return Registered::Now(notice, Ok(()));
        }
        if let Some(error) = &self.failed {
            return Registered::Now(notice, Err(error.clone()));
        }
        match self.find(offset) {
            Some(flight) if flight.notice.is_none() => flight.notice = Some(notice),
            _ => {
                let turn = self.turn(offset);
                self.waiters.insert(turn, notice);
            }
        }
        Registered::Waits
    }

    fn turn(&mut self, offset: i64) -> Turn {
        self.next_turn += 1;
        (offset, self.next_turn)
    }

    fn is_closed(&self) -> bool {
        matches!(self.failed, Some(AppendError::Closed))
    }

    /// Asks for a notice when offset `after` can be read; none is kept, and it comes back, if it
    /// can be now or the streamlet is closed. One that failed says nothing until it is closed:
    /// whoever was told at once would ask again at once.
    pub(crate) fn on_data(&mut self, after: i64, notice: OnData) -> Result<Turn, OnData> {
        if after < self.watermark || self.is_closed() {
            return Err(notice);
        }
        let turn = self.turn(after);
        self.readers.insert(turn, notice);
        Ok(turn)
    }

    pub(crate) fn forget(&mut self, reader: Turn) {
        self.readers.remove(&reader);
    }
}

/// Takes out what waits for an offset below `watermark`. Costs nothing if nobody does.
fn due<T>(waiting: &mut BTreeMap<Turn, T>, watermark: i64) -> impl Iterator<Item = T> {
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
