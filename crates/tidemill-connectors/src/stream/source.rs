//! A stream as a source: one source slice a streamlet, at an offset each.
//!
//! A cycle ends between two records, so a position is an offset. What is not a record of the
//! stream's users (markers of transactions) is passed over.

use super::note::{Began, Notes};
use super::reader::Reader;
use super::slice::{Feed, Slice};
use super::values::{Look, Values, refused};
use crate::error::{ConnectorError, ConnectorErrorKind};
use arrow_schema::SchemaRef;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tidemill_env::World;
use tidemill_flow::{Read, Source, SourceError, SourceFactory, SourceWaker};
use tidemill_log::{Interest, Log, Stream, Streamlet};
use tidemill_types::job::{Format, MetaSpec, Named, StartSpec, TimeSpec, UntilSpec};
use tidemill_wire::records::Record;

#[cfg(test)]
mod tests;

/// How a job reads a stream.
#[derive(Clone, Debug)]
pub struct StreamSourceSpec {
    /// How values are read: not Arrow or Parquet.
    pub format: Format,
    /// Column types by name; for CSV all columns in order.
    pub schema: Named<String>,
    /// Records that decide the types of other columns; none: 10,000.
    pub sample: Option<usize>,
    /// Where reading begins.
    pub start: StartSpec,
    /// Where it ends.
    pub until: UntilSpec,
    /// Columns beside those of the value.
    pub meta: MetaSpec,
    /// Event time: a column of the value, or the timestamp's.
    pub time: Option<TimeSpec>,
    /// A file of the job's folder that keeps where reading began, for a job that can resume.
    pub note: Option<PathBuf>,
    /// The job goes on where an earlier run stopped: what the note says counts.
    pub resume: bool,
}

/// A stream of a log as a source.
pub struct StreamSource {
    stream: Arc<Stream>,
    spec: StreamSourceSpec,
    values: Values,
    /// By streamlet: where it begins and, if it does, ends.
    bounds: Vec<(i64, Option<i64>)>,
    /// Written before the first slice is read.
    note: Mutex<Option<Notes<Began>>>,
}

impl StreamSource {
    /// Looks at a stream's first records and finds its columns, as a file's are found.
    ///
    /// # Errors
    /// There is no such stream, it is empty and the job names no columns, its records cannot be
    /// read, or it has not the columns that the job names.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any source factory")]
    pub fn new(
        world: &World,
        log: &Log,
        name: &str,
        spec: StreamSourceSpec,
    ) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
        let Some(stream) = log.get(name) else {
            let message = format!("there is no stream `{name}`: create it, or write to it first");
            return Err(ConnectorError { kind: ConnectorErrorKind::NotFound, message });
        };
        let subject = format!("stream `{name}`");
        let refused = |message: String| refused(&subject, message);
        let mut look = Look::new(&subject, &spec)?;
        sample(&stream, &mut look).map_err(refused)?;
        let values = look.finish(&subject, &spec)?;
        let note = spec.note.as_ref().map(|path| Notes::<Began>::new(world, path));
        let began = match &note {
            Some(note) if spec.resume => note.read().map_err(|it| refused(it.to_string()))?,
            _ => None,
        };
        let bounds = match began {
            Some(began) if began.stream != stream.id().to_string() => {
                let message = "it is not the stream that the job began with, but a later one of \
                               that name; start the job anew";
                return Err(refused(message.to_owned()));
            }
            Some(began) => began.bounds,
            None => {
                let streamlets = stream.streamlets();
                let bounds = streamlets.iter().map(|it| bounds(it, &spec));
                bounds.collect::<Result<_, _>>().map_err(|it| refused(it.to_string()))?
            }
        };
        Ok(Arc::new(Self { stream, spec, values, bounds, note: Mutex::new(note) }))
    }

    /// Keeps where reading begins, once.
    fn write_note(&self) -> Result<(), SourceError> {
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notes) = &*note {
            let (stream, bounds) = (self.stream.id().to_string(), self.bounds.clone());
            notes.write(&Began { stream, bounds }).map_err(|error| {
                SourceError::new(format!("stream `{}`: {error}", self.stream.name()))
            })?;
        }
        *note = None;
        Ok(())
    }
}

