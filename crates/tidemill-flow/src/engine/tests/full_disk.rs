//! Jobs whose disk is full wait, say so, and go on when there is room as if nothing had been.

use super::*;
use crate::graph::Stage;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tidemill_env::SimWorld;

/// A sink that finds no room now and then: its `n`th commit, sync or close is refused so often.
struct Narrow {
    inner: Collect,
    refusals: Arc<dyn Fn(u64) -> u64 + Send + Sync>,
    asked: u64,
    refused: u64,
    total: Arc<AtomicU64>,
}

impl Narrow {
    fn may(&mut self) -> Result<(), SinkError> {
        if self.refused < (self.refusals)(self.asked) {
            self.refused += 1;
            self.total.fetch_add(1, Ordering::SeqCst);
            return Err(SinkError::retry("no room"));
        }
        (self.asked, self.refused) = (self.asked + 1, 0);
        Ok(())
    }
}

impl Sink for Narrow {
    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        self.inner.open(resume)
    }
    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        self.inner.write(cycle, blocks)
    }
    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        self.may()?;
        self.inner.commit(cycle)
    }
    fn sync(&mut self) -> Result<bool, SinkError> {
        self.may().map(|()| true)
    }
    fn close(&mut self) -> Result<(), SinkError> {
        self.may()
    }
}

/// The job of `graph` with a sink that finds no room so often.
fn narrow(
    setup: &Setup,
    sink: &Collect,
    refusals: impl Fn(u64) -> u64 + Send + Sync + 'static,
) -> (JobGraph, Arc<AtomicU64>) {
    let mut graph = graph(setup, sink);
    let total = Arc::<AtomicU64>::default();
    let Stage { kind, .. } = graph.stages.last_mut().expect("the sink");
    let (inner, refusals) = (sink.clone(), Arc::new(refusals));
    let sink = Narrow { inner, refusals, asked: 0, refused: 0, total: Arc::clone(&total) };
    *kind = StageKind::Sink { sink: Box::new(sink) };
    (graph, total)
}

fn options(with_ledger: bool) -> RunOptions {
    let data = with_ledger.then(|| "/job".into());
    RunOptions { data, resume: with_ledger, ..RunOptions::default() }
}

/// Cuts of every cycle that the ledger has.
fn cuts(sim: &SimWorld) -> Vec<(Cycle, Vec<tidemill_wire::ledger::Cut>)> {
    let bytes = sim.disk.read(Path::new("/job/ledger")).expect("it is there");
    let (records, _, error) = journal::read(&bytes);
    assert_eq!(error, None, "nothing is torn");
    let cycle = |record: &[u8]| match LedgerEntry::decode(record).expect("it was written whole") {
        LedgerEntry::Cycle { cycle, cuts, .. } => Some((cycle, cuts)),
        _ => None,
    };
    records.into_iter().filter_map(cycle).collect()
}

fn wait_until(sim: &SimWorld, is_so: impl Fn() -> bool) {
    while !is_so() {
        sim.world.clock.sleep_micros(1_000);
    }
}

const SMALL: Setup = Setup { count: 9_000, ..SETUP };
const LONG: Setup = Setup { count: 400_000, ..SETUP };

#[test]
fn row_14_a_sink_without_room_is_asked_again_until_it_has_some() {
    let undisturbed = run(&SMALL);
    for (seed, with_ledger) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let ran = Simulation::new(seed).run(move |sim| {
            let sink = Collect::default();
            let (graph, refused) = narrow(&SMALL, &sink, move |nth| (nth * 7 + seed) % 4);
            let handle = start(graph, &sim.world, &options(with_ledger)).expect("it starts");
            let progress = handle.wait().expect("it ends well");
            assert!(progress.finished && progress.stalled.is_none());
            assert!(refused.load(Ordering::SeqCst) > 0);
            rows(&sink)
        });
        let left = ran.expect("it ends").0.expect("it does not panic");
        assert_eq!(left, undisturbed, "seed {seed}, ledger {with_ledger}");
    }
}

/// The disk of the ledger has a few bytes more now and then.
#[test]
fn row_14_a_ledger_without_room_stalls_its_job_which_goes_on_as_if_nothing_had_been() {
    let undisturbed = run(&SMALL);
    let calm = Simulation::new(1).run(|sim| {
        let handle = start(graph(&SMALL, &Collect::default()), &sim.world, &options(true));
        handle.expect("it starts").wait().expect("it ends well");
        cuts(sim)
    });
    let calm = calm.expect("it ends").0.expect("it does not panic");
    for seed in 0..30 {
        let ran = Simulation::new(seed).run(move |sim| {
            let sink = Collect::default();
            let handle = start(graph(&SMALL, &sink), &sim.world, &options(true));
            let handle = handle.expect("it starts");
            let (mut stalled, mut capacity) = (0, sim.disk.used());
            while !handle.is_over() {
                capacity += seed + 1;
                sim.disk.set_capacity(capacity);
                let now = handle.progress().stalled;
                stalled += u64::from(now.is_some_and(|it| it.part == "ledger"));
                sim.world.clock.sleep_micros(200_000);
            }
            assert!(stalled > 0, "it was full");
            assert!(handle.wait().expect("it ends well").finished);
            (rows(&sink), cuts(sim))
        });
        let (rows, cuts) = ran.expect("it ends").0.expect("it does not panic");
        assert_eq!(rows, undisturbed, "seed {seed}");
        assert_eq!(cuts, calm, "seed {seed}");
    }
}

