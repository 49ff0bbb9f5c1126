//! What fails by itself in a life of a job: a part that the user or a connector brings.
//!
//! ```text
//! seed ─▶ Fault ─▶ Planted ─ asked at each call ─▶ it fails now ─▶ Told: what the job must say
//! ```
//!
//! - A life has one fault at most, so that the error which it ends with is known word for word.
//! - A fault that passes is asked again, and ends no life.

use crate::job::Job;
use std::{
    fmt,
    sync::{Arc, PoisonError},
};
use tidemill_env::{
    Random,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};
use tidemill_flow::{JobError, SinkError, StartError};
use tidemill_types::Cycle;

/// One life in so many has a fault.
const ONE_LIFE_IN: u64 = 3;

/// Something that fails by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Sink(SinkFault),
}

/// What is asked of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Check,
    Open,
    Write,
    Commit,
    Sync,
    Close,
}

/// How much of what it was asked for a call has done that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Nothing,
    Part,
    All,
}

/// A call of a sink that fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinkFault {
    /// Its number; the dead letters' is the last.
    sink: usize,
    call: Call,
    /// After so many that did not.
    after: u64,
    done: Done,
    /// So often in a row, and then no more; 0: for good.
    passes: u64,
    /// A sync that passes is no error, but says that it cannot be said yet.
    is_later: bool,
}

/// The faults of the lives of a job. They come from the seed by a way of their own, so that what else a
/// seed says stays as it is when there are faults of another kind.
pub(crate) struct Faults(Random);

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random::new(Random::new(seed ^ 0x6661_756c_7473).next()))
    }

    /// That of the next life, if it has one.
    pub(crate) fn next(&mut self, job: &Job) -> Option<Fault> {
        let Self(random) = self;
        (random.below(ONE_LIFE_IN) == 0).then(|| Fault::Sink(SinkFault::of(random, job)))
    }
}

/// A call that fails now.
pub(crate) struct Failure {
    pub(crate) done: Done,
    pub(crate) passes: bool,
    pub(crate) is_later: bool,
}

impl SinkFault {
    /// Whether what fails is part of the start: that is not tried again in this life.
    fn starts(&self) -> bool {
        matches!(self.call, Call::Check | Call::Open)
    }

    fn of(random: &mut Random, job: &Job) -> Self {
        let call = match random.below(12) {
            0 => Call::Check,
            1 => Call::Open,
            2..=4 => Call::Write,
            5..=8 => Call::Commit,
            9 | 10 => Call::Sync,
            _ => Call::Close,
        };
        let may_pass = !matches!(call, Call::Write);
        Self {
            sink: random.below(job.sinks().len() as u64) as usize,
            call,
            after: match call {
                Call::Write | Call::Commit => soon(random, 6),
                Call::Sync => soon(random, 3),
                Call::Check | Call::Open | Call::Close => 0,
            },
            done: [Done::Nothing, Done::Part, Done::All][random.below(3) as usize],
            passes: if may_pass { random.below(4) } else { 0 },
            is_later: random.below(2) == 0,
        }
    }
}

/// A small number, smaller ones more often.
fn soon(random: &mut Random, bits: u64) -> u64 {
    let most = 1 << random.below(bits);
    random.below(most)
}

/// How many lives came to a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// In which a sink failed for good.
    pub sinks: u64,
    /// In which one failed in a way that passes.
    pub sinks_for_now: u64,
}

impl Failures {
    /// Counts those of another job too.
    pub fn add(&mut self, other: &Self) {
        self.sinks += other.sinks;
        self.sinks_for_now += other.sinks_for_now;
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sinks that failed, {} for a while", self.sinks, self.sinks_for_now)
    }
}

/// What a job that fails must say.
#[derive(Clone, Debug)]
struct Told {
    node: String,
    message: String,
    /// If it is that of one cycle.
    cycle: Option<Cycle>,
}

/// The fault of a life, and whether it came to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planted(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    fault: Fault,
    calls: AtomicU64,
    passed: AtomicU64,
    told: Mutex<Option<Told>>,
    /// What must not be: something was asked of a part that had failed for good.
    wrong: Mutex<Option<String>>,
}

/// A sink that may fail.
#[derive(Clone, Debug)]
pub(crate) struct OfSink {
    inner: Arc<Inner>,
    fault: SinkFault,
    name: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Planted {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Self(fault.map(|fault| {
            Arc::new(Inner {
                fault,
                calls: AtomicU64::new(0),
                passed: AtomicU64::new(0),
                told: Mutex::new(None),
                wrong: Mutex::new(None),
            })
        }))
    }

