//! A job in code, in about as many lines as in a file.
//!
//! ```no_run
//! use tidemill::{File, Format, Job, from};
//!
//! let job = Job::new("delays")
//!     .source("flights", File::ndjson("data/flights.ndjson").event_time("time_hour", "1h"))
//!     .stage("late", from("flights").filter("dep_delay > 15").select([("carrier", "carrier"), ("delay", "dep_delay")]))
//!     .stage("by_carrier", from("late").key(["carrier"]).tumbling("1d").aggregate([("n", "count(*)"), ("mean", "avg(delay)")]))
//!     .stage("top", from("by_carrier").top(10, "mean").per(["window_start"]))
//!     .sink("out", from("top").to_file("out.ndjson", Format::Json));
//! job.run()?;
//! # Ok::<(), tidemill::JobFailure>(())
//! ```
//!
//! The builder makes a job descriptor: it is checked and planned exactly as a file is. A mistake,
//! such as `"1 hour"` for a time, is reported when the job starts.

mod collect;
mod program_source;
mod source;
mod stage;
mod state;
#[cfg(test)]
mod tests;

pub use collect::{Collected, collected};
pub use program_source::Generated;
pub use source::{File, Kafka, SourceOf};
pub use stage::{Names, SinkOf, Stage, from, join, join_table};
pub use state::{StateFailure, query_state};

use arrow_schema::SchemaRef;
use std::{path::PathBuf, sync::Arc};
use tidemill_env::World;
use tidemill_flow::{
    JobError, JobHandle, OperatorFactory, Progress, RunOptions, StartError, engine,
};
use tidemill_node::plan::{PlanOptions, Planned, plan};
use tidemill_node::{Descriptor, Problem, Refused, Registry, check_resume, open_checkpoints};
use tidemill_types::CheckpointNumber;
use tidemill_types::job::{
    BufferSpec, CheckpointSpec, CycleSpec, Delivery, JobSpec, Named, StateSpec,
};

/// Why a job did not run to its end.
#[non_exhaustive]
pub enum JobFailure {
    /// The job was refused before anything started.
    Refused(Refused),
    /// Something could not be opened.
    Start(StartError),
    /// The job failed; the error names stage, slice, cycle and record.
    Failed(JobError),
}

impl std::fmt::Display for JobFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// The same text, because `fn main() -> Result<(), JobFailure>` prints it.
impl std::fmt::Debug for JobFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for JobFailure {}

/// A job being built.
#[derive(Debug)]
#[must_use = "a job does nothing until it is run"]
pub struct Job {
    spec: JobSpec,
    registry: Registry,
    plan_options: PlanOptions,
    run_options: RunOptions,
    /// The checkpoint that it goes on from, if not the newest.
    from: Option<CheckpointNumber>,
    problems: Vec<Problem>,
}

impl Job {
    /// A job without sources, stages and sinks: exactly-once, cycles of 10 ms, 64 slices, a thread
    /// for each core, and relative paths beginning in the current folder.
    pub fn new(name: impl Into<String>) -> Self {
        let spec = JobSpec {
            name: name.into(),
            delivery: Delivery::default(),
            cycle: CycleSpec::default(),
            slices: 64,
            parallelism: None,
            buffer: BufferSpec::default(),
            compression: tidemill_types::job::CompressionSpec::default(),
            checkpoint: None,
            state: StateSpec::default(),
            sources: Named::new(),
            stages: Named::new(),
            sinks: Named::new(),
        };
        Self {
            spec,
            registry: Registry::default(),
            plan_options: PlanOptions::default(),
            run_options: RunOptions::default(),
            from: None,
            problems: Vec::new(),
        }
    }

    /// Adds a source: a [`File`], records that the program makes ([`Generated`]), or a
    /// [`SourceFactory`](tidemill_flow::SourceFactory) of the program in an `Arc`.
    pub fn source(mut self, name: impl Into<String>, source: impl Into<SourceOf>) -> Self {
        let name = name.into();
        let source: SourceOf = source.into();
        self.note(&["sources", &name], source.problems);
        if let Some(factory) = source.factory {
            self.registry.add_source(&name, factory);
        }
        if self.spec.sources.insert(name.clone(), source.spec).is_some() {
            self.twice("sources", &name);
        }
        self
    }

    /// Adds a stage.
    pub fn stage(mut self, name: impl Into<String>, stage: Stage) -> Self {
        let name = name.into();
        self.note(&["stages", &name], stage.problems);
        if self.spec.stages.insert(name.clone(), stage.spec).is_some() {
            self.twice("stages", &name);
        }
        self
    }

    /// Adds a sink.
    pub fn sink(mut self, name: impl Into<String>, sink: SinkOf) -> Self {
        let name = name.into();
        self.note(&["sinks", &name], sink.problems);
        if let Some(make) = sink.make {
            self.registry.add_sink(&name, make);
        }
        if self.spec.sinks.insert(name.clone(), sink.spec).is_some() {
            self.twice("sinks", &name);
        }
        self
    }

    /// Registers an operator that stages name with [`Stage::operator`]. `make` is given the schema
    /// of the stage's input, and makes the operator or says why it cannot.
    pub fn operator(
        mut self,
        name: impl Into<String>,
        make: impl Fn(&SchemaRef) -> Result<Arc<dyn OperatorFactory>, String> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        if self.registry.operator(&name).is_some() {
            self.twice("operators", &name);
        }
        self.registry.add_operator(name, Arc::new(make));
        self
    }

