//! A job whose state may not take more than so much.

use super::*;
use crate::operator::OutputTooLarge;
use tidemill_types::ByteSize;

#[test]
fn a_state_that_reaches_its_budget_ends_the_job_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = checkpoints::options(&World::real(), folder.path(), Span(1_000));
    let setup = Setup { count: 600_000, ..SETUP };
    let sink = Collect::default();
    let started = |budget: Option<u64>| {
        let mut graph = graph(&setup, &sink);
        let factory = Arc::new(Numbers { count: setup.count, keys: 150_000, live: false });
        graph.stages[0].kind = StageKind::Source { factory, preload: false };
        graph.state_budget = budget.map(ByteSize);
        start(graph, &World::real(), &options).expect("it starts")
    };
    // How much of the state comes before the first checkpoint is complete is up to the machine.
    let handle = started(None);
    handle.keep_checkpoint("").expect("it is made");
    checkpoints::kill(&handle);
    drop(handle);
    let handle = started(Some(2 << 20));
    let error = handle.wait().expect_err("it has more than that").to_string();
    assert!(error.contains("its budget is 2MiB: give `state.budget` more"), "{error}");
    let left: u64 = handle.progress().stages.iter().map(|it| it.state_bytes).sum();
    assert!(left > 2 << 20, "{left}");
    drop(handle);
    // With more it goes on from there, to what an undisturbed job would have come to.
    let handle = started(Some(1 << 30));
    assert!(handle.progress().checkpoints.cycle > Cycle::NONE);
    let progress = handle.wait().expect("it ends well");
    assert!(progress.finished);
    let held = rows(&sink);
    assert_eq!(held.len() as i64, setup.count);
    let last: BTreeMap<i64, i64> = held.iter().map(|(_, key, sum)| (*key, *sum)).collect();
    assert_eq!(last.len(), 150_000);
}

#[test]
fn a_thread_that_writes_too_much_in_a_cycle_ends_the_job_with_what_to_do() {
    let sink = Collect::default();
    let started = |output: u64| {
        let mut graph = graph(&SETUP, &sink);
        graph.buffer.output = ByteSize(output);
        start(graph, &World::real(), &RunOptions::default()).expect("it starts")
    };
    let error = started(64).wait().expect_err("a cycle has more than that").to_string();
    assert!(
        error.contains("one thread wrote more than 64B in a cycle: give the job a larger"),
        "{error}"
    );
    assert!(!error.contains("panicked"), "{error}");
    assert!(started(1 << 20).wait().expect("it ends well").finished);
    assert_eq!(by_key(&rows(&sink)), expected(SETUP.count));
}

#[test]
fn parts_of_a_batch_count_for_what_they_are() {
    let most = 1 << 20;
    let mut output = Output::new(64).limited(ByteSize(most as u64));
    let whole = batch(&["n"], vec![vec![7; most / 8 / 2]]);
    for _ in 0..2 {
        output.begin(SliceId(0));
        for row in 0..4_000 {
            output.emit(whole.slice(row, 1));
        }
        output.emit(whole.clone());
        assert_eq!(output.take_batches().len(), 4_001);
    }
    output.begin(SliceId(0));
    (0..2).for_each(|_| output.emit(whole.clone()));
    let one_more = AssertUnwindSafe(|| output.emit(whole.slice(0, 1)));
    let panic = catch_unwind(one_more).expect_err("it is more");
    assert!(panic.is::<OutputTooLarge>());
}
