//! Jobs that are killed and go on from their checkpoints.

use super::*;
use std::sync::atomic::AtomicBool;
use tidemill_checkpoints::{BackendError, IndexedBackend, IndexedOptions};
use tidemill_env::SimWorld;
use tidemill_types::job::Recovery;

/// Checkpoints as often as can be, in a folder.
pub(super) fn options(world: &World, folder: &Path, every: Span) -> RunOptions {
    let opened = IndexedBackend::open(world, &folder.join("state"), IndexedOptions::default());
    let to = CheckpointTo {
        every: every.into(),
        backend: Arc::new(opened.expect("it can be opened").0),
        from: None,
        recovery: Recovery::Eager,
    };
    let data = Some(folder.join("job"));
    RunOptions { data, resume: true, checkpoint: Some(to), ..RunOptions::default() }
}

/// Until so many checkpoints were completed, or the job is over.
pub(super) fn wait_for_checkpoints(handle: &JobHandle, count: u64) {
    while handle.progress().checkpoints.completed < count && !handle.is_over() {
        std::thread::yield_now();
    }
}

pub(super) fn kill(handle: &JobHandle) {
    // As a crash would: nobody is asked, nothing is flushed. Of a process that died no thread is
    // left that could still write what it had begun.
    handle.job.end();
    handle.wait().expect("it did not fail");
}

/// How far the lives of a job have read that had no end, so that none of them is over before what is
/// done to it, however long its checkpoints take.
#[derive(Default)]
pub(super) struct Endless(i64);

impl Endless {
    /// A life.
    pub(super) const SETUP: Setup = Setup { count: i64::MAX, ..SETUP };

    /// A life has read so far.
    pub(super) fn has_read(&mut self, handle: &JobHandle) {
        let last = handle.progress().sources.into_iter().next_back().expect("it has one");
        self.0 = self.0.max(last.position as i64);
    }

    /// The numbers of a life that comes to an end, after all that were read, with some more.
    pub(super) fn until(&self) -> i64 {
        self.0 + 10_000
    }

    pub(super) fn ending(&self) -> Setup {
        Setup { count: self.until(), ..SETUP }
    }
}

/// A life of a job that is killed when so many checkpoints were completed.
pub(super) fn killed_after(checkpoints: u64, graph: JobGraph, options: &RunOptions) -> JobHandle {
    let handle = start(graph, &World::real(), options).expect("it starts");
    wait_for_checkpoints(&handle, checkpoints);
    kill(&handle);
    handle
}

#[test]
fn a_job_that_was_killed_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sink, mut endless) = (Collect::default(), Endless::default());
    let start_it = |setup| {
        let options = options(&World::real(), folder.path(), Span(1_000));
        start(graph(&setup, &sink), &World::real(), &options).expect("it starts")
    };
    for life in 0..8 {
        // The number of threads may be another one.
        let handle = start_it(Setup { workers: 1 + life % 3, ..Endless::SETUP });
        let from = handle.progress().checkpoints.cycle;
        assert!(life == 0 || from > Cycle::NONE, "it goes on");
        wait_for_checkpoints(&handle, 1 + u64::from(life % 2 == 1));
        kill(&handle);
        let progress = handle.progress();
        let before = from.0 * 1_000;
        assert_eq!(progress.sources[0].position - before, progress.sources[0].records, "read once");
        endless.has_read(&handle);
    }
    assert!(start_it(endless.ending()).wait().expect("it ends well").finished);
    assert!(rows(&sink) == run(&endless.ending()));
}

