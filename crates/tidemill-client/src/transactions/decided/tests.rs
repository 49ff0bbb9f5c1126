//! What follows from what a coordinator says.

use super::*;

fn last(state: &str, purpose: Purpose) -> Last {
    let timeout_ms = purpose.timeout_ms(Duration::from_secs(60));
    Last { identity: (7, 3), state: state.to_owned(), timeout_ms }
}

#[test]
fn what_makes_up_for_an_end_is_ended_and_not_taken_over() {
    let (write, commit, abort) =
        (Purpose::Write, Purpose::EndAgain(true), Purpose::EndAgain(false));
    let table = [
        ("Empty", write, Next::Look(None)),
        ("Empty", commit, Next::Look(Some(true))),
        ("Empty", abort, Next::Look(Some(false))),
        ("Ongoing", write, Next::TakeOver),
        ("Ongoing", commit, Next::End(true)),
        ("Ongoing", abort, Next::End(false)),
        ("PrepareCommit", write, Next::Wait),
        ("PrepareAbort", commit, Next::Wait),
        ("PrepareEpochFence", write, Next::Wait),
        ("CompleteCommit", write, Next::Look(Some(true))),
        ("CompleteCommit", commit, Next::Look(Some(true))),
        ("CompleteAbort", write, Next::Look(Some(false))),
        ("CompleteAbort", abort, Next::Look(Some(false))),
        ("CompleteAbort", commit, Next::Refuse),
        ("something new", write, Next::Look(None)),
    ];
    for (state, purpose, expected) in table {
        assert_eq!(next(&last(state, purpose)), expected, "{state} {purpose:?}");
    }
}

#[test]
fn what_an_id_was_taken_over_for_is_in_its_timeout() {
    for timeout_ms in [1_000, 59_950, 60_000, 60_001, 60_002, 900_000, u64::from(u32::MAX)] {
        let timeout = Duration::from_millis(timeout_ms);
        for purpose in [Purpose::Write, Purpose::EndAgain(true), Purpose::EndAgain(false)] {
            let told_ms = purpose.timeout_ms(timeout);
            assert_eq!(Purpose::of(told_ms), purpose);
            assert!(told_ms > 0 && i64::from(told_ms) <= timeout_ms.cast_signed(), "{told_ms}");
            assert!(i64::from(told_ms) > timeout_ms.cast_signed().min(2_000_000_000) - 200);
        }
    }
}

#[test]
fn one_epoch_is_enough_to_end_again() {
    let ended = last("CompleteCommit", Purpose::Write);
    assert!(!ended.may_end_again(true));
    let begun = last("Empty", Purpose::EndAgain(true));
    assert!(begun.may_end_again(true) && !begun.may_end_again(false));
    let of_the_last_epoch = Last { identity: (7, i16::MAX - 1), ..ended };
    assert!(of_the_last_epoch.may_end_again(true));
}
