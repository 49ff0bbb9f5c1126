//! Streams and topics as sources: one source slice a streamlet or partition, at an offset each.
//!
//! ```text
//! RecordLog: a stream of this process's log │ a topic of another cluster
//!    │ extents, sample                    │ open
//!    ▼                                    ▼
//! columns, Reach ─▶ note          RecordFeed ─▶ RecordSlice ─▶ batches, dead letters
//! ```
//!
//! Committed records are never taken back: a job that reads only those and resumes reads the same
//! records up to the same offsets again. The offset at which each part begins is noted in the job's
//! folder before the first record is read; the ledger has the offset at which each cycle ended.

mod began;
mod meta;
mod reach;
mod record_log;
mod sampler;
mod schema_note;
mod slice;
mod spec;

pub(crate) use began::Began;
pub(crate) use reach::Reach;
pub(crate) use record_log::{Extent, LogName, RecordFeed, RecordLog, no_longer_stored};
pub(crate) use sampler::RecordSampler;
pub use spec::RecordSourceSpec;

use crate::error::ConnectorError;
use crate::notes::Notes;
use arrow_schema::SchemaRef;
use sampler::RecordSchema;
use slice::RecordSlice;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use tidemill_env::{World, has_no_room};
use tidemill_flow::{
    CommitFollower, GrowingSource, GuessedColumn, Obstacle, Position, Source, SourceError,
    SourceFactory,
};
use tidemill_types::{
    SliceId,
    job::{StartSpec, UntilSpec},
};

/// A stream or a topic as a source.
pub struct RecordSource {
    log: Box<dyn RecordLog>,
    spec: RecordSourceSpec,
    schema: RecordSchema,
    /// The stored records when the job was planned; parts that are not listed were added since.
    extents: Vec<Extent>,
    reach: RwLock<Reach>,
    /// Written before the first slice is read.
    note: Option<Notes<Began>>,
}

impl RecordSource {
    /// Samples a log's first records and finds its columns, as a file's are found.
    ///
    /// # Errors
    /// The log is empty and the job names no columns, its records cannot be read, it has not the
    /// columns that the job names, or it is not the one that the job began with.
    pub(crate) fn open(
        world: &World,
        log: Box<dyn RecordLog>,
        spec: RecordSourceSpec,
        mut sampler: RecordSampler,
    ) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
        let name = log.name();
        let extents = log.extents()?;
        let note = spec.note.as_ref().map(|path| Notes::<Began>::new(world, path));
        let noted = match &note {
            Some(note) if spec.resume || spec.from_checkpoint => {
                note.read().map_err(|error| name.refusal(error))?
            }
            _ => None,
        };
        sampler.know(noted.as_ref().and_then(|it| it.columns.clone()));
        if let Some(noted) = noted.as_ref().filter(|_| spec.from_checkpoint) {
            noted.is_of(log.id()).map_err(|why| name.refusal(why))?;
        }
        log.sample(&extents, &mut sampler)?;
        let schema = sampler.finish(name, &spec)?;
        let reach = RwLock::new(planned_reach(&*log, &spec, &extents, noted)?);
        Ok(Arc::new(Self { log, spec, schema, extents, reach, note }))
    }

    fn reach(&self) -> RwLockReadGuard<'_, Reach> {
        self.reach.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the note of where reading begins.
    fn write_note(&self, reach: &Reach) -> Result<(), SourceError> {
        let Some(note) = &self.note else { return Ok(()) };
        let began = Began::new(self.log.id(), reach, self.schema.kept.clone());
        note.write(&began).map_err(|error| {
            let is_full = has_no_room(&error);
            self.log.name().failure(SourceError::new(error.to_string()).retry_if(is_full))
        })
    }

    fn has_end(&self) -> bool {
        self.spec.until != UntilSpec::Never
    }
}

/// The offsets that a job reads: as it noted them, or as its settings say.
fn planned_reach(
    log: &dyn RecordLog,
    spec: &RecordSourceSpec,
    extents: &[Extent],
    noted: Option<Began>,
) -> Result<Reach, ConnectorError> {
    let first = |index: usize| extents[index].first;
    match noted {
        Some(noted) if spec.resume && noted.stream != log.id() => {
            let message = format!(
                "it is not the {} that the job began with, but a later one of that name; start the \
                 job anew",
                log.name().kind
            );
            Err(log.name().refusal(message))
        }
        Some(noted) if spec.resume => {
            let mut reach = noted.reach();
            if spec.until == UntilSpec::Never {
                reach.take_in(extents.len(), first);
            }
            Ok(reach)
        }
        noted => {
            let starts = match &spec.start {
                StartSpec::Earliest => extents.iter().map(|it| it.first).collect(),
                StartSpec::Latest => extents.iter().map(|it| it.end).collect(),
                StartSpec::Time(time) => log.offsets_at(time.0.div_euclid(1000), extents)?,
                StartSpec::Group(group) => log.offsets_of_group(group, extents)?,
            };
            let until = |start: i64, extent: &Extent| match spec.until {
                UntilSpec::Never => None,
                UntilSpec::Latest => Some(extent.end.max(start)),
            };
            let bounds = starts.into_iter().zip(extents);
            let bounds = bounds.map(|(start, extent)| (start, until(start, extent)));
            Ok(Reach::begins(bounds.collect(), noted.as_ref(), first))
        }
    }
}

impl SourceFactory for RecordSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema.schema)
    }

    fn slices(&self) -> u32 {
        self.reach().len()
    }

    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let reach = self.reach();
        let (start, until) = reach.bounds()[slice.index()];
        let kept_from = self.extents.get(slice.index()).map_or(start, |it| it.first);
        let feed = self.log.open(slice, kept_from, &reach);
        let feed = feed.map_err(|error| self.log.name().failure(error))?;
        Ok(Box::new(RecordSlice::new(
            self.log.name(),
            (slice, until),
            feed,
            &self.schema,
            &self.spec,
        )))
    }

    fn begin(&self) -> Result<(), SourceError> {
        self.write_note(&self.reach())
    }

    fn live(&self) -> bool {
        !self.has_end()
    }

    fn obstacle(&self) -> Option<Obstacle> {
        self.log.obstacle()
    }

    fn guessed(&self) -> Vec<GuessedColumn> {
        self.schema.guessed.clone()
    }

    fn reads(&self) -> String {
        self.spec.reads()
    }

    fn total(&self) -> Option<u64> {
        self.reach().total()
    }

    fn begins_at(&self, slice: SliceId) -> Position {
        Position(self.reach().start_of(slice).cast_unsigned())
    }

    fn growth(&self) -> Option<&dyn GrowingSource> {
        (!self.has_end()).then_some(self)
    }

    fn follower(&self) -> Option<&dyn CommitFollower> {
        self.log.follower()
    }
}

impl GrowingSource for RecordSource {
    fn began_with(&self) -> u32 {
        self.reach().first()
    }

    fn grow(&self) -> Result<u32, SourceError> {
        let failure = |error| self.log.name().failure(error);
        let mut reach = self.reach().clone();
        let starts = self.log.first_offsets(&reach).map_err(failure)?;
        let added = reach.take_in(starts.len(), |index| starts[index]);
        if !added.is_empty() {
            let slices = added.map(|index| (SliceId::at(index), starts[index])).collect();
            self.log.read_added(slices).map_err(failure)?;
            self.write_note(&reach)?;
            *self.reach.write().unwrap_or_else(PoisonError::into_inner) = reach;
        }
        Ok(self.slices())
    }
}