#[test]
fn threads_may_change_while_a_checkpoint_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { count: 300_000, ..SETUP };
    let undisturbed = run(&setup);
    let sink = Collect::default();
    let options = options(&World::real(), folder.path(), Span(1));
    let handle = start(graph(&setup, &sink), &World::real(), &options).expect("it starts");
    let mut changes = 0;
    for threads in (1..5).cycle() {
        if handle.is_over() || changes > 20 {
            break;
        }
        changes += u32::from(handle.rescale(threads).is_ok());
        wait_for_checkpoints(&handle, u64::from(changes));
    }
    kill(&handle);
    drop((handle, options));
    let options = self::options(&World::real(), folder.path(), Span(1));
    let handle = start(graph(&setup, &sink), &World::real(), &options).expect("it starts");
    assert!(handle.progress().checkpoints.cycle > Cycle::NONE);
    handle.wait().expect("it ends well");
    assert!(rows(&sink) == undisturbed, "after {changes} changes");
}

/// Numbers of which each thousandth is refused.
struct Spoilt(Numbers);

struct SpoiltSlice(Box<dyn Source>);

impl SourceFactory for Spoilt {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(SpoiltSlice(self.0.open(slice)?)))
    }
}

impl Source for SpoiltSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let from = self.position().0;
        let read = self.0.read(request, letters)?;
        let refused = (from..self.position().0).filter(|number| number % 1_000 == 0);
        letters.extend(refused.map(|number| DeadLetter {
            stage: "numbers".to_owned(),
            cycle: request.cycle,
            slice: SliceId(0),
            position: number.to_string(),
            reason: "it is round".to_owned(),
            record: Vec::new(),
        }));
        Ok(read)
    }
    fn position(&self) -> Position {
        self.0.position()
    }
    fn watermark(&self) -> Micros {
        self.0.watermark()
    }
}

/// A sink for letters that may lose what it had when it is opened again.
struct Letters {
    held: Arc<Mutex<Vec<(Cycle, String)>>>,
    loses: bool,
}

impl Sink for Letters {
    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        let mut held = self.held.lock().expect("held briefly");
        if self.loses || !resume {
            held.clear();
        }
        Ok(held.last().map_or(Cycle::NONE, |(cycle, _)| *cycle))
    }
    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        for block in blocks {
            let rows = block.batch();
            let positions = rows.column(2).as_string::<i32>().iter().flatten();
            let rows = positions.map(|position| (cycle, position.to_owned()));
            self.held.lock().expect("held briefly").extend(rows);
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

#[test]
fn no_dead_letter_is_lost_to_a_checkpoint() {
    let setup = Setup { count: 200_000, ..SETUP };
    let undisturbed = run(&setup);
    for loses in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = Collect::default();
        let held = Arc::new(Mutex::new(Vec::new()));
        let mut went_on = 0;
        for life in 0..4 {
            let mut graph = graph(&setup, &sink);
            let factory = Arc::new(Spoilt(Numbers { count: setup.count, keys: 97, live: false }));
            graph.stages[0].kind = StageKind::Source { factory, preload: false };
            graph.dead_letter = Some(Box::new(Letters { held: Arc::clone(&held), loses }));
            let options = options(&World::real(), folder.path(), Span(1_000));
            let handle = start(graph, &World::real(), &options).expect("it starts");
            went_on += u32::from(handle.progress().checkpoints.cycle > Cycle::NONE);
            if life < 3 {
                wait_for_checkpoints(&handle, 1);
                kill(&handle);
            } else {
                handle.wait().expect("it ends well");
            }
        }
        assert_eq!(went_on > 0, !loses, "went on {went_on} times");
        assert!(rows(&sink) == undisturbed);
        let held = held.lock().expect("nobody holds it");
        let positions: Vec<u64> =
            held.iter().map(|(_, it)| it.parse().expect("a number")).collect();
        assert!(
            positions.iter().copied().eq((0..200).map(|it| it * 1_000)),
            "loses {loses}: {positions:?}"
        );
    }
}

