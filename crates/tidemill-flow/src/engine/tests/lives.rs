//! Ledgers that are cut behind checkpoints, and jobs that begin anew with one.

use super::checkpoints::{Endless, kill, options, wait_for_checkpoints};
use super::uncoordinated::{self, Seen, Stream};
use super::*;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicUsize;
use tidemill_env::Spawn;
use tidemill_types::job::Delivery;

/// Cycles of few records: a long ledger.
fn fine(setup: &Setup, sink: &Collect) -> JobGraph {
    let mut graph = graph(setup, sink);
    graph.cycle.records = 20;
    graph
}

fn run_fine(setup: &Setup) -> Vec<(u64, i64, i64)> {
    let sink = Collect::default();
    let handle = start(fine(setup, &sink), &World::real(), &RunOptions::default());
    handle.expect("it starts").wait().expect("it ends well");
    rows(&sink)
}

/// The files of a job's ledger, and their bytes.
fn ledger(folder: &Path) -> (Vec<String>, u64) {
    let entries = std::fs::read_dir(folder.join("job")).expect("a folder");
    let files = entries.map(|entry| entry.expect("it is there"));
    let (mut names, mut bytes) = (Vec::new(), 0);
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        // One that went meanwhile is none of them: the job may be at work.
        // What is noted beside it is no part of it.
        if name.starts_with("ledger")
            && !name.starts_with("ledger.stages")
            && let Ok(metadata) = file.metadata()
        {
            bytes += metadata.len();
            names.push(name);
        }
    }
    names.sort();
    (names, bytes)
}

/// Until a checkpoint of this cycle or a later one was completed, or the job is over.
fn wait_for_checkpoint_at(handle: &JobHandle, cycle: Cycle) {
    while handle.progress().checkpoints.cycle < cycle && !handle.is_over() {
        std::thread::yield_now();
    }
}

/// What a folder holds, by name.
pub(super) fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let read = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("it is there");
        let bytes = std::fs::read(entry.path()).expect("a file");
        (entry.file_name().to_string_lossy().into_owned(), bytes)
    };
    entries.map(read).collect()
}

#[test]
fn two_jobs_do_not_share_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::real();
    let options = |resume| RunOptions {
        data: Some(folder.path().to_owned()),
        resume,
        ..RunOptions::default()
    };
    for delivery in [Delivery::ExactlyOnce, Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let job = |stream: &Stream| {
            let mut graph = uncoordinated::stage(stream, Arc::new(Seen), &Collect::default());
            graph.delivery = delivery;
            graph
        };
        let stream = Stream::default();
        let handle = start(job(&stream), &world, &options(false)).expect("it starts");
        stream.add([1, 2, 3]);
        while handle.progress().cycle_committed == Cycle::NONE {
            assert!(!handle.is_over(), "it is not told to end");
            std::thread::yield_now();
        }
        let before = contents(folder.path());
        for resume in [false, true] {
            let second = job(&Stream::of([4]));
            let error = start(second, &world, &options(resume)).err().expect("refused");
            assert!(matches!(error, StartError::InUse { .. }), "{error}");
        }
        assert_eq!(contents(folder.path()), before, "{delivery:?}");
        stream.close();
        handle.wait().expect("it ends well");
        let handle = start(job(&stream), &world, &options(false)).expect("it is free again");
        handle.wait().expect("it ends well");
    }
}

/// An operating system that has so many threads more for a process.
struct Few {
    inner: Arc<dyn Spawn>,
    left: AtomicUsize,
}

