//! A simulation: some code and all threads that it starts, under one seed.

use super::{
    SimPace, SimWorld,
    process::ProcessNumber,
    schedule::{Scheduler, SimThreadContext, here, set_here},
    trace::Trace,
};
use crate::{Spawn, Thread, World};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

#[cfg(test)]
mod tests;

/// The settings of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Simulation {
    /// Decides everything that is left open: the order of threads, durations, the losses of a disk.
    pub seed: u64,
    /// Durations, and the threads that are slow.
    pub pace: SimPace,
    /// Every point is kept for [`SimReport::trace`], not the last ones alone.
    pub keeps_trace: bool,
}

/// The report of a simulation.
#[derive(Clone, Debug)]
pub struct SimReport {
    /// Of all points, in their order: the same for the same seed and code.
    pub hash: u64,
    /// The number of points at which a thread could be switched.
    pub points: u64,
    /// The time that passed on the simulated clock, in microseconds.
    pub micros: u64,
    /// Threads that ended by a panic; those of killed processes excepted.
    pub panicked: Vec<String>,
    /// Threads of killed processes that waited for ever as they ended. They stay as they are.
    pub stuck: Vec<String>,
    /// The last points, or all.
    pub trace: Vec<String>,
}

/// Why it came to no end.
#[derive(Clone, Debug)]
pub struct SimFailure {
    /// The fault, and the threads with the places where they wait.
    pub message: String,
    /// The last points before the fault.
    pub trace: Vec<String>,
}

impl Simulation {
    /// An even pace, and no trace.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, pace: SimPace::EVEN, keeps_trace: false }
    }

    /// Runs code in a thread of a new simulated world, until all threads have ended that it starts
    /// there.
    ///
    /// # Errors
    /// All threads were blocked, or the bound of points was reached. The threads then stay as they
    /// are, and never release their resources.
    ///
    /// # Panics
    /// Panics if the system has no threads left.
    pub fn run<T: Send + 'static>(
        self,
        body: impl FnOnce(&SimWorld) -> T + Send + 'static,
    ) -> Result<(Option<T>, SimReport), SimFailure> {
        let mut sim = World::simulated(self.seed);
        let trace = Trace::new(self.keeps_trace);
        let scheduler =
            Arc::new(Scheduler::new(self.seed, self.pace, Arc::clone(&sim.clock), trace));
        sim.world.spawn = Arc::new(SimSpawn::new(&scheduler, ProcessNumber::OUTSIDE));
        sim.world.net = sim.net.host("outside");
        let (result, clock) = (Arc::new(Mutex::new(None)), Arc::clone(&sim.clock));
        let keep = Arc::clone(&result);
        let body = move || {
            let value = body(&sim);
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        };
        let first = start(&scheduler, ProcessNumber::OUTSIDE, "main", Box::new(body));
        scheduler.open();
        let mut state = scheduler.state();
        while !state.ended && state.failure.is_none() {
            state = scheduler.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let lines = state.trace.lines(&state.names);
        if let Some(message) = state.failure.clone() {
            return Err(SimFailure { message, trace: lines });
        }
        let ran = SimReport {
            hash: state.trace.hash(),
            points: state.trace.points(),
            micros: crate::Clock::monotonic_micros(&*clock),
            panicked: state.panicked.clone(),
            stuck: state.stuck.clone(),
            trace: lines,
        };
        drop(state);
        drop(first.1.join());
        let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok((result, ran))
    }
}

/// Starts a thread that waits for its turn.
fn start(
    scheduler: &Arc<Scheduler>,
    process: ProcessNumber,
    name: &str,
    body: Box<dyn FnOnce() + Send>,
) -> (usize, thread::JoinHandle<()>) {
    let me = scheduler.add(process, name);
    let scheduler = Arc::clone(scheduler);
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        scheduler.begin(me);
        set_here(Some(SimThreadContext { scheduler: Arc::clone(&scheduler), me }));
        let panicked = catch_unwind(AssertUnwindSafe(body)).is_err();
        set_here(None);
        scheduler.end(me, panicked);
    });
    (me, thread.expect("the operating system lets us start a few threads"))
}

/// Threads of a process of a simulation, which only threads of the simulation start.
pub(super) struct SimSpawn {
    scheduler: Arc<Scheduler>,
    process: ProcessNumber,
}

impl SimSpawn {
    pub(super) fn new(scheduler: &Arc<Scheduler>, process: ProcessNumber) -> Self {
        Self { scheduler: Arc::clone(scheduler), process }
    }
}

struct SimThread {
    number: usize,
    thread: thread::JoinHandle<()>,
}

impl Spawn for SimSpawn {
    fn try_spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Thread>> {
        let here = here().expect("only a simulated thread starts another");
        let (number, thread) = start(&self.scheduler, self.process, name, body);
        here.pass("spawn");
        Ok(Box::new(SimThread { number, thread }))
    }
}

impl Thread for SimThread {
    fn join(self: Box<Self>) {
        if let Some(here) = here() {
            here.join(self.number);
        }
        // It has ended in the simulation, and is about to in the system.
        drop(self.thread.join());
    }
}
