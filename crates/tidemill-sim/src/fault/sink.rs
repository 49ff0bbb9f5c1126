//! A call of a sink that fails: nothing, a part or all of it may be done all the same.

use super::{Inner, Told, lock, soon};
use crate::job::Job;
use std::sync::Arc;
use tidemill_env::{Random, sync::atomic::Ordering};
use tidemill_flow::SinkError;
use tidemill_types::Cycle;

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
    pub(super) sink: usize,
    call: Call,
    /// After so many that did not.
    after: u64,
    done: Done,
    /// So often in a row, and then no more; 0: for good.
    passes: u64,
    /// A sync that passes is no error, but says that it cannot be said yet: what was committed is in the
    /// process alone until then.
    is_later: bool,
}

/// A call that fails now.
pub(crate) struct Failure {
    pub(crate) done: Done,
    pub(crate) passes: bool,
    pub(crate) is_later: bool,
}

impl SinkFault {
    /// Whether what fails is part of the start: that is not tried again in this life.
    pub(super) fn starts(&self) -> bool {
        matches!(self.call, Call::Check | Call::Open)
    }

    pub(super) fn of(random: &mut Random, job: &Job) -> Self {
        let call = match random.below(12) {
            0 => Call::Check,
            1 => Call::Open,
            2 | 3 => Call::Write,
            4..=6 => Call::Commit,
            7..=10 => Call::Sync,
            _ => Call::Close,
        };
        let is_later = random.below(2) == 0;
        let passes = match call {
            Call::Write => 0,
            Call::Sync if is_later => 1 + random.below(40),
            _ => random.below(4),
        };
        Self {
            sink: random.below(job.sinks().len() as u64) as usize,
            call,
            after: match call {
                Call::Write | Call::Commit => soon(random, 6),
                // Few lives come to many: one is for a checkpoint.
                Call::Sync if !is_later => soon(random, 2),
                Call::Sync | Call::Check | Call::Open | Call::Close => 0,
            },
            done: [Done::Nothing, Done::Part, Done::All][random.below(3) as usize],
            passes,
            is_later,
        }
    }
}

/// A sink that may fail.
#[derive(Clone, Debug)]
pub(crate) struct OfSink {
    pub(super) inner: Arc<Inner>,
    pub(super) fault: SinkFault,
    pub(super) name: String,
}

impl OfSink {
    /// Whether this call is to fail; each is asked about once.
    pub(crate) fn fails(&self, call: Call) -> Option<Failure> {
        if call != self.fault.call {
            return None;
        }
        let nth = self.inner.call();
        let SinkFault { after, done, passes, .. } = self.fault;
        let times = if self.fault.starts() { 1 } else { passes.max(1) };
        let is_due = (after..after + times).contains(&nth);
        is_due.then_some(Failure { done, passes: passes > 0, is_later: self.holds_back() })
    }

    /// The error of a call that failed, noted so that the job can be held to it.
    pub(crate) fn error(&self, failure: &Failure, cycle: Option<Cycle>) -> SinkError {
        let message = format!("the simulated {:?} fails", self.fault.call);
        if failure.passes {
            self.inner.passed.fetch_add(1, Ordering::SeqCst);
        }
        if !failure.passes || self.fault.starts() {
            let (part, message) = (self.name.clone(), message.clone());
            self.inner.tell(Told { cycle, ..Told::of(part, message) });
        }
        SinkError { passes: failure.passes, ..SinkError::new(message) }
    }

    /// Whether what is committed stays in the process until a sync says that it is durable.
    pub(crate) fn holds_back(&self) -> bool {
        let SinkFault { call, passes, is_later, .. } = self.fault;
        call == Call::Sync && passes > 0 && is_later
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
