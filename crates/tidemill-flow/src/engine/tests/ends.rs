//! Sources that end before others, and sinks that therefore do.

use super::*;

/// Two lines that have nothing to do with each other, of which one is short, and the other has so
/// many numbers.
pub(super) fn two_lines(sinks: &[Collect; 2], long: i64) -> JobGraph {
    let mut graph = JobGraph::new("two");
    graph.workers = 2;
    graph.cycle.records = 100;
    for (nth, (sink, count)) in sinks.iter().zip([700, long]).enumerate() {
        let factory = Arc::new(Numbers { count, keys: 7, live: false });
        let source = StageKind::Source { factory, preload: false };
        let source = graph.add(format!("source {nth}"), source);
        let factory = Arc::new(RunningSum { poison: None });
        let stage = graph.add(format!("stage {nth}"), StageKind::Operator { factory, slices: 4 });
        let kind = StageKind::Sink { sink: Box::new(sink.clone()) };
        let out = graph.add(format!("out {nth}"), kind);
        graph.link(source, stage, Partition::Key(vec![0]));
        graph.link(stage, out, Partition::One);
    }
    graph
}

#[test]
fn a_sink_that_has_ended_holds_nobody_back() {
    let folder = tempfile::tempdir().expect("a folder");
    for data in [None, Some(folder.path().to_owned())] {
        let sinks = [Collect::default(), Collect::default()];
        let options = RunOptions { data, ..RunOptions::default() };
        let handle = start(two_lines(&sinks, 40_000), &World::real(), &options).expect("it starts");
        assert!(handle.wait().expect("it ends well").finished);
        assert_eq!(sinks.map(|it| rows(&it).len()), [700, 40_000]);
    }
}

/// Nobody writes what the long one reads, so that nobody says how far it is.
#[test]
fn a_source_that_nobody_reads_ends_after_all_sinks() {
    let folder = tempfile::tempdir().expect("a folder");
    for (turn, data) in [None, None, None, Some(folder.path().to_owned())].into_iter().enumerate() {
        let sink = Collect::default();
        let mut graph = JobGraph::new("unread");
        graph.workers = 2;
        graph.cycle.records = 100;
        for (name, count) in [("short", 250), ("long", 40_000)] {
            let factory = Arc::new(Numbers { count, keys: 7, live: false });
            let source = graph.add(name, StageKind::Source { factory, preload: false });
            if name == "short" {
                let out = graph.add("out", StageKind::Sink { sink: Box::new(sink.clone()) });
                graph.link(source, out, Partition::One);
            }
        }
        let options = RunOptions { data, ..RunOptions::default() };
        let handle = start(graph, &World::real(), &options).expect("it starts");
        let world = World::real();
        let (clock, from_us) = (&world.clock, world.clock.monotonic_micros());
        while !handle.is_over() {
            let waited_us = clock.monotonic_micros() - from_us;
            assert!(waited_us < 60_000_000, "turn {turn}: {:?}", handle.progress());
            std::thread::yield_now();
        }
        assert!(handle.wait().expect("it ends well").finished);
        assert_eq!(rows(&sink).len(), 250);
    }
}

#[test]
fn all_who_wait_come_back_when_the_job_has_ended() {
    let setup = Setup { count: i64::MAX, ..SETUP };
    let folder = tempfile::tempdir().expect("a folder");
    let options = |resume| RunOptions {
        data: Some(folder.path().to_owned()),
        resume,
        ..RunOptions::default()
    };
    let begin = |resume| {
        let graph = graph(&setup, &Collect::default());
        start(graph, &World::real(), &options(resume)).expect("it starts")
    };
    let handle = begin(false);
    let (begun, over) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let waits = || {
            begun.fetch_add(1, Ordering::AcqRel);
            handle.wait().expect("it ends well");
            over.lock().expect("held briefly").push(handle.is_over());
        };
        scope.spawn(waits);
        // The first has the threads to wait for.
        while !handle.threads.lock().expect("held briefly").is_empty() {
            std::thread::yield_now();
        }
        scope.spawn(waits);
        // More threads than those that it waits for.
        handle.rescale(4).expect("it changes");
        while begun.load(Ordering::Acquire) < 2 {
            std::thread::yield_now();
        }
        let cycle = handle.progress().cycle_committed.0;
        while handle.progress().cycle_committed.0 < cycle + 20 {
            std::thread::yield_now();
        }
        assert!(over.lock().expect("held briefly").is_empty(), "nobody comes back before");
        handle.stop();
    });
    assert_eq!(*over.lock().expect("held briefly"), [true, true]);
    // Nothing of the job has its folder any more.
    let again = begin(true);
    again.stop();
    again.wait().expect("it ends well");
}
