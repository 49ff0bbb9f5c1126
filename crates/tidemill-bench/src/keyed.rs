//! A job with much state: events over many keys, every key once and then random ones, into a table of
//! count, sum, least and most.

use super::messages::mix;
use super::overhead::NullSink;
use arrow_array::{Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use clap::Args;
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};
use tidemill_env::World;
use tidemill_flow::{
    DeadLetter, JobGraph, JobHandle, Partition, Payload, Position, Read, ReadRequest, RunOptions,
    Source, SourceError, SourceFactory, StageKind,
};
use tidemill_operators::window::windowed;
use tidemill_types::{ByteSize, Micros, SliceId, job::CycleSpec};

/// Bytes that an event counts in a cycle.
const EVENT_BYTES: usize = 16;

/// KeyedEvents at a rate come in batches, one every so many microseconds, as from a broker: a source that
/// is asked for each of them would be most of the work.
const BATCH_US: u64 = 1_000;

/// Options of all workloads with this job.
#[derive(Args, Debug)]
pub(super) struct Keyed {
    /// Print one line of JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// A folder that does not exist yet; it is kept afterwards.
    #[arg(long)]
    pub(super) data: PathBuf,
    /// Keys; each holds count, sum, least and most of its values.
    #[arg(long, default_value_t = 10_000_000)]
    pub(super) keys: u64,
    /// Slices of the stage.
    #[arg(long, default_value_t = 64)]
    pub(super) slices: u32,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    pub(super) threads: usize,
}

impl Keyed {
    pub(super) fn start(
        &self,
        pace: &Arc<EventPace>,
        options: &RunOptions,
    ) -> Result<JobHandle, String> {
        let fields = [("key", DataType::Int64), ("value", DataType::Float64)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, false));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let aggregates = [
            ("n", "count(*)"),
            ("sum", "sum(value)"),
            ("least", "min(value)"),
            ("most", "max(value)"),
        ];
        let aggregates = aggregates.map(|(name, sql)| (name.to_owned(), sql.to_owned())).into();
        let factory = windowed(&schema, &["key".to_owned()], None, &aggregates)
            .map_err(|error| error.to_string())?;
        let mut graph = JobGraph::new("checkpoint");
        graph.cycle = CycleSpec { bytes: ByteSize(256 << 10), ..CycleSpec::default() };
        graph.workers = self.threads;
        let events = Arc::new(KeyedEvents { keys: self.keys, schema, pace: Arc::clone(pace) });
        let source = graph.add("events", StageKind::Source { factory: events, preload: false });
        let stage = graph.add("state", StageKind::Operator { factory, slices: self.slices });
        let sink = graph.add("sink", StageKind::Sink { sink: Box::new(NullSink) });
        graph.link(source, stage, Partition::Key(vec![0]));
        graph.link(stage, sink, Partition::One);
        tidemill_flow::engine::start(graph, &pace.world, options).map_err(|error| error.to_string())
    }
}

/// Every key once, then random ones for ever.
struct KeyedEvents {
    keys: u64,
    schema: SchemaRef,
    pace: Arc<EventPace>,
}

struct KeyedEventsSlice {
    next: u64,
    keys: u64,
    schema: SchemaRef,
    pace: Arc<EventPace>,
}

/// When events are due, if not as soon as can be.
pub(super) struct EventPace {
    pub(super) world: World,
    rate: Option<f64>,
    /// The first event that is paced, and when it was due, in microseconds.
    from: OnceLock<(u64, u64)>,
}

impl EventPace {
    /// Once every key was there, so many events a second; none: as many as are taken.
    pub(super) fn new(world: &World, rate: Option<f64>) -> Arc<Self> {
        Arc::new(Self { world: world.clone(), rate, from: OnceLock::new() })
    }

    /// True if events come at a rate.
    pub(super) fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    /// When an event is due; not before the first paced one.
    pub(super) fn due_us(&self, event: u64) -> Option<u64> {
        let (first, from_us) = self.from.get()?;
        let past = event.checked_sub(*first)? as f64 / self.rate?;
        Some(from_us + (past * 1e6) as u64)
    }

    /// Events that are due by now.
    fn due(&self, next: u64) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        let now_us = self.world.clock.monotonic_micros();
        let (first, from_us) = *self.from.get_or_init(|| (next, now_us));
        let past_us = (now_us - from_us) / BATCH_US * BATCH_US;
        let due = first + (past_us as f64 / 1e6 * rate) as u64;
        due.saturating_sub(next)
    }
}

impl SourceFactory for KeyedEvents {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let (schema, pace) = (Arc::clone(&self.schema), Arc::clone(&self.pace));
        Ok(Box::new(KeyedEventsSlice { next: 0, keys: self.keys, schema, pace }))
    }

    fn live(&self) -> bool {
        self.pace.rate.is_some()
    }
}

impl Source for KeyedEventsSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        _: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let mut count = (request.bytes / EVENT_BYTES).clamp(1, request.records);
        if self.next >= self.keys && request.until.is_none() {
            count = count.min(usize::try_from(self.pace.due(self.next)).unwrap_or(usize::MAX));
            if count == 0 {
                return Ok(Read::Idle { until: None });
            }
        }
        if let Some(until) = request.until {
            count = count.min(usize::try_from(until.0 - self.next).unwrap_or(usize::MAX));
        }
        let numbers = self.next..self.next + count as u64;
        let key = |n: u64| if n < self.keys { n } else { mix(n) % self.keys };
        let keys: Int64Array = numbers.clone().map(|n| key(n) as i64).collect();
        let values: Float64Array = numbers.map(|n| (mix(n) % 1_000) as f64).collect();
        self.next += count as u64;
        let columns = vec![Arc::new(keys) as _, Arc::new(values) as _];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch = batch.map_err(|error| SourceError::new(error.to_string()))?;
        Ok(Read::Rows { payload: Payload::Arrow(batch), bytes: count * EVENT_BYTES })
    }

    fn position(&self) -> Position {
        Position(self.next)
    }

    fn watermark(&self) -> Micros {
        Micros::MIN
    }

    fn seek(&mut self, to: Position, _: Micros) -> Result<(), SourceError> {
        self.next = to.0;
        Ok(())
    }
}
