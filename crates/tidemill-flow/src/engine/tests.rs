//! Whole jobs on real threads: order, determinism, change of threads, failure, replay.

use super::*;
use crate::block::{Block, Payload};
use crate::operator::{
    Context, CycleInput, DeadLetter, Operator, OperatorError, OperatorFactory, Output, SliceState,
};
use crate::partition::Partition;
use crate::sink::{Sink, SinkError};
use crate::snapshot::{StateAt, StateTable, TakeRows};
use crate::source::{Position, Read, ReadRequest, Source, SourceError, SourceFactory};
use arrow_array::{Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use tidemill_env::{Disk, Random, SimPace, Simulation};
use tidemill_state::Map;
use tidemill_types::{CheckpointNumber, Micros, ProcessIx, SliceId, SliceKey, Span, StageIx};
use tidemill_wire::{journal, ledger::LedgerEntry};

mod bad_records;
mod budget;
mod checkpoint_fit;
mod checkpoints;
mod clocks;
mod commit_followers;
mod ends;
mod error_kinds;
mod event_time;
mod expiry;
mod factory_panics;
mod full_disk;
mod growth;
mod job_changes;
mod lives;
mod new_life;
mod passed_blocks;
mod read_ahead;
mod recovery;
mod rescale;
mod seek;
mod server;
mod snapshots;
mod uncoordinated;

fn schema(names: &[&str]) -> SchemaRef {
    let field = |name: &&str| Field::new(*name, DataType::Int64, false);
    Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
}

fn batch(names: &[&str], columns: Vec<Vec<i64>>) -> RecordBatch {
    let columns = columns.into_iter().map(|it| Arc::new(Int64Array::from(it)) as _).collect();
    RecordBatch::try_new(schema(names), columns).expect("columns of the schema")
}

/// Numbers from 0 to `count`, with the key `number % keys`.
struct Numbers {
    count: i64,
    keys: i64,
    live: bool,
}

struct NumbersSlice {
    next: i64,
    count: i64,
    keys: i64,
}

impl SourceFactory for Numbers {
    fn schema(&self) -> SchemaRef {
        schema(&["key", "number"])
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(NumbersSlice { next: 0, count: self.count, keys: self.keys }))
    }
    fn live(&self) -> bool {
        self.live
    }
}

impl Source for NumbersSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        _: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let most = i64::try_from(request.records.min(request.bytes / 8).max(1)).expect("small");
        let until = request.until.map_or(self.count, |until| until.0 as i64);
        let end = (self.next + most.min(500)).min(until).min(self.count);
        if self.next == end {
            return Ok(Read::End);
        }
        let numbers: Vec<i64> = (self.next..end).collect();
        self.next = end;
        let keys = numbers.iter().map(|number| number % self.keys).collect();
        let bytes = numbers.len() * 8;
        let payload = Payload::Arrow(batch(&["key", "number"], vec![keys, numbers]));
        Ok(Read::Rows { payload, bytes })
    }
    fn position(&self) -> Position {
        Position(self.next as u64)
    }
    fn watermark(&self) -> Micros {
        Micros(self.next)
    }
}

/// Writes each number with the sum so far of its key; panics at `poison`.
struct RunningSum {
    poison: Option<i64>,
}

struct RunningSumLane {
    poison: Option<i64>,
}

impl OperatorFactory for RunningSum {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![schema(&["key", "sum"])]
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(RunningSumLane { poison: self.poison })
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(Map::<i64, i64>::default())
    }
    fn tables(&self) -> Vec<StateTable> {
        vec![StateTable::only(schema(&["key", "sum"]))]
    }
    fn rows(
        &self,
        _: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let sums: &Map<i64, i64> = at.of();
        let (keys, sums) = sums.iter().unzip();
        let _last = take(batch(&["key", "sum"], vec![keys, sums]));
        Ok(())
    }
}

impl Operator for RunningSumLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let (mut keys, mut sums) = (Vec::new(), Vec::new());
        for slice in context.slices.clone().map(SliceId) {
            for block in input.port(0) {
                let rows = block.batch();
                let key = rows.column(0).as_primitive::<Int64Type>();
                let number = rows.column(1).as_primitive::<Int64Type>();
                block.rows_of(slice).for_each(|row| {
                    context.at(slice, row);
                    assert!(Some(number.value(row)) != self.poison, "a poisoned record");
                    let state: &mut Map<i64, i64> = context.state(slice);
                    let sum = state.get_or_default(key.value(row));
                    *sum += number.value(row);
                    keys.push(key.value(row));
                    sums.push(*sum);
                });
            }
        }
        output.emit(batch(&["key", "sum"], vec![keys, sums]));
        Ok(())
    }
}

