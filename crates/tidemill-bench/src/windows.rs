//! `tidemill-bench windows`: many stages of sliding windows over one input, sharing their panes and not, beside
//! the largest of them alone: memory of their states and CPU (KerA chapter 4, table 4.1).

use super::events::{Events, PER_SECOND};
use super::measure::{Meter, Report};
use super::overhead::NullSink;
use clap::Args;
use serde_json::{Value, json};
use std::{ops::RangeInclusive, sync::Arc};
use tidemill_env::World;
use tidemill_flow::{JobGraph, Link, Partition, RunOptions, SourceFactory, StageKind};
use tidemill_operators::window::{SharedStage, shared, windowed};
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
    /// Seconds of event time.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Events in a second of event time.
    #[arg(long, default_value_t = PER_SECOND)]
    per_second: u64,
    /// Slices of each stage.
    #[arg(long, default_value_t = 64)]
    slices: u32,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// The resources that some stages took.
struct StageCost {
    state_bytes: u64,
    cpu_s: f64,
    rows: u64,
}

/// Stages by the length of their windows, in seconds, and whether they are one operator.
struct Stages {
    sizes: RangeInclusive<u32>,
    are_shared: bool,
}

impl WindowsArgs {
    fn events(&self) -> u64 {
        self.seconds * self.per_second
    }

    fn graph(&self, stages: &Stages) -> Result<JobGraph, String> {
        let mut graph = JobGraph::new("windows");
        graph.cycle = CycleSpec { bytes: ByteSize(1 << 20), ..CycleSpec::default() };
        graph.workers = self.threads;
        let events = Arc::new(Events::new(1, self.keys).per_second(self.per_second));
        let schema = events.schema();
        let source = graph.add("events", StageKind::Source { factory: events, preload: false });
        let aggregates = [("n", "count(*)"), ("mean", "avg(value)"), ("most", "max(value)")];
        let aggregates = aggregates.map(|(name, sql)| (name.to_owned(), sql.to_owned())).into();
        let (key, mut operators) = (["key".to_owned()], Vec::new());
        let named: Vec<(String, WindowSpec)> =
            stages.sizes.clone().map(|size| (format!("windows_{size}"), sliding(size))).collect();
        if stages.are_shared {
            let stage = |(name, window)| SharedStage { name, window, aggregate: &aggregates };
            let all: Vec<_> = named.iter().map(|(name, window)| stage((name, window))).collect();
            operators.push(("windows".to_owned(), shared(&schema, &key, &all)));
        } else {
            let one = |window| windowed(&schema, &key, Some(window), &aggregates);
            operators.extend(named.iter().map(|(name, window)| (name.clone(), one(window))));
        }
        for (name, factory) in operators {
            let factory = factory.map_err(|error| error.to_string())?;
            let outputs = (0..factory.outputs().len()).step_by(2);
            let stage = graph.add(&name, StageKind::Operator { factory, slices: self.slices });
            graph.link(source, stage, Partition::Key(vec![0]));
            for output in outputs {
                let sink = StageKind::Sink { sink: Box::new(NullSink) };
                let to = graph.add(format!("{name}_sink_{output}"), sink);
                let partition = Partition::One;
                graph.links.push(Link { from: stage, output, to, port: 0, partition });
            }
        }
        Ok(graph)
    }

    fn measured(&self, world: &World, stages: &Stages) -> Result<StageCost, String> {
        let meter = Meter::new(world);
        let graph = self.graph(stages)?;
        let from = meter.moment(&[]);
        let handle = tidemill_flow::engine::start(graph, world, &RunOptions::default());
        let handle = handle.map_err(|error| error.to_string())?;
        let (mut state_bytes, mut rows) = (0, 0);
        let all = self.events();
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
        Ok(StageCost { state_bytes, cpu_s, rows })
    }

    /// Runs the workload and reports.
    pub(super) fn run(&self, world: &World) -> Result<Report, String> {
        let most = self.stages;
        let one = self.measured(world, &Stages { sizes: most..=most, are_shared: false })?;
        let apart = self.measured(world, &Stages { sizes: 1..=most, are_shared: false })?;
        let shared = self.measured(world, &Stages { sizes: 1..=most, are_shared: true })?;
        let state = |it: &StageCost| it.state_bytes as f64 / one.state_bytes.max(1) as f64;
        let Value::Object(report) = json!({
            "workload": "windows",
            "stages": self.stages,
            "keys": self.keys,
            "events": self.events(),
            "slices": self.slices,
            "threads": self.threads,
            "one_state_bytes": one.state_bytes,
            "apart_state_bytes": apart.state_bytes,
            "shared_state_bytes": shared.state_bytes,
            "apart_state_ratio": state(&apart),
            "shared_state_ratio": state(&shared),
            "one_cpu_s": one.cpu_s,
            "apart_cpu_s": apart.cpu_s,
            "shared_cpu_s": shared.cpu_s,
            "apart_cpu_ratio": apart.cpu_s / one.cpu_s,
            "shared_cpu_ratio": shared.cpu_s / one.cpu_s,
            "one_rows": one.rows,
            "apart_rows": apart.rows,
            "shared_rows": shared.rows,
        }) else {
            unreachable!("an object was written");
        };
        Ok(report)
    }
}

fn sliding(seconds: u32) -> WindowSpec {
    let size = Span(i64::from(seconds) * EVERY.0);
    WindowSpec::Sliding(SlidingWindow { size, every: EVERY })
}