/// One of two sources has ended before the checkpoint, and its stage and its sink with it.
#[test]
fn what_had_ended_before_a_checkpoint_is_not_done_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let sinks = [Collect::default(), Collect::default()];
    let start_it = |long| {
        let options = options(&World::real(), folder.path(), Span(1_000));
        start(ends::two_lines(&sinks, long), &World::real(), &options).expect("it starts")
    };
    // However long a checkpoint takes, the other source has not ended before it.
    let mut endless = Endless::default();
    loop {
        let handle = start_it(i64::MAX);
        let progress = handle.progress();
        wait_for_checkpoints(&handle, 2);
        kill(&handle);
        endless.has_read(&handle);
        if progress.checkpoints.cycle > Cycle(8) {
            assert!(progress.sources[0].ended && progress.sources[0].position == 700);
            break;
        }
    }
    let long = endless.until();
    assert!(start_it(long).wait().expect("it ends well").finished);
    let undisturbed = [Collect::default(), Collect::default()];
    let graph = ends::two_lines(&undisturbed, long);
    let handle = start(graph, &World::real(), &RunOptions::default());
    handle.expect("it starts").wait().expect("it ends well");
    for (sink, undisturbed) in sinks.iter().zip(&undisturbed) {
        assert!(rows(sink) == rows(undisturbed));
    }
}

/// The disk fails at any operation, or the power does; the job is started again until it ends.
#[test]
fn row_40_a_job_survives_its_disk_at_any_operation() {
    let setup = Setup { count: 30_000, ..SETUP };
    let undisturbed = run(&setup);
    let mut went_on = 0;
    for operations in (0..400).step_by(7) {
        let sim = World::simulated(operations);
        let world = |sim: &SimWorld| World { disk: sim.process().disk, ..World::real() };
        let sink = Collect::default();
        sim.disk.fail_after(operations);
        for life in 0..3 {
            let world = world(&sim);
            let folder = Path::new("/folder");
            let opened = IndexedBackend::open(
                &world,
                &folder.join("state"),
                IndexedOptions { flush_in_background: false, ..IndexedOptions::default() },
            );
            let Ok((backend, _)) = opened else {
                sim.disk.power_cut();
                continue;
            };
            let to = CheckpointTo {
                every: Span(200).into(),
                backend: Arc::new(backend),
                from: None,
                recovery: Recovery::Prefetch,
            };
            let data = Some(folder.join("job"));
            let options =
                RunOptions { data, resume: true, checkpoint: Some(to), ..RunOptions::default() };
            let Ok(handle) = start(graph(&setup, &sink), &world, &options) else {
                sim.disk.power_cut();
                continue;
            };
            went_on += u32::from(handle.progress().checkpoints.cycle > Cycle::NONE);
            if life == 0 {
                wait_for_checkpoints(&handle, 3);
                handle.job.end();
            }
            let ended = handle.wait();
            if life == 0 {
                sim.disk.power_cut();
            } else if ended.is_ok() {
                break;
            }
        }
        assert!(rows(&sink) == undisturbed, "operation {operations}");
    }
    assert!(went_on > 20, "{went_on}");
}

