//! The watermark passes what landed, in order, and nothing else.

use super::*;
use std::sync::Mutex;

fn alone(start: i64, next: i64) -> OffsetTracker {
    OffsetTracker::new(start, next, StreamletRole::Leader(LeaderEpoch(0)), Landing::Local)
}

#[test]
fn the_watermark_passes_a_chunk_when_all_before_it_landed() {
    let mut progress = alone(0, 10);
    let bases: Vec<i64> = [2, 3, 1].iter().map(|it| progress.take(*it).unwrap().base).collect();
    assert_eq!(bases, [10, 12, 15]);
    progress.land([15]).send();
    assert_eq!((progress.watermark(), progress.next()), (10, 16));
    progress.land([10]).send();
    assert_eq!(progress.watermark(), 12);
    progress.land([12, 12]).send();
    assert_eq!(progress.watermark(), 16);
}

#[test]
fn each_notice_is_given_once() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let seen = Arc::clone(&seen);
        move |outcome: Result<(), AppendError>| seen.lock().unwrap().push((what, outcome.is_ok()))
    };
    let mut progress = alone(0, 0);
    let (first, second) = (progress.take(1).unwrap().base, progress.take(1).unwrap().base);
    assert!(matches!(progress.on_visible(first, Box::new(note("a"))), Registration::Waits));
    assert!(matches!(progress.on_visible(second, Box::new(note("b"))), Registration::Waits));
    let data = note("data");
    assert!(progress.on_data(0, Box::new(move || data(Ok(())))).is_ok());
    progress.land([first]).send();
    assert_eq!(*seen.lock().unwrap(), [("data", true), ("a", true)], "readers first");
    progress.fail(failure("gone")).send();
    progress.fail(failure("again")).send();
    progress.land([second]).send();
    assert_eq!(seen.lock().unwrap()[2..], [("b", false)]);
    assert_eq!(progress.watermark(), 1, "what failed is never visible");
    assert!(progress.take(1).is_err());
    assert!(matches!(
        progress.on_visible(second, Box::new(note("late"))),
        Registration::Now(_, Err(AppendError::Failed(_)))
    ));
}

#[test]
fn only_the_last_offsets_can_be_given_back() {
    let mut progress = alone(0, 0);
    let (first, second) = (progress.take(5).unwrap().base, progress.take(1).unwrap().base);
    assert!(!progress.give_back(first));
    assert!(progress.give_back(second));
    assert!(progress.give_back(first));
    assert_eq!(progress.take(1).unwrap().base, 0);
}

#[test]
fn several_wait_for_one_offset_and_each_is_told_once() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let seen = Arc::clone(&seen);
        Box::new(move |outcome: Result<(), AppendError>| {
            seen.lock().unwrap().push((what, outcome.is_ok()));
        })
    };
    let mut progress = alone(0, 0);
    let (first, second) = (progress.take(3).unwrap().base, progress.take(1).unwrap().base);
    for (offset, what) in
        [(second, "d"), (first, "a"), (first, "b"), (first + 2, "c"), (second, "e"), (9, "f")]
    {
        assert!(matches!(progress.on_visible(offset, note(what)), Registration::Waits), "{what}");
    }
    assert!(progress.on_data(first + 1, Box::new(|| ())).is_ok());
    progress.land([first]).send();
    assert_eq!(*seen.lock().unwrap(), [("a", true), ("b", true), ("c", true)]);
    assert!(matches!(progress.on_visible(first + 1, note("now")), Registration::Now(_, Ok(()))));
    progress.land([second]).send();
    assert_eq!(seen.lock().unwrap()[3..], [("d", true), ("e", true)]);
    progress.fail(failure("gone")).send();
    assert_eq!(seen.lock().unwrap()[5..], [("f", false)], "what gap_error took is never visible");
}

#[test]
fn row_15_a_reader_of_what_failed_waits_until_it_is_closed() {
    let told = Arc::new(Mutex::new(0));
    let note = || {
        let told = Arc::clone(&told);
        Box::new(move || *told.lock().unwrap() += 1)
    };
    let mut progress = alone(0, 3);
    assert!(progress.on_data(3, note()).is_ok());
    progress.fail(failure("gone")).send();
    assert_eq!(*told.lock().unwrap(), 1, "it looks again");
    assert!(progress.on_data(3, note()).is_ok(), "and then it waits");
    progress.fail(failure("again")).send();
    assert_eq!(*told.lock().unwrap(), 1);
    assert!(progress.on_data(2, note()).is_err(), "what is there can be read");
    progress.fail(AppendError::Closed).send();
    assert_eq!(*told.lock().unwrap(), 2);
    assert!(progress.on_data(3, note()).is_err());
}
