//! The scheduler of a simulation: of all its threads exactly one goes on at a time.
//!
//! ```text
//! thread ─ lock, unlock, signal, atomic, disk, sleep, spawn ─▶ point ─▶ the seed picks the next thread
//! ready ─ waits: for a key, a thread, a moment ─▶ woken, or its moment has come ─▶ ready
//! none is ready ─▶ the clock jumps to the next moment; there is none: deadlock
//! ```
//!
//! - Simulated threads are threads of the system that wait for the baton, so that thread-local
//!   values and the locks of other crates work as ever.
//! - A decision depends on the seed and the decisions before it; never on an address, which is only
//!   compared, nor on the real clock.
//! - After a failure no thread goes on any more: they stay as they are until the process ends.

use super::{SimClock, trace::Trace};
use crate::Random;
use std::{
    cell::RefCell,
    panic::Location,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The durations and disturbances of a simulation's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimPace {
    /// At how many of 256 points a thread goes on although others could.
    pub stay: u64,
    /// The longest step from one point to the next, in microseconds.
    pub step_us_max: u64,
    /// The longest operation of the disk, in microseconds.
    pub disk_us_max: u64,
    /// One thread in this number is slow; 0: none is.
    pub slow_one_in: u64,
    /// The longest step of a slow thread, in microseconds.
    pub slow_us_max: u64,
    /// At one point in this number a thread is stopped for a while; 0: never.
    pub pause_one_in: u64,
    /// The longest stop, in microseconds.
    pub pause_us_max: u64,
    /// One wait in this number ends without cause; 0: none does.
    pub spurious_one_in: u64,
    /// A simulation with more points than this goes round in circles.
    pub points_max: u64,
}

impl SimPace {
    /// Short steps, and no thread is stopped.
    pub const EVEN: Self = Self {
        stay: 200,
        step_us_max: 2,
        disk_us_max: 20,
        slow_one_in: 0,
        slow_us_max: 0,
        pause_one_in: 0,
        pause_us_max: 0,
        spurious_one_in: 0,
        points_max: 5_000_000,
    };

    /// One of many, as the numbers say.
    pub fn of(random: &mut Random) -> Self {
        fn one(random: &mut Random, of: &[u64]) -> u64 {
            of[random.below(of.len() as u64) as usize]
        }
        Self {
            stay: one(random, &[0, 128, 220, 250]),
            step_us_max: one(random, &[1, 1, 5, 50]),
            disk_us_max: one(random, &[0, 10, 500, 20_000]),
            slow_one_in: one(random, &[0, 0, 3, 8]),
            slow_us_max: one(random, &[10, 300, 5_000]),
            pause_one_in: one(random, &[0, 0, 500, 5_000]),
            pause_us_max: one(random, &[1_000, 100_000, 3_000_000]),
            spurious_one_in: one(random, &[0, 0, 50]),
            ..Self::EVEN
        }
    }
}

thread_local! {
    static HERE: RefCell<Option<SimThreadContext>> = const { RefCell::new(None) };
}

/// The simulated thread that this is; none: it is not simulated.
#[inline]
pub(crate) fn here() -> Option<SimThreadContext> {
    // While a thread ends its values are gone, and it is not simulated any more.
    HERE.try_with(|here| here.try_borrow().ok()?.clone()).ok().flatten()
}

/// From now on the calling thread is this one, or none.
pub(super) fn set_here(here: Option<SimThreadContext>) {
    HERE.with(|it| *it.borrow_mut() = here);
}

/// The key of a lock or a condition variable: its address. It must not move while it is used.
pub(crate) fn key_of<T: ?Sized>(it: &T) -> usize {
    std::ptr::from_ref(it).addr()
}

/// A simulated thread, as it sees the scheduler.
#[derive(Clone)]
pub(crate) struct SimThreadContext {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) me: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Ready,
    Until(u64),
    Key { key: usize, until: Option<u64> },
    End(usize),
    Ended,
}

struct ThreadEntry {
    name: String,
    wait: Wait,
    /// It became ready because its moment had come.
    timed_out: bool,
    slow: bool,
    /// The operation at the thread's current point.
    doing: &'static str,
    place: &'static Location<'static>,
    bell: Arc<Condvar>,
}

pub(super) struct ScheduleState {
    random: Random,
    threads: Vec<ThreadEntry>,
    /// The running thread; none after the end.
    current: usize,
    pub(super) trace: Trace,
    pub(super) failure: Option<String>,
    pub(super) ended: bool,
    pub(super) panicked: Vec<String>,
}

/// Nobody.
const NOBODY: usize = usize::MAX;

pub(super) struct Scheduler {
    state: Mutex<ScheduleState>,
    pace: SimPace,
    clock: Arc<SimClock>,
    /// The simulation has ended, or failed.
    pub(super) over: Condvar,
}

