//! Blocks that a stage passes on by reference: the same rows, however they are routed after it.

use super::*;

/// Passes every block on.
const PASS: Plain = Plain {
    columns: ["key", "number"],
    does: |_, input, output| input.port(0).iter().for_each(|block| output.pass(block)),
};

#[test]
fn blocks_that_are_passed_on_are_routed_as_new_ones_are() {
    let setup = Setup { count: 30_000, ..SETUP };
    let undisturbed = run(&setup);
    for into in [Partition::One, Partition::Local, Partition::All] {
        for workers in [1, 3] {
            let sink = Collect::default();
            let aside = Collect::default();
            let mut graph = JobGraph::new("sums");
            graph.workers = workers;
            graph.cycle.records = 1_000;
            let factory = Arc::new(Numbers { count: setup.count, keys: 97, live: false });
            let source = graph.add("numbers", StageKind::Source { factory, preload: false });
            let stage = |slices, factory| StageKind::Operator { factory, slices };
            let one = graph.add("one", stage(1, Arc::new(PASS)));
            let two = graph.add("two", stage(1, Arc::new(PASS)));
            let first = graph.add("first", stage(16, Arc::new(RunningSum { poison: None })));
            let second = graph.add("second", stage(7, Arc::new(RunningSum { poison: None })));
            let out = graph.add("out", StageKind::Sink { sink: Box::new(sink.clone()) });
            let copy = graph.add("copy", StageKind::Sink { sink: Box::new(aside.clone()) });
            graph.link(source, one, into.clone());
            graph.link(one, two, into.clone());
            graph.link(two, first, Partition::Key(vec![0]));
            graph.link(one, copy, Partition::One);
            graph.link(first, second, Partition::Key(vec![0]));
            graph.link(second, out, Partition::One);
            let handle = start(graph, &World::real(), &RunOptions::default()).expect("it starts");
            handle.wait().expect("it ends well");
            assert!(rows(&sink) == undisturbed, "{into:?}, {workers} threads");
            let numbers = rows(&aside).into_iter().map(|(_, _, number)| number);
            assert!(numbers.eq(0..setup.count), "{into:?}, {workers} threads");
            for link in &handle.job.plan.links {
                assert_eq!(link.credit.waiting_bytes(), 0);
            }
        }
    }
}
