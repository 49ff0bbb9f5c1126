//! Looks at the states of jobs that run, and at those in their checkpoints.

use super::checkpoints::{killed_after, options, wait_for_checkpoints};
use super::*;
use crate::snapshot::{SLICE_COLUMN, SnapshotError, StageSnapshot};
use arrow_array::types::UInt32Type;
use std::{ops::ControlFlow, sync::mpsc};
use tidemill_types::job::Recovery;

/// Numbers of a cycle, and the keys that they have.
const PER_CYCLE: i64 = 1_000;
const KEYS: i64 = 97;

/// The sums by key, and the slice of each.
fn seen(look: &StageSnapshot) -> BTreeMap<i64, (i64, u32)> {
    let mut seen = BTreeMap::new();
    let taken = look.rows(0, &mut |batch| {
        let number = |column: usize| batch.column(column).as_primitive::<Int64Type>();
        let slice = batch.column_by_name(SLICE_COLUMN).expect("every table has it");
        let slice = slice.as_primitive::<UInt32Type>();
        for row in 0..batch.num_rows() {
            let there = (number(1).value(row), slice.value(row));
            assert!(seen.insert(number(0).value(row), there).is_none(), "a key is in one slice");
        }
        ControlFlow::Continue(())
    });
    taken.expect("it can be read");
    seen
}

/// What the stage `first` must hold at the end of a cycle.
fn model(cycle: Cycle, count: i64) -> BTreeMap<i64, i64> {
    let mut sums = BTreeMap::new();
    for number in 0..(cycle.0 as i64 * PER_CYCLE).min(count) {
        *sums.entry(number % KEYS).or_default() += number;
    }
    sums
}

fn sums(seen: &BTreeMap<i64, (i64, u32)>) -> BTreeMap<i64, i64> {
    seen.iter().map(|(key, (sum, _))| (*key, *sum)).collect()
}

#[test]
fn a_look_sees_all_slices_as_of_one_cycle_and_disturbs_nothing() {
    // One that ends before it was looked at often enough is followed by a longer one.
    let looks = (0..5).map(|longer| looks_of(300_000 << longer)).find(|looks| *looks > 2);
    assert!(looks.is_some(), "none was long enough");
}

/// How often a job could be looked at.
fn looks_of(count: i64) -> u32 {
    let setup = Setup { count, ..SETUP };
    let undisturbed = run(&setup);
    let (sink, mut looks, mut last) = (Collect::default(), 0, Cycle::NONE);
    let handle = start(graph(&setup, &sink), &World::real(), &RunOptions::default());
    let handle = handle.expect("it starts");
    let mut slices = BTreeMap::new();
    for threads in (1..4).cycle() {
        let look = match handle.look("first", 0) {
            Ok(look) => look,
            Err(SnapshotError::Ended(_)) => break,
            Err(error) => panic!("{error}"),
        };
        assert!(look.cycle >= last, "a later look sees no earlier cycle");
        last = look.cycle;
        let seen = seen(&look);
        assert_eq!(sums(&seen), model(look.cycle, setup.count), "cycle {}", look.cycle);
        for (key, (_, slice)) in seen {
            assert_eq!(*slices.entry(key).or_insert(slice), slice, "a key stays in its slice");
        }
        looks += 1;
        // Slices move to other lanes, also while somebody looks at them.
        let _refused = handle.rescale(threads);
    }
    handle.wait().expect("it ends well");
    assert!(rows(&sink) == undisturbed);
    assert!(matches!(handle.look("first", 0), Err(SnapshotError::Ended(_))));
    looks
}

/// Numbers of one cycle, and then nothing.
struct OneCycle(Numbers);

struct OneCycleSlice(Box<dyn Source>);

impl SourceFactory for OneCycle {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(OneCycleSlice(self.0.open(slice)?)))
    }
    fn live(&self) -> bool {
        true
    }
}

impl Source for OneCycleSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        match self.0.read(request, letters)? {
            Read::End => Ok(Read::Idle { until: None }),
            read => Ok(read),
        }
    }
    fn position(&self) -> Position {
        self.0.position()
    }
    fn watermark(&self) -> Micros {
        self.0.watermark()
    }
}

