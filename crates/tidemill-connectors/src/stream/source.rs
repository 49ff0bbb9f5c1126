//! A stream of this process's log, as a source reads it.
//!
//! Markers of transactions and aborted records are passed over.

use super::node::{StreamGroup, StreamNode};
use super::progress::Progress;
use super::reader::{StreamletReader, View};
use crate::error::{ConnectorError, ConnectorErrorKind};
use crate::record_source::{
    Extent, LogName, Reach, RecordFeed, RecordLog, RecordSampler, RecordSource, RecordSourceSpec,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tidemill_env::World;
use tidemill_flow::{
    CommitFollower, ErrorKind, Position, Read, SourceError, SourceFactory, SourceWaker,
};
use tidemill_log::{Log, Stream, Streamlet};
use tidemill_types::{
    Offset, SliceId, StreamletIx,
    job::{Isolation, StartSpec},
};
use tidemill_wire::records::Record;

#[cfg(test)]
mod tests;

impl RecordSource {
    /// A stream of a log as a source. Without a `node` nothing is known of transactions, and all of
    /// their records are read.
    ///
    /// # Errors
    /// There is no such stream, it is empty and the job names no columns, its records cannot be
    /// read, or it has not the columns that the job names.
    pub fn of_stream(
        world: &World,
        log: &Log,
        node: Option<&Arc<dyn StreamNode>>,
        name: &str,
        spec: RecordSourceSpec,
    ) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
        let Some(stream) = log.get(name) else {
            let message = format!("there is no stream `{name}`: create it, or write to it first");
            return Err(ConnectorError { kind: ConnectorErrorKind::NotFound, message });
        };
        let sampler = RecordSampler::new(&LogName::stream(name), &spec)?;
        let log = StreamLog::new(world, stream, node, &spec)?;
        Self::open(world, Box::new(log), spec, sampler)
    }
}

/// See the module.
struct StreamLog {
    name: LogName,
    id: String,
    stream: Arc<Stream>,
    /// The node, which knows the transactions, if they count.
    node: Option<Arc<dyn StreamNode>>,
    /// The consumer group that the source starts from and that follows it.
    group: Option<FollowingGroup>,
}

/// A consumer group, and the commits to it.
struct FollowingGroup {
    world: World,
    group: Arc<dyn StreamGroup>,
    progress: Progress,
}

impl StreamLog {
    fn new(
        world: &World,
        stream: Arc<Stream>,
        node: Option<&Arc<dyn StreamNode>>,
        spec: &RecordSourceSpec,
    ) -> Result<Self, ConnectorError> {
        let name = LogName::stream(stream.name());
        let group = match (&spec.start, node) {
            (StartSpec::Group(group), _) if group.is_empty() => {
                return Err(name.refusal("the consumer group under `start` has no name"));
            }
            (StartSpec::Group(group), Some(node)) => {
                let (world, group) = (world.clone(), node.group(group, &stream));
                let progress = Progress::new(Arc::clone(&group));
                Some(FollowingGroup { world, group, progress })
            }
            (StartSpec::Group(_), None) => {
                let message = "there are no consumer groups here, and it is to start from one";
                return Err(name.refusal(message));
            }
            _ => None,
        };
        let node = node.filter(|_| spec.isolation == Isolation::Committed).cloned();
        Ok(Self { name, id: stream.id().to_string(), stream, node, group })
    }

    /// A streamlet, with the node's view of its transactions.
    fn view(&self, streamlet: Arc<Streamlet>) -> Result<View, SourceError> {
        let Some(node) = &self.node else { return Ok(View { streamlet, transactions: None }) };
        let transactions = node.transactions(&streamlet);
        let deleted = || SourceError::of_kind(ErrorKind::Invalid, "it was deleted just now");
        let transactions = transactions.ok_or_else(deleted)?;
        Ok(View { streamlet, transactions: Some(transactions) })
    }

    fn views(&self) -> impl Iterator<Item = Result<View, ConnectorError>> + '_ {
        let streamlets = self.stream.streamlets().into_iter();
        streamlets.map(|it| self.view(it).map_err(|error| self.name.refusal(error)))
    }
}

impl RecordLog for StreamLog {
    fn name(&self) -> &LogName {
        &self.name
    }

    fn id(&self) -> &str {
        &self.id
    }

