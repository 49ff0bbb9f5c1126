//! Decisions about a transaction, from the answers of its coordinator.

use super::*;

fn last(state: &str, purpose: TakeoverPurpose) -> LastTransaction {
    let timeout_ms = purpose.timeout_ms(Duration::from_secs(60));
    LastTransaction { identity: ProducerIdentity::of(7, 3), state: state.to_owned(), timeout_ms }
}

#[test]
fn what_makes_up_for_an_end_is_ended_and_not_taken_over() {
    let (write, commit, abort) =
        (TakeoverPurpose::Write, TakeoverPurpose::EndAgain(true), TakeoverPurpose::EndAgain(false));
    let table = [
        ("Empty", write, NextStep::Look(None)),
        ("Empty", commit, NextStep::Look(Some(true))),
        ("Empty", abort, NextStep::Look(Some(false))),
        ("Ongoing", write, NextStep::TakeOver),
        ("Ongoing", commit, NextStep::End(true)),
        ("Ongoing", abort, NextStep::End(false)),
        ("PrepareCommit", write, NextStep::Wait),
        ("PrepareAbort", commit, NextStep::Wait),
        ("PrepareEpochFence", write, NextStep::Wait),
        ("CompleteCommit", write, NextStep::Look(Some(true))),
        ("CompleteCommit", commit, NextStep::Look(Some(true))),
        ("CompleteAbort", write, NextStep::Look(Some(false))),
        ("CompleteAbort", abort, NextStep::Look(Some(false))),
        ("CompleteAbort", commit, NextStep::Refuse),
        ("something new", write, NextStep::Look(None)),
    ];
    for (state, purpose, expected) in table {
        assert_eq!(decide(&last(state, purpose)), expected, "{state} {purpose:?}");
    }
}

#[test]
fn what_an_id_was_taken_over_for_is_in_its_timeout() {
    for timeout_ms in [1_000, 59_950, 60_000, 60_001, 60_002, 900_000, u64::from(u32::MAX)] {
        let timeout = Duration::from_millis(timeout_ms);
        for purpose in [
            TakeoverPurpose::Write,
            TakeoverPurpose::EndAgain(true),
            TakeoverPurpose::EndAgain(false),
        ] {
            let told_ms = purpose.timeout_ms(timeout);
            assert_eq!(TakeoverPurpose::of(told_ms), purpose);
            assert!(told_ms > 0 && i64::from(told_ms) <= timeout_ms.cast_signed(), "{told_ms}");
            assert!(i64::from(told_ms) > timeout_ms.cast_signed().min(2_000_000_000) - 200);
        }
    }
}

#[test]
fn one_epoch_is_enough_to_end_again() {
    let ended = last("CompleteCommit", TakeoverPurpose::Write);
    assert!(!ended.may_end_again(true));
    let begun = last("Empty", TakeoverPurpose::EndAgain(true));
    assert!(begun.may_end_again(true) && !begun.may_end_again(false));
    let of_the_last_epoch =
        LastTransaction { identity: ProducerIdentity::of(7, i16::MAX - 1), ..ended };
    assert!(of_the_last_epoch.may_end_again(true));
}