#[test]
fn row_14_a_job_that_stalls_says_so_reads_no_more_and_goes_on_within_seconds() {
    let ran = Simulation::new(1).run(|sim| {
        let sink = Collect::default();
        let handle = start(graph(&LONG, &sink), &sim.world, &options(true)).expect("it starts");
        wait_until(sim, || handle.progress().cycle_committed > Cycle(3));
        sim.disk.set_capacity(sim.disk.used());
        wait_until(sim, || handle.progress().stalled.is_some());
        sim.world.clock.sleep_micros(60_000_000);
        let before = handle.progress();
        let stalled = before.stalled.expect("it waits still");
        assert_eq!(stalled.part, "ledger");
        assert!(stalled.why.contains("/job/ledger: the simulated disk is full"), "{}", stalled.why);
        assert!(stalled.since_us + 60_000_000 <= sim.world.clock.wall_micros());
        let committed = rows(&sink).len() as u64;
        assert_eq!(before.sinks[0].rows, committed, "what waits for the ledger is not counted");
        sim.world.clock.sleep_micros(60_000_000);
        let after = handle.progress();
        assert_eq!(after.sources, before.sources, "nothing is read");
        let ahead = after.sources[0].records - after.cycle_committed.0 * 1_000;
        assert!(ahead < 70_000, "what waits is bounded: {ahead}");
        let room_us = sim.world.clock.monotonic_micros();
        sim.disk.set_capacity(u64::MAX);
        wait_until(sim, || handle.progress().cycle_committed > after.cycle_committed);
        let took_us = sim.world.clock.monotonic_micros() - room_us;
        assert!(took_us < 5_000_000, "{took_us}");
        assert_eq!(handle.progress().stalled, None);
        handle.stop();
        handle.wait().expect("it stops well");
    });
    ran.expect("it ends").0.expect("it does not panic");
}

#[test]
fn row_14_whoever_asks_for_a_checkpoint_while_a_job_stalls_is_told() {
    let ran = Simulation::new(1).run(|sim| {
        let has_room = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&has_room);
        let refusals = move |_| if asked.load(Ordering::SeqCst) { 0 } else { u64::MAX };
        let (graph, _) = narrow(&LONG, &Collect::default(), refusals);
        let options = checkpoints::options(&sim.world, Path::new("/"), Span(600_000_000));
        let handle = start(graph, &sim.world, &options).expect("it starts");
        let kept = handle.keep_checkpoint("before").expect("there is room");
        has_room.store(false, Ordering::SeqCst);
        wait_until(sim, || handle.progress().stalled.is_some());
        for _ in 0..3 {
            let asked_us = sim.world.clock.monotonic_micros();
            let error = handle.keep_checkpoint("meanwhile").expect_err("the sink waits");
            assert!(error.to_string().contains("waits: no room"), "{error}");
            let took_us = sim.world.clock.monotonic_micros() - asked_us;
            assert!(took_us < 2_000_000, "{took_us}");
        }
        let unknown = handle
            .delete_checkpoint(CheckpointNumber(kept.number.0 + 1_000))
            .expect_err("there is none");
        assert!(matches!(unknown, AskError::Checkpoint(_)), "{unknown}");
        has_room.store(true, Ordering::SeqCst);
        wait_until(sim, || handle.progress().stalled.is_none());
        handle.keep_checkpoint("after").expect("it goes on");
        handle.stop();
        handle.wait().expect("it stops well");
    });
    ran.expect("it ends").0.expect("it does not panic");
}

#[test]
fn row_14_a_job_that_is_stopped_while_its_disk_is_full_ends_soon_and_resumes_exactly() {
    let setup = Setup { count: 90_000, ..SETUP };
    let undisturbed = run(&setup);
    for seed in 0..20 {
        let setup = Setup { ..setup };
        let ran = Simulation::new(seed).run(move |sim| {
            let sink = Collect::default();
            let started = || start(graph(&setup, &sink), &sim.process(), &options(true));
            let handle = started().expect("it starts");
            wait_until(sim, || handle.progress().cycle_committed > Cycle(seed));
            sim.disk.set_capacity(sim.disk.used() + seed);
            wait_until(sim, || handle.progress().stalled.is_some());
            let asked_us = sim.world.clock.monotonic_micros();
            handle.stop();
            let error = handle.wait().expect_err("what it had begun is not whole");
            assert!(error.message.contains("resumed, it goes on"), "{error}");
            let took_us = sim.world.clock.monotonic_micros() - asked_us;
            assert!(took_us < 3_000_000, "{took_us}");
            if seed % 2 == 0 {
                sim.disk.kill()
            } else {
                sim.disk.power_cut()
            }
            // Full as it is it cannot be started, and what is there stays.
            let refused = started().err().expect("there is no room");
            assert!(matches!(refused, StartError::Unavailable { .. }), "{refused}");
            sim.disk.set_capacity(u64::MAX);
            started().expect("it starts").wait().expect("it ends well");
            rows(&sink)
        });
        let left = ran.expect("it ends").0.expect("it does not panic");
        assert_eq!(left, undisturbed, "seed {seed}");
    }
}
