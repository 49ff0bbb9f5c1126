//! Clocks that were wrong.

use super::*;

fn said(appended_s: u32, before_s: u32) -> AppendTimes {
    AppendTimes { appended_s, before_s, seen_s: None }
}

fn seen(appended_s: u32, seen_s: u32) -> AppendTimes {
    AppendTimes { appended_s, before_s: 0, seen_s: Some(seen_s) }
}

#[test]
fn row_13_what_a_clock_that_was_ahead_said_came_before_what_came_after_it() {
    let clock_s = 1_000;
    assert_eq!(corrected_times(&[said(1, 0), said(2, 1)], clock_s), [1, 2]);
    let ahead = [said(500, 0), seen(9_000, 900), seen(9_000, 900), said(950, 9_000)];
    assert_eq!(corrected_times(&ahead, clock_s), [500, 900, 900, 950]);
    let known_better = [said(500, 0), seen(9_000, 900), said(700, 9_000)];
    assert_eq!(corrected_times(&known_better, clock_s), [500, 700, 700]);
    assert_eq!(corrected_times(&[said(9_000, 0)], clock_s), [9_000], "the clock is not sure");
}

#[test]
fn row_13_what_a_clock_that_was_behind_said_did_not_come_before_what_was_there() {
    assert_eq!(corrected_times(&[said(500, 0), said(7, 0), said(8, 0)], 1_000), [500, 500, 500]);
    assert_eq!(corrected_times(&[said(7, 500), said(800, 500)], 1_000), [500, 800]);
    assert_eq!(corrected_times(&[said(7, 500)], 20), [7], "the clock is behind still");
}