/// Running sums, of which the lane with the first slice waits until the test goes on.
struct SlowLane {
    go_on: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
    sums: Box<dyn Operator>,
}

struct Slow(Arc<Mutex<Option<mpsc::Receiver<()>>>>);

impl OperatorFactory for Slow {
    fn outputs(&self) -> Vec<SchemaRef> {
        RunningSum { poison: None }.outputs()
    }
    fn operator(&self) -> Box<dyn Operator> {
        let sums = RunningSum { poison: None }.operator();
        Box::new(SlowLane { go_on: Arc::clone(&self.0), sums })
    }
    fn state(&self, slice: SliceId) -> SliceState {
        RunningSum { poison: None }.state(slice)
    }
    fn tables(&self) -> Vec<StateTable> {
        RunningSum { poison: None }.tables()
    }
    fn rows(
        &self,
        table: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        RunningSum { poison: None }.rows(table, at, take)
    }
}

impl Operator for SlowLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        if context.slices.start == 0 {
            let waits = self.go_on.lock().expect("held briefly").take();
            waits.into_iter().for_each(|it| it.recv().expect("the test goes on"));
        }
        self.sums.cycle(context, input, output)
    }
}

/// A lane has given its slices to the next layout before anybody looked, and another one of the old
/// layout answers: what is left is copied by the new lane, which has all slices.
#[test]
fn a_look_while_half_of_the_slices_are_on_their_way_sees_all_of_them() {
    let sim = World::simulated(1);
    let (setup, sink) = (Setup { count: PER_CYCLE, ..SETUP }, Collect::default());
    let (go, go_on) = mpsc::channel();
    let numbers = Numbers { count: setup.count, keys: KEYS, live: true };
    let mut graph = graph(&setup, &sink);
    graph.stages[0].kind =
        StageKind::Source { factory: Arc::new(OneCycle(numbers)), preload: false };
    let factory = Arc::new(Slow(Arc::new(Mutex::new(Some(go_on)))));
    graph.stages[1].kind = StageKind::Operator { factory, slices: 16 };
    let handle = start(graph, &sim.world, &RunOptions::default()).expect("it starts");
    let job = &handle.job;
    let until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(!handle.is_over(), "it runs");
            std::thread::yield_now();
        }
    };
    until(&|| job.pacer.lock().expect("held briefly").begun() == Cycle(1));
    assert_eq!(handle.rescale(1), Ok(Cycle(2)));
    let is_given =
        || job.handed_over.lock().expect("held briefly").iter().any(|it| it.stage == StageIx(1));
    until(&is_given);
    let looked = std::thread::scope(|scope| {
        let looking = scope.spawn(|| handle.look("first", 0));
        until(&|| job.snapshots.is_under_way());
        go.send(()).expect("it waits");
        while !looking.is_finished() {
            // Who waits in vain is told so.
            sim.clock.advance(1_000);
            std::thread::yield_now();
        }
        looking.join().expect("no panic")
    });
    let look = looked.expect("all slices come");
    assert_eq!((look.cycle, sums(&seen(&look))), (Cycle(1), model(Cycle(1), setup.count)));
    handle.stop();
    sim.clock.advance(1_000_000);
    handle.wait().expect("it ends well");
}

#[test]
fn a_checkpoint_shows_what_the_stage_held_at_its_cycle() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { count: 300_000, ..SETUP };
    let sink = Collect::default();
    let options = options(&World::real(), folder.path(), Span(500));
    let handle = start(graph(&setup, &sink), &World::real(), &options).expect("it starts");
    let mut looks = 0;
    for made in 1.. {
        wait_for_checkpoints(&handle, made);
        if handle.is_over() {
            break;
        }
        // It stays while it is read, however many others are made meanwhile.
        let pinned = handle.pin_checkpoint(None).expect("one is complete");
        let number = pinned.manifest().number;
        let again = handle.pin_checkpoint(Some(number)).expect("it is pinned");
        let unknown = StageSnapshot::of_checkpoint(&handle.stages(), "none", again);
        let unknown = unknown.expect_err("no such stage").to_string();
        assert!(unknown.contains("there are `first`"), "{unknown}");
        assert!(handle.pin_checkpoint(Some(CheckpointNumber(9_999_999))).is_err());
        let look =
            StageSnapshot::of_checkpoint(&handle.stages(), "first", pinned).expect("it fits");
        wait_for_checkpoints(&handle, made + 2);
        assert_eq!(look.checkpoint, Some(number));
        assert_eq!(sums(&seen(&look)), model(look.cycle, setup.count), "cycle {}", look.cycle);
        looks += 1;
    }
    assert!(looks > 0);
    handle.wait().expect("it ends well");
    assert!(matches!(handle.pin_checkpoint(None), Err(AskError::Over)));
    assert_eq!(handle.rescale(2).expect_err("it has ended"), "the job has ended");
}

