//! `tidemill-bench window`: events → by key → tumbling 1 s windows with count, min, max, mean and variance
//! over a million keys → sink.

use super::events::{EVENT_BYTES, Events, KEYS, PER_SECOND};
use super::measure::{Meter, Moment, Report};
use arrow_array::{cast::AsArray, types::Int64Type};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tidemill_env::World;
use tidemill_flow::{
    Block, JobGraph, JobHandle, Partition, RunOptions, Sink, SinkError, SourceFactory, StageKind,
};
use tidemill_operators::window::windowed;
use tidemill_types::{
    Cycle, Span,
    job::{CycleSpec, Delivery, WindowSpec},
};

/// The setup of the window workload.
#[derive(Clone, Debug)]
pub(crate) struct WindowSetup {
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
    pub(crate) slices: u32,
    /// Bytes of a key that is text; 0 for numbers.
    pub(crate) key_bytes: usize,
    pub(crate) threads: usize,
    pub(crate) cycle: CycleSpec,
    pub(crate) delivery: Delivery,
}

/// Looks at every result: counts events and rows.
struct ResultSink {
    meter: Arc<Meter>,
}

impl Sink for ResultSink {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }

    fn write(&mut self, _: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        for block in blocks {
            let batch = block.batch();
            let column = batch.column_by_name("n");
            let column = column.ok_or_else(|| SinkError::new("results without counts"))?;
            let counts = column.as_primitive::<Int64Type>();
            self.meter.add_results(counts.values().len() as u64);
            self.meter.add(counts.values().iter().map(|count| count.unsigned_abs()).sum());
        }
        Ok(())
    }

    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Runs the workload and reports.
pub(crate) fn run(
    world: &World,
    setup: &WindowSetup,
    options: &RunOptions,
) -> Result<Report, String> {
    let meter = Meter::new(world);
    let mut graph = JobGraph::new("window");
    graph.delivery = setup.delivery;
    graph.cycle = setup.cycle;
    graph.workers = setup.threads;
    graph.buffer.bytes = setup.cycle.bytes;
    let events = Events::new(setup.threads as u32, KEYS).key_bytes(setup.key_bytes);
    let events = Arc::new(events);
    let aggregates = [
        ("n", "count(*)"),
        ("least", "min(value)"),
        ("most", "max(value)"),
        ("mean", "avg(value)"),
        ("variance", "var_samp(value)"),
    ];
    let aggregates = aggregates.map(|(name, sql)| (name.to_owned(), sql.to_owned())).into();
    let second = WindowSpec::Tumbling(Span(1_000_000));
    let factory = windowed(&events.schema(), &["key".to_owned()], Some(&second), &aggregates)
        .map_err(|error| error.to_string())?;
    let source = graph.add("events", StageKind::Source { factory: events, preload: false });
    let stage = graph.add("window", StageKind::Operator { factory, slices: setup.slices });
    let sink = Box::new(ResultSink { meter: Arc::clone(&meter) });
    let sink = graph.add("sink", StageKind::Sink { sink });
    graph.link(source, stage, Partition::Key(vec![0]));
    graph.link(stage, sink, Partition::One);
    let handle = tidemill_flow::engine::start(graph, world, options);
    let handle = handle.map_err(|error| error.to_string())?;
    meter.wait(|| meter.items() > 0, || handle.is_over());
    meter.sleep(Duration::from_secs_f64(setup.warmup));
    let from = boundary(&meter, &handle);
    let end_us = meter.now_us() + (setup.seconds * 1e6) as u64;
    let mut to = boundary(&meter, &handle);
    while meter.now_us() < end_us && !handle.is_over() {
        to = boundary(&meter, &handle);
    }
    handle.stop();
    handle.wait().map_err(|error| error.to_string())?;
    let Value::Object(more) = json!({
        "keys": KEYS,
        "key_bytes": setup.key_bytes,
        "event_bytes": EVENT_BYTES,
        "events_per_event_second": PER_SECOND,
        "slices": setup.slices,
        "threads": setup.threads,
        "delivery": setup.delivery,
        "ledger": options.data.is_some(),
        "window_results": meter.results(),
        "windows": meter.items() / PER_SECOND,
    }) else {
        unreachable!("an object was written");
    };
    Ok(meter.report("window", (from, to), &[], more))
}

/// Waits until one more window is complete.
fn boundary(meter: &Meter, handle: &JobHandle) -> Moment {
    let next = (meter.items() / PER_SECOND + 1) * PER_SECOND;
    meter.wait(|| meter.items() >= next, || handle.is_over());
    meter.moment(&[])
}
