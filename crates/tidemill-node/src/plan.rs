//! From a checked job to the engine's graph: sources are looked at, expressions compiled, stages
//! taken apart.
//!
//! ```text
//! stage `s` with `where` and `key` + `aggregate`:     ─local─▶ s.select ─by key─▶ s ─▶
//! stage `s` with `join` and `where`:                 ─by key─▶ s.join ─local─▶ s ─▶
//! stages `a` and `b` that share windows:             ─by key─▶ a+b ─▶ outputs of both
//! ```
//!
//! A stage of the job becomes one or two of the graph. The last of them has its name; one for several
//! stages of the job has the names of all. A union
//! without other parts is no stage of the graph: its readers read all of its inputs. Nothing is
//! written and no thread starts here.

mod empty_files;
mod files;
mod operators;
mod program_calls;
mod sampled_times;
mod sinks;
mod stage;
#[cfg(test)]
mod tests;
mod validation;
mod windows;

pub use validation::{Validated, validate};

use crate::check;
use crate::descriptor::Descriptor;
use crate::diagnostic::{Problem, Refused};
use crate::preview::Preview;
use crate::registry::Registry;
use crate::streams::Streams;
use arrow_schema::{Fields, Schema, SchemaRef};
use indexmap::IndexMap;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_connectors::{DeclaredStream, FileSource, RecordSource, RecordSourceSpec};
use tidemill_env::World;
use tidemill_flow::{JobGraph, Link, Partition, SourceFactory, StageKind};
use tidemill_types::StageIx;
use tidemill_types::job::{Format, JobSpec, KafkaSourceSpec, SourceSpec};

/// The facts of a plan besides the job.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// The folder that relative paths of the job begin in.
    pub base_dir: PathBuf,
    /// The file that the job is read from, which no sink may write.
    pub job_file: Option<PathBuf>,
    /// The job's data folder: dead letters go there when no sink takes them.
    pub data: Option<PathBuf>,
    /// The folder that the streams are in, if it is another one.
    pub node: Option<PathBuf>,
    /// Number of rows of each sink that are kept for a person (default none).
    pub preview_rows: usize,
    /// Worker threads, in place of the job's `parallelism`.
    pub threads: Option<usize>,
    /// The job goes on where an earlier run in the same folder stopped.
    pub resume: bool,
    /// It begins anew, with a checkpoint of an earlier run in the same folder.
    pub from_checkpoint: bool,
    /// The node's streams.
    pub streams: Option<Streams>,
}

/// A job that is ready to start.
#[derive(Debug)]
pub struct Planned {
    /// The graph that the engine runs.
    pub graph: JobGraph,
    /// The first rows of each sink, as the job runs, in the order of the job.
    pub previews: Vec<Preview>,
    /// The first dead letters.
    pub letters: Preview,
    /// Doubts about a job that can run all the same, as whole sentences.
    pub warnings: Vec<String>,
}

/// Plans a job.
///
/// # Errors
/// Everything that is wrong with the job, with its place in the file.
pub fn plan(
    descriptor: &Descriptor,
    options: &PlanOptions,
    world: &World,
    registry: &Registry,
) -> Result<Planned, Refused> {
    let problems = check::check(&descriptor.spec, registry);
    if !problems.is_empty() {
        return Err(refused(descriptor, problems));
    }
    let mut planner = Planner::new(&descriptor.spec, options, world, registry);
    let letters = planner.all();
    if planner.problems.is_empty()
        && let Err(error) = planner.graph.check()
    {
        planner.problem(Problem::new::<String>([], error.to_string()));
    }
    if planner.problems.is_empty() {
        Ok(planner.planned(letters))
    } else {
        Err(refused(descriptor, planner.problems))
    }
}

/// Mistakes that are told one by one, at most.
const MISTAKES_MAX: usize = 100;

