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
//! - Threads of a killed process end at their next point: they unwind, so that what they have is
//!   dropped. While they unwind they go on as others do.
//! - After a failure no thread goes on any more: they stay as they are until the process ends.

use super::{
    SimClock, SimPace,
    process::{self, ProcessEntry, ProcessNumber},
    trace::Trace,
};
use crate::Random;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    panic::Location,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

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
}

struct ThreadEntry {
    process: ProcessNumber,
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
    /// Threads that have not ended, by their numbers.
    threads: BTreeMap<usize, ThreadEntry>,
    /// The names of all threads, also of those that have ended.
    pub(super) names: Vec<String>,
    processes: Vec<ProcessEntry>,
    /// The running thread; none after the end.
    current: usize,
    pub(super) trace: Trace,
    pub(super) failure: Option<String>,
    pub(super) ended: bool,
    pub(super) panicked: Vec<String>,
    /// Threads of killed processes that never came to their end.
    pub(super) stuck: Vec<String>,
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
            threads: BTreeMap::new(),
            names: Vec::new(),
            processes: vec![ProcessEntry::default()],
            current: NOBODY,
            trace,
            failure: None,
            ended: false,
            panicked: Vec::new(),
            stuck: Vec::new(),
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
    pub(super) fn add(&self, process: ProcessNumber, name: &str) -> usize {
        let state = &mut *self.state();
        let slow = state.one_in(self.pace.slow_one_in);
        let number = state.names.len();
        state.names.push(name.to_owned());
        let entry = ThreadEntry {
            process,
            wait: Wait::Ready,
            timed_out: false,
            slow,
            doing: "begin",
            place: Location::caller(),
            bell: Arc::new(Condvar::new()),
        };
        state.threads.insert(number, entry);
        number
    }

    /// A process without threads, whose clock is this much faster.
    pub(super) fn add_process(&self, rate_ppm: i32) -> ProcessNumber {
        let state = &mut *self.state();
        state.processes.push(ProcessEntry { rate_ppm, ..ProcessEntry::default() });
        ProcessNumber(state.processes.len() - 1)
    }

    /// Changes a process. The threads of one that is killed are ready to end.
    pub(super) fn change_process(
        &self,
        number: ProcessNumber,
        change: impl FnOnce(&mut ProcessEntry),
    ) {
        let state = &mut *self.state();
        let process = &mut state.processes[number.0];
        change(process);
        if process.is_killed {
            process.is_paused = false;
            for entry in state.threads.values_mut().filter(|it| it.process == number) {
                entry.wake();
            }
        }
    }

    pub(super) fn process(&self, number: ProcessNumber) -> ProcessEntry {
        self.state().processes[number.0]
    }