impl Scheduler {
    pub(super) fn new(seed: u64, pace: SimPace, clock: Arc<SimClock>, trace: Trace) -> Self {
        let state = ScheduleState {
            random: Random::new(Random::new(seed).next() ^ 0x5c4e_d01e),
            threads: Vec::new(),
            current: NOBODY,
            trace,
            failure: None,
            ended: false,
            panicked: Vec::new(),
        };
        Self { state: Mutex::new(state), pace, clock, over: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ScheduleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        use crate::Clock;
        self.clock.monotonic_micros()
    }

    /// A thread that is ready and has not begun.
    #[track_caller]
    pub(super) fn add(&self, name: &str) -> usize {
        let state = &mut *self.state();
        let slow = self.pace.slow_one_in > 0 && state.random.below(self.pace.slow_one_in) == 0;
        state.threads.push(ThreadEntry {
            name: name.to_owned(),
            wait: Wait::Ready,
            timed_out: false,
            slow,
            doing: "begin",
            place: Location::caller(),
            bell: Arc::new(Condvar::new()),
        });
        state.threads.len() - 1
    }

    /// Picks the next thread and wakes it.
    fn pick(&self, state: &mut ScheduleState) {
        state.current = NOBODY;
        if state.failure.is_some() {
            return;
        }
        loop {
            let now = self.now();
            let mut next = None;
            for entry in &mut state.threads {
                let until = match entry.wait {
                    Wait::Until(until) | Wait::Key { until: Some(until), .. } => until,
                    Wait::Ready | Wait::Key { until: None, .. } | Wait::End(_) | Wait::Ended => {
                        continue;
                    }
                };
                if until <= now {
                    entry.wait = Wait::Ready;
                    entry.timed_out = true;
                } else {
                    next = Some(next.map_or(until, |it: u64| it.min(until)));
                }
            }
            let ready = |entry: &&ThreadEntry| entry.wait == Wait::Ready;
            let count = state.threads.iter().filter(ready).count() as u64;
            if count > 0 {
                let nth = state.random.below(count) as usize;
                let mut all = state.threads.iter().enumerate();
                let picked = all.by_ref().filter(|(_, it)| ready(it)).nth(nth);
                let (picked, entry) = picked.expect("one of those that were counted");
                entry.bell.notify_one();
                state.current = picked;
                return;
            }
            match next {
                Some(until) => self.clock.advance(until - now),
                None if state.threads.iter().all(|it| it.wait == Wait::Ended) => {
                    state.ended = true;
                    self.over.notify_all();
                    return;
                }
                None => return self.fail(state, "nobody can go on"),
            }
        }
    }

    /// Ends the simulation with a failure: no thread goes on.
    fn fail(&self, state: &mut ScheduleState, why: &str) {
        let waiting = state.threads.iter().filter(|it| it.wait != Wait::Ended);
        let waiting = waiting.map(|it| format!("\n  {}: {} at {}", it.name, it.doing, it.place));
        state.failure = Some(format!("{why}:{}", waiting.collect::<String>()));
        state.current = NOBODY;
        self.over.notify_all();
    }

    /// Waits until it is the turn of a thread.
    fn await_turn<'a>(
        &self,
        mut state: MutexGuard<'a, ScheduleState>,
        me: usize,
    ) -> MutexGuard<'a, ScheduleState> {
        let bell = Arc::clone(&state.threads[me].bell);
        while state.current != me {
            state = bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Waits for the first turn of a thread.
    pub(super) fn begin(&self, me: usize) {
        drop(self.await_turn(self.state(), me));
    }

    /// The first thread may go on.
    pub(super) fn open(&self) {
        self.pick(&mut self.state());
    }

    /// A thread has ended.
    pub(super) fn end(&self, me: usize, panicked: bool) {
        let state = &mut *self.state();
        state.trace.add(self.now(), me, "end", Location::caller());
        if panicked {
            let name = state.threads[me].name.clone();
            state.panicked.push(name);
        }
        state.threads[me].wait = Wait::Ended;
        state.wake(|it| it == Wait::End(me));
        self.pick(state);
    }

    /// The names of all threads.
    pub(super) fn names(state: &ScheduleState) -> Vec<String> {
        state.threads.iter().map(|it| it.name.clone()).collect()
    }
}

impl ScheduleState {
    fn wake(&mut self, which: impl Fn(Wait) -> bool) {
        for entry in self.threads.iter_mut().filter(|it| which(it.wait)) {
            entry.wait = Wait::Ready;
            entry.timed_out = false;
        }
    }

