//! Checkpoints of jobs that were changed since: what fits goes on, and what differs is named.

use super::checkpoints::{Endless, kill, killed_after, options, wait_for_checkpoints};
use super::*;

#[test]
fn a_checkpoint_of_an_earlier_run_is_not_gone_on_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { count: 300_000, ..SETUP };
    let sink = Collect::default();
    let with = options(&World::real(), folder.path(), Span(1_000));
    killed_after(1, graph(&setup, &sink), &with);
    // The same job anew, without checkpoints, and further than the one that was saved.
    let without = RunOptions { resume: false, checkpoint: None, ..with.clone() };
    let handle = start(graph(&setup, &sink), &World::real(), &without).expect("it starts");
    handle.wait().expect("it ends well");
    let undisturbed = rows(&sink);
    let handle = start(graph(&setup, &sink), &World::real(), &with).expect("it starts");
    assert_eq!(handle.progress().checkpoints.cycle, Cycle::NONE);
    handle.wait().expect("it ends well");
    assert!(rows(&sink) == undisturbed);
}

#[test]
fn a_checkpoint_of_another_job_is_refused_with_what_differs() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = Collect::default();
    let setup = Setup { count: 300_000, ..SETUP };
    let options = options(&World::real(), folder.path(), Span(1_000));
    killed_after(1, graph(&setup, &sink), &options);
    let stage = |graph: &mut JobGraph, slices| {
        let factory = Arc::new(RunningSum { poison: None });
        graph.stages[1].kind = StageKind::Operator { factory, slices };
    };
    let mut other = graph(&setup, &sink);
    stage(&mut other, 8);
    let error = start(other, &World::real(), &options).err().expect("refused").to_string();
    assert!(error.contains("`first` has 8 slices now, and had 16"), "{error}");
    let mut other = graph(&setup, &sink);
    other.stages[1].name = "renamed".to_owned();
    let error = start(other, &World::real(), &options).err().expect("refused").to_string();
    assert!(error.contains("no stage `first` any more"), "{error}");
    assert!(error.contains("undo that change, or begin anew"), "{error}");
    let handle =
        start(graph(&setup, &sink), &World::real(), &options).expect("nothing was changed");
    assert!(handle.progress().checkpoints.cycle > Cycle::NONE);
}

/// The running sums, with a sink of its own on the first of them.
fn with_another_sink(setup: &Setup, sink: &Collect, other: &Collect) -> JobGraph {
    let mut graph = graph(setup, sink);
    let other = graph.add("other", StageKind::Sink { sink: Box::new(other.clone()) });
    graph.link(StageIx(1), other, Partition::One);
    graph
}

#[test]
fn a_job_that_was_changed_where_it_keeps_nothing_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sink, other) = (Collect::default(), Collect::default());
    let mut endless = Endless::default();
    let options = options(&World::real(), folder.path(), Span(1_000));
    // A sink comes and goes.
    for life in 0..6 {
        let changed = match life % 2 {
            0 => graph(&Endless::SETUP, &sink),
            _ => with_another_sink(&Endless::SETUP, &sink, &other),
        };
        let handle = start(changed, &World::real(), &options).expect("it fits");
        assert!(life == 0 || handle.progress().checkpoints.cycle > Cycle::NONE, "it goes on");
        wait_for_checkpoints(&handle, 2);
        kill(&handle);
        endless.has_read(&handle);
    }
    let ending = endless.ending();
    let handle = start(graph(&ending, &sink), &World::real(), &options).expect("it fits");
    handle.wait().expect("it ends well");
    assert!(rows(&sink) == run(&ending));
}

#[test]
fn a_stage_that_is_new_begins_empty_and_must_stay_then() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = Collect::default();
    let options = options(&World::real(), folder.path(), Span(1_000));
    killed_after(1, graph(&Endless::SETUP, &sink), &options);
    let mut with_third = graph(&Endless::SETUP, &sink);
    let factory = Arc::new(RunningSum { poison: None });
    let third = with_third.add("third", StageKind::Operator { factory, slices: 5 });
    let unread = Box::new(Collect::default());
    let out = with_third.add("unread", StageKind::Sink { sink: unread });
    with_third.link(StageIx(2), third, Partition::Key(vec![0]));
    with_third.link(third, out, Partition::One);
    let handle = start(with_third, &World::real(), &options).expect("it fits");
    assert!(handle.progress().checkpoints.cycle > Cycle::NONE);
    wait_for_checkpoints(&handle, 2);
    kill(&handle);
    let refused = start(graph(&Endless::SETUP, &sink), &World::real(), &options);
    let error = refused.err().expect("it has a state").to_string();
    assert!(error.contains("no stage `third` any more"), "{error}");
}
