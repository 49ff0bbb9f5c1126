//! A job whose state may not take more than so much.

use super::*;
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
        graph.nodes[0].kind = NodeKind::Source { factory, preload: false };
        graph.state_budget = budget.map(ByteSize);
        start(graph, &World::real(), &options).expect("it starts")
    };
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
