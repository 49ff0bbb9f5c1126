//! When a state is read back.

use super::checkpoints::{Endless, kill, killed_after, options, wait_for_checkpoints};
use super::*;
use tidemill_checkpoints::WriteBatch;
use tidemill_types::job::Recovery;

fn recovering(options: &RunOptions, recovery: Recovery) -> RunOptions {
    let to = options.checkpoint.clone().map(|to| CheckpointTo { recovery, ..to });
    RunOptions { checkpoint: to, ..options.clone() }
}

#[test]
fn a_state_may_be_read_back_when_it_is_needed() {
    for recovery in [Recovery::Lazy, Recovery::Prefetch] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = recovering(&options(&World::real(), folder.path(), Span(500)), recovery);
        let (sink, mut endless) = (Collect::default(), Endless::default());
        let start_it = |setup| start(graph(&setup, &sink), &World::real(), &options);
        for life in 0_usize..12 {
            let setup = Setup { workers: 1 + life % 3, ..Endless::SETUP };
            let handle = start_it(setup).expect("it starts");
            assert!(life == 0 || handle.progress().checkpoints.cycle > Cycle::NONE, "it goes on");
            if life % 2 == 1 {
                // Slices move to other lanes, read or not.
                let _refused = handle.rescale(1 + (life + 1) % 3);
            }
            wait_for_checkpoints(&handle, 1 + life as u64 % 3);
            kill(&handle);
            endless.has_read(&handle);
        }
        let handle = start_it(endless.ending()).expect("it starts");
        assert!(handle.wait().expect("it ends well").finished);
        assert_eq!(handle.progress().checkpoints.slices_left, 0, "each has its rows");
        assert!(rows(&sink) == run(&endless.ending()));
    }
}

/// A run of one slice is damaged. Who reads all at once refuses to start; else the job goes on, also
/// with its checkpoints, until a row comes for that slice.
#[test]
fn a_state_that_cannot_be_read_stops_who_needs_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { count: 400_000, ..SETUP };
    let sink = Collect::default();
    let options = options(&World::real(), folder.path(), Span(500));
    killed_after(1, graph(&setup, &sink), &options);
    let backend = Arc::clone(&options.checkpoint.as_ref().expect("it is set").backend);
    let of_first = |key: &Vec<u8>| key[9..13] == 1_u32.to_be_bytes();
    let runs = backend.keys(b"r").expect("it can be read");
    let run = runs.into_iter().rfind(of_first).expect("a run of `first`");
    let mut batch = WriteBatch::default();
    batch.put(&run, b"no run");
    backend.commit(&mut batch).expect("it can be written");

    let start_with =
        |graph, recovery| start(graph, &World::real(), &recovering(&options, recovery));
    let error = start_with(graph(&setup, &sink), Recovery::Eager).err().expect("refused");
    let error = error.to_string();
    assert!(error.contains("`first`: the state of slice"), "{error}");
    for recovery in [Recovery::Lazy, Recovery::Prefetch] {
        let handle = start_with(graph(&setup, &sink), recovery).expect("it starts");
        let error = handle.wait().expect_err("a row needs it");
        assert!(!error.panicked && error.part == "first", "{error}");
        assert!(error.message.contains("the state of slice"), "{error}");
    }
    // Rows of one key come, of another slice: checkpoints name what has not been read.
    let mut of_one_key = graph(&setup, &sink);
    let factory = Arc::new(Numbers { count: setup.count, keys: 1, live: false });
    of_one_key.stages[0].kind = StageKind::Source { factory, preload: false };
    let handle = start_with(of_one_key, Recovery::Lazy).expect("it starts");
    wait_for_checkpoints(&handle, 2);
    assert!(handle.progress().checkpoints.slices_left > 0 && !handle.is_over());
    kill(&handle);
    let error = start_with(graph(&setup, &sink), Recovery::Eager).err().expect("refused");
    assert!(error.to_string().contains("the state of slice"), "{error}");
}

#[test]
fn a_server_that_goes_away_while_a_job_starts_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup { count: 400_000, ..SETUP };
    let sink = Collect::default();
    let options = options(&World::real(), folder.path(), Span(500));
    killed_after(1, graph(&setup, &sink), &options);
    let inner = Arc::clone(&options.checkpoint.as_ref().expect("it is set").backend);
    let start_with = |resume: bool, reads: u64, commits: u64| {
        let (backend, _) = server::that_goes_away(&inner, (reads, commits));
        let to = options.checkpoint.clone().map(|to| CheckpointTo { backend, ..to });
        let options = RunOptions { checkpoint: to, resume, ..options.clone() };
        start(graph(&setup, &sink), &World::real(), &options)
    };
    let is_away = |error: &StartError| {
        assert!(error.to_string().contains("connection reset"), "{error}");
        matches!(error, StartError::Unavailable { .. })
    };
    let mut refused = 0;
    let handle = loop {
        match start_with(true, refused, u64::MAX) {
            Ok(handle) => break handle,
            Err(error) => assert!(is_away(&error), "after {refused} reads: {error:?}"),
        }
        refused += 1;
    };
    assert!(refused > 16, "each slice is read: {refused}");
    kill(&handle);
    // Beginning anew it has to say so.
    let error = start_with(false, u64::MAX, 0).err().expect("nothing can be written");
    assert!(is_away(&error), "{error:?}");
}

#[test]
fn a_server_that_is_away_when_a_slice_is_needed_is_waited_for() {
    let setup = Setup { count: 400_000, ..SETUP };
    let undisturbed = run(&setup);
    for recovery in [Recovery::Lazy, Recovery::Prefetch] {
        let (folder, sink) = (tempfile::tempdir().expect("a folder"), Collect::default());
        let options = recovering(&options(&World::real(), folder.path(), Span(500)), recovery);
        killed_after(1, graph(&setup, &sink), &options);
        let inner = Arc::clone(&options.checkpoint.as_ref().expect("it is set").backend);
        // Just as many reads as it takes to start.
        let (handle, left) = (0..)
            .find_map(|reads| {
                let (backend, left) = server::that_goes_away(&inner, (reads, u64::MAX));
                let to = options.checkpoint.clone().map(|to| CheckpointTo { backend, ..to });
                let options = RunOptions { checkpoint: to, ..options.clone() };
                let handle = start(graph(&setup, &sink), &World::real(), &options).ok()?;
                Some((handle, left))
            })
            .expect("it starts");
        let stalled = loop {
            assert!(!handle.is_over(), "{:?}", handle.wait().err());
            if let Some(stalled) = handle.progress().stalled {
                break stalled;
            }
            std::thread::yield_now();
        };
        assert!(stalled.why.contains("connection reset"), "{}", stalled.why);
        assert!(["first", "second"].contains(&&*stalled.part), "{}", stalled.part);
        left.reads.store(u64::MAX, Ordering::SeqCst);
        assert!(handle.wait().expect("it ends well").finished);
        assert_eq!(handle.progress().stalled, None);
        assert!(rows(&sink) == undisturbed);
    }
}