#[test]
fn a_job_goes_on_from_a_checkpoint_that_was_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sink, mut endless) = (Collect::default(), Endless::default());
    let options = options(&World::real(), folder.path(), Span(50_000));
    let mut kept = Vec::new();
    for life in 0..2 {
        let graph = graph(&Endless::SETUP, &sink);
        let handle = start(graph, &World::real(), &options).expect("it starts");
        let info = handle.keep_checkpoint(&format!("of life {life}")).expect("it is made");
        assert_eq!(info.kept, Some(format!("of life {life}")));
        assert!(info.newest && info.cycle > Cycle::NONE && info.bytes > 0);
        let listed = handle.checkpoints();
        assert!(listed.iter().any(|(it, manifest)| *it == info && manifest.cycle == info.cycle));
        kept.push(info);
        kill(&handle);
        endless.has_read(&handle);
    }
    let from = |number| {
        let to = options.checkpoint.clone().map(|to| CheckpointTo { from: Some(number), ..to });
        RunOptions { checkpoint: to, ..options.clone() }
    };
    let start_from = |graph, number| start(graph, &World::real(), &from(number));
    let error = start_from(graph(&Endless::SETUP, &sink), CheckpointNumber(999))
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("there is no checkpoint 999"), "{error}");
    // From the older one: what the sink has it does not get again.
    let handle = start_from(graph(&Endless::SETUP, &sink), kept[0].number).expect("it starts");
    assert_eq!(handle.progress().checkpoints.cycle, kept[0].cycle);
    let again = handle.keep_checkpoint("").expect("it is made");
    assert!(again.number > kept[1].number, "what is restored comes after all");
    handle.delete_checkpoint(kept[1].number).expect("it is kept");
    let error = handle.delete_checkpoint(kept[1].number).expect_err("it is gone").to_string();
    assert!(error.contains("there is no checkpoint"), "{error}");
    let numbers = |handle: &JobHandle| {
        handle.checkpoints().iter().map(|(info, _)| info.number).collect::<Vec<_>>()
    };
    assert!(numbers(&handle).starts_with(&[kept[0].number, again.number]));
    kill(&handle);
    endless.has_read(&handle);
    let ending = endless.ending();
    let handle = start(graph(&ending, &sink), &World::real(), &options).expect("it starts");
    handle.wait().expect("it ends well");
    assert!(rows(&sink) == run(&ending));
    let error = handle.keep_checkpoint("late").expect_err("it has ended").to_string();
    assert_eq!(error, "the job has ended");
    let handle = start(graph(&ending, &sink), &World::real(), &RunOptions::default());
    let handle = handle.expect("it starts");
    let error = handle.keep_checkpoint("none").expect_err("it makes none").to_string();
    assert!(error.contains("checkpoint: {every: 10s}"), "{error}");
}

#[test]
fn what_could_not_be_written_is_counted_and_the_newest_has_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::real();
    let before_us = world.clock.wall_micros();
    let mut options = options(&world, folder.path(), Span(1_000));
    let to = options.checkpoint.as_mut().expect("it makes some");
    let commits = AtomicU64::new(0);
    to.backend = server::before_commits(&to.backend, move |_| {
        // The first ones do not arrive.
        match commits.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err(server::unreachable("nobody answers")),
            _ => Ok(()),
        }
    });
    let setup = Setup { count: i64::MAX, live: true, ..SETUP };
    let sink = Collect::default();
    let handle = start(graph(&setup, &sink), &world, &options).expect("it starts");
    assert_eq!(handle.progress().checkpoints.made_us, None);
    wait_for_checkpoints(&handle, 1);
    kill(&handle);
    let made = handle.progress().checkpoints;
    assert_eq!((made.failures, made.failure), (2, None));
    let made_us = made.made_us.expect("one was made");
    assert!((before_us..=world.clock.wall_micros()).contains(&made_us));
    // Another run knows when that was.
    let handle = start(graph(&setup, &sink), &world, &options).expect("it starts");
    assert!(handle.progress().checkpoints.made_us >= Some(made_us));
    kill(&handle);
}