fn refused(descriptor: &Descriptor, problems: Vec<Problem>) -> Refused {
    let more = problems.len().saturating_sub(MISTAKES_MAX);
    let told = problems.into_iter().take(MISTAKES_MAX).map(|problem| descriptor.locate(problem));
    let mut told: Vec<_> = told.collect();
    if more > 0 {
        let rest = Problem::new::<String>([], format!("there are {more} more mistakes"));
        told.push(descriptor.locate(rest));
    }
    Refused(told)
}

/// An output of a stage of the graph.
#[derive(Clone, Debug)]
struct Outlet {
    stage: StageIx,
    output: usize,
}

/// The outputs behind a name, all with one schema; they are read together.
#[derive(Clone, Debug)]
struct Outlets {
    outlets: Vec<Outlet>,
    schema: SchemaRef,
}

struct Planner<'a> {
    spec: &'a JobSpec,
    options: &'a PlanOptions,
    world: &'a World,
    registry: &'a Registry,
    streams: validation::StreamAccess,
    graph: JobGraph,
    warnings: Vec<String>,
    /// The outputs behind each name. A name that could not be planned is missing: its readers
    /// are left out too, and only the first problem is reported.
    names: IndexMap<String, Outlets>,
    /// Stages that are known not to share their windows, or were planned with those they do.
    apart: BTreeSet<String>,
    /// Sources in whose files no columns were found, with the paths of these in the job.
    columnless: Vec<(String, String)>,
    previews: Vec<Preview>,
    problems: Vec<Problem>,
}

