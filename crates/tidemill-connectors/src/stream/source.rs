//! A stream as a source: one source slice a streamlet, at an offset each.
//!
//! A cycle ends between two records, so a position is an offset. Markers of transactions and
//! aborted records are passed over.

use super::bounds::bounds;
use super::node::{StreamGroup, StreamNode};
use super::note::{Began, Notes};
use super::progress::Progress;
use super::reach::Reach;
use super::reader::{StreamletReader, View};
use super::slice::{Feed, Slice};
use super::values::{StreamSampler, StreamSchema, refused};
use crate::error::{ConnectorError, ConnectorErrorKind};
use arrow_schema::SchemaRef;
use std::{
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
};
use tidemill_env::{World, has_no_room};
use tidemill_flow::{
    GuessedColumn, Position, Read, Source, SourceError, SourceFactory, SourceWaker,
};
use tidemill_log::{Log, Stream, Streamlet};
use tidemill_types::job::{Format, Isolation, MetaSpec, Named, StartSpec, TimeSpec, UntilSpec};
use tidemill_wire::records::Record;

#[cfg(test)]
mod tests;

/// The settings with which a job reads a stream.
#[derive(Clone, Debug)]
pub struct StreamSourceSpec {
    /// The format of values; not Arrow or Parquet.
    pub format: Format,
    /// Column types by name; for CSV all columns in order.
    pub schema: Named<String>,
    /// Records that decide the types of other columns; none: 10,000.
    pub sample: Option<usize>,
    /// Where reading begins.
    pub start: StartSpec,
    /// Where it ends.
    pub until: UntilSpec,
    /// Reads either committed records only, or also those of open and aborted transactions.
    pub isolation: Isolation,
    /// Columns beside those of the value.
    pub meta: MetaSpec,
    /// Event time: a column of the value, or the timestamp's.
    pub time: Option<TimeSpec>,
    /// A file of the job's folder that keeps where reading began, for a job that can resume.
    pub note: Option<PathBuf>,
    /// True if the job resumes an earlier run, whose note counts.
    pub resume: bool,
    /// True if it begins anew with a checkpoint of an earlier run, whose noted columns count.
    pub from_checkpoint: bool,
}

