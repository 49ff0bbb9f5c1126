//! A log of records, as a source sees it: a stream of this process's log, or a topic of another
//! cluster.
//!
//! A *part* is a streamlet of a stream or a partition of a topic. A source has one slice for each,
//! with the same number.

use super::{Reach, RecordSampler};
use crate::error::{ConnectorError, ConnectorErrorKind};
use std::{collections::BTreeMap, fmt};
use tidemill_flow::{CommitFollower, ErrorKind, Obstacle, Read, SourceError, SourceWaker};
use tidemill_types::SliceId;
use tidemill_wire::records::Record;

/// The name of a log, as messages have it.
#[derive(Clone, Debug)]
pub(crate) struct LogName {
    /// `stream` or `topic`.
    pub(crate) kind: &'static str,
    /// `streamlet` or `partition`.
    pub(crate) part: &'static str,
    pub(crate) name: String,
}

impl LogName {
    /// The name of a stream.
    pub(crate) fn stream(name: &str) -> Self {
        Self { kind: "stream", part: "streamlet", name: name.to_owned() }
    }

    /// The name of a topic.
    pub(crate) fn topic(name: &str) -> Self {
        Self { kind: "topic", part: "partition", name: name.to_owned() }
    }

    /// The refusal of a log that a job cannot read.
    pub(crate) fn refusal(&self, message: impl fmt::Display) -> ConnectorError {
        let message = format!("{self}: {message}");
        ConnectorError { kind: ConnectorErrorKind::Unreadable, message }
    }

    /// The error with the log as its place.
    pub(super) fn failure(&self, error: SourceError) -> SourceError {
        error.within(self)
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}

/// The stored records of a part: the first offset, and the one after the last that may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first: i64,
    pub(crate) end: i64,
}

/// See the module. Errors of the methods that return a [`SourceError`] do not name the log.
pub(crate) trait RecordLog: Send + Sync {
    /// The name.
    fn name(&self) -> &LogName;

    /// The id of the log: another one may have its name later.
    fn id(&self) -> &str;

    /// The stored records of each part.
    ///
    /// # Errors
    /// The parts cannot be listed.
    fn extents(&self) -> Result<Vec<Extent>, ConnectorError>;

    /// The offset of each part from which reading meets all records of this time or later; the end
    /// where there are none.
    ///
    /// # Errors
    /// The offsets cannot be looked up.
    fn offsets_at(&self, timestamp_ms: i64, extents: &[Extent])
    -> Result<Vec<i64>, ConnectorError>;

    /// The offset of each part at which a consumer group stands; the first where it has none.
    ///
    /// # Errors
    /// The log has no groups, or the group cannot be started from.
    fn offsets_of_group(&self, group: &str, extents: &[Extent])
    -> Result<Vec<i64>, ConnectorError>;

    /// Shows the first records to the sampler, part by part, so that it sees the same ones each
    /// time.
    ///
    /// # Errors
    /// They cannot be read.
    fn sample(&self, extents: &[Extent], sampler: &mut RecordSampler)
    -> Result<(), ConnectorError>;

    /// Begins to read a part at its start. `kept_from` is the first offset that it had when the job
    /// was planned, and `reach` has all parts that the job reads.
    ///
    /// # Errors
    /// There is no such part, or it cannot be read.
    fn open(
        &self,
        slice: SliceId,
        kept_from: i64,
        reach: &Reach,
    ) -> Result<Box<dyn RecordFeed>, SourceError>;

    /// The first offset of each part, if there may be more than `reach` has; empty if not. It may
    /// block.
    ///
    /// # Errors
    /// The parts cannot be listed.
    fn first_offsets(&self, reach: &Reach) -> Result<Vec<i64>, SourceError>;

    /// Prepares to read parts that were added, each from an offset on. Default: nothing to prepare.
    ///
    /// # Errors
    /// They cannot be read.
    fn read_added(&self, starts: BTreeMap<SliceId, i64>) -> Result<(), SourceError> {
        drop(starts);
        Ok(())
    }

    /// The obstacle that keeps records from arriving. Default: none.
    fn obstacle(&self) -> Option<Obstacle> {
        None
    }

    /// The consumer group that follows the commits of the job. Default: none.
    fn follower(&self) -> Option<&dyn CommitFollower> {
        None
    }
}

/// The records of one part, in order.
pub(crate) trait RecordFeed: Send {
    /// The next record's offset, or one before it.
    fn offset(&self) -> i64;

    /// Goes to an offset where it stood once, before it hands out any record. `is_end`: nothing is
    /// read from there on, so nothing has to be there.
    ///
    /// # Errors
    /// The records there are gone; the text says so.
    fn seek(&mut self, offset: i64, is_end: bool) -> Result<(), SourceError>;

    /// Sees to it that there are records to hand out. False: there is nothing below the offset
    /// `below`, or not yet.
    ///
    /// # Errors
    /// The part cannot be read.
    fn fill(&mut self, bytes: usize, below: i64) -> Result<bool, SourceError>;

    /// Hands out some of these records, at most `max`, and moves past them. Returns the
    /// passed-over bytes: of markers, or of an aborted transaction.
    ///
    /// # Errors
    /// The records are damaged.
    fn each(
        &mut self,
        max: usize,
        below: i64,
        take: &mut dyn FnMut(i64, &Record<'_>),
    ) -> Result<usize, SourceError>;

    /// The waker that counts from now on.
    fn wake_by(&mut self, waker: SourceWaker);

    /// Nothing was there: registers the waker for the next record. Returns the source's answer.
    fn wait(&mut self) -> Read;
}

/// The error of an offset from which reading is to go on, which is before the first that is stored.
pub(crate) fn no_longer_stored(offset: i64, first: i64) -> SourceError {
    let message = format!(
        "it is to go on at offset {offset}, which is no longer stored: the first that is there is \
         {first}; start the job anew"
    );
    SourceError::of_kind(ErrorKind::Invalid, message)
}
