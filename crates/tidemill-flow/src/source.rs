//! Sources of a job's records: a [`Source`] is one source slice.

use crate::block::Payload;
use crate::error::ErrorKind;
pub use crate::error::SourceError;
use crate::operator::DeadLetter;
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tidemill_types::{Cycle, Micros, SliceId};

/// A place in a source: a byte offset, a record number, or any other count. Only the source itself
/// reads it. The ledger keeps it as the end of a cycle.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Position(pub u64);

/// Input bytes that are read at once by [`Source::seek`].
const SEEK_BYTES: usize = 1 << 20;

/// Opens the slices of a source.
pub trait SourceFactory: Send + Sync {
    /// Schema of the records, with the hidden time column if the source has event time.
    fn schema(&self) -> SchemaRef;
    /// The number of slices.
    fn slices(&self) -> u32 {
        1
    }
    /// Opens a slice at its start. It changes nothing in the source or in its notes: the job may
    /// still be refused.
    ///
    /// # Errors
    /// The source cannot be opened.
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError>;
    /// Notes the beginning of the source for a job that resumes. Called once, after all slices were
    /// opened and before any is read, when the job's ledger is that of its new life.
    ///
    /// # Errors
    /// The note could not be written.
    fn begin(&self) -> Result<(), SourceError> {
        Ok(())
    }
    /// Returns true if records arrive in their own time (a socket, a clock), not as fast as they
    /// are read. A cycle of a live source ends by time. Default: false.
    fn live(&self) -> bool {
        false
    }
    /// The obstacle that keeps records from arriving, such as a server that is away. They arrive
    /// again once it has passed. Default: none.
    fn obstacle(&self) -> Option<Obstacle> {
        None
    }
    /// The columns whose types were guessed from the first records, as the job names no type for
    /// them. Default: none.
    fn guessed(&self) -> Vec<GuessedColumn> {
        Vec::new()
    }
    /// A description of how bytes become records with an event time. A job that repeats recorded
    /// cycles has to read them the same way. Default: empty, which is not checked.
    fn reads(&self) -> String {
        String::new()
    }
    /// The size of all slices together, in the unit of [`Position`], for progress. Default:
    /// unknown.
    fn total(&self) -> Option<u64> {
        None
    }
    /// The beginning of a slice, in the unit of [`Self::total`], for progress.
    fn begins_at(&self, slice: SliceId) -> Position {
        let _at_the_first = slice;
        Position(0)
    }
    /// The source as one that gets slices while it is read. The answer never changes. Default: it
    /// gets none.
    fn growth(&self) -> Option<&dyn GrowingSource> {
        None
    }
    /// The source as one that hears of commits. The answer never changes. Default: it hears of none.
    fn follower(&self) -> Option<&dyn CommitFollower> {
        None
    }
}

/// A source that may get slices while it is read, such as a topic that may get partitions.
///
/// Slices that a resuming job does not know begin at their start. No slice of such a source ends
/// before all are read.
pub trait GrowingSource: Send + Sync {
    /// The number of slices when the job began. Stages that read the source are laid out by it,
    /// whatever the number is now.
    fn began_with(&self) -> u32;
    /// Takes in added slices, notes them for a job that resumes, and returns the new number of
    /// slices. The engine calls it about once a second from one thread. It may block.
    ///
    /// # Errors
    /// The slices could not be listed or noted. The engine asks again later.
    fn grow(&self) -> Result<u32, SourceError>;
}

/// A source that hears how far the results of its records are committed, such as one that commits
/// its offsets to a consumer group.
pub trait CommitFollower: Send + Sync {
    /// Reports that all results of a slice's records before `position` are committed: in all sinks,
    /// and as dead letters. Called at the end of cycles from one thread, with positions that never
    /// fall. It must be quick and must not block. A job that resumes begins again at its last
    /// recorded position.
    fn committed(&self, slice: SliceId, position: Position);
}

/// A column whose type was guessed from the first records of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuessedColumn {
    /// The column.
    pub name: String,
    /// A number in it that no type of numbers gives back as it is written, such as `007`: the column
    /// keeps its numbers as text.
    pub kept_as_text: Option<String>,
}

/// An obstacle that keeps a source from reading for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The reason, for a person.
    pub why: String,
    /// Its beginning, on the environment's monotonic clock, in microseconds.
    pub since_us: u64,
}

/// The limits of one read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The cycle that the records will belong to.
    pub cycle: Cycle,
    /// The maximum of input bytes; a source may exceed it by one record.
    pub bytes: usize,
    /// The maximum of records.
    pub records: usize,
    /// In a replay: the position to stop at.
    pub until: Option<Position>,
}

/// The result of one read.
#[derive(Debug)]
pub enum Read {
    /// Records.
    Rows {
        /// The records. Empty if all of them were dead letters.
        payload: Payload,
        /// Input bytes they took.
        bytes: usize,
    },
    /// No records now. The engine reads again at `until`, or when the source's [`SourceWaker`] is
    /// called.
    Idle {
        /// The time of the next read on the environment's monotonic clock, in microseconds;
        /// [`u64::MAX`] if only the waker can tell. None: in a millisecond.
        until: Option<u64>,
    },
    /// The source has ended.
    End,
}

/// Wakes a source: there may be records to read. It may be called from any thread, any number of
/// times.
pub type SourceWaker = Arc<dyn Fn() + Send + Sync>;

/// One slice of a source. The engine cuts its records into cycles.
pub trait Source: Send {
    /// Reads some records, at most one buffer full. It must not wait: its worker does nothing else
    /// meanwhile.
    ///
    /// # Errors
    /// The job fails, whatever the [kind](crate::ErrorKind).
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError>;

    /// The position after every record read so far.
    fn position(&self) -> Position;

    /// Goes to a position of an earlier life, with the watermark it had there. Called at most once,
    /// before the first read. Records from there on are then read as they were the first time.
    /// Default: reads up to the position and drops the records.
    ///
    /// # Errors
    /// The position no longer exists, or cannot be read.
    fn seek(&mut self, to: Position, watermark: Micros) -> Result<(), SourceError> {
        let _known_again_after_reading = watermark;
        let mut letters = Vec::new();
        while self.position() < to {
            let (bytes, records, until) = (SEEK_BYTES, usize::MAX, Some(to));
            let request = ReadRequest { cycle: Cycle::FIRST, bytes, records, until };
            let before = self.position();
            match self.read(&request, &mut letters)? {
                Read::Rows { .. } => letters.clear(),
                Read::Idle { .. } | Read::End if self.position() == before => break,
                Read::Idle { .. } | Read::End => {}
            }
        }
        let at = self.position();
        match at == to {
            true => Ok(()),
            false => {
                let message = format!("it cannot go on at position {}: it is at {}", to.0, at.0);
                Err(SourceError::of_kind(ErrorKind::Invalid, message))
            }
        }
    }

    /// Takes the waker to call from now on. Called before the first read, and again when another
    /// thread takes the slice over. A source that ignores it is polled.
    fn wake_by(&mut self, waker: SourceWaker) {
        drop(waker);
    }

    /// The watermark after the records read so far; [`Micros::MIN`] if there is no event time.
    fn watermark(&self) -> Micros;
}