impl StreamSourceSpec {
    /// The settings for reading records, except columns, which the stages name.
    pub(crate) fn reads(&self) -> String {
        let uncommitted = match self.isolation {
            Isolation::Committed => None,
            Isolation::Uncommitted => Some("uncommitted records too".to_owned()),
        };
        let time = self.time.as_ref().map(TimeSpec::to_string);
        let said = [Some(self.format.to_string()), uncommitted, time];
        said.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// A stream of a log as a source.
pub struct StreamSource {
    world: World,
    stream: Arc<Stream>,
    /// It knows the transactions, where they count.
    node: Option<Arc<dyn StreamNode>>,
    spec: StreamSourceSpec,
    values: StreamSchema,
    reach: RwLock<Reach>,
    /// If a consumer group follows.
    progress: Option<Progress>,
    /// Written before the first slice is read.
    note: Option<Notes<Began>>,
}

impl StreamSource {
    /// Looks at a stream's first records and finds its columns, as a file's are found. Without a
    /// `node` nothing is known of transactions, and all of their records are read.
    ///
    /// # Errors
    /// There is no such stream, it is empty and the job names no columns, its records cannot be
    /// read, or it has not the columns that the job names.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any source factory")]
    pub fn new(
        world: &World,
        log: &Log,
        node: Option<&Arc<dyn StreamNode>>,
        name: &str,
        spec: StreamSourceSpec,
    ) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
        let Some(stream) = log.get(name) else {
            let message = format!("there is no stream `{name}`: create it, or write to it first");
            return Err(ConnectorError { kind: ConnectorErrorKind::NotFound, message });
        };
        let subject = format!("stream `{name}`");
        let refused = |message: String| refused(&subject, message);
        let mut look = StreamSampler::new(&subject, &spec)?;
        let group = group(&stream, node, &spec).map_err(refused)?;
        let node = node.filter(|_| spec.isolation == Isolation::Committed).cloned();
        let views = views(&stream, node.as_ref()).map_err(refused)?;
        let note = spec.note.as_ref().map(|path| Notes::<Began>::new(world, path));
        let noted = match &note {
            Some(note) if spec.resume || spec.from_checkpoint => {
                note.read().map_err(|it| refused(it.to_string()))?
            }
            _ => None,
        };
        look.know(noted.as_ref().and_then(|it| it.columns.clone()));
        let id = stream.id().to_string();
        if let Some(noted) = noted.as_ref().filter(|_| spec.from_checkpoint) {
            noted.is_of(&id).map_err(|why| refused(why.to_owned()))?;
        }
        sample(&views, &mut look).map_err(refused)?;
        let values = look.finish(&subject, &spec)?;
        let kept_from = |index: usize| views[index].streamlet.start_offset();
        let reach = match noted {
            Some(noted) if spec.resume && noted.stream != id => {
                let message = "it is not the stream that the job began with, but a later one of \
                               that name; start the job anew";
                return Err(refused(message.to_owned()));
            }
            Some(noted) if spec.resume => {
                let mut reach = noted.reach();
                if spec.until == UntilSpec::Never {
                    reach.take_in(views.len(), kept_from);
                }
                reach
            }
            noted => {
                let bounds = bounds(&views, &spec, group.as_deref()).map_err(refused)?;
                Reach::begins(bounds, noted.as_ref(), kept_from)
            }
        };
        let progress = group.map(Progress::new);
        let (world, reach) = (world.clone(), RwLock::new(reach));
        Ok(Arc::new(Self { world, stream, node, spec, values, reach, progress, note }))
    }

    fn reach(&self) -> RwLockReadGuard<'_, Reach> {
        self.reach.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps where reading begins.
    fn keep(&self, reach: &Reach) -> Result<(), SourceError> {
        let Some(note) = &self.note else { return Ok(()) };
        let began = Began::new(&self.stream.id().to_string(), reach, self.values.kept.clone());
        note.write(&began).map_err(|error| self.failed(&error).retry_if(has_no_room(&error)))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> SourceError {
        SourceError::new(format!("stream `{}`: {error}", self.stream.name()))
    }
}

/// The consumer group that the source starts from and that follows it, if it names one.
fn group(
    stream: &Arc<Stream>,
    node: Option<&Arc<dyn StreamNode>>,
    spec: &StreamSourceSpec,
) -> Result<Option<Arc<dyn StreamGroup>>, String> {
    let StartSpec::Group(group) = &spec.start else { return Ok(None) };
    if group.is_empty() {
        return Err("the consumer group under `start` has no name".to_owned());
    }
    match node {
        Some(node) => Ok(Some(node.group(group, stream))),
        None => Err("there are no consumer groups here, and it is to start from one".to_owned()),
    }
}

/// The streamlets, with the node's views of their transactions.
fn views(stream: &Stream, node: Option<&Arc<dyn StreamNode>>) -> Result<Vec<View>, String> {
    stream.streamlets().into_iter().map(|it| view(it, node)).collect()
}

fn view(streamlet: Arc<Streamlet>, node: Option<&Arc<dyn StreamNode>>) -> Result<View, String> {
    let Some(node) = node else { return Ok(View { streamlet, transactions: None }) };
    let transactions = node.transactions(&streamlet);
    let transactions = transactions.ok_or("it was deleted just now")?;
    Ok(View { streamlet, transactions: Some(transactions) })
}

impl SourceFactory for StreamSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.values.schema)
    }

    fn slices(&self) -> u32 {
        self.reach().len()
    }

    fn began_with(&self) -> u32 {
        self.reach().first()
    }

    fn grows(&self) -> bool {
        self.spec.until == UntilSpec::Never
    }

    fn grow(&self) -> Result<u32, SourceError> {
        let streamlets = self.stream.streamlets();
        let mut reach = self.reach().clone();
        let added = reach.take_in(streamlets.len(), |index| streamlets[index].start_offset());
        if !added.is_empty() {
            self.keep(&reach)?;
            *self.reach.write().unwrap_or_else(PoisonError::into_inner) = reach;
        }
        Ok(self.slices())
    }

    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let streamlet = self.stream.streamlet(slice).ok_or_else(|| {
            SourceError::new(format!("stream `{}` has no streamlet {slice}", self.stream.name()))
        })?;
        let view = view(streamlet, self.node.as_ref()).map_err(|error| self.failed(&error))?;
        let (start, until) = self.reach().bounds()[slice as usize];
        let subject = ("stream", format!("{} streamlet {slice}", self.stream.name()));
        let reader = StreamletReader::new(view, start);
        let feed = LogFeed { reader, waker: None, data_waker: None };
        Ok(Box::new(Slice::new(subject, feed, until, &self.values, &self.spec)))
    }

    fn begin(&self) -> Result<(), SourceError> {
        self.keep(&self.reach())
    }

    fn live(&self) -> bool {
        self.spec.until == UntilSpec::Never
    }

    fn guessed(&self) -> Vec<GuessedColumn> {
        self.values.guessed.clone()
    }

    fn reads(&self) -> String {
        self.spec.reads()
    }

    fn total(&self) -> Option<u64> {
        self.reach().total()
    }

    fn begins_at(&self, slice: u32) -> Position {
        Position(self.reach().start_of(slice).cast_unsigned())
    }

    fn follows(&self) -> bool {
        self.progress.is_some()
    }

    fn committed(&self, slice: u32, position: Position) {
        if let Some(progress) = &self.progress {
            progress.reached(&self.world, slice, i64::try_from(position.0).unwrap_or(i64::MAX));
        }
    }
}

