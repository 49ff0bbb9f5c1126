//! Where a job's results go: a [`Sink`] takes the rows of each cycle, then commits the cycle.

use crate::block::Block;
use crate::patience::{Patience, Trouble};
use std::sync::Arc;
use tidemill_types::Cycle;

/// Why a job that does nothing twice cannot have this sink, if it cannot: what it has written stays
/// with such a job, as it cannot be written anew.
#[must_use]
pub fn is_lost_to_going_on(sink: &dyn Sink) -> Option<&'static str> {
    sink.begins_anew().then_some(
        "what it writes is whole only at its end, and begun anew when the job resumes: a job with \
         the delivery `at-most-once` and a `checkpoint` reads nothing again, and would lose it; \
         write a format that can be added to, or a stream",
    )
}

/// Why a sink cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    /// What happened and where, for a person.
    pub message: String,
    /// Whether it may be different in a while, and what failed can be asked for again: there is no
    /// room on a disk. Of a commit, a sync or the end the job then waits and asks again; one that is
    /// being opened is not started now.
    pub passes: bool,
}

impl SinkError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), passes: false }
    }

    /// One that passes.
    pub fn passing(message: impl Into<String>) -> Self {
        Self { message: message.into(), passes: true }
    }
}

impl From<SinkError> for Trouble {
    fn from(error: SinkError) -> Self {
        if error.passes { Self::Passing(error.message) } else { Self::Lasting(error.message) }
    }
}

/// A place for results.
///
/// Exactly-once rests on [`Sink::open`]: a sink stores the last committed cycle together with its
/// data, so that a replay can leave out what is already there (DESIGN 1, "Output").
pub trait Sink: Send {
    /// Finds out what would keep [`Self::open`] from being done, and changes nothing of what is
    /// there: the server answers and lets the job in, the folder can be written to, the table fits.
    /// What was made for that, such as a connection, is kept for `open`. Called once, before `open`,
    /// and for all sinks before anything of the job is opened: one that begins anew and is refused
    /// leaves what an earlier one wrote. Default: nothing is known beforehand.
    ///
    /// # Errors
    /// The sink cannot be written.
    fn check(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Prepares the sink and says the last cycle that it holds: [`Cycle::NONE`] if it is new.
    /// Rows of cycles after that one, left by a crash, are removed. With `resume` false, what an
    /// earlier job left is replaced.
    ///
    /// # Errors
    /// The sink cannot be written.
    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError>;

    /// The last cycle of which [`Self::open`] found some that does not count yet, as it need not be all.
    /// Default: none.
    fn has_begun(&self) -> Cycle {
        Cycle::NONE
    }

    /// Takes the rows of a cycle, in order. Called once a cycle at most, and only for cycles
    /// after the last one held.
    ///
    /// # Errors
    /// The rows could not be taken.
    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError>;

    /// Makes everything up to and including `cycle` visible, together with the number itself.
    /// Called only once the ledger holds the cycle, and only for cycles after the last one held.
    ///
    /// # Errors
    /// The cycle could not be committed. If the error passes, the same cycle is committed again, and
    /// what the first attempt has left is not there twice.
    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError>;

    /// Makes what is committed durable, so that [`Self::open`] says that it is held: a checkpoint
    /// relies on it. False if that cannot be said yet; it is asked again after the next commit.
    /// Default: commits do that.
    ///
    /// # Errors
    /// It could not be made so; the job fails.
    fn sync(&mut self) -> Result<bool, SinkError> {
        Ok(true)
    }

    /// Whether it keeps no cycle's number, and a job may go on from any (the standard output).
    fn forgets(&self) -> bool {
        false
    }

    /// Whether a job that is started again finds nothing of what was written here, however much was
    /// committed (a file that is whole only at its end): it is then done again from its start, and
    /// keeps its whole ledger for that.
    fn begins_anew(&self) -> bool {
        false
    }

    /// Takes what a sink waits with whose commit waits by itself, for what may never come: before
    /// the first cycle. When it gives up, the commit fails; a job that resumes makes those cycles
    /// again.
    fn wait_with(&mut self, patience: Patience) {
        drop(patience);
    }

    /// Ends the sink: everything committed is flushed to where it will stay.
    ///
    /// # Errors
    /// Something could not be flushed.
    fn close(&mut self) -> Result<(), SinkError>;
}
