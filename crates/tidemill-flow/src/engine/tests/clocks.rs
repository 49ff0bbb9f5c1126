//! What operators and sources are told of clocks, chance and event time is the same in every life.

use super::checkpoints::{kill, options};
use super::seek::Sought;
use super::*;
use tidemill_env::SimWorld;
use tidemill_types::job::Delivery;

/// Writes the time and the seed of each cycle that has rows.
const TELLS: Plain = Plain {
    columns: ["time", "seed"],
    does: |context, input, output| {
        if !input.port(0).is_empty() {
            let told = vec![vec![context.cycle_time.0], vec![context.seed.cast_signed()]];
            output.emit(batch(&TELLS.columns, told));
        }
    },
};

/// Where a source was sent, and with which watermark.
type Sent = Arc<Mutex<Vec<(Position, Micros)>>>;

fn telling(count: i64, sink: &Collect, sent: &Sent) -> JobGraph {
    let mut graph = JobGraph::new("clocks");
    graph.cycle.records = 1_000;
    let numbers = Numbers { count, keys: 97, live: false };
    let sent = Arc::clone(sent);
    let factory = Sought::new(numbers, move |to, watermark| {
        sent.lock().expect("held briefly").push((to, watermark));
        Ok(())
    });
    let source = graph.add("numbers", StageKind::Source { factory, preload: false });
    let stage = graph.add("tells", StageKind::Operator { factory: Arc::new(TELLS), slices: 1 });
    let out = graph.add("out", StageKind::Sink { sink: Box::new(sink.clone()) });
    graph.link(source, stage, Partition::Key(vec![0]));
    graph.link(stage, out, Partition::One);
    graph
}

#[test]
fn a_replay_tells_operators_the_times_and_seeds_of_the_first_run() {
    let sim = World::simulated(1);
    let run = |resume| {
        let sink = Collect::default();
        let data = Some("/job".into());
        let options = RunOptions { data, resume, ..RunOptions::default() };
        let graph = telling(20_000, &sink, &Sent::default());
        let handle = start(graph, &sim.world, &options).expect("it starts");
        assert!(handle.wait().expect("it ends well").finished);
        rows(&sink)
    };
    let first = run(false);
    assert_eq!(first.len(), 20);
    sim.clock.advance(1_000_000);
    // With a sink that has lost everything: all of it is replayed.
    assert_eq!(run(true), first);
}

/// Two lives of a job, between which the clock on the wall goes back an hour; gives back what its
/// operators were told.
fn lives(sim: &SimWorld, delivery: Delivery) -> Vec<(u64, i64, i64)> {
    const COUNT: i64 = 600_000;
    let (sink, sent) = (Collect::default(), Sent::default());
    let live = || {
        let mut graph = telling(COUNT, &sink, &sent);
        graph.delivery = delivery;
        let options = options(&sim.world, Path::new("/clocks"), Span(1));
        start(graph, &sim.world, &options).expect("it starts")
    };
    let until = |handle: &JobHandle, is_so: &dyn Fn(&JobHandle) -> bool| {
        while !is_so(handle) {
            sim.clock.advance(1_000);
            std::thread::yield_now();
        }
    };
    let handle = live();
    until(&handle, &|it| it.progress().checkpoints.completed > 0 || it.is_over());
    kill(&handle);
    drop(handle);
    assert!(!rows(&sink).is_empty());
    sim.clock.jump_wall(-3_600_000_000);
    let handle = live();
    assert!(handle.progress().checkpoints.cycle > Cycle::NONE, "{delivery:?}: it went on");
    until(&handle, &JobHandle::is_over);
    assert!(handle.wait().expect("it ends well").finished);
    let sent = sent.lock().expect("held briefly").clone();
    assert!(matches!(sent[..], [(Position(at), Micros(time))] if at as i64 == time), "{sent:?}");
    rows(&sink)
}

#[test]
fn a_job_that_goes_on_is_told_of_no_earlier_time() {
    for delivery in [Delivery::ExactlyOnce, Delivery::AtMostOnce] {
        let told = lives(&World::simulated(1), delivery);
        assert!(told.is_sorted_by_key(|(_, time, _)| *time), "{delivery:?}");
    }
}