    /// The fault of a sink, if this life has one.
    pub(crate) fn of_sink(&self, sink: usize, name: &str) -> Option<OfSink> {
        let inner = self.0.as_ref()?;
        match inner.fault {
            Fault::Sink(fault) if fault.sink == sink => {
                Some(OfSink { inner: Arc::clone(inner), fault, name: name.to_owned() })
            }
            Fault::Sink(_) => None,
        }
    }

    /// Whether it came to a failure with which the job must not have started.
    pub(crate) fn has_failed_at_start(&self) -> bool {
        let fault = self.0.as_ref().map(|inner| inner.fault);
        matches!(fault, Some(Fault::Sink(fault)) if fault.starts()) && self.has_failed()
    }

    /// Whether it came to a failure that the job must not outlive.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| lock(&inner.told).is_some())
    }

    /// Counts it, if the life came to it.
    pub(crate) fn count(&self, failed: &mut Failures) {
        let Some(inner) = &self.0 else { return };
        if inner.passed.load(Ordering::SeqCst) > 0 {
            failed.sinks_for_now += 1;
        } else if self.has_failed() {
            failed.sinks += 1;
        }
    }

    /// What must not have been.
    pub(crate) fn wrong(&self) -> Option<String> {
        lock(&self.0.as_ref()?.wrong).clone()
    }

    /// Whether a job that runs says of the fault what is to be said.
    pub(crate) fn is_told(&self, error: &JobError) -> bool {
        let Some(inner) = &self.0 else { return false };
        lock(&inner.told).as_ref().is_some_and(|told| {
            let is_cycle = told.cycle.is_none_or(|cycle| cycle == error.cycle);
            told.node == error.node && told.message == error.message && !error.panicked && is_cycle
        })
    }

    /// Whether a job that did not start says of the fault what is to be said.
    pub(crate) fn is_told_at_start(&self, error: &StartError) -> bool {
        let Some(inner) = &self.0 else { return false };
        let passes = inner.passed.load(Ordering::SeqCst) > 0;
        lock(&inner.told).as_ref().is_some_and(|told| match error {
            StartError::Open { name, message } => {
                !passes && (name, message) == (&told.node, &told.message)
            }
            StartError::Away { message } => {
                passes && *message == format!("`{}`: {}", told.node, told.message)
            }
            _ => false,
        })
    }
}

impl OfSink {
    /// Whether this call is to fail; each is asked about once.
    pub(crate) fn fails(&self, call: Call) -> Option<Failure> {
        if call != self.fault.call {
            return None;
        }
        let nth = self.inner.calls.fetch_add(1, Ordering::SeqCst);
        let SinkFault { after, done, passes, is_later, .. } = self.fault;
        let times = if self.fault.starts() { 1 } else { passes.max(1) };
        let is_due = (after..after + times).contains(&nth);
        let is_later = is_later && passes > 0 && call == Call::Sync;
        is_due.then_some(Failure { done, passes: passes > 0, is_later })
    }

    /// The error of a call that failed, noted so that the job can be held to it.
    pub(crate) fn error(&self, failure: &Failure, cycle: Option<Cycle>) -> SinkError {
        let message = format!("the simulated {:?} fails", self.fault.call);
        if failure.passes {
            self.inner.passed.fetch_add(1, Ordering::SeqCst);
        }
        if !failure.passes || self.fault.starts() {
            let told = Told { node: self.name.clone(), message: message.clone(), cycle };
            lock(&self.inner.told).get_or_insert(told);
        }
        SinkError { passes: failure.passes, ..SinkError::new(message) }
    }

    /// It was said that it cannot be said yet.
    pub(crate) fn is_later(&self) {
        self.inner.passed.fetch_add(1, Ordering::SeqCst);
    }

    /// Something that makes rows count is asked of it, up to a cycle if that is known: not after it has
    /// failed for good, but for what was written before a cycle that could not be.
    pub(crate) fn must_count(&self, call: Call, upto: Option<Cycle>) {
        let Some(told) = lock(&self.inner.told).clone() else { return };
        let is_before = match (upto, told.cycle) {
            (Some(upto), Some(failed)) => upto < failed,
            _ => call == Call::Sync,
        };
        if self.fault.call != Call::Write || !is_before {
            let why = format!("{call:?} was asked of `{}` after it had failed for good", self.name);
            lock(&self.inner.wrong).get_or_insert(why);
        }
    }
}
