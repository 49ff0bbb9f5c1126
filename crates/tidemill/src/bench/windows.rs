//! `bench windows`: many stages of sliding windows over one input, beside the largest of them alone:
//! memory of their states and CPU (KerA chapter 4, table 4.1).

use super::events::{Events, PER_SECOND};
use super::measure::Meter;
use super::still::Nothing;
use clap::Args;
use serde_json::{Map, Value, json};
use std::{ops::RangeInclusive, sync::Arc};
use tidemill_env::World;
use tidemill_flow::{JobGraph, NodeKind, Partition, RunOptions, SourceFactory};
use tidemill_operators::window::windowed;
use tidemill_types::{
    ByteSize, Span,
    job::{CycleSpec, SlidingWindow, WindowSpec},
};

/// From the start of one window to that of the next.
const EVERY: Span = Span(1_000_000);

/// Options of the workload.
#[derive(Args, Debug)]
pub(crate) struct WindowsArgs {
    /// Print one line of JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Stages: the windows of the n-th are n seconds long, and begin every second.
    #[arg(long, default_value_t = 10)]
    stages: u32,
    /// Keys of the events.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Seconds of event time, of two million events each.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Slices of each stage.
    #[arg(long, default_value_t = 64)]
    slices: u32,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// What some stages took.
struct Took {
    state_bytes: u64,
    cpu_s: f64,
    rows: u64,
}

impl WindowsArgs {
    fn graph(&self, sizes: RangeInclusive<u32>) -> Result<JobGraph, String> {
        let mut graph = JobGraph::new("windows");
        graph.cycle = CycleSpec { bytes: ByteSize(1 << 20), ..CycleSpec::default() };
        graph.workers = self.threads;
        let events = Arc::new(Events::new(1, self.keys));
        let schema = events.schema();
        let source = graph.add("events", NodeKind::Source { factory: events, preload: false });
        let aggregates = [("n", "count(*)"), ("mean", "avg(value)"), ("most", "max(value)")];
        let aggregates = aggregates.map(|(name, sql)| (name.to_owned(), sql.to_owned())).into();
        for size in sizes {
            let size = Span(i64::from(size) * EVERY.0);
            let window = WindowSpec::Sliding(SlidingWindow { size, every: EVERY });
            let factory = windowed(&schema, &["key".to_owned()], Some(&window), &aggregates)
                .map_err(|error| error.to_string())?;
            let kind = NodeKind::Stage { factory, slices: self.slices };
            let stage = graph.add(format!("windows_{size}"), kind);
            let sink = NodeKind::Sink { sink: Box::new(Nothing) };
            let sink = graph.add(format!("sink_{size}"), sink);
            graph.link(source, stage, Partition::Key(vec![0]));
            graph.link(stage, sink, Partition::One);
        }
        Ok(graph)
    }

    fn measured(&self, world: &World, sizes: RangeInclusive<u32>) -> Result<Took, String> {
        let meter = Meter::new(world);
        let graph = self.graph(sizes)?;
        let from = meter.moment(&[]);
        let handle = tidemill_flow::engine::start(graph, world, &RunOptions::default());
        let handle = handle.map_err(|error| error.to_string())?;
        let (mut state_bytes, mut rows) = (0, 0);
        let all = self.seconds * PER_SECOND;
        while !handle.is_over() {
            let stages = handle.progress().stages;
            state_bytes = state_bytes.max(stages.iter().map(|it| it.state_bytes).sum());
            rows = stages.iter().map(|it| it.rows_out).sum();
            if stages.iter().all(|it| it.rows_in >= all) {
                break;
            }
            world.clock.sleep_micros(1_000);
        }
        let cpu_s = meter.moment(&[]).cpu_since(&from);
        handle.stop();
        handle.wait().map_err(|error| error.to_string())?;
        Ok(Took { state_bytes, cpu_s, rows })
    }

    /// Runs the workload and reports.
    pub(super) fn run(&self, world: &World) -> Result<Map<String, Value>, String> {
        let one = self.measured(world, self.stages..=self.stages)?;
        let all = self.measured(world, 1..=self.stages)?;
        let Value::Object(report) = json!({
            "workload": "windows",
            "stages": self.stages,
            "keys": self.keys,
            "events": self.seconds * PER_SECOND,
            "slices": self.slices,
            "threads": self.threads,
            "one_state_bytes": one.state_bytes,
            "all_state_bytes": all.state_bytes,
            "state_ratio": all.state_bytes as f64 / one.state_bytes.max(1) as f64,
            "one_cpu_s": one.cpu_s,
            "all_cpu_s": all.cpu_s,
            "cpu_ratio": all.cpu_s / one.cpu_s,
            "one_rows": one.rows,
            "all_rows": all.rows,
        }) else {
            unreachable!("an object was written");
        };
        Ok(report)
    }
}