    /// The end of a streamlet is its last stable offset: a job that ends there never waits for a
    /// transaction.
    fn extents(&self) -> Result<Vec<Extent>, ConnectorError> {
        let extent = |view: View| {
            let end = view.end_offset().map_err(|error| self.name.refusal(error))?;
            Ok(Extent { first: view.streamlet.start_offset(), end })
        };
        self.views().map(|it| it.and_then(extent)).collect()
    }

    /// The chunk that has the first such record counts; records before it are read too.
    fn offsets_at(
        &self,
        timestamp_ms: i64,
        extents: &[Extent],
    ) -> Result<Vec<i64>, ConnectorError> {
        let offset = |(streamlet, extent): (Arc<Streamlet>, &Extent)| {
            let found = streamlet.offset_for_time(timestamp_ms);
            let found = found.map_err(|error| self.name.refusal(error))?;
            Ok(found.map_or(extent.end, |it| it.offset))
        };
        self.stream.streamlets().into_iter().zip(extents).map(offset).collect()
    }

    fn offsets_of_group(&self, name: &str, extents: &[Extent]) -> Result<Vec<i64>, ConnectorError> {
        let Some(FollowingGroup { group, .. }) = &self.group else { return Ok(Vec::new()) };
        let committed = group.offsets().map_err(|error| self.name.refusal(error))?;
        let start = |(streamlet, extent): (Arc<Streamlet>, &Extent)| {
            let (index, end) = (streamlet.index(), streamlet.high_watermark());
            let committed = committed.get(&StreamletIx(index));
            let start = committed.map_or(extent.first, |it| it.0.max(extent.first));
            match start > end {
                true => Err(self.name.refusal(format!(
                    "the group `{name}` stands at offset {start} of streamlet {index}, which ends \
                     at {end}: reset the group's offsets, or begin elsewhere"
                ))),
                false => Ok(start),
            }
        };
        self.stream.streamlets().into_iter().zip(extents).map(start).collect()
    }

    fn sample(
        &self,
        extents: &[Extent],
        sampler: &mut RecordSampler,
    ) -> Result<(), ConnectorError> {
        let refused = |error: SourceError| self.name.refusal(error);
        for (view, extent) in self.views().zip(extents) {
            let mut reader = StreamletReader::new(view?, extent.first);
            while sampler.goes_on() {
                let bytes = sampler.bytes_left.min(1 << 20);
                if !reader.fill(bytes, extent.end).map_err(refused)? {
                    break;
                }
                let read = reader.each(sampler.left, |_, record| sampler.add(record.value));
                read.map_err(refused)?;
            }
        }
        Ok(())
    }

    fn open(
        &self,
        slice: SliceId,
        _kept_from: i64,
        reach: &Reach,
    ) -> Result<Box<dyn RecordFeed>, SourceError> {
        let streamlet = self.stream.streamlet(slice.0).ok_or_else(|| {
            SourceError::of_kind(ErrorKind::Invalid, format!("it has no streamlet {slice}"))
        })?;
        let reader = StreamletReader::new(self.view(streamlet)?, reach.start_of(slice));
        Ok(Box::new(StreamFeed { reader, waker: None, data_waker: None }))
    }

    fn first_offsets(&self, _: &Reach) -> Result<Vec<i64>, SourceError> {
        Ok(self.stream.streamlets().iter().map(|it| it.start_offset()).collect())
    }

    fn follower(&self) -> Option<&dyn CommitFollower> {
        self.group.as_ref().map(|it| it as _)
    }
}

impl CommitFollower for FollowingGroup {
    fn committed(&self, slice: SliceId, position: Position) {
        let offset = i64::try_from(position.0).unwrap_or(i64::MAX);
        self.progress.reached(&self.world, StreamletIx(slice.0), Offset(offset));
    }
}

/// Records of a streamlet of the log.
struct StreamFeed {
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

impl RecordFeed for StreamFeed {
    fn offset(&self) -> i64 {
        self.reader.offset
    }

    fn seek(&mut self, offset: i64, is_end: bool) -> Result<(), SourceError> {
        self.reader.seek(offset, is_end)
    }

    fn fill(&mut self, bytes: usize, below: i64) -> Result<bool, SourceError> {
        self.reader.fill(bytes, below)
    }

    fn each(
        &mut self,
        max: usize,
        below: i64,
        take: &mut dyn FnMut(i64, &Record<'_>),
    ) -> Result<usize, SourceError> {
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
