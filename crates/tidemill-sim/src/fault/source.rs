//! A call of a source that fails: when it is opened or taken somewhere, or a read now and then.

use super::{Inner, Told, lock, soon};
use crate::job::Job;
use std::sync::Arc;
use tidemill_env::Random;
use tidemill_flow::SourceError;
use tidemill_types::Cycle;

/// What is asked of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Open,
    Begin,
    Seek,
    Read,
}

/// A call of a source that fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceFault {
    pub(super) source: usize,
    asked: Asked,
    /// After so many that did not, of all its slices.
    after: u64,
    /// The slice stands behind what it read, though it could not give it.
    was_read: bool,
}

impl SourceFault {
    pub(super) fn of(random: &mut Random, job: &Job) -> Self {
        let asked = match random.below(8) {
            0 => Asked::Open,
            1 => Asked::Begin,
            2 => Asked::Seek,
            _ => Asked::Read,
        };
        Self {
            source: random.below(job.feeds().len() as u64) as usize,
            asked,
            after: match asked {
                Asked::Begin => 0,
                Asked::Open | Asked::Seek => random.below(2),
                Asked::Read => soon(random, 7),
            },
            was_read: random.below(2) == 0,
        }
    }

    /// Whether what fails is part of the start.
    pub(super) fn starts(&self) -> bool {
        self.asked != Asked::Read
    }
}

/// A source that may fail.
#[derive(Clone, Debug)]
pub(crate) struct OfSource {
    pub(super) inner: Arc<Inner>,
    pub(super) fault: SourceFault,
    pub(super) name: String,
}

/// How a call fails.
pub(crate) struct Refusal {
    pub(crate) error: SourceError,
    /// The slice stands behind what it read.
    pub(crate) was_read: bool,
}

impl OfSource {
    /// Whether this call fails, which ends the job; each is asked about once.
    pub(crate) fn fails(&self, asked: Asked, cycle: Option<Cycle>) -> Option<Refusal> {
        let refusal = self.fails_for_now(asked)?;
        let message = refusal.error.to_string();
        self.inner.tell(Told { cycle, ..Told::of(self.name.clone(), message) });
        Some(refusal)
    }

    /// The same of a call that is made again until it does not fail.
    pub(crate) fn fails_for_now(&self, asked: Asked) -> Option<Refusal> {
        if asked != self.fault.asked || self.inner.call() != self.fault.after {
            return None;
        }
        let error = SourceError::new(format!("the simulated {asked:?} fails"));
        Some(Refusal { error, was_read: self.fault.was_read })
    }

    /// A slice that has failed is read once more.
    pub(crate) fn must_not_be_read(&self) {
        let why = format!("a slice of `{}` was read after it had failed", self.name);
        lock(&self.inner.wrong).get_or_insert(why);
    }
}