    /// Picks the next thread and wakes it.
    fn pick(&self, state: &mut ScheduleState) {
        state.current = NOBODY;
        if state.failure.is_some() {
            return;
        }
        loop {
            let now = self.now();
            let (mut next, mut count) = (None, 0);
            for entry in state.threads.values_mut() {
                let is_paused = state.processes[entry.process.0].is_paused;
                match entry.wait {
                    Wait::Until(until) | Wait::Key { until: Some(until), .. } if until <= now => {
                        entry.wait = Wait::Ready;
                        entry.timed_out = true;
                    }
                    Wait::Until(until) | Wait::Key { until: Some(until), .. } if !is_paused => {
                        next = Some(next.map_or(until, |it: u64| it.min(until)));
                    }
                    _ => {}
                }
                count += u64::from(entry.wait == Wait::Ready && !is_paused);
            }
            if count > 0 {
                let nth = state.random.below(count) as usize;
                let processes = &state.processes;
                let is_ready = |entry: &ThreadEntry| {
                    entry.wait == Wait::Ready && !processes[entry.process.0].is_paused
                };
                let mut ready = state.threads.iter().filter(|(_, it)| is_ready(it));
                let (&picked, entry) = ready.nth(nth).expect("one of those that were counted");
                entry.bell.notify_one();
                state.current = picked;
                return;
            }
            match next {
                Some(until) => self.clock.advance(until - now),
                None if state
                    .threads
                    .values()
                    .all(|it| state.processes[it.process.0].is_killed) =>
                {
                    let stuck = state.threads.keys().map(|it| state.names[*it].clone());
                    state.stuck = stuck.collect();
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
        let waiting = state.threads.iter().map(|(number, it)| {
            let is_paused = state.processes[it.process.0].is_paused;
            let note = if is_paused { ", paused" } else { "" };
            format!("\n  {}: {} at {}{note}", state.names[*number], it.doing, it.place)
        });
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
        let bell = Arc::clone(&state.entry(me).bell);
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
        let process = state.entry(me).process;
        if panicked && !state.processes[process.0].is_killed {
            let name = state.names[me].clone();
            state.panicked.push(name);
        }
        state.threads.remove(&me);
        state.wake(|it| it == Wait::End(me));
        self.pick(state);
    }
}

impl ThreadEntry {
    fn wake(&mut self) {
        self.wait = Wait::Ready;
        self.timed_out = false;
    }
}

impl ScheduleState {
    fn wake(&mut self, which: impl Fn(Wait) -> bool) {
        self.threads.values_mut().filter(|it| which(it.wait)).for_each(ThreadEntry::wake);
    }

    /// A thread that has not ended.
    fn entry(&mut self, number: usize) -> &mut ThreadEntry {
        self.threads.get_mut(&number).expect("it has not ended")
    }

    /// True if a thread must end now: its process is killed, and it does not unwind yet.
    fn must_end(&mut self, number: usize) -> bool {
        let process = self.entry(number).process;
        self.processes[process.0].is_killed && !std::thread::panicking()
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
        if state.must_end(self.me) {
            drop(state);
            process::unwind();
        }
        let step = state.random.below(scheduler.pace.step_us_max + 1);
        scheduler.clock.advance(step);
        state.trace.add(scheduler.now(), self.me, doing, place);
        let entry = state.entry(self.me);
        (entry.doing, entry.place) = (doing, place);
        let is_late = scheduler.now() > scheduler.pace.micros_max;
        if is_late || state.trace.points() > scheduler.pace.points_max {
            let bound = if is_late { "too much time" } else { "too many points" };
            scheduler.fail(&mut state, &format!("{bound}: it goes round in circles"));
            drop(scheduler.await_turn(state, self.me));
            unreachable!("nobody goes on after a failure");
        }
        state
    }

    /// Waits as told, and comes back when it is this thread's turn; whether its moment had come.
    fn wait(&self, mut state: MutexGuard<'_, ScheduleState>, wait: Wait) -> bool {
        state.entry(self.me).wait = wait;
        self.scheduler.pick(&mut state);
        let mut state = self.scheduler.await_turn(state, self.me);
        if state.must_end(self.me) {
            drop(state);
            process::unwind();
        }
        state.entry(self.me).timed_out
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
        if state.entry(self.me).slow {
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

    /// The moment after a span of this thread's clock.
    fn moment_after(&self, state: &mut ScheduleState, span_us: u64) -> u64 {
        let process = state.entry(self.me).process;
        let span_us = state.processes[process.0].true_span_us(span_us);
        self.scheduler.now().saturating_add(span_us)
    }

    #[track_caller]
    pub(crate) fn sleep(&self, micros: u64) {
        let mut state = self.point("sleep", Location::caller());
        let until = self.moment_after(&mut state, micros);
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
        let until = span.map(|span| self.moment_after(&mut state, micros(span)));
        !self.wait(state, Wait::Key { key, until })
    }

    /// Makes all threads ready that wait for a key.
    pub(crate) fn wake_all(&self, key: usize) {
        self.scheduler.state().wake(|it| matches!(it, Wait::Key { key: of, .. } if of == key));
    }

    /// Makes all threads that wait for a key ready at this moment, at the latest.
    pub(crate) fn wake_all_at(&self, key: usize, moment_us: u64) {
        for entry in self.scheduler.state().threads.values_mut() {
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
        let count = state.threads.values().filter(|it| waits(it)).count() as u64;
        let nth = state.random.below(count) as usize;
        if let Some(entry) = state.threads.values_mut().filter(|it| waits(it)).nth(nth) {
            entry.wake();
        }
    }

    /// Waits for the end of a thread.
    #[track_caller]
    pub(super) fn join(&self, other: usize) {
        let state = self.point("join", Location::caller());
        if state.threads.contains_key(&other) {
            self.wait(state, Wait::End(other));
        }
    }
}