fn bounds(
    streamlet: &Streamlet,
    spec: &StreamSourceSpec,
) -> Result<(i64, Option<i64>), tidemill_log::ReadError> {
    let end = streamlet.high_watermark();
    let start = match spec.start {
        StartSpec::Earliest => streamlet.start_offset(),
        StartSpec::Latest => end,
        // The chunk that has the first such record; records before it are read too.
        StartSpec::Time(time) => {
            let found = streamlet.offset_for_time(time.0.div_euclid(1000))?;
            found.map_or(end, |(offset, _)| offset)
        }
    };
    let until = match spec.until {
        UntilSpec::Never => None,
        UntilSpec::Latest => Some(end.max(start)),
    };
    Ok((start, until))
}

impl SourceFactory for StreamSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.values.schema)
    }

    fn slices(&self) -> u32 {
        u32::try_from(self.bounds.len()).unwrap_or(u32::MAX)
    }

    fn open(&self, slice: u32) -> Result<Box<dyn Source>, SourceError> {
        self.write_note()?;
        let streamlet = self.stream.streamlet(slice).ok_or_else(|| {
            SourceError::new(format!("stream `{}` has no streamlet {slice}", self.stream.name()))
        })?;
        let (start, until) = self.bounds[slice as usize];
        let subject = ("stream", format!("{} streamlet {slice}", self.stream.name()));
        let reader = Reader::new(&streamlet, start);
        let feed = LogFeed { reader, waker: None, interest: None };
        Ok(Box::new(Slice::new(subject, feed, until, &self.values, &self.spec)))
    }

    fn live(&self) -> bool {
        self.spec.until == UntilSpec::Never
    }

    fn total(&self) -> Option<u64> {
        let lengths = self.bounds.iter().map(|(start, until)| until.map(|it| it - start));
        let total: Option<i64> = lengths.sum();
        total.and_then(|it| u64::try_from(it).ok())
    }
}

/// Lets `look` see the first records of a stream.
fn sample(stream: &Stream, look: &mut Look) -> Result<(), String> {
    for streamlet in stream.streamlets() {
        let mut reader = Reader::new(&streamlet, streamlet.start_offset());
        while look.goes_on() {
            if !reader.fill(look.bytes_left.min(1 << 20), streamlet.high_watermark())? {
                break;
            }
            reader.each(look.left, |_, record| look.add(record.value))?;
        }
    }
    Ok(())
}

/// Records of a streamlet of the log.
struct LogFeed {
    reader: Reader,
    waker: Option<SourceWaker>,
    /// A wish to be woken, with the offset that it is for.
    interest: Option<(i64, Interest)>,
}

impl Feed for LogFeed {
    fn offset(&self) -> i64 {
        self.reader.offset
    }

    fn streamlet(&self) -> u32 {
        self.reader.streamlet.index()
    }

    fn fill(&mut self, bytes: usize, below: i64) -> Result<bool, String> {
        self.reader.fill(bytes, below)
    }

    fn each(
        &mut self,
        max: usize,
        below: i64,
        take: &mut dyn FnMut(i64, &Record<'_>),
    ) -> Result<(), String> {
        // No compaction makes gaps in chunks of the log, so this many never go past `below`.
        let room = usize::try_from(below.saturating_sub(self.reader.offset)).unwrap_or(1);
        self.reader.each(max.min(room), |offset, record| take(offset, &record))
    }

    fn wake_by(&mut self, waker: SourceWaker) {
        self.waker = Some(waker);
        self.interest = None;
    }

    fn wait(&mut self) -> Read {
        let Some(waker) = &self.waker else { return Read::Idle { until: None } };
        let offset = self.reader.offset;
        if self.interest.as_ref().is_none_or(|(it, _)| *it != offset) {
            let waker = Arc::clone(waker);
            let notice = Box::new(move || waker());
            self.interest = Some((offset, self.reader.streamlet.on_data(offset, notice)));
        }
        Read::Idle { until: Some(u64::MAX) }
    }
}