impl<'a> Planner<'a> {
    fn new(
        spec: &'a JobSpec,
        options: &'a PlanOptions,
        world: &'a World,
        registry: &'a Registry,
    ) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let mut graph = JobGraph::new(&spec.name);
        graph.delivery = spec.delivery;
        graph.cycle = spec.cycle;
        graph.buffer = spec.buffer;
        graph.state_budget = spec.state.budget;
        graph.compression = spec.compression;
        graph.workers = options.threads.or(spec.parallelism).unwrap_or_else(cores);
        // The same job draws the same random numbers in every run.
        graph.seed = tidemill_flow::partition::hash_bytes(spec.name.as_bytes());
        let (names, previews, problems) = (IndexMap::new(), Vec::new(), Vec::new());
        let streams = validation::StreamAccess::Opened;
        let apart = BTreeSet::new();
        let columnless = Vec::new();
        Self {
            spec,
            options,
            world,
            registry,
            streams,
            graph,
            warnings: Vec::new(),
            names,
            apart,
            columnless,
            previews,
            problems,
        }
    }

    /// Adds all stages; returns the view of dead letters.
    fn all(&mut self) -> Preview {
        self.files();
        self.sources();
        let of_sources = self.problems.len();
        for name in check::order(self.spec) {
            self.stage(name, &self.spec.stages[name]);
        }
        self.sinks();
        self.blame_empty_files(of_sources);
        self.dead_letters()
    }

    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn path(&self, path: &str) -> PathBuf {
        self.options.base_dir.join(Path::new(path))
    }

    fn sources(&mut self) {
        let (streamed, reached) = (check::streamed(self.spec), check::reached(self.spec));
        for (name, source) in &self.spec.sources {
            let factory = match (&source.file, self.registry.source(name)) {
                (_, Some(source)) => {
                    if let Err(problem) = program_calls::asked_source(name, &**source) {
                        self.problem(problem);
                        continue;
                    }
                    source.clone()
                }
                (Some(file), None) => {
                    let path = self.path(&file.path);
                    match FileSource::new(self.world, &path, file, source.time.as_ref()) {
                        Ok(factory) => {
                            // A batch of columns is large, and its times have a type.
                            let is_of_lines = matches!(file.format, Format::Csv | Format::Json);
                            if is_of_lines && source.time.is_some() {
                                self.look_at_times(name, &*factory);
                            }
                            if empty_files::shows_no_columns(source, &*factory) {
                                self.columnless.push((name.clone(), file.path.clone()));
                            }
                            factory
                        }
                        Err(error) => {
                            let problem = operators::source_problem(name, &error);
                            self.problem(problem);
                            continue;
                        }
                    }
                }
                (None, None) => match self.record_source(name, source) {
                    Ok(Some(source)) => source,
                    Ok(None) => continue,
                    Err(problem) => {
                        self.problem(problem);
                        continue;
                    }
                },
            };
            let schema = factory.schema();
            let is_read = reached.contains(&name.as_str());
            if !is_read {
                self.warnings.push(format!(
                    "no sink takes what comes of the source `{name}`, but perhaps its dead letters"
                ));
            }
            // What has no end cannot be read to its end first.
            let preload = is_read && !streamed.contains(&name.as_str()) && !factory.live();
            let stage = self.graph.add(name, StageKind::Source { factory, preload });
            self.name(name, stage, 0, schema);
        }
    }

    /// Warns of an event time that is probably not meant; the job can run all the same.
    fn look_at_times(&mut self, name: &str, source: &dyn SourceFactory) {
        if let Some(doubt) = sampled_times::doubt(source) {
            self.warnings.push(format!("source `{name}`: {doubt}"));
        }
    }

    fn planned(self, letters: Preview) -> Planned {
        let Self { graph, previews, warnings, .. } = self;
        Planned { graph, previews, letters, warnings }
    }

    /// The folder for notes of sources and sinks, if the job can resume.
    fn notes(&self) -> Option<&PathBuf> {
        // Without a ledger nothing is looked for when the job starts again.
        self.options.data.as_ref().filter(|_| self.spec.goes_on())
    }

    /// A stream of the node's log or a topic; none if the source names none, which was said before.
    fn record_source(
        &self,
        name: &str,
        source: &SourceSpec,
    ) -> Result<Option<Arc<dyn SourceFactory>>, Problem> {
        if let Some(kafka) = &source.kafka {
            return self.kafka_source(name, source, kafka).map(Some);
        }
        let (Some(stream), Some(format)) = (&source.stream, source.format) else {
            return Ok(None);
        };
        let place = ["sources", name, "stream"];
        let spec = RecordSourceSpec {
            format,
            schema: source.schema.clone(),
            sample: source.sample,
            start: source.start.clone().unwrap_or_default(),
            until: source.until.unwrap_or_default(),
            isolation: source.isolation.unwrap_or_default(),
            meta: source.meta.clone().unwrap_or_default(),
            time: source.time.clone(),
            note: self.note(name),
            resume: self.options.resume,
            from_checkpoint: self.options.from_checkpoint,
        };
        if self.streams != validation::StreamAccess::Opened {
            let declared = DeclaredStream::new(stream, &spec)
                .map_err(|error| operators::stream_problem(name, &error))?;
            let known = self.streams == validation::StreamAccess::Declared
                || !DeclaredStream::may_have_more(&spec);
            return Ok(declared.filter(|_| known));
        }
        let Some(streams) = &self.options.streams else { return Err(no_log(place)) };
        let node = streams.node();
        match RecordSource::of_stream(self.world, streams.log(), node.as_ref(), stream, spec) {
            Ok(source) => Ok(Some(source)),
            Err(error) => Err(operators::stream_problem(name, &error)),
        }
    }

    /// The file in which a source notes its input as the job began.
    fn note(&self, source: &str) -> Option<PathBuf> {
        self.notes().map(|folder| folder.join(format!("source-{source}.json")))
    }

    /// A topic of another cluster.
    fn kafka_source(
        &self,
        name: &str,
        source: &SourceSpec,
        kafka: &KafkaSourceSpec,
    ) -> Result<Arc<dyn SourceFactory>, Problem> {
        let spec = RecordSourceSpec {
            format: kafka.format,
            schema: kafka.schema.clone(),
            sample: kafka.sample,
            start: kafka.start.clone().unwrap_or_default(),
            until: kafka.until.unwrap_or_default(),
            isolation: kafka.isolation.unwrap_or_default(),
            meta: kafka.meta.clone().unwrap_or_default(),
            time: source.time.clone(),
            note: self.note(name),
            resume: self.options.resume,
            from_checkpoint: self.options.from_checkpoint,
        };
        RecordSource::of_topic(self.world, &kafka.brokers, &kafka.topic, spec)
            .map_err(|error| operators::kafka_problem(name, &error))
    }

    fn name(&mut self, name: &str, stage: StageIx, output: usize, schema: SchemaRef) {
        let outlets = vec![Outlet { stage, output }];
        self.names.insert(name.to_owned(), Outlets { outlets, schema });
    }

    fn link(&mut self, from: &Outlets, to: StageIx, port: usize, partition: &Partition) {
        for outlet in &from.outlets {
            self.graph.links.push(Link {
                from: outlet.stage,
                output: outlet.output,
                to,
                port,
                partition: partition.clone(),
            });
        }
    }

    /// The outputs behind a list of names; none if one of them is not there or they do not agree.
    fn union(&mut self, names: &[String], path: &[&str]) -> Option<Outlets> {
        let (first, others) = names.split_first()?;
        let mut union = self.names.get(first)?.clone();
        for (number, name) in others.iter().enumerate() {
            let other = self.names.get(name)?.clone();
            if let Some(message) = difference(first, &union.schema, name, &other.schema) {
                let number = (number + 1).to_string();
                let path = path.iter().copied().chain([number.as_str()]);
                let expected = "the same columns with the same types, such as by `select`";
                self.problem(Problem::new(path, message).expected(expected));
                return None;
            }
            union.schema = with_nulls_of(&union.schema, &other.schema);
            union.outlets.extend(other.outlets);
        }
        Some(union)
    }
}

