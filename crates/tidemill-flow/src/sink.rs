//! Sinks of a job's results: a [`Sink`] takes the rows of each cycle, then commits the cycle.

use crate::block::Block;
pub use crate::error::SinkError;
use crate::retry::RetryPolicy;
use std::sync::Arc;
use tidemill_types::Cycle;

/// The reason why an `at-most-once` job with checkpoints cannot have this sink, if it cannot: the
/// job repeats no cycle, so rows that the sink drops are lost.
#[must_use]
pub fn why_not_resumable(sink: &dyn Sink) -> Option<&'static str> {
    sink.begins_anew().then_some(
        "what it writes is whole only at its end, and begun anew when the job resumes: a job with \
         the delivery `at-most-once` and a `checkpoint` reads nothing again, and would lose it; \
         write a format that can be added to, or a stream",
    )
}

/// A sink of results.
///
/// Exactly-once rests on [`Sink::open`]: a sink stores the last committed cycle together with its
/// data, so a replay leaves out cycles that the sink holds.
pub trait Sink: Send {
    /// Checks that [`Self::open`] can succeed, and changes nothing: the server answers and admits
    /// the job, the folder is writable, the table fits. A connection may be kept for `open`. Called
    /// once, before `open`, and for all sinks before any part of the job is opened: a job that
    /// begins anew and is refused leaves the results of the earlier one. Default: no check.
    ///
    /// # Errors
    /// The sink cannot be written.
    fn check(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Opens the sink and returns the last cycle that it holds: [`Cycle::NONE`] if it is new. Rows
    /// of later cycles, left by a crash, are removed. With `resume` false, the results of an
    /// earlier job are replaced.
    ///
    /// # Errors
    /// The sink cannot be written.
    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError>;

    /// The last cycle of which [`Self::open`] found uncommitted rows, perhaps not all. Default:
    /// none.
    fn has_begun(&self) -> Cycle {
        Cycle::NONE
    }

    /// Takes the rows of a cycle, in order. Called once a cycle at most, and only for cycles
    /// after the last one held.
    ///
    /// # Errors
    /// The rows could not be taken.
    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError>;

    /// Makes all rows up to and including `cycle` visible, together with its number. Called only
    /// once the ledger holds the cycle, and only for cycles after the last one held.
    ///
    /// # Errors
    /// The cycle could not be committed. After [`ErrorKind::Retry`](crate::ErrorKind::Retry) the
    /// same cycle is committed again, and no row of the first attempt may be there twice.
    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError>;

    /// Makes all committed rows durable, so that [`Self::open`] finds them after a crash; a
    /// checkpoint relies on it. Returns false if that is not known yet; the engine asks again after
    /// the next commit. Default: a commit is durable.
    ///
    /// # Errors
    /// The rows could not be made durable. After [`ErrorKind::Retry`](crate::ErrorKind::Retry) the
    /// engine calls again, otherwise the job fails.
    fn sync(&mut self) -> Result<bool, SinkError> {
        Ok(true)
    }

    /// Returns true if the sink keeps no cycle number, so that a job may resume from any (the
    /// standard output).
    fn forgets(&self) -> bool {
        false
    }

    /// Returns true if a restarted job finds none of the rows, whatever was committed (a file that
    /// is complete only at its end). The job then runs again from its start, and keeps its whole
    /// ledger for that.
    fn begins_anew(&self) -> bool {
        false
    }

    /// Takes the retry policy for a sink whose commit waits by itself. Called before the first
    /// cycle. Once the policy gives up, the commit fails; a job that resumes makes those cycles
    /// again.
    fn retry_with(&mut self, patience: RetryPolicy) {
        drop(patience);
    }

    /// Closes the sink: all committed rows are flushed to their final place.
    ///
    /// # Errors
    /// The rows could not be flushed. After [`ErrorKind::Retry`](crate::ErrorKind::Retry) the
    /// engine calls again.
    fn close(&mut self) -> Result<(), SinkError>;
}