/// A stage without a state, which does this in each cycle.
struct Plain {
    columns: [&'static str; 2],
    does: fn(&Context<'_>, &CycleInput, &mut Output),
}

struct PlainLane(fn(&Context<'_>, &CycleInput, &mut Output));

impl OperatorFactory for Plain {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![schema(&self.columns)]
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(PlainLane(self.does))
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

impl Operator for PlainLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        (self.0)(context, input, output);
        Ok(())
    }
}

type Rows = Arc<Mutex<Vec<(u64, i64, i64)>>>;

/// Keeps what was committed, and can be opened again.
#[derive(Clone, Default)]
struct Collect {
    committed: Rows,
    pending: Rows,
    last: Arc<AtomicU64>,
    /// The last cycle when it was opened.
    held: u64,
}

impl Sink for Collect {
    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        self.pending.lock().expect("held briefly").clear();
        if !resume {
            self.committed.lock().expect("held briefly").clear();
            self.last.store(0, Ordering::SeqCst);
        }
        self.held = self.last.load(Ordering::SeqCst);
        Ok(Cycle(self.held))
    }
    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let mut pending = self.pending.lock().expect("held briefly");
        for block in blocks {
            let rows = block.batch();
            let a = rows.column(0).as_primitive::<Int64Type>().values();
            let b = rows.column(1).as_primitive::<Int64Type>().values();
            pending.extend(a.iter().zip(b).map(|(a, b)| (cycle.0, *a, *b)));
        }
        Ok(())
    }
    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        let mut pending = self.pending.lock().expect("held briefly");
        let mut committed = self.committed.lock().expect("held briefly");
        let due = pending.partition_point(|(it, _, _)| *it <= cycle.0);
        committed.extend(pending.drain(..due));
        assert!(self.held < cycle.0, "cycle {cycle} was held already");
        self.last.store(cycle.0, Ordering::SeqCst);
        Ok(())
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

struct Setup {
    count: i64,
    workers: usize,
    poison: Option<i64>,
    live: bool,
}

const SETUP: Setup = Setup { count: 20_000, workers: 2, poison: None, live: false };

fn graph(setup: &Setup, sink: &Collect) -> JobGraph {
    let mut graph = JobGraph::new("sums");
    graph.workers = setup.workers;
    graph.cycle.records = 1_000;
    let factory = Arc::new(Numbers { count: setup.count, keys: 97, live: setup.live });
    let source = graph.add("numbers", StageKind::Source { factory, preload: false });
    let factory = Arc::new(RunningSum { poison: setup.poison });
    let first = graph.add("first", StageKind::Operator { factory, slices: 16 });
    let factory = Arc::new(RunningSum { poison: None });
    let second = graph.add("second", StageKind::Operator { factory, slices: 7 });
    let out = graph.add("out", StageKind::Sink { sink: Box::new(sink.clone()) });
    graph.link(source, first, Partition::Key(vec![0]));
    graph.link(first, second, Partition::Key(vec![0]));
    graph.link(second, out, Partition::One);
    graph
}

fn rows(sink: &Collect) -> Vec<(u64, i64, i64)> {
    sink.committed.lock().expect("held briefly").clone()
}

fn run(setup: &Setup) -> Vec<(u64, i64, i64)> {
    let sink = Collect::default();
    let handle = start(graph(setup, &sink), &World::real(), &RunOptions::default());
    let handle = handle.expect("it starts");
    let progress = handle.wait().expect("it ends well");
    assert!(progress.finished);
    assert_eq!(progress.sources[0].records, setup.count as u64);
    for link in &handle.job.plan.links {
        assert_eq!(link.credit.waiting_bytes(), 0, "what was put on a link was taken off it");
    }
    rows(&sink)
}

/// What the job should write: sums of sums, by key.
fn expected(count: i64) -> BTreeMap<i64, Vec<i64>> {
    let (mut first, mut second) = (BTreeMap::new(), BTreeMap::new());
    let mut out: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for number in 0..count {
        let key = number % 97;
        *first.entry(key).or_insert(0) += number;
        *second.entry(key).or_insert(0) += first[&key];
        out.entry(key).or_default().push(second[&key]);
    }
    out
}

fn by_key(rows: &[(u64, i64, i64)]) -> BTreeMap<i64, Vec<i64>> {
    let mut out: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    rows.iter().for_each(|(_, key, sum)| out.entry(*key).or_default().push(*sum));
    out
}

#[test]
fn every_record_counts_once_and_in_order() {
    assert_eq!(by_key(&run(&SETUP)), expected(SETUP.count));
}

#[test]
fn the_output_is_the_same_for_any_number_of_threads() {
    let one = run(&Setup { workers: 1, ..SETUP });
    for workers in [2, 3, 5, 16] {
        assert_eq!(run(&Setup { workers, ..SETUP }), one, "{workers} workers");
    }
}

#[test]
fn a_panic_names_stage_slice_cycle_and_record() {
    let sink = Collect::default();
    let setup = Setup { poison: Some(4_321), ..SETUP };
    let handle = start(graph(&setup, &sink), &World::real(), &RunOptions::default());
    let error = handle.expect("it starts").wait().expect_err("the record is poisoned");
    assert_eq!((error.part.as_str(), error.cycle, error.panicked), ("first", Cycle(5), true));
    assert!(error.slice.is_some() && error.row.is_some(), "{error}");
    assert!(error.message.contains("a poisoned record"), "{error}");
}

#[test]
fn a_sink_that_panics_as_it_commits_fails_the_job() {
    struct Panics;
    impl Sink for Panics {
        fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
            Ok(Cycle::NONE)
        }
        fn write(&mut self, _: Cycle, _: &[Arc<Block>]) -> Result<(), SinkError> {
            Ok(())
        }
        fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
            assert!(cycle < Cycle(3), "a sink that panics");
            Ok(())
        }
        fn close(&mut self) -> Result<(), SinkError> {
            Ok(())
        }
    }
    for with_ledger in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut graph = graph(&SETUP, &Collect::default());
        let stage = graph.stages.last_mut().expect("the sink");
        stage.kind = StageKind::Sink { sink: Box::new(Panics) };
        let data = with_ledger.then(|| folder.path().into());
        let options = RunOptions { data, ..RunOptions::default() };
        let handle = start(graph, &World::real(), &options).expect("it starts");
        let error = handle.wait().expect_err("it fails");
        assert_eq!(error.part, "out", "{error}");
        assert!(error.message.contains("a sink that panics"), "{error}");
    }
}