#[test]
fn row_14_a_checkpoint_that_finds_no_room_waits_in_bounds_and_others_can_be_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::real();
    let mut options = options(&world, folder.path(), Span(3_600_000_000));
    let to = options.checkpoint.as_mut().expect("it makes some");
    let is_full = Arc::new(AtomicBool::new(false));
    let largest_bytes = Arc::new(AtomicU64::new(0));
    let (full, largest) = (Arc::clone(&is_full), Arc::clone(&largest_bytes));
    to.backend = server::before_commits(&to.backend, move |batch| {
        // It has room for small batches and deletions alone while it is full.
        if !full.load(Ordering::SeqCst) || batch.bytes() <= 64 << 10 {
            return Ok(());
        }
        largest.fetch_max(batch.bytes() as u64, Ordering::SeqCst);
        Err(BackendError::Refused { place: "there".to_owned(), why: "no room".to_owned() })
    });
    // A state of several times what may wait in a batch.
    let (keys, mut graph) = (400_000, JobGraph::new("large"));
    let factory = Arc::new(Numbers { count: i64::MAX, keys, live: true });
    let source = graph.add("numbers", StageKind::Source { factory, preload: false });
    let factory = Arc::new(RunningSum { poison: None });
    let stage = graph.add("sums", StageKind::Operator { factory, slices: 16 });
    let sink = graph.add("out", StageKind::Sink { sink: Box::new(Collect::default()) });
    graph.link(source, stage, Partition::Key(vec![0]));
    graph.link(stage, sink, Partition::One);
    let handle = start(graph, &world, &options).expect("it starts");
    let first = handle.keep_checkpoint("first").expect("there is room");
    handle.keep_checkpoint("second").expect("there is room");
    while handle.progress().sources[0].position < keys as u64 {
        std::thread::yield_now();
    }
    is_full.store(true, Ordering::SeqCst);
    let refused = handle.keep_checkpoint("none").expect_err("there is no room").to_string();
    assert!(refused.contains("no room"), "{refused}");
    // Tried again, and no more was taken meanwhile.
    while handle.progress().checkpoints.failures < 3 {
        std::thread::yield_now();
    }
    let largest_bytes = largest_bytes.load(Ordering::SeqCst);
    assert!(largest_bytes < 4 << 20, "{largest_bytes}");
    handle.delete_checkpoint(first.number).expect("that needs no room");
    assert!(handle.checkpoints().iter().all(|(info, _)| info.number != first.number));
    is_full.store(false, Ordering::SeqCst);
    wait_for_checkpoints(&handle, 3);
    let kept = handle.keep_checkpoint("third").expect("there is room again");
    assert!(kept.bytes > 4 << 20, "all of it is written: {}", kept.bytes);
    kill(&handle);
}

/// The sum of a key is in one of so many structures.
struct Many(usize);

struct ManyLane(usize);

struct Structures(Vec<Map<i64, i64>>);

impl tidemill_state::State for Structures {
    fn structures(&mut self) -> Vec<&mut dyn tidemill_state::Structure> {
        self.0.iter_mut().map(|it| it as _).collect()
    }
}

impl OperatorFactory for Many {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![schema(&["key", "sum"])]
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(ManyLane(self.0))
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(Structures((0..self.0).map(|_| Map::default()).collect()))
    }
}

impl Operator for ManyLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let (mut keys, mut sums) = (Vec::new(), Vec::new());
        for block in input.port(0) {
            let rows = block.batch();
            let key = rows.column(0).as_primitive::<Int64Type>().values();
            let number = rows.column(1).as_primitive::<Int64Type>().values();
            for (key, number) in key.iter().zip(number) {
                let structures: &mut Structures = context.state(SliceId(0));
                // The last of them is in use.
                let nth = self.0 - 1 - *key as usize;
                let sum = structures.0[nth].get_or_default(*key);
                *sum += number;
                keys.push(*key);
                sums.push(*sum);
            }
        }
        output.emit(batch(&["key", "sum"], vec![keys, sums]));
        Ok(())
    }
}

#[test]
fn a_state_of_more_structures_than_a_checkpoint_tells_apart_is_refused() {
    let (world, setup) = (World::real(), Setup { count: 400_000, ..SETUP });
    let job = |structures, sink: &Collect| {
        let mut graph = graph(&setup, sink);
        let factory = Arc::new(Many(structures));
        graph.stages[1].kind = StageKind::Operator { factory, slices: 1 };
        graph
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (sink, options) = (Collect::default(), options(&world, folder.path(), Span(1_000)));
    let error = start(job(257, &sink), &world, &options).err().expect("it is refused");
    assert_eq!(
        error.to_string(),
        "`first`: without checkpoints only: its state has 257 structures, and a checkpoint tells no \
         more than 256 apart; keep what is alike in one `Map`"
    );
    let without = start(job(257, &sink), &world, &RunOptions::default()).expect("it starts");
    without.wait().expect("it ends well");
    let undisturbed = rows(&sink);
    drop(killed_after(1, job(256, &sink), &options));
    let goes_on = start(job(256, &sink), &world, &options).expect("it goes on");
    goes_on.wait().expect("it ends well");
    assert!(rows(&sink) == undisturbed);
}
