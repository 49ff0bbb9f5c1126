//! The pace of a job: the cycles that may begin, and their recorded times.
//!
//! A source slice ends its cycle when its time is up, or its size is reached, or another source
//! slice is ahead. Sources that are read before others (`preload`) hold the
//! others back: those cut empty cycles until the last preloaded record is cut.

use std::collections::VecDeque;
use tidemill_types::{Cycle, Micros};

#[cfg(test)]
mod tests;

/// Decides for all source slices of a job. No clock: moments are arguments.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// The last cycle that any source slice has begun.
    begun: Cycle,
    /// The last cycle that any source slice has ended.
    ahead: Cycle,
    /// Recorded times of cycles that some slice has yet to cut, in order.
    times: VecDeque<(Cycle, Micros)>,
    last_time: Option<Micros>,
    /// Source slices read first that have not ended.
    preloading: usize,
    /// The last cycle with preloaded records.
    preloaded: Cycle,
    /// Source slices cut cycles up to this one at once, though they may have nothing to read.
    wanted: Cycle,
    /// No cycle after this one is begun.
    stop_after: Option<Cycle>,
}

/// The permit of a source slice for a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Read and cut.
    Read,
    /// Cut this cycle empty: others are read first.
    Empty,
    /// Wait until another slice is ahead: others are read first.
    Hold,
    /// The job stops before this cycle.
    Stop,
}

impl Pacer {
    /// A pacer of a job with `preloading` source slices that are read first.
    pub(crate) fn new(preloading: usize) -> Self {
        Self { preloading, ..Self::default() }
    }

    /// The last cycle that any source slice has begun.
    pub(crate) fn begun(&self) -> Cycle {
        self.begun
    }

    /// Returns true if some source slice has already ended `cycle`, or it is wanted.
    pub(crate) fn is_behind(&self, cycle: Cycle) -> bool {
        self.ahead.max(self.wanted) >= cycle
    }

    /// Returns true if the end of `cycle` is wanted.
    pub(crate) fn is_wanted(&self, cycle: Cycle) -> bool {
        self.wanted >= cycle
    }

    /// The end of a cycle is waited for: it comes before its time is up, and though there may be
    /// nothing to read.
    pub(crate) fn want(&mut self, cycle: Cycle) {
        self.wanted = self.wanted.max(cycle);
    }

    /// Resumes after a cycle of an earlier life, with its time.
    pub(crate) fn go_on_after(&mut self, cycle: Cycle, time: Micros) {
        (self.begun, self.ahead, self.last_time) = (cycle, cycle, Some(time));
    }

    /// Sets the recorded times of cycles that are replayed.
    pub(crate) fn replay(&mut self, times: impl IntoIterator<Item = (Cycle, Micros)>) {
        self.times.extend(times);
        self.last_time = self.times.iter().map(|(_, time)| *time).max().max(self.last_time);
    }

    /// Decides if a source slice may begin `cycle`.
    pub(crate) fn permit(&self, cycle: Cycle, preload: bool) -> Permit {
        if self.stop_after.is_some_and(|last| cycle > last) {
            Permit::Stop
        } else if preload || (self.preloading == 0 && cycle > self.preloaded) {
            Permit::Read
        } else if self.preloading == 0 || self.ahead >= cycle {
            // Not for a cycle that is wanted and that nobody has come to yet: which of them is the
            // first that they read for must not depend on who waits for what.
            Permit::Empty
        } else {
            Permit::Hold
        }
    }

    /// Begins a cycle and returns its recorded time: `now` for the first slice that begins it, but
    /// never before the time of an earlier cycle.
    pub(crate) fn begin(&mut self, cycle: Cycle, now: Micros) -> Micros {
        self.begun = self.begun.max(cycle);
        if let Ok(index) = self.times.binary_search_by_key(&cycle, |(it, _)| *it) {
            return self.times[index].1;
        }
        let time = self.last_time.map_or(now, |last| last.max(now));
        self.last_time = Some(time);
        // Slices begin cycles in order, so the one that begins a new cycle is ahead of all.
        self.times.push_back((cycle, time));
        time
    }

    /// Ends a cycle of one slice. Gives back whether this slice is now the first to have done so.
    pub(crate) fn end(&mut self, cycle: Cycle) -> bool {
        let first = cycle > self.ahead;
        self.ahead = self.ahead.max(cycle);
        first
    }

    /// A slice that is read first has ended with `cycle`. Gives back whether it was the last.
    pub(crate) fn preload_ended(&mut self, cycle: Cycle) -> bool {
        self.preloading -= 1;
        self.preloaded = self.preloaded.max(cycle);
        self.preloading == 0
    }

    /// Forgets the times of cycles that every slice has cut.
    pub(crate) fn forget(&mut self, until: Cycle) {
        while self.times.front().is_some_and(|(cycle, _)| *cycle <= until) {
            self.times.pop_front();
        }
    }

    /// Stops the job after the last cycle that was begun; gives it back.
    pub(crate) fn stop(&mut self) -> Cycle {
        self.stop_at(self.begun)
    }

    /// Stops the job after a cycle, unless it stops before; returns the last cycle. That cycle ends
    /// at once, before its time is up.
    pub(crate) fn stop_at(&mut self, last: Cycle) -> Cycle {
        let last = *self.stop_after.get_or_insert(last);
        self.want(last);
        last
    }

    /// The last cycle, if the job stops.
    pub(crate) fn stop_after(&self) -> Option<Cycle> {
        self.stop_after
    }
}