#[test]
fn a_stop_ends_at_a_cycle_boundary() {
    let sink = Collect::default();
    let setup = Setup { count: i64::MAX, ..SETUP };
    let handle = start(graph(&setup, &sink), &World::real(), &RunOptions::default());
    let handle = handle.expect("it starts");
    while handle.progress().cycle_committed.0 < 20 {
        std::thread::yield_now();
    }
    handle.stop();
    let progress = handle.wait().expect("it stops well");
    assert!(!progress.finished, "its source has not ended");
    let whole = progress.cycle_committed.0 as i64 * 1_000;
    assert_eq!(by_key(&rows(&sink)), expected(whole), "every begun cycle is whole");
}

#[test]
fn a_resumed_job_writes_each_cycle_once() {
    let world = World::real();
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { count: 60_000, ..SETUP };
    let undisturbed = run(&setup);
    let sink = Collect::default();
    let data = Some(folder.path().into());
    let options = RunOptions { data, resume: true, ..RunOptions::default() };
    let mut runs = 0;
    loop {
        runs += 1;
        let handle = start(graph(&setup, &sink), &world, &options).expect("it starts");
        let before = handle.progress().cycle_committed.0.max(sink.last.load(Ordering::SeqCst));
        while sink.last.load(Ordering::SeqCst) < before + 7 && !handle.is_over() {
            std::thread::yield_now();
        }
        if runs > 4 {
            handle.wait().expect("it ends well");
            break;
        }
        // As a crash would: nobody is asked, nothing is flushed. Of a process that died no thread
        // is left that could still write what it had begun.
        handle.job.end();
        handle.wait().expect("it did not fail");
    }
    assert_eq!(rows(&sink), undisturbed);
}

/// The disk fails at any operation of the ledger, and then the power does; seeds say which thread
/// goes on when, and how long the disk takes, so that every run of this test sees the same.
#[test]
fn a_sink_has_nothing_that_the_ledger_does_not_hold() {
    let mut committed = 0;
    for seed in 0..150 {
        let operations = seed % 30;
        let pace = SimPace::of(&mut Random::new(seed));
        let lived = Simulation { pace, ..Simulation::new(seed) }.run(move |sim| {
            let options = RunOptions { data: Some("/job".into()), ..RunOptions::default() };
            let sink = Collect::default();
            sim.disk.fail_after(operations);
            let setup = Setup { count: 9_000, ..SETUP };
            let handle = start(graph(&setup, &sink), &sim.process(), &options);
            let _failed_or_not = handle.map(|it| it.wait());
            sim.disk.power_cut();
            let ledger = sim.disk.read(Path::new("/job/ledger")).unwrap_or_default();
            let cycles =
                journal::read(&ledger).0.into_iter().filter_map(
                    |record| match LedgerEntry::decode(record).expect("it was written whole") {
                        LedgerEntry::Cycle { cycle, .. } => Some(cycle.0),
                        _ => None,
                    },
                );
            (cycles.max().unwrap_or(0), sink.last.load(Ordering::SeqCst))
        });
        let (held, last) = lived.expect("it ends").0.expect("it does not panic");
        assert!(last <= held, "seed {seed}: a sink has cycle {last}, the ledger {held}");
        committed = committed.max(last);
    }
    assert!(committed > 0, "some of them got that far");
}