impl Spawn for Few {
    fn try_spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Thread>> {
        let take = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => self.inner.try_spawn(name, body),
            Err(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

#[test]
fn a_job_for_which_there_are_no_threads_is_refused_and_leaves_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let real = World::real();
    // Two workers, and those that commit and make checkpoints.
    for threads in 0..=4 {
        let spawn = Few { inner: Arc::clone(&real.spawn), left: AtomicUsize::new(threads) };
        let world = World { spawn: Arc::new(spawn), ..real.clone() };
        let stream = Stream::of([1, 2, 3]);
        let graph = uncoordinated::stage(&stream, Arc::new(Seen), &Collect::default());
        let started = start(graph, &world, &options(&real, folder.path(), Span(500)));
        if threads < 4 {
            let error = started.err().expect("refused");
            assert!(matches!(error, StartError::Unavailable { .. }), "{error}");
            assert!(error.to_string().contains("no more threads"), "{error}");
            continue;
        }
        let handle = started.expect("its folder is free again");
        let error = handle.rescale(3).expect_err("there is none");
        assert!(error.contains("no more threads"), "{error}");
        stream.close();
        handle.wait().expect("it goes on all the same");
    }
}

#[test]
fn a_ledger_is_cut_behind_the_oldest_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { count: 100_000, ..SETUP };
    let undisturbed = run_fine(&setup);
    let sink = Collect::default();
    let options = options(&World::real(), folder.path(), Span(1_000));
    let options = RunOptions { ledger_file_bytes: Some(2_000), ..options };
    let started = || start(fine(&setup, &sink), &World::real(), &options).expect("it starts");
    let is_cut = |handle: &JobHandle| {
        while !handle.is_over() {
            if ledger(folder.path()).0.first().is_some_and(|name| name != "ledger") {
                return true;
            }
            std::thread::yield_now();
        }
        false
    };
    // One that is kept holds all that comes after it.
    let handle = started();
    let kept = handle.keep_checkpoint("first").expect("it is made");
    wait_for_checkpoint_at(&handle, Cycle(2_000));
    assert!(!handle.is_over(), "it is long enough");
    kill(&handle);
    let (files, bytes) = ledger(folder.path());
    assert!(files.len() > 1 && files[0] == "ledger", "{files:?}");
    assert!(bytes > 2_000 * 10, "{bytes}");
    let handle = started();
    handle.delete_checkpoint(kept.number).expect("it is kept");
    assert!(is_cut(&handle), "what nothing holds goes");
    kill(&handle);
    let (files, _) = ledger(folder.path());
    // Without its checkpoints such a job cannot go on, and nothing is touched.
    let without = RunOptions { checkpoint: None, ..options.clone() };
    let error = start(fine(&setup, &sink), &World::real(), &without).err().expect("refused");
    let error = error.to_string();
    assert!(error.contains("goes on from a checkpoint only"), "{error}");
    assert_eq!(ledger(folder.path()).0, files);
    let replaced = start(fine(&setup, &Collect::default()), &World::real(), &options);
    let error = replaced.err().expect("the sink is another").to_string();
    assert!(error.contains("no checkpoint from then on that the sinks fit"), "{error}");
    assert_eq!(ledger(folder.path()).0, files);
    // With them it does, to the end.
    let handle = started();
    let at = handle.progress().checkpoints.cycle;
    assert!(at >= Cycle(2_000), "{at}");
    handle.wait().expect("it ends well");
    assert!(rows(&sink) == undisturbed);
    let (_, bytes) = ledger(folder.path());
    assert!(bytes < 30_000, "{bytes} bytes for 5,000 cycles");
}

/// A sink that holds nothing until it is closed.
#[derive(Clone, Default)]
pub(super) struct AtTheEnd(Collect);

impl Sink for AtTheEnd {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        self.0.open(false)
    }
    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        self.0.write(cycle, blocks)
    }
    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        self.0.commit(cycle)
    }
    fn begins_anew(&self) -> bool {
        true
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn a_ledger_stays_whole_for_a_sink_that_begins_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { count: 60_000, ..SETUP };
    let undisturbed = run_fine(&setup);
    let sink = AtTheEnd::default();
    let options = options(&World::real(), folder.path(), Span(1_000));
    let options = RunOptions { ledger_file_bytes: Some(2_000), ..options };
    let started = || {
        let mut graph = fine(&setup, &sink.0);
        graph.stages[3].kind = StageKind::Sink { sink: Box::new(sink.clone()) };
        start(graph, &World::real(), &options).expect("it starts")
    };
    let handle = started();
    wait_for_checkpoint_at(&handle, Cycle(1_500));
    kill(&handle);
    assert_eq!(ledger(folder.path()).0[0], "ledger");
    let handle = started();
    assert_eq!(handle.progress().checkpoints.cycle, Cycle::NONE, "it is done again");
    handle.wait().expect("it ends well");
    assert!(rows(&sink.0) == undisturbed);
}

#[test]
fn a_job_begins_anew_with_a_checkpoint_of_any_life() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sink, mut endless) = (Collect::default(), Endless::default());
    let setup = Endless::SETUP;
    let resuming = options(&World::real(), folder.path(), Span(1_000));
    let handle = start(graph(&setup, &sink), &World::real(), &resuming).expect("it starts");
    let kept = handle.keep_checkpoint("of the first life").expect("it is made");
    wait_for_checkpoints(&handle, 3);
    kill(&handle);
    // Another life, from the start: that of the first cannot be gone on from.
    let anew = RunOptions { resume: false, ..resuming.clone() };
    let handle = start(graph(&setup, &sink), &World::real(), &anew).expect("it starts");
    // Wherever it stands: its sink may lack rows too, but that is not why.
    wait_for_checkpoints(&handle, 1);
    kill(&handle);
    let from = |options: &RunOptions| {
        let to = options.checkpoint.clone();
        let to = to.map(|to| CheckpointTo { from: Some(kept.number), ..to });
        RunOptions { checkpoint: to, ..options.clone() }
    };
    let refused = start(graph(&setup, &sink), &World::real(), &from(&resuming));
    let error = refused.err().expect("its ledger is gone").to_string();
    assert!(error.contains("of an earlier run") && error.contains("begin anew with it"), "{error}");
    // Twice: what the first of them did does not matter to the second.
    for _ in 0..2 {
        let handle = start(graph(&setup, &sink), &World::real(), &from(&anew)).expect("it starts");
        assert_eq!(handle.progress().checkpoints.cycle, kept.cycle);
        assert_eq!(ledger(folder.path()).0, ["ledger"]);
        kill(&handle);
    }
    for life in 0_u64..6 {
        let handle = start(graph(&setup, &sink), &World::real(), &resuming).expect("it starts");
        let at = handle.progress().checkpoints.cycle;
        assert!(at >= kept.cycle, "{at}");
        assert!(life == 0 || at > kept.cycle, "it goes on: {at}");
        wait_for_checkpoints(&handle, 1 + life % 3);
        kill(&handle);
        endless.has_read(&handle);
    }
    let ending = endless.ending();
    let handle = start(graph(&ending, &sink), &World::real(), &resuming).expect("it starts");
    handle.wait().expect("it ends well");
    let undisturbed = run(&ending);
    let after = undisturbed.partition_point(|(cycle, ..)| *cycle <= kept.cycle.0);
    assert!(after > 0 && rows(&sink) == undisturbed[after..], "all that came after it, once");
}
