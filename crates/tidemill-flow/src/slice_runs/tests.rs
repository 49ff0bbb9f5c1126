//! Runs of slices.

use super::*;

fn runs(begun: &[(u32, usize)]) -> SliceRuns {
    let mut runs = SliceRuns::default();
    begun.iter().for_each(|(slice, row)| runs.begin(SliceId(*slice), *row));
    runs
}

fn each(runs: &SliceRuns, rows: usize) -> Vec<(u32, Range<usize>)> {
    runs.each(rows).map(|(slice, rows)| (slice.0, rows)).collect()
}

#[test]
fn a_slice_without_rows_has_no_run() {
    let runs = runs(&[(1, 0), (2, 0), (3, 4), (5, 4), (5, 6), (6, 7)]);
    assert_eq!(each(&runs, 9), vec![(2, 0..4), (5, 4..7), (6, 7..9)]);
    assert_eq!(runs.first(), Some((SliceId(2), false)));
}

#[test]
fn the_next_batch_goes_on_with_the_last_slice() {
    let mut runs = runs(&[(1, 0), (2, 3)]);
    assert_eq!(each(&runs.take(), 5), vec![(1, 0..3), (2, 3..5)]);
    runs.begin(SliceId(2), 2);
    runs.begin(SliceId(4), 6);
    assert_eq!(each(&runs.take(), 7), vec![(2, 0..6), (4, 6..7)]);
    runs.begin(SliceId(0), 0);
    assert_eq!(runs.first(), Some((SliceId(0), true)));
}