/// Rows of one key come, so the slices of the others stay where the checkpoint has them.
#[test]
fn what_was_not_read_back_is_shown_and_stays_where_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { count: 400_000, ..SETUP };
    let sink = Collect::default();
    let options = options(&World::real(), folder.path(), Span(500));
    let killed = killed_after(1, graph(&setup, &sink), &options);
    let saved = killed.checkpoints().last().expect("one is complete").1.cycle;
    drop(killed);

    let to = options.checkpoint.clone();
    let to = to.map(|to| CheckpointTo { recovery: Recovery::Lazy, ..to });
    let options = RunOptions { checkpoint: to, ..options };
    let mut of_one_key = graph(&setup, &sink);
    let factory = Arc::new(Numbers { count: 40_000_000, keys: 1, live: false });
    of_one_key.stages[0].kind = StageKind::Source { factory, preload: false };
    let handle = start(of_one_key, &World::real(), &options).expect("it starts");
    assert_eq!(handle.progress().checkpoints.cycle, saved);
    for _ in 0..5 {
        let look = handle.look("first", 0).expect("it runs");
        let (mut seen, mut wanted) = (sums(&seen(&look)), model(saved, setup.count));
        assert!(look.cycle >= saved);
        let of_all: i64 = (saved.0 as i64 * PER_CYCLE..look.cycle.0 as i64 * PER_CYCLE).sum();
        assert_eq!(seen.remove(&0), wanted.remove(&0).map(|sum| sum + of_all));
        assert_eq!(seen, wanted);
        assert!(handle.progress().checkpoints.slices_left > 0, "looking reads nothing back");
    }
    handle.stop();
    handle.wait().expect("it ends well");
}

/// Shows too much, or panics.
struct Awkward {
    panics: bool,
}

impl OperatorFactory for Awkward {
    fn outputs(&self) -> Vec<SchemaRef> {
        RunningSum { poison: None }.outputs()
    }
    fn operator(&self) -> Box<dyn Operator> {
        RunningSum { poison: None }.operator()
    }
    fn state(&self, slice: SliceId) -> SliceState {
        RunningSum { poison: None }.state(slice)
    }
    fn tables(&self) -> Vec<StateTable> {
        RunningSum { poison: None }.tables()
    }
    fn rows(&self, _: usize, _: StateAt<'_>, take: &mut TakeRows<'_>) -> Result<(), OperatorError> {
        assert!(!self.panics, "it cannot be shown");
        let large = batch(&["key", "sum"], vec![vec![1; 500_000]; 2]);
        while take(large.clone()).is_continue() {}
        Ok(())
    }
}

#[test]
fn a_state_that_is_too_large_or_panics_is_an_error_of_who_looks() {
    let setup = Setup { count: 3_000_000, ..SETUP };
    for (panics, wanted) in [(false, "larger than 64 MiB"), (true, "it cannot be shown")] {
        let sink = Collect::default();
        let mut graph = graph(&setup, &sink);
        graph.stages[1].kind =
            StageKind::Operator { factory: Arc::new(Awkward { panics }), slices: 16 };
        let handle = start(graph, &World::real(), &RunOptions::default()).expect("it starts");
        let error = handle.look("first", 0).expect_err("refused").to_string();
        assert!(error.contains(wanted), "{error}");
        assert!(handle.look("none", 0).expect_err("refused").to_string().contains("`first`"));
        // The job goes on, and can be looked at elsewhere.
        handle.look("second", 0).expect("it runs");
        handle.stop();
        handle.wait().expect("it did not fail");
    }
}
