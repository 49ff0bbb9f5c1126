//! A job made from a seed: a graph of moderate size, of all that can hold a state.

mod at_least_once;
mod at_most_once;
mod bytes;
mod program;

use crate::{
    fault::PlantedFault,
    journal_sink::{JournalSink, SinkMemory},
    sim_source::{self, SimSource, SourceFeed},
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::{path::PathBuf, sync::Arc};
use tidemill_env::{Random, World};
use tidemill_flow::{JobGraph, Link, OperatorFactory, Partition, StageKind};
use tidemill_operators::{
    custom::{self, state::Map},
    dedup::dedup,
    join::join,
    top::top,
    transform::transform,
    window::{SharedStage, shared, windowed},
};
use tidemill_state::structure;
use tidemill_types::{
    ByteSize, SliceId, Span, StageIx,
    job::{
        CountWindow, CycleSpec, DEAD_LETTER, DedupSpec, Delivery, EmptySpec, Every, JoinKind,
        JoinSpec, Named, SlidingWindow, TopSpec, WindowSpec,
    },
};

/// A job. The operators are made once; each life gets a graph of its own.
pub(crate) struct SimJob {
    sources: Vec<SourceFeed>,
    /// By source: the slices that its lives have read.
    slices: Vec<sim_source::ReadSlices>,
    stages: Vec<SimStage>,
    /// Stages and outputs that a sink reads.
    read: Vec<(usize, usize)>,
    /// Of the first sink; all others are files.
    pub(crate) memory: SinkMemory,
    /// Of an `at-most-once` job: the kind of rows of each sink.
    told: Vec<at_most_once::SinkRows>,
    /// Of an `at-least-once` job: the committed positions of its sources.
    followed: Vec<sim_source::CommittedOffsets>,
    delivery: Delivery,
    /// Its first source is read before the others.
    preloads: bool,
    /// Of such a job: records of a slice from one save of it to the next.
    save_records: u64,
    cycle_records: u64,
    cycle_us: i64,
    /// Bytes at which a link closes.
    credit: u64,
    syncs: bool,
}

struct SimStage {
    name: String,
    factory: Arc<dyn OperatorFactory>,
    slices: u32,
    /// The stages that are read, at which port and how: several at one port are a union.
    reads: Vec<StageInput>,
}

/// A link of a stage, by the stage at its other end.
#[derive(Clone, Debug)]
struct StageInput {
    stage: usize,
    port: usize,
    how: Partition,
}

/// Rows of one shape that a stage writes: `key` and `value` are among the columns.
struct SimStream {
    stage: usize,
    schema: SchemaRef,
    is_read: bool,
}

fn named(items: &[(&str, &str)]) -> Named<String> {
    items.iter().map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect()
}

fn span(random: &mut Random) -> Span {
    Span(1 + random.below(60_000) as i64)
}

fn window(random: &mut Random) -> WindowSpec {
    match random.below(5) {
        0 => WindowSpec::Tumbling(span(random)),
        1 => {
            let every = Span(1_000 + random.below(10_000) as i64);
            WindowSpec::Sliding(SlidingWindow { size: Span(every.0 * 3), every })
        }
        2 => WindowSpec::Session(Span(1_000 + random.below(20_000) as i64)),
        3 => {
            let every = 1 + random.below(4);
            WindowSpec::Count(CountWindow { size: every * 2, every })
        }
        _ => WindowSpec::Global(EmptySpec {}),
    }
}

/// The operator of a stage with one input: its name, its factory, and the partition of its input.
fn operator(
    random: &mut Random,
    input: &SchemaRef,
    live: bool,
) -> (&'static str, Arc<dyn OperatorFactory>, Partition) {
    let fits = "a stage that fits its input";
    let key = input.index_of("key").expect("every stream has it");
    let by_key = Partition::Key(vec![key]);
    match random.below(8) {
        0 => {
            let select = named(&[("key", "key"), ("value", "value + 1")]);
            let made = transform(input, None, Some("value % 5 <> 0"), Some(&select));
            let how = match random.below(4) {
                0 => Partition::Random,
                1 => Partition::All,
                _ => Partition::Local,
            };
            ("filter", made.expect(fits), how)
        }
        1 => {
            let calls =
                named(&[("value", "sum(value)"), ("n", "count(*)"), ("last", "last(value)")]);
            let made = windowed(input, &["key".to_owned()], Some(&window(random)), &calls);
            ("window", made.expect(fits), by_key)
        }
        2 => {
            let sums = named(&[("value", "sum(value)"), ("n", "count(*)")]);
            let means = named(&[("n", "count(*)"), ("mean", "avg(value)")]);
            let every = 1_000 + random.below(10_000) as i64;
            let long = SlidingWindow { size: Span(every * 3), every: Span(every) };
            let (short, long) = (WindowSpec::Tumbling(Span(every)), WindowSpec::Sliding(long));
            let stages = [
                SharedStage { name: "short", window: &short, aggregate: &sums },
                SharedStage { name: "long", window: &long, aggregate: &means },
            ];
            let made = shared(input, &["key".to_owned()], &stages);
            ("short+long", made.expect(fits), by_key)
        }
        3 => {
            let within = (random.below(2) == 0).then(|| span(random));
            let on = vec!["key".to_owned(), "value".to_owned()];
            ("dedup", dedup(input, &DedupSpec { on, within }).expect(fits), by_key)
        }
        4 => {
            let is_windowed = input.index_of("window_start").is_ok();
            let per = if is_windowed { "window_start" } else { "key" };
            let (by, per) = ("value".to_owned(), vec![per.to_owned()]);
            let spec = TopSpec { k: 1 + random.below(3) as usize, by, ascending: false, per };
            let made = top(input, &spec).expect(fits);
            ("top", made.factory, made.partition)
        }
        5 => {
            let how = if random.below(2) == 0 { Partition::Random } else { by_key };
            let (name, factory, _) = sums(live);
            (name, factory, how)
        }
        6 => ("latest", program::latest(), by_key),
        _ => ("held", program::held(), by_key),
    }
}

/// The sum of a key with each of its records, in a state of its own kind, and all that the function
/// is told of clocks and randomness. Of a job whose cycles another run has too, but at another time,
/// the time is left out.
fn sums(live: bool) -> (&'static str, Arc<dyn OperatorFactory>, Partition) {
    let number = |name| Field::new(name, DataType::Int64, true);
    let names = ["key", "value", "random", "cycle_time"];
    let sums = custom::keyed_record(
        custom::with_time(&Schema::new(names.map(number).to_vec())),
        Map::<i64, i64>::default,
        move |sums, record, emit, info| {
            let key = record.i64("key")?.unwrap_or_default();
            let value = record.i64("value")?.unwrap_or_default();
            let sum = sums.get_or_default(key);
            *sum += value;
            let sum = *sum;
            emit.row(|row| {
                row.put(key).put(sum).put(info.random(0).cast_signed());
                row.put(if live { info.cycle_time.0 } else { 0 });
            })
        },
    );
    ("sums", Arc::new(sums), Partition::Key(vec![0]))
}

impl SimJob {
    /// A job with sources alone, and the random numbers for byte records.
    fn with_sources(random: &mut Random) -> (Self, Random) {
        let mut aside = bytes::aside(random);
        let mut sources: Vec<SourceFeed> = (0..1 + random.below(2))
            .map(|_| {
                let live = random.below(3) == 0;
                SourceFeed::of(random, live)
            })
            .collect();
        sources.extend(bytes::source(&mut aside));
        let preloads = sources[0].every_us.is_none() && random.below(3) == 0;
        let job = Self {
            preloads,
            slices: sources.iter().map(sim_source::ReadSlices::of).collect(),
            stages: Vec::new(),
            read: Vec::new(),
            memory: SinkMemory::Whole,
            told: Vec::new(),
            followed: Vec::new(),
            delivery: Delivery::ExactlyOnce,
            save_records: 1 + random.below(64),
            cycle_records: 2 + random.next() % (2 << random.below(5)),
            cycle_us: 1 << (8 + random.below(8)),
            credit: 1 << (8 + random.below(10)),
            syncs: random.below(2) == 0,
            sources,
        };
        (job, aside)
    }

    pub(crate) fn of(random: &mut Random) -> Self {
        let (mut job, mut aside) = Self::with_sources(random);
        job.memory = match random.below(16) {
            0 => SinkMemory::BeginsAnew,
            1 | 2 => SinkMemory::None,
            _ => SinkMemory::Whole,
        };
        let of_columns = job.sources.iter().filter(|it| !it.is_bytes).enumerate();
        let mut streams: Vec<SimStream> = of_columns
            .map(|(stage, _)| SimStream { stage, schema: sim_source::schema(), is_read: false })
            .collect();
        if streams.len() == 2 && random.below(2) == 0 {
            job.join(random, &mut streams);
        }
        for _ in 0..1 + random.below(3) {
            job.stage(random, &mut streams);
        }
        job.add_bytes(&mut aside, &mut streams);
        job.read.extend(streams.iter().filter(|it| !it.is_read).map(|it| (it.stage, 0)));
        for (at, stage) in job.stages.iter().enumerate() {
            let others = 1..stage.factory.outputs().len();
            job.read.extend(others.map(|output| (job.sources.len() + at, output)));
        }
        job
    }

    fn join(&mut self, random: &mut Random, streams: &mut Vec<SimStream>) {
        let (left, right) = (0, 1);
        let kind = if random.below(2) == 0 { JoinKind::Inner } else { JoinKind::Left };
        let spec = JoinSpec {
            left: "left".to_owned(),
            right: Some("right".to_owned()),
            table: None,
            on: vec!["key".to_owned()],
            within: Some(Span(1 + random.below(8_000) as i64)),
            kind,
        };
        let made = join(&streams[left].schema, &streams[right].schema, &spec);
        let made = made.expect("two streams that have the key");
        let reads = vec![
            StageInput { stage: streams[left].stage, port: 0, how: Partition::Key(made.left_keys) },
            StageInput {
                stage: streams[right].stage,
                port: 1,
                how: Partition::Key(made.right_keys),
            },
        ];
        (streams[left].is_read, streams[right].is_read) = (true, true);
        self.add("join", made.factory, random, reads, streams);
    }

    fn stage(&mut self, random: &mut Random, streams: &mut Vec<SimStream>) {
        let read = random.below(streams.len() as u64) as usize;
        let live = self.is_live();
        let schema = Arc::clone(&streams[read].schema);
        let (name, factory, how) = operator(random, &schema, live);
        let mut reads = Vec::new();
        for (at, stream) in streams.iter_mut().enumerate() {
            // What has the same columns can be read as one.
            let joins = at != read && stream.schema == schema && how != Partition::Local;
            if at == read || (joins && random.below(2) == 0) {
                stream.is_read = true;
                reads.push(StageInput { stage: stream.stage, port: 0, how: how.clone() });
            }
        }
        self.add(name, factory, random, reads, streams);
    }

    fn add(
        &mut self,
        name: &str,
        factory: Arc<dyn OperatorFactory>,
        random: &mut Random,
        reads: Vec<StageInput>,
        streams: &mut Vec<SimStream>,
    ) {
        let schema = Arc::clone(&factory.outputs()[0]);
        let stage = self.sources.len() + self.stages.len();
        let local = reads.iter().any(|it| it.how == Partition::Local);
        let slices = if local { 0 } else { 1 + random.below(8) as u32 };
        self.stages.push(SimStage { name: format!("{name}{stage}"), factory, slices, reads });
        streams.push(SimStream { stage, schema, is_read: false });
    }

    /// Its sources.
    pub(crate) fn feeds(&self) -> &[SourceFeed] {
        &self.sources
    }

    /// The number of sources that got slices while a life ran.
    pub(crate) fn grown(&self) -> u64 {
        self.slices.iter().filter(|it| it.came()).count() as u64
    }

    /// Returns true if its cycles end by time, so that another run has other cycles.
    pub(crate) fn is_live(&self) -> bool {
        self.sources.iter().any(|it| it.every_us.is_some())
    }

    /// Returns true if the job is `at-most-once`.
    pub(crate) fn may_lose(&self) -> bool {
        self.delivery == Delivery::AtMostOnce
    }

    /// When it is saved, if that is so often in time.
    pub(crate) fn every(&self, time: Span) -> Every {
        let records = self.may_lose().then_some(self.save_records);
        Every::Bounds { time: Some(time), records }
    }

    /// Returns true if the job keeps no ledger: each life begins at the committed positions of its
    /// sources, with sinks of its own.
    pub(crate) fn begins_anew(&self) -> bool {
        self.delivery == Delivery::AtLeastOnce
    }

    /// The files of its sinks in a life, with that of the dead letters.
    pub(crate) fn files(&self, life: u64) -> Vec<PathBuf> {
        let folder = if self.begins_anew() { format!("/out/{life}-") } else { "/out/".to_owned() };
        let numbers = (0..self.read.len()).map(|it| it.to_string());
        let names = numbers.chain(["letters".to_owned()]);
        names.map(|name| PathBuf::from(format!("{folder}{name}"))).collect()
    }

    /// The number of its operators.
    pub(crate) fn stage_count(&self) -> usize {
        self.stages.len()
    }

    /// The names of its sinks, with that of the dead letters.
    pub(crate) fn sinks(&self) -> Vec<String> {
        let names = self.read.iter().map(|(from, output)| format!("sink{from}.{output}"));
        names.chain([DEAD_LETTER.to_owned()]).collect()
    }

    /// In words.
    pub(crate) fn describe(&self) -> String {
        let stage = |it: &SimStage| {
            let reads = it.reads.iter().map(|it| format!("{} by {:?}", it.stage, it.how));
            format!("{} × {} of {}", it.name, it.slices, reads.collect::<Vec<_>>().join(" and "))
        };
        let preloads = if self.preloads { ", the first before the others" } else { "" };
        let stages = self.stages.iter().map(stage).collect::<Vec<_>>().join("; ");
        format!(
            "sources {:?}{preloads}; {stages}; sinks of {:?}, the first with the memory {:?}; cycles of {} records or {} us, links of {} bytes",
            self.sources, self.read, self.memory, self.cycle_records, self.cycle_us, self.credit
        )
    }

    /// A graph for one life, with its planted fault.
    pub(crate) fn graph(
        &self,
        world: &World,
        life: u64,
        workers: usize,
        planted: &PlantedFault,
    ) -> JobGraph {
        let mut graph = JobGraph::new("simulated");
        (graph.workers, graph.seed, graph.delivery) = (workers, 7, self.delivery);
        graph.state_budget = planted.budget();
        graph.cycle = CycleSpec {
            time: Span(self.cycle_us),
            records: self.cycle_records,
            ..CycleSpec::default()
        };
        graph.buffer.bytes = ByteSize(self.credit.min(4 << 10));
        graph.buffer.high_watermark = ByteSize(self.credit);
        graph.buffer.low_watermark = ByteSize(self.credit / 2);
        for (at, feed) in self.sources.iter().enumerate() {
            let (clock, told) = (Arc::clone(&world.clock), self.followed.get(at).cloned());
            let name = format!("source{at}");
            let fault = planted.of_source(at, &name);
            let slices = self.slices[at].of_life(feed);
            let factory = Arc::new(SimSource { feed: *feed, slices, clock, told, fault });
            let preload = self.preloads && at == 0;
            graph.add(name, StageKind::Source { factory, preload });
        }
        for (nth, stage) in self.stages.iter().enumerate() {
            let factory = planted.stage(nth, &stage.name, &stage.factory);
            let slices = stage.slices;
            // In half of them keys leave memory, so often that they do in so short a life.
            let expires = structure::can_expire(&mut *factory.state(SliceId(0))) && slices % 2 == 1;
            let to = graph.add(stage.name.clone(), StageKind::Operator { factory, slices });
            graph[to].ttl = expires.then_some(Span(self.cycle_us));
            for StageInput { stage: from, port, how } in stage.reads.clone() {
                let (from, partition) = (StageIx::at(from), how);
                graph.links.push(Link { from, output: 0, to, port, partition });
            }
        }
        let names = self.sinks();
        let mut sinks = self.files(life).into_iter().enumerate().map(|(nth, path)| {
            let memory = if nth == 0 { self.memory } else { SinkMemory::Whole };
            let fault = planted.of_sink(nth, &names[nth]);
            Box::new(JournalSink::new(world, path, self.syncs, memory).failing(fault))
        });
        for (((from, output), name), sink) in self.read.iter().zip(&names).zip(sinks.by_ref()) {
            let to = graph.add(name.clone(), StageKind::Sink { sink });
            let (from, output) = (StageIx::at(*from), *output);
            graph.links.push(Link { from, output, to, port: 0, partition: Partition::One });
        }
        graph.dead_letter = Some(sinks.next().expect("the letters are last"));
        graph
    }
}
