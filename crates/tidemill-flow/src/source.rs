//! Where a job's records come from: a [`Source`] is one source slice.

use crate::block::Payload;
use crate::operator::DeadLetter;
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tidemill_types::{Cycle, Micros};

/// A place in a source: a byte offset, a record number, whatever the source counts. Only the
/// source itself reads it. It is written to the ledger as the end of a cycle.
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
    /// How many slices the source has.
    fn slices(&self) -> u32 {
        1
    }
    /// How many slices it had when the job began: what reads it is laid out by that number, however
    /// many there are. Default: as many as it has.
    fn began_with(&self) -> u32 {
        self.slices()
    }
    /// Whether slices may be added to it while it is read ([`Self::grow`]). If it has more of them than
    /// a job that resumes knows of, those begin at their start. None of them ends before all are read:
    /// where all have ended nobody waits for more. Default: it has the same ones for ever.
    fn grows(&self) -> bool {
        false
    }
    /// Takes in what slices were added, and notes what a job that resumes has to know of them; how many
    /// it has then. Called now and then while the job runs, from one thread, if it
    /// [grows](Self::grows). It may block.
    ///
    /// # Errors
    /// That could not be found out, or noted: it is asked again later.
    fn grow(&self) -> Result<u32, SourceError> {
        Ok(self.slices())
    }
    /// Opens a slice at its start. Nothing is changed by that, in the source or in what is noted of
    /// it: the job may still be refused.
    ///
    /// # Errors
    /// The source cannot be opened.
    fn open(&self, slice: u32) -> Result<Box<dyn Source>, SourceError>;
    /// Notes what a job that resumes has to know of the source, such as where it began. Called once,
    /// after its slices were opened and before any of them is read, when the job's ledger is that of
    /// its new life.
    ///
    /// # Errors
    /// It could not be noted.
    fn begin(&self) -> Result<(), SourceError> {
        Ok(())
    }
    /// Whether records come by themselves, in their own time (a socket, a clock), and not as fast
    /// as they are read. A cycle of a live source ends by time.
    fn live(&self) -> bool {
        false
    }
    /// What keeps records from coming that there may be, such as a server that is away; they come
    /// by themselves when that has passed. Default: nothing is known.
    fn obstacle(&self) -> Option<Obstacle> {
        None
    }
    /// How its bytes become records with an event time, in words: a job that does recorded cycles
    /// again has to read them as they were read. Default: nothing, and then nobody can tell.
    fn reads(&self) -> String {
        String::new()
    }
    /// Size of what is to be read of all slices, in the unit of [`Position`], if it is known: for
    /// progress.
    fn total(&self) -> Option<u64> {
        None
    }
    /// Where a slice begins that is not counted in [`Self::total`] up to there: for progress.
    fn begins_at(&self, slice: u32) -> Position {
        let _at_the_first = slice;
        Position(0)
    }
    /// Whether [`Self::committed`] is to be called.
    fn follows(&self) -> bool {
        false
    }
    /// Everything that came of a slice's records before `position` is where it stays: in all sinks,
    /// and as dead letters. Called at the end of cycles, with positions that do not fall, from one
    /// thread; it must be quick and must not block. A job that resumes begins again with its last
    /// recorded position.
    fn committed(&self, slice: u32, position: Position) {
        let _nobody_asked = (slice, position);
    }
}

/// What keeps a source from reading for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// What it is, for a person.
    pub why: String,
    /// Since when, as a time of the environment's monotonic clock, in microseconds.
    pub since_us: u64,
}

/// Why a source cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// What happened and where, for a person.
    pub message: String,
}

impl SourceError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// What a source may still read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The cycle that the records will belong to.
    pub cycle: Cycle,
    /// Most input bytes to read now (a source may go over by one record).
    pub bytes: usize,
    /// Most records to read now.
    pub records: usize,
    /// In a replay: read up to here and not further.
    pub until: Option<Position>,
}

/// What a source read.
#[derive(Debug)]
pub enum Read {
    /// Records. `bytes` is how much input they took.
    Rows {
        /// The records; may be empty if all of them were dead letters.
        payload: Payload,
        /// Input bytes they took.
        bytes: usize,
    },
    /// Nothing now; ask again when there may be more: at that moment, or when the source's
    /// [`SourceWaker`] was called.
    Idle {
        /// When to ask again, as a time of the environment's monotonic clock, in microseconds;
        /// [`u64::MAX`] if only the waker can tell. None: in a millisecond.
        until: Option<u64>,
    },
    /// Nothing more, ever.
    End,
}

/// Tells the engine that a source has something to read again. It may be called from any thread,
/// any number of times, also when nothing waits for it.
pub type SourceWaker = Arc<dyn Fn() + Send + Sync>;

/// One slice of a source. It reads; the engine cuts what it reads into cycles.
pub trait Source: Send {
    /// Reads some records, at most one buffer full. It does not wait for any: a worker does nothing
    /// else meanwhile, and others may wait for it.
    ///
    /// # Errors
    /// The source cannot go on: the job fails.
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError>;

    /// Where the source stands: after every record read so far.
    fn position(&self) -> Position;

    /// Goes to a place where a slice of this source stood before, with the watermark that it had
    /// there; called once at most, before the first read. What follows is then read as it was read
    /// from there the first time. By default it reads up to there, and drops what it read.
    ///
    /// # Errors
    /// The place is not there any more, or cannot be read.
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
            false => Err(SourceError::new(format!(
                "it cannot go on at position {}: it is at {}",
                to.0, at.0
            ))),
        }
    }

    /// Takes the waker that counts from now on; called before the first read, and again when
    /// another thread takes the slice over. A source that has none is asked by the clock.
    fn wake_by(&mut self, waker: SourceWaker) {
        drop(waker);
    }

    /// The watermark after the records read so far; [`Micros::MIN`] if there is no event time.
    fn watermark(&self) -> Micros;
}