/// Lets `look` see the first records of a stream.
fn sample(views: &[View], look: &mut StreamSampler) -> Result<(), String> {
    for view in views {
        let end = view.end_offset()?;
        let mut reader = StreamletReader::new(view.clone(), view.streamlet.start_offset());
        while look.goes_on() {
            if !reader.fill(look.bytes_left.min(1 << 20), end)? {
                break;
            }
            reader.each(look.left, |_, record| look.add(record.value))?;
        }
    }
    Ok(())
}

/// Records of a streamlet of the log.
struct LogFeed {
    reader: StreamletReader,
    waker: Option<SourceWaker>,
    data_waker: Option<DataWaker>,
}

/// The request to be woken when records come.
struct DataWaker {
    /// The offset that is waited for.
    offset: i64,
    /// True once it was called. A record of an open transaction calls it too, though it cannot be read yet.
    called: Arc<AtomicBool>,
    _until_dropped: Box<dyn Send>,
}

impl Feed for LogFeed {
    fn offset(&self) -> i64 {
        self.reader.offset
    }

    fn streamlet(&self) -> u32 {
        self.reader.view.streamlet.index()
    }

    fn seek(&mut self, offset: i64, is_end: bool) -> Result<(), String> {
        self.reader.seek(offset, is_end)
    }

    fn fill(&mut self, bytes: usize, below: i64) -> Result<bool, String> {
        self.reader.fill(bytes, below)
    }

    fn each(
        &mut self,
        max: usize,
        below: i64,
        take: &mut dyn FnMut(i64, &Record<'_>),
    ) -> Result<usize, String> {
        // No compaction makes gaps in chunks of the log, so this many never go past `below`.
        let room = usize::try_from(below.saturating_sub(self.reader.offset)).unwrap_or(1);
        self.reader.each(max.min(room), |offset, record| take(offset, &record))
    }

    fn wake_by(&mut self, waker: SourceWaker) {
        self.waker = Some(waker);
        self.data_waker = None;
    }

    fn wait(&mut self) -> Read {
        let Some(waker) = &self.waker else { return Read::Idle { until: None } };
        let offset = self.reader.offset;
        let stands = |it: &DataWaker| it.offset == offset && !it.called.load(Ordering::Acquire);
        if !self.data_waker.as_ref().is_some_and(stands) {
            let called = Arc::new(AtomicBool::new(false));
            let (waker, signal) = (Arc::clone(waker), Arc::clone(&called));
            let notice = Box::new(move || {
                signal.store(true, Ordering::Release);
                waker();
            });
            let until_dropped = self.reader.view.on_readable(offset, notice);
            self.data_waker = Some(DataWaker { offset, called, _until_dropped: until_dropped });
        }
        Read::Idle { until: Some(u64::MAX) }
    }
}
