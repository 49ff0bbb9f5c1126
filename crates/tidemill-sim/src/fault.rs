//! Faults in a life of a job: a part of the program or a connector fails.
//!
//! ```text
//! seed ─▶ Fault ─▶ PlantedFault ─ checked at each call ─▶ it fails now ─▶ ExpectedFailure
//! ```
//!
//! - A life has at most one fault, so that its error is known word for word.
//! - A call that fails for a while is repeated, and ends no life.

mod operator;
mod sink;
mod source;

pub(crate) use sink::{CallEffect, FaultySink, SinkCall, SinkFailure};
pub(crate) use source::{FaultySource, SourceCall};

use crate::job::SimJob;
use operator::{FaultyOperator, OperatorFault};
use sink::SinkFault;
use source::SourceFault;
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
use tidemill_flow::{JobError, OperatorFactory, Progress, StartError};
use tidemill_types::{ByteSize, Cycle, SliceId};

/// One life in this many has a fault.
const ONE_LIFE_IN: u64 = 2;

/// The smallest budget of the states of a job.
const BUDGET_BYTES_MIN: u64 = 256;

/// Something that fails by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Sink(SinkFault),
    Operator(OperatorFault),
    Source(SourceFault),
    /// Its states may not take more than this.
    Budget(ByteSize),
}

/// The faults of the lives of a job. They have random numbers of their own, so that a new kind of
/// fault changes nothing else of a seed.
pub(crate) struct Faults(Random);

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random::new(Random::new(seed ^ 0x6661_756c_7473).next()))
    }

    /// That of the next life, if it has one.
    pub(crate) fn next(&mut self, job: &SimJob) -> Option<Fault> {
        let Self(random) = self;
        (random.below(ONE_LIFE_IN) == 0).then(|| match random.below(5) {
            0 | 1 => Fault::Sink(SinkFault::of(random, job)),
            // Those that repeat keep no state.
            3 if !job.begins_anew() => Fault::Budget(ByteSize(BUDGET_BYTES_MIN << random.below(8))),
            4 => Fault::Source(SourceFault::of(random, job)),
            _ => Fault::Operator(OperatorFault::of(random, job)),
        })
    }
}

/// A small number, smaller ones more often.
fn soon(random: &mut Random, bits: u64) -> u64 {
    let most = 1 << random.below(bits);
    random.below(most)
}

/// Lives in which a fault struck, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// In which a sink failed for good.
    pub sinks: u64,
    /// In which one failed in a way that passes.
    pub sinks_for_now: u64,
    /// In which a stage said that it cannot go on.
    pub stages: u64,
    /// In which one panicked.
    pub stages_panicked: u64,
    /// In which the states took more than they may.
    pub over_budget: u64,
    /// In which a source failed.
    pub sources: u64,
}

impl Failures {
    /// Counts those of another job too.
    pub fn add(&mut self, other: &Self) {
        self.sinks += other.sinks;
        self.sinks_for_now += other.sinks_for_now;
        self.stages += other.stages;
        self.stages_panicked += other.stages_panicked;
        self.over_budget += other.over_budget;
        self.sources += other.sources;
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sinks that failed, {} for a while, {} stages, {} that panicked, {} budgets, {} sources",
            self.sinks,
            self.sinks_for_now,
            self.stages,
            self.stages_panicked,
            self.over_budget,
            self.sources
        )
    }
}

/// The error that a failing job must return.
#[derive(Clone, Debug)]
struct ExpectedFailure {
    part: String,
    message: String,
    /// If it is that of one cycle.
    cycle: Option<Cycle>,
    /// If it is that of one record: its slice, and which of the slice it is.
    record: Option<(SliceId, usize)>,
    panicked: bool,
}

impl ExpectedFailure {
    fn of(part: String, message: String) -> Self {
        Self { part, message, cycle: None, record: None, panicked: false }
    }

    fn is(&self, error: &JobError) -> bool {
        (&self.part, &self.message) == (&error.part, &error.message)
            && self.panicked == error.panicked
            && self.cycle.is_none_or(|cycle| cycle == error.cycle)
            && self
                .record
                .is_none_or(|(slice, row)| (Some(slice), Some(row)) == (error.slice, error.row))
    }
}

/// The fault of a life, and its effects so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlantedFault(Option<Arc<PlantedState>>);

#[derive(Debug)]
struct PlantedState {
    fault: Fault,
    calls: AtomicU64,
    passed: AtomicU64,
    expected: Mutex<Option<ExpectedFailure>>,
    /// A broken invariant: a part was called after it had failed for good.
    wrong: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PlantedState {
    /// Sets the error that the job must return from now on.
    fn expect_failure(&self, expected: ExpectedFailure) {
        lock(&self.expected).get_or_insert(expected);
    }

    /// The number of a call that may fail.
    fn call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst)
    }
}