#[test]
fn a_crash_before_the_first_cycle_leaves_nothing_of_the_job_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = Collect::default();
    let undisturbed = run(&Setup { count: 5_000, ..SETUP });
    let start = |resume, name: &str| {
        let data = Some(folder.path().join(name));
        let options = RunOptions { data, resume, ..RunOptions::default() };
        let graph = graph(&Setup { count: 5_000, ..SETUP }, &sink);
        let handle = start(graph, &World::real(), &options).expect("it starts");
        handle.wait().expect("it ends well");
    };
    start(false, "before");
    // The new job has its ledger, and was killed before it opened its sinks.
    let ledger = std::fs::read(folder.path().join("before/ledger")).expect("it is there");
    let head = 8 + u32::from_le_bytes(ledger[..4].try_into().expect("four bytes")) as usize;
    std::fs::create_dir(folder.path().join("killed")).expect("room");
    std::fs::write(folder.path().join("killed/ledger"), &ledger[..head]).expect("room");
    start(true, "killed");
    assert_eq!(rows(&sink), undisturbed);
}

#[test]
fn a_ledger_of_another_job_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = Some(folder.path().into());
    let options = RunOptions { data, resume: true, ..RunOptions::default() };
    let sink = Collect::default();
    let handle = start(graph(&SETUP, &sink), &World::real(), &options).expect("it starts");
    handle.wait().expect("it ends well");
    let mut other = graph(&SETUP, &sink);
    other.name = "other".to_owned();
    let error = start(other, &World::real(), &options).err().expect("refused");
    assert!(error.to_string().contains("belongs to job `sums`, and not to `other`"), "{error}");
}

/// Runs the job of `graph` in two parts that speak over sockets: stage `first` elsewhere.
fn run_apart(setup: &Setup, change: impl Fn(&mut JobGraph) + Sync) -> Vec<(u64, i64, i64)> {
    let world = World::real();
    let port = world.net.listen("127.0.0.1:0").expect("a port").address().expect("an address");
    let sink = Collect::default();
    let addresses = vec![port, "127.0.0.1:0".to_owned()];
    let part = |me| {
        let mut graph = graph(setup, &sink);
        change(&mut graph);
        let processes = Processes {
            me: ProcessIx(me),
            addresses: addresses.clone(),
            of_stage: [0, 1].map(ProcessIx).to_vec(),
        };
        let options = RunOptions { processes, ..RunOptions::default() };
        start(graph, &World::real(), &options).expect("it starts").wait().expect("it ends well")
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| part(1));
        assert!(part(0).finished);
        assert!(other.join().expect("no panic").stages[0].rows_in > 0, "it ran over there");
    });
    rows(&sink)
}

#[test]
fn a_link_does_not_know_whether_its_other_end_is_local() {
    let here = run(&SETUP);
    assert_eq!(run_apart(&SETUP, |_| {}), here);
    let packed = |graph: &mut JobGraph| graph.compression = CompressionSpec::Always;
    assert_eq!(run_apart(&Setup { workers: 3, ..SETUP }, packed), here);
}

#[test]
fn a_lane_that_runs_ahead_cannot_starve_the_one_that_all_wait_for() {
    let sink = Collect::default();
    let mut graph = graph(&Setup { workers: 5, ..SETUP }, &sink);
    graph.buffer.high_watermark.0 = 1;
    graph.buffer.low_watermark.0 = 0;
    let handle = start(graph, &World::real(), &RunOptions::default()).expect("it starts");
    handle.wait().expect("it ends well");
    assert_eq!(rows(&sink), run(&SETUP));
}

#[test]
fn a_small_credit_slows_a_link_between_processes_and_never_stops_it() {
    let narrow = |graph: &mut JobGraph| {
        graph.buffer.high_watermark.0 = 1;
        graph.buffer.low_watermark.0 = 0;
    };
    assert_eq!(run_apart(&SETUP, narrow), run(&SETUP));
}

#[test]
fn a_stop_at_any_moment_leaves_whole_cycles() {
    for pause in 0..30 {
        let sink = Collect::default();
        let setup = Setup { count: i64::MAX, ..SETUP };
        let handle = start(graph(&setup, &sink), &World::real(), &RunOptions::default());
        let handle = handle.expect("it starts");
        while handle.progress().cycle_committed.0 < 1 {
            std::thread::yield_now();
        }
        // Another moment of the cycle each time.
        (0..pause * 70).for_each(|_| std::hint::spin_loop());
        handle.stop();
        let progress = handle.wait().expect("it stops well");
        let whole = progress.cycle_committed.0 as i64 * 1_000;
        assert_eq!(by_key(&rows(&sink)), expected(whole), "every begun cycle is whole");
    }
}
