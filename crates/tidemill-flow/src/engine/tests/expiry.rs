//! Jobs whose keys leave memory when nothing comes for them.

use super::checkpoints::{kill, options};
use super::uncoordinated::{Stream, stage, wait_for_rows};
use super::*;
use tidemill_types::job::Delivery;

/// Keys of the stream.
const KEYS: i64 = 97;

/// Adds numbers of one key until all others have left.
fn wait_until_they_leave(handle: &JobHandle, (stream, sink): (&Stream, &Collect), next: &mut i64) {
    let from = *next;
    while handle.progress().stages[0].expired_keys < KEYS as u64 - 1 {
        assert!(*next < from + 100_000, "{:?}", handle.progress().stages[0]);
        let before = rows(sink).len();
        stream.add([*next * KEYS]);
        *next += 1;
        wait_for_rows(handle, sink, before + 1);
    }
}

#[test]
fn a_server_that_is_away_when_a_key_is_needed_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&World::real(), folder.path(), Span(1_000));
    let to = options.checkpoint.as_mut().expect("it is set");
    let (backend, left) = server::that_goes_away(&to.backend, (u64::MAX, u64::MAX));
    to.backend = backend;
    let (stream, sink) = (Stream::of(0..10 * KEYS), Collect::default());
    let mut graph = stage(&stream, Arc::new(RunningSum { poison: None }), &sink);
    graph.stages[1].ttl = Some(Span(1_000));
    let handle = start(graph, &World::real(), &options).expect("it starts");
    wait_until_they_leave(&handle, (&stream, &sink), &mut 10);
    left.reads.store(0, Ordering::SeqCst);
    let before = rows(&sink).len();
    stream.add(KEYS * 1_000..KEYS * 1_001);
    while handle.progress().stalled.is_none() {
        assert!(!handle.is_over(), "{:?}", handle.wait().err());
        std::thread::yield_now();
    }
    left.reads.store(u64::MAX, Ordering::SeqCst);
    wait_for_rows(&handle, &sink, before + KEYS as usize);
    stream.close();
    handle.wait().expect("it ends well");
    let mut expected = vec![0; KEYS as usize];
    stream.numbers().into_iter().for_each(|number| expected[(number % KEYS) as usize] += number);
    let last: BTreeMap<i64, i64> =
        rows(&sink).into_iter().map(|(_, key, sum)| (key, sum)).collect();
    assert_eq!(last.into_values().collect::<Vec<_>>(), expected);
}

/// Whatever leaves and comes back, over a kill, a stop, and a change of threads: each key goes on
/// from the sum that it had.
#[test]
fn keys_leave_memory_and_come_back_as_they_were() {
    for delivery in [Delivery::ExactlyOnce, Delivery::AtMostOnce] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = options(&World::real(), folder.path(), Span(1_000));
        let (stream, sink) = (Stream::of(0..10 * KEYS), Collect::default());
        let start_it = || {
            let mut graph = stage(&stream, Arc::new(RunningSum { poison: None }), &sink);
            graph.delivery = delivery;
            graph.stages[1].ttl = Some(Span(1_000));
            start(graph, &World::real(), &options).expect("it starts")
        };
        let mut next = 10;
        let handle = start_it();
        wait_until_they_leave(&handle, (&stream, &sink), &mut next);
        handle.rescale(3).expect("it changes its threads");
        // What comes goes to all of them, and they leave again.
        for _ in 0..2 {
            let (count, before) = (rows(&sink).len(), handle.progress().stages[0].revived_keys);
            stream.add(KEYS * next..KEYS * (next + 10));
            next += 10;
            wait_for_rows(&handle, &sink, count + 10 * KEYS as usize);
            let revived = handle.progress().stages[0].revived_keys - before;
            assert!(revived >= KEYS as u64 - 1, "{revived}");
            wait_until_they_leave(&handle, (&stream, &sink), &mut next);
        }
        if delivery == Delivery::ExactlyOnce {
            kill(&handle);
        } else {
            handle.stop();
            handle.wait().expect("it stops well");
        }
        drop(handle);
        let handle = start_it();
        assert!(handle.progress().checkpoints.cycle > Cycle::NONE);
        wait_until_they_leave(&handle, (&stream, &sink), &mut next);
        stream.add(KEYS * next..KEYS * (next + 10));
        stream.close();
        handle.wait().expect("it ends well");
        let mut sums: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (_, key, sum) in rows(&sink) {
            sums.entry(key).or_default().push(sum);
        }
        let mut expected: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for number in stream.numbers() {
            let sums = expected.entry(number % KEYS).or_default();
            sums.push(sums.last().unwrap_or(&0) + number);
        }
        assert_eq!(sums, expected);
    }
}