/// A schema whose columns may be null where those of either may.
fn with_nulls_of(schema: &SchemaRef, other: &SchemaRef) -> SchemaRef {
    let both = schema.fields().iter().zip(other.fields());
    let fields = both.map(|(it, other)| match other.is_nullable() && !it.is_nullable() {
        true => Arc::new(it.as_ref().clone().with_nullable(true)),
        false => Arc::clone(it),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone()))
}

/// A stream where there is no log.
pub(super) fn no_log<'a>(path: impl IntoIterator<Item = &'a str>) -> Problem {
    let message = "a stream is in a node's log, and there is none here";
    Problem::new(path, message).expected(
        "`tidemill job submit` to a node that serves, or `tidemill run --data` with a node's folder",
    )
}

/// The difference of two schemas, in words; none if they are equal.
fn difference(a: &str, a_schema: &SchemaRef, b: &str, b_schema: &SchemaRef) -> Option<String> {
    let names = |schema: &SchemaRef| -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    let (a_names, b_names) = (names(a_schema), names(b_schema));
    if a_names != b_names {
        let missing = |here: &[String], there: &[String]| -> Option<String> {
            here.iter().find(|name| !there.contains(name)).cloned()
        };
        let lacks = |name: &str, column: &str| match column {
            tidemill_flow::TIME_COLUMN => format!("`{name}` has no event time"),
            column => format!("`{name}` has no column `{column}`"),
        };
        return Some(match (missing(&a_names, &b_names), missing(&b_names, &a_names)) {
            (Some(column), _) => format!("`{a}` and `{b}` differ: {}", lacks(b, &column)),
            (None, Some(column)) => format!("`{a}` and `{b}` differ: {}", lacks(a, &column)),
            (None, None) => format!("`{a}` and `{b}` have the same columns in another order"),
        });
    }
    let mut types = a_schema.fields().iter().zip(b_schema.fields());
    types.find(|(a, b)| a.data_type() != b.data_type()).map(|(left, right)| {
        format!(
            "`{a}` and `{b}` differ: the column `{}` is {} in one and {} in the other",
            left.name(),
            left.data_type(),
            right.data_type()
        )
    })
}
