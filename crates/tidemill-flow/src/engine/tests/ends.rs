//! Sources that end before others, and sinks that therefore do.

use super::*;

/// Two lines that have nothing to do with each other, of which one is short.
pub(super) fn two_lines(sinks: &[Collect; 2]) -> JobGraph {
    let mut graph = JobGraph::new("two");
    graph.workers = 2;
    graph.cycle.records = 100;
    for (nth, (sink, count)) in sinks.iter().zip([700, 40_000]).enumerate() {
        let factory = Arc::new(Numbers { count, keys: 7, live: false });
        let source = NodeKind::Source { factory, preload: false };
        let source = graph.add(format!("source {nth}"), source);
        let factory = Arc::new(RunningSum { poison: None });
        let stage = graph.add(format!("stage {nth}"), NodeKind::Stage { factory, slices: 4 });
        let kind = NodeKind::Sink { sink: Box::new(sink.clone()) };
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
        let handle = start(two_lines(&sinks), &World::real(), &options).expect("it starts");
        assert!(handle.wait().expect("it ends well").finished);
        assert_eq!(sinks.map(|it| rows(&it).len()), [700, 40_000]);
    }
}
