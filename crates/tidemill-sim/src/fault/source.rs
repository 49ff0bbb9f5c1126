//! A call of a source that fails: when it is opened or taken somewhere, or a read now and then.

use super::{ExpectedFailure, PlantedState, lock, soon};
use crate::job::SimJob;
use std::sync::Arc;
use tidemill_env::Random;
use tidemill_flow::SourceError;
use tidemill_types::Cycle;

/// A call of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceCall {
    Open,
    Begin,
    Seek,
    Read,
}

/// A call of a source that fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceFault {
    pub(super) source: usize,
    asked: SourceCall,
    /// The number of calls before it, of all its slices.
    after: u64,
    /// The slice is behind the records it read, though it could not return them.
    was_read: bool,
}

impl SourceFault {
    pub(super) fn of(random: &mut Random, job: &SimJob) -> Self {
        let asked = match random.below(8) {
            0 => SourceCall::Open,
            1 => SourceCall::Begin,
            2 => SourceCall::Seek,
            _ => SourceCall::Read,
        };
        Self {
            source: random.below(job.feeds().len() as u64) as usize,
            asked,
            after: match asked {
                SourceCall::Begin => 0,
                SourceCall::Open | SourceCall::Seek => random.below(2),
                SourceCall::Read => soon(random, 7),
            },
            was_read: random.below(2) == 0,
        }
    }

    /// Returns true if the failing call is part of the start.
    pub(super) fn starts(&self) -> bool {
        self.asked != SourceCall::Read
    }
}

/// A source that may fail.
#[derive(Clone, Debug)]
pub(crate) struct FaultySource {
    pub(super) inner: Arc<PlantedState>,
    pub(super) fault: SourceFault,
    pub(super) name: String,
}

/// The failure of a call.
pub(crate) struct SourceFailure {
    pub(crate) error: SourceError,
    /// The slice is behind the records it read.
    pub(crate) was_read: bool,
}

impl FaultySource {
    /// Returns the failure of this call, if it is to fail, which ends the job. It is consulted once
    /// a call.
    pub(crate) fn fails(&self, asked: SourceCall, cycle: Option<Cycle>) -> Option<SourceFailure> {
        let refusal = self.fails_for_now(asked)?;
        let message = refusal.error.to_string();
        self.inner.expect_failure(ExpectedFailure {
            cycle,
            ..ExpectedFailure::of(self.name.clone(), message)
        });
        Some(refusal)
    }

    /// Returns the failure of a call that the engine repeats until it succeeds.
    pub(crate) fn fails_for_now(&self, asked: SourceCall) -> Option<SourceFailure> {
        if asked != self.fault.asked || self.inner.call() != self.fault.after {
            return None;
        }
        let error = SourceError::new(format!("the simulated {asked:?} fails"));
        Some(SourceFailure { error, was_read: self.fault.was_read })
    }

    /// A slice that has failed is read once more.
    pub(crate) fn must_not_be_read(&self) {
        let why = format!("a slice of `{}` was read after it had failed", self.name);
        lock(&self.inner.wrong).get_or_insert(why);
    }
}
