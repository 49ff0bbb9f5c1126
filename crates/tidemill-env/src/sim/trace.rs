//! The points of a simulation, and a hash of them: two runs of one seed must have the same.

use std::{collections::VecDeque, panic::Location};

/// Points that are kept for the report of a failure.
const LAST_MAX: usize = 60;

pub(super) struct Trace {
    points: u64,
    hash: u64,
    keeps_all: bool,
    last: VecDeque<Point>,
}

struct Point {
    now_us: u64,
    thread: usize,
    doing: &'static str,
    place: &'static Location<'static>,
}

impl Trace {
    pub(super) fn new(keeps_all: bool) -> Self {
        Self { points: 0, hash: 0, keeps_all, last: VecDeque::new() }
    }

    pub(super) fn add(
        &mut self,
        now_us: u64,
        thread: usize,
        doing: &'static str,
        place: &'static Location<'static>,
    ) {
        self.points += 1;
        let length = doing.len() as u64;
        for number in [now_us, thread as u64, length, u64::from(place.line())] {
            self.hash = (self.hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
        if !self.keeps_all && self.last.len() == LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(Point { now_us, thread, doing, place });
    }

    pub(super) fn points(&self) -> u64 {
        self.points
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// A line for each point, with the names of the threads.
    pub(super) fn lines(&self, names: &[String]) -> Vec<String> {
        let line = |Point { now_us, thread, doing, place }: &Point| {
            let name = names.get(*thread).map_or("", String::as_str);
            format!("{now_us:>12} {thread:>3} {name:<20} {doing:<8} {place}")
        };
        self.last.iter().map(line).collect()
    }
}
