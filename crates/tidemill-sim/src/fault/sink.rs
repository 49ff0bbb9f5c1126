//! A call of a sink that fails: nothing, a part or all of it may be done all the same.

use super::{ExpectedFailure, PlantedState, lock, soon};
use crate::job::SimJob;
use std::sync::Arc;
use tidemill_env::{Random, sync::atomic::Ordering};
use tidemill_flow::SinkError;
use tidemill_types::Cycle;

/// A call of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SinkCall {
    Check,
    Open,
    Write,
    Commit,
    Sync,
    Close,
}

/// The effect of a failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEffect {
    Nothing,
    Part,
    All,
}

/// A call of a sink that fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinkFault {
    /// Its number; the dead letters' is the last.
    pub(super) sink: usize,
    call: SinkCall,
    /// The number of calls before it.
    after: u64,
    done: CallEffect,
    /// So often in a row, and then no more; 0: for good.
    passes: u64,
    /// A sync that fails for a while returns false: until it succeeds, committed rows are in the
    /// process alone.
    is_later: bool,
}

/// A call that fails now.
pub(crate) struct SinkFailure {
    pub(crate) done: CallEffect,
    pub(crate) passes: bool,
    pub(crate) is_later: bool,
}

impl SinkFault {
    /// Returns true if the failing call is part of the start, which is not repeated in this life.
    pub(super) fn starts(&self) -> bool {
        matches!(self.call, SinkCall::Check | SinkCall::Open)
    }

    pub(super) fn of(random: &mut Random, job: &SimJob) -> Self {
        let call = match random.below(12) {
            0 => SinkCall::Check,
            1 => SinkCall::Open,
            2 | 3 => SinkCall::Write,
            4..=6 => SinkCall::Commit,
            7..=10 => SinkCall::Sync,
            _ => SinkCall::Close,
        };
        let is_later = random.below(2) == 0;
        let passes = match call {
            SinkCall::Write => 0,
            SinkCall::Sync if is_later => 1 + random.below(40),
            _ => random.below(4),
        };
        Self {
            sink: random.below(job.sinks().len() as u64) as usize,
            call,
            after: match call {
                SinkCall::Write | SinkCall::Commit => soon(random, 6),
                // Few lives come to many: one is for a checkpoint.
                SinkCall::Sync if !is_later => soon(random, 2),
                SinkCall::Sync | SinkCall::Check | SinkCall::Open | SinkCall::Close => 0,
            },
            done: [CallEffect::Nothing, CallEffect::Part, CallEffect::All]
                [random.below(3) as usize],
            passes,
            is_later,
        }
    }
}

/// A sink that may fail.
#[derive(Clone, Debug)]
pub(crate) struct FaultySink {
    pub(super) inner: Arc<PlantedState>,
    pub(super) fault: SinkFault,
    pub(super) name: String,
}

impl FaultySink {
    /// Returns the failure of this call, if it is to fail. It is consulted once a call.
    pub(crate) fn fails(&self, call: SinkCall) -> Option<SinkFailure> {
        if call != self.fault.call {
            return None;
        }
        let nth = self.inner.call();
        let SinkFault { after, done, passes, .. } = self.fault;
        let times = if self.fault.starts() { 1 } else { passes.max(1) };
        let is_due = (after..after + times).contains(&nth);
        is_due.then_some(SinkFailure { done, passes: passes > 0, is_later: self.holds_back() })
    }

    /// The error of a call that failed, noted so that the job can be held to it.
    pub(crate) fn error(&self, failure: &SinkFailure, cycle: Option<Cycle>) -> SinkError {
        let message = format!("the simulated {:?} fails", self.fault.call);
        if failure.passes {
            self.inner.passed.fetch_add(1, Ordering::SeqCst);
        }
        if !failure.passes || self.fault.starts() {
            let (part, message) = (self.name.clone(), message.clone());
            self.inner
                .expect_failure(ExpectedFailure { cycle, ..ExpectedFailure::of(part, message) });
        }
        SinkError::new(message).retry_if(failure.passes)
    }

    /// Returns true if committed rows stay in the process until a sync succeeds.
    pub(crate) fn holds_back(&self) -> bool {
        let SinkFault { call, passes, is_later, .. } = self.fault;
        call == SinkCall::Sync && passes > 0 && is_later
    }

    /// It was said that it cannot be said yet.
    pub(crate) fn is_later(&self) {
        self.inner.passed.fetch_add(1, Ordering::SeqCst);
    }

    /// Checks that a sink which has failed for good is not asked to commit rows, except rows of
    /// cycles before a failed write.
    pub(crate) fn must_count(&self, call: SinkCall, upto: Option<Cycle>) {
        let Some(expected) = lock(&self.inner.expected).clone() else { return };
        let is_before = match (upto, expected.cycle) {
            (Some(upto), Some(failed)) => upto < failed,
            _ => call == SinkCall::Sync,
        };
        if self.fault.call != SinkCall::Write || !is_before {
            let why = format!("{call:?} was asked of `{}` after it had failed for good", self.name);
            lock(&self.inner.wrong).get_or_insert(why);
        }
    }
}