    /// The effect that a failure may have on the output (default exactly-once).
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.spec.delivery = delivery;
        self
    }

    /// Longest time a live source collects one cycle, such as `10ms`.
    pub fn cycle(mut self, time: &str) -> Self {
        match time.parse() {
            Ok(time) => self.spec.cycle.time = time,
            Err(error) => self.problems.push(Problem::new(["cycle"], format!("{error}"))),
        }
        self
    }

    /// As [`Self::cycle`], with everything that `cycle` in a job file can say: also the bytes and the
    /// records with which a cycle ends, which sources that are not live go by alone.
    pub fn cycle_with(mut self, cycle: CycleSpec) -> Self {
        self.spec.cycle = cycle;
        self
    }

    /// Buffers of the links between stages, and how much a thread may write in one cycle.
    pub fn buffer(mut self, buffer: BufferSpec) -> Self {
        self.spec.buffer = buffer;
        self
    }

    /// Slices of every keyed stage (default 64).
    pub fn slices(mut self, slices: u32) -> Self {
        self.spec.slices = slices;
        self
    }

    /// Worker threads (default: one for each core).
    pub fn threads(mut self, threads: usize) -> Self {
        self.spec.parallelism = Some(threads);
        self
    }

    /// The folder that relative paths begin in (default: the current one).
    pub fn base_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.plan_options.base_dir = folder.into();
        self
    }

    /// The job's folder: its ledger, and its dead letters if no sink takes them.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.plan_options.data = Some(folder.clone());
        self.run_options.data = Some(folder);
        self
    }

    /// Saves the job's state so often, such as every `10s`, or `auto`, in its folder: see
    /// [`Self::data`].
    pub fn checkpoint(mut self, every: &str) -> Self {
        match every.parse() {
            Ok(every) => {
                self.spec.checkpoint = Some(CheckpointSpec { every, ..CheckpointSpec::default() });
            }
            Err(error) => {
                self.problems.push(Problem::new(["checkpoint", "every"], format!("{error}")));
            }
        }
        self
    }

    /// As [`Self::checkpoint`], with everything that `checkpoint` in a job file can say: the backend,
    /// the recovery, and for `at-most-once` a number of records.
    pub fn checkpoint_with(mut self, checkpoint: CheckpointSpec) -> Self {
        self.spec.checkpoint = Some(checkpoint);
        self
    }

    /// The most memory that the job's state may take, such as `4GiB` (default: no limit). A job
    /// that needs more ends with an error.
    pub fn state_budget(mut self, budget: &str) -> Self {
        match budget.parse() {
            Ok(budget) => self.spec.state.budget = Some(budget),
            Err(error) => {
                self.problems.push(Problem::new(["state", "budget"], format!("{error}")));
            }
        }
        self
    }

    /// Stages with tumbling or sliding windows over one input by one key keep the needed parts
    /// of a record once, where that takes less memory (default: they do).
    pub fn share_windows(mut self, shares: bool) -> Self {
        self.spec.state.share_windows = shares;
        self
    }

    /// Goes on where an earlier run with the same [`Self::data`] stopped. Refused for a job without
    /// that folder, and for a [`Delivery`] that keeps no ledger there.
    pub fn resume(mut self) -> Self {
        self.plan_options.resume = true;
        self.run_options.resume = true;
        self
    }

    /// As [`Self::resume`], from the checkpoint of this number in place of the newest.
    pub fn resume_from(mut self, checkpoint: CheckpointNumber) -> Self {
        self.from = Some(checkpoint);
        self.resume()
    }

    /// Begins anew, at the checkpoint of this number in the folder of [`Self::data`], with the state
    /// that it has: sinks get the rows after it.
    pub fn begin_from(mut self, checkpoint: CheckpointNumber) -> Self {
        self.from = Some(checkpoint);
        self
    }

    /// The job as a descriptor, such as to write it to a file.
    #[must_use]
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// Starts the job and gives back a handle to watch, rescale, stop and wait for it.
    ///
    /// # Errors
    /// The job is refused, or something cannot be opened.
    pub fn start(self) -> Result<JobHandle, JobFailure> {
        let descriptor = Descriptor::of(self.spec);
        if !self.problems.is_empty() {
            return Err(JobFailure::Refused(refused(&descriptor, self.problems)));
        }
        let world = World::real();
        let data = self.run_options.data.as_deref();
        if self.run_options.resume {
            check_resume(&descriptor, data, &self.plan_options.base_dir, &world)
                .map_err(JobFailure::Refused)?;
        }
        let planned = plan(&descriptor, &self.plan_options, &world, &self.registry);
        let Planned { graph, warnings, .. } = planned.map_err(JobFailure::Refused)?;
        for warning in warnings {
            tracing::warn!(job = descriptor.spec.name, "{warning}");
        }
        let checkpoint = open_checkpoints(&descriptor.spec, data, self.from, &world);
        let checkpoint = checkpoint.map_err(JobFailure::Start)?;
        let run_options = RunOptions { checkpoint, ..self.run_options };
        engine::start(graph, &world, &run_options).map_err(JobFailure::Start)
    }

    /// Runs the job until all inputs end and all output is flushed.
    ///
    /// # Errors
    /// The job is refused, something cannot be opened, or the job fails.
    pub fn run(self) -> Result<Progress, JobFailure> {
        self.start()?.wait().map_err(JobFailure::Failed)
    }

    fn note(&mut self, path: &[&str], problems: Vec<Problem>) {
        for mut problem in problems {
            let inner = std::mem::take(&mut problem.path);
            problem.path = path.iter().map(|it| (*it).to_owned()).chain(inner).collect();
            self.problems.push(problem);
        }
    }

    fn twice(&mut self, kind: &str, name: &str) {
        let message = format!("the name `{name}` is given twice");
        self.problems.push(Problem::new([kind, name], message));
    }
}

/// Problems with their places in the job.
fn refused(descriptor: &Descriptor, problems: Vec<Problem>) -> Refused {
    Refused(problems.into_iter().map(|problem| descriptor.locate(problem)).collect())
}
