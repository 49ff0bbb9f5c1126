//! `tidemill-bench idle` and `tidemill-bench rescale`: the cost of a job without input, and the
//! cost of a change of threads to a job with much.

use super::measure::{Meter, Report};
use super::relay::{self, Relay};
use super::{messages::Messages, wordcount::Count};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tidemill_env::World;
use tidemill_flow::{
    Block, JobGraph, OperatorFactory, Partition, RunOptions, Sink, SinkError, StageKind,
};
use tidemill_types::{Cycle, job::Delivery};

/// A sink that drops its rows.
pub(super) struct NullSink;

impl Sink for NullSink {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }

    fn write(&mut self, _: Cycle, _: &[Arc<Block>]) -> Result<(), SinkError> {
        Ok(())
    }

    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Runs a job without input and reports the share of a core that it uses.
pub(crate) fn idle(
    world: &World,
    slices: u32,
    seconds: f64,
    threads: usize,
) -> Result<Report, String> {
    let meter = Meter::new(world);
    let mut graph = JobGraph::new("idle");
    graph.delivery = Delivery::AtLeastOnce;
    graph.workers = threads;
    let source = Messages::new(Arc::clone(&meter), 8, Some(f64::MIN_POSITIVE));
    let source =
        graph.add("source", StageKind::Source { factory: Arc::new(source), preload: false });
    let stage = graph.add("stage", StageKind::Operator { factory: Arc::new(Count), slices });
    let sink = graph.add("sink", StageKind::Sink { sink: Box::new(NullSink) });
    graph.link(source, stage, Partition::Key(vec![0]));
    graph.link(stage, sink, Partition::One);
    let handle = tidemill_flow::engine::start(graph, world, &RunOptions::default());
    let handle = handle.map_err(|error| error.to_string())?;
    // The heartbeat after which the source counts as idle comes first.
    meter.wait(|| handle.progress().cycle_cut > Cycle::NONE, || handle.is_over());
    let from = meter.moment(&[]);
    meter.sleep(Duration::from_secs_f64(seconds));
    let to = meter.moment(&[]);
    handle.stop();
    handle.wait().map_err(|error| error.to_string())?;
    let share = meter.cpu_share((from, to));
    let Value::Object(more) = json!({ "slices": slices, "core_share": share }) else {
        unreachable!("an object was written");
    };
    Ok(meter.report("idle", (from, to), &[], more))
}

/// Changes the threads of a relay twice a second and reports the longest silence of its sink.
pub(crate) fn rescale(
    world: &World,
    relay: &Relay,
    user: Arc<dyn OperatorFactory>,
) -> Result<Report, String> {
    let meter = Meter::new(world);
    let graph = relay::graph(relay, &meter, user);
    let handle = tidemill_flow::engine::start(graph, world, &RunOptions::default());
    let handle = handle.map_err(|error| error.to_string())?;
    meter.wait(|| meter.items() > 0, || handle.is_over());
    meter.sleep(Duration::from_secs_f64(relay.warmup));
    let pause = Duration::from_millis(500);
    meter.take_longest_silence_us();
    meter.sleep(Duration::from_secs_f64(relay.seconds / 2.0));
    let quiet_us = meter.take_longest_silence_us();
    meter.measuring(true);
    let from = meter.moment(&[]);
    let mut changes = 0;
    for step in 0..(relay.seconds * 2.0) as usize {
        let threads = if step % 2 == 0 { 1 } else { relay.threads.max(2) };
        changes += u32::from(handle.rescale(threads).is_ok());
        meter.sleep(pause);
    }
    meter.measuring(false);
    let to = meter.moment(&[]);
    let longest_us = meter.take_longest_silence_us();
    handle.stop();
    handle.wait().map_err(|error| error.to_string())?;
    let cycle_us = relay.cycle.time.0 as f64;
    let Value::Object(more) = json!({
        "changes": changes,
        "longest_silence_ms": longest_us as f64 / 1e3,
        "longest_silence_cycles": longest_us as f64 / cycle_us,
        "longest_silence_without_changes_ms": quiet_us as f64 / 1e3,
    }) else {
        unreachable!("an object was written");
    };
    Ok(meter.report("rescale", (from, to), &[], more))
}