impl PlantedFault {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Self(fault.map(|fault| {
            Arc::new(PlantedState {
                fault,
                calls: AtomicU64::new(0),
                passed: AtomicU64::new(0),
                expected: Mutex::new(None),
                wrong: Mutex::new(None),
            })
        }))
    }

    /// The fault of a sink, if this life has one.
    pub(crate) fn of_sink(&self, sink: usize, name: &str) -> Option<FaultySink> {
        let inner = self.0.as_ref()?;
        match inner.fault {
            Fault::Sink(fault) if fault.sink == sink => {
                Some(FaultySink { inner: Arc::clone(inner), fault, name: name.to_owned() })
            }
            _ => None,
        }
    }

    /// The fault of a source, if this life has one.
    pub(crate) fn of_source(&self, source: usize, name: &str) -> Option<FaultySource> {
        let inner = self.0.as_ref()?;
        match inner.fault {
            Fault::Source(fault) if fault.source == source => {
                Some(FaultySource { inner: Arc::clone(inner), fault, name: name.to_owned() })
            }
            _ => None,
        }
    }

    /// The budget of the states in this life, if it has one.
    pub(crate) fn budget(&self) -> Option<ByteSize> {
        match self.0.as_ref()?.fault {
            Fault::Budget(most) => Some(most),
            _ => None,
        }
    }

    /// Returns true if a job that ended well took more than its budget.
    pub(crate) fn is_over_budget(&self, progress: &Progress) -> bool {
        let all: u64 = progress.stages.iter().map(|it| it.state_bytes).sum();
        self.budget().is_some_and(|most| all > most.0)
    }

    /// A stage as it is in this life.
    pub(crate) fn stage(
        &self,
        stage: usize,
        name: &str,
        factory: &Arc<dyn OperatorFactory>,
    ) -> Arc<dyn OperatorFactory> {
        let factory = Arc::clone(factory);
        match self.0.as_ref().map(|inner| (inner, inner.fault)) {
            Some((inner, Fault::Operator(fault))) if fault.stage == stage => {
                Arc::new(FaultyOperator::new(factory, Arc::clone(inner), fault, name))
            }
            _ => factory,
        }
    }

    /// Returns true if a failure struck with which the job must not have started.
    pub(crate) fn has_failed_at_start(&self) -> bool {
        let starts = match self.0.as_ref().map(|inner| inner.fault) {
            Some(Fault::Sink(fault)) => fault.starts(),
            Some(Fault::Source(fault)) => fault.starts(),
            _ => false,
        };
        starts && self.has_failed()
    }

    /// Returns true if a failure struck that the job must not outlive.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| lock(&inner.expected).is_some())
    }

    /// Counts it, if the life came to it.
    pub(crate) fn count(&self, failed: &mut Failures) {
        let Some(inner) = &self.0 else { return };
        if inner.passed.load(Ordering::SeqCst) > 0 {
            failed.sinks_for_now += 1;
        } else if self.has_failed() {
            match inner.fault {
                Fault::Sink(_) => failed.sinks += 1,
                Fault::Operator(fault) if fault.panics => failed.stages_panicked += 1,
                Fault::Operator(_) => failed.stages += 1,
                Fault::Budget(_) => failed.over_budget += 1,
                Fault::Source(_) => failed.sources += 1,
            }
        }
    }

    /// The broken invariant, if there is one.
    pub(crate) fn wrong(&self) -> Option<String> {
        lock(&self.0.as_ref()?.wrong).clone()
    }

    /// Returns true if the error of a running job is the expected one.
    pub(crate) fn is_told(&self, error: &JobError) -> bool {
        let Some(inner) = &self.0 else { return false };
        if let Fault::Budget(most) = inner.fault {
            // How much it is depends on when it is counted; of which stage too.
            let said = format!("its budget is {most}: give `state.budget` more");
            let says = error.message.starts_with("the state of the job takes ")
                && error.message.contains(&said)
                && !error.panicked;
            if says {
                inner
                    .expect_failure(ExpectedFailure::of(error.part.clone(), error.message.clone()));
            }
        }
        lock(&inner.expected).as_ref().is_some_and(|expected| expected.is(error))
    }

    /// Returns true if the error of a job that did not start is the expected one.
    pub(crate) fn is_told_at_start(&self, error: &StartError) -> bool {
        let Some(inner) = &self.0 else { return false };
        let passes = inner.passed.load(Ordering::SeqCst) > 0;
        lock(&inner.expected).as_ref().is_some_and(|expected| match error {
            StartError::Open { name, message } => {
                !passes && (name, message) == (&expected.part, &expected.message)
            }
            StartError::Unavailable { message } => {
                passes && *message == format!("`{}`: {}", expected.part, expected.message)
            }
            _ => false,
        })
    }
}
