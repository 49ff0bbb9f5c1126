//! `tidemill-bench relay`: source → relay → sink, three stages that are never fused, real exchange between
//! threads or processes, a user function called for every message.
//!
//! Every message is freshly written by the source; the relay passes it on by reference, and between
//! processes it is written to a socket on both ways.

use super::measure::{Meter, Report, SAMPLE};
use super::messages::{Messages, count_rows};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tidemill_env::World;
use tidemill_flow::{
    Block, JobGraph, JobHandle, OperatorFactory, Partition, Processes, RunOptions, Sink, SinkError,
    StageKind,
};
use tidemill_types::{
    Cycle, ProcessIx,
    job::{CompressionSpec, Delivery},
};

/// The setup of a relay.
#[derive(Clone, Debug)]
pub(crate) struct Relay {
    pub(crate) message_bytes: usize,
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
    pub(crate) rate: Option<f64>,
    pub(crate) cycle: tidemill_types::job::CycleSpec,
    pub(crate) delivery: Delivery,
    pub(crate) threads: usize,
    pub(crate) compression: CompressionSpec,
}

/// The last stage: looks at every message.
struct Receiver {
    meter: Arc<Meter>,
    stamps: Vec<u64>,
}

impl Sink for Receiver {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }

    fn write(&mut self, _: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        self.stamps.clear();
        let mut count = 0;
        for block in blocks {
            count += count_rows(block, &mut self.stamps);
        }
        self.meter.add(count);
        if count > 0 {
            self.meter.heard();
        }
        self.meter.stamps(&self.stamps);
        Ok(())
    }

    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// The job of the relay: the middle stage runs `user`.
pub(crate) fn graph(relay: &Relay, meter: &Arc<Meter>, user: Arc<dyn OperatorFactory>) -> JobGraph {
    let mut graph = JobGraph::new("relay");
    graph.delivery = relay.delivery;
    graph.cycle = relay.cycle;
    graph.workers = relay.threads;
    graph.compression = relay.compression;
    graph.buffer.bytes = graph.buffer.bytes.min(relay.cycle.bytes);
    // Little is under way at once, so that it stays in the cache.
    graph.buffer.high_watermark.0 = 4 << 20;
    graph.buffer.low_watermark.0 = 2 << 20;
    let factory = Messages::new(Arc::clone(meter), relay.message_bytes, relay.rate);
    let factory = Arc::new(factory);
    let source = graph.add("source", StageKind::Source { factory, preload: false });
    let stage = graph.add("relay", StageKind::Operator { factory: user, slices: 1 });
    let sink = Box::new(Receiver { meter: Arc::clone(meter), stamps: Vec::new() });
    let sink = graph.add("sink", StageKind::Sink { sink });
    graph.link(source, stage, Partition::One);
    graph.link(stage, sink, Partition::One);
    graph
}

/// Runs the relay and reports. `children` are processes that run parts of it.
pub(crate) fn run(
    world: &World,
    relay: &Relay,
    user: Arc<dyn OperatorFactory>,
    (options, children): (&RunOptions, &[u32]),
) -> Result<Report, String> {
    let meter = Meter::new(world);
    let graph = graph(relay, &meter, user);
    let handle = tidemill_flow::engine::start(graph, world, options);
    let handle = handle.map_err(|error| error.to_string())?;
    let report = timed(&meter, &handle, relay, children);
    handle.stop();
    handle.wait().map_err(|error| error.to_string())?;
    Ok(report)
}

/// Runs the middle stage for another process, until that one has finished.
pub(crate) fn run_middle(
    world: &World,
    relay: &Relay,
    user: Arc<dyn OperatorFactory>,
    address: &str,
) -> Result<(), String> {
    let graph = graph(relay, &Meter::new(world), user);
    let options = RunOptions { processes: processes(1, address), ..RunOptions::default() };
    let handle = tidemill_flow::engine::start(graph, world, &options);
    let handle = handle.map_err(|error| error.to_string())?;
    handle.wait().map(|_| ()).map_err(|error| error.to_string())
}

/// Source and sink in process 0, the relay in process 1.
pub(crate) fn processes(me: u32, address: &str) -> Processes {
    let addresses = vec![address.to_owned(), String::new()];
    Processes { me: ProcessIx(me), addresses, of_stage: [0, 1, 0].map(ProcessIx).to_vec() }
}

/// Measures a running relay.
pub(crate) fn timed(meter: &Meter, handle: &JobHandle, relay: &Relay, children: &[u32]) -> Report {
    meter.wait(|| meter.items() > 0, || handle.is_over());
    meter.sleep(Duration::from_secs_f64(relay.warmup));
    meter.measuring(true);
    let from = meter.moment(children);
    meter.sleep(Duration::from_secs_f64(relay.seconds));
    meter.measuring(false);
    let to = meter.moment(children);
    let Value::Object(more) = json!({
        "message_bytes": relay.message_bytes,
        "rate": relay.rate,
        "cycle_time": relay.cycle.time,
        "cycle_bytes": relay.cycle.bytes,
        "delivery": relay.delivery,
        "compression": relay.compression,
        "processes": children.len() + 1,
        "sample": SAMPLE,
    }) else {
        unreachable!("an object was written");
    };
    meter.report("relay", (from, to), children, more)
}