    fn one_in(&mut self, count: u64) -> bool {
        count > 0 && self.random.below(count) == 0
    }
}

impl SimThreadContext {
    fn point(
        &self,
        doing: &'static str,
        place: &'static Location<'static>,
    ) -> MutexGuard<'_, ScheduleState> {
        let scheduler = &*self.scheduler;
        let mut state = scheduler.state();
        let step = state.random.below(scheduler.pace.step_us_max + 1);
        scheduler.clock.advance(step);
        state.trace.add(scheduler.now(), self.me, doing, place);
        let entry = &mut state.threads[self.me];
        (entry.doing, entry.place) = (doing, place);
        if state.trace.points() > scheduler.pace.points_max {
            scheduler.fail(&mut state, "too many points: it goes round in circles");
            drop(scheduler.await_turn(state, self.me));
            unreachable!("nobody goes on after a failure");
        }
        state
    }

    /// Waits as told, and comes back when it is this thread's turn; whether its moment had come.
    fn wait(&self, mut state: MutexGuard<'_, ScheduleState>, wait: Wait) -> bool {
        state.threads[self.me].wait = wait;
        self.scheduler.pick(&mut state);
        let state = self.scheduler.await_turn(state, self.me);
        state.threads[self.me].timed_out
    }

    /// A moment at which others may go on.
    #[track_caller]
    pub(crate) fn pass(&self, doing: &'static str) {
        self.pass_at(doing, 0, Location::caller());
    }

    /// An operation of the disk.
    #[track_caller]
    pub(crate) fn disk(&self, doing: &'static str) {
        self.pass_at(doing, self.scheduler.pace.disk_us_max, Location::caller());
    }

    fn pass_at(&self, doing: &'static str, takes_us_max: u64, place: &'static Location<'static>) {
        let pace = self.scheduler.pace;
        let mut state = self.point(doing, place);
        let mut takes = state.random.below(takes_us_max + 1);
        if state.threads[self.me].slow {
            takes += state.random.below(pace.slow_us_max + 1);
        }
        if state.one_in(pace.pause_one_in) {
            takes += state.random.below(pace.pause_us_max + 1);
        }
        if takes > 0 {
            let until = self.scheduler.now() + takes;
            self.wait(state, Wait::Until(until));
        } else if state.random.below(256) >= pace.stay {
            self.wait(state, Wait::Ready);
        }
    }

    #[track_caller]
    pub(crate) fn sleep(&self, micros: u64) {
        let state = self.point("sleep", Location::caller());
        let until = self.scheduler.now() + micros;
        self.wait(state, Wait::Until(until));
    }

    /// Waits until the key is woken.
    #[track_caller]
    pub(crate) fn wait_on(&self, key: usize, doing: &'static str) {
        let state = self.point(doing, Location::caller());
        self.wait(state, Wait::Key { key, until: None });
    }

    /// Waits for a signal; whether there was one before the time had passed.
    #[track_caller]
    pub(crate) fn wait_for_signal(&self, key: usize, span: Option<Duration>) -> bool {
        let mut state = self.point("wait", Location::caller());
        if state.one_in(self.scheduler.pace.spurious_one_in) {
            self.wait(state, Wait::Ready);
            return true;
        }
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let until = span.map(|span| self.scheduler.now().saturating_add(micros(span)));
        !self.wait(state, Wait::Key { key, until })
    }

    /// Makes all threads ready that wait for a key.
    pub(crate) fn wake_all(&self, key: usize) {
        self.scheduler.state().wake(|it| matches!(it, Wait::Key { key: of, .. } if of == key));
    }

    /// Makes all threads that wait for a key ready at this moment, at the latest.
    pub(crate) fn wake_all_at(&self, key: usize, moment_us: u64) {
        for entry in &mut self.scheduler.state().threads {
            if let Wait::Key { key: of, until } = &mut entry.wait
                && *of == key
            {
                *until = Some(until.map_or(moment_us, |it| it.min(moment_us)));
            }
        }
    }

    /// The time of the simulated clock.
    pub(crate) fn now_us(&self) -> u64 {
        self.scheduler.now()
    }

    /// Makes one thread ready that waits for a key.
    pub(crate) fn signal_one(&self, key: usize) {
        let state = &mut *self.scheduler.state();
        let waits = |it: &ThreadEntry| matches!(it.wait, Wait::Key { key: of, .. } if of == key);
        let count = state.threads.iter().filter(|it| waits(it)).count() as u64;
        let nth = state.random.below(count) as usize;
        if let Some(entry) = state.threads.iter_mut().filter(|it| waits(it)).nth(nth) {
            entry.wait = Wait::Ready;
            entry.timed_out = false;
        }
    }

    /// Waits for the end of a thread.
    #[track_caller]
    pub(super) fn join(&self, other: usize) {
        let state = self.point("join", Location::caller());
        if state.threads[other].wait != Wait::Ended {
            self.wait(state, Wait::End(other));
        }
    }
}
