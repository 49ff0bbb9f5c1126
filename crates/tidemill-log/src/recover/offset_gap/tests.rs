//! Where the first gap is.

use super::*;
use tidemill_types::LeaderEpoch;

fn places(ranges: &[(i64, i64)]) -> Vec<ScannedChunk> {
    ranges
        .iter()
        .map(|(base, last)| ScannedChunk {
            base: *base,
            last: *last,
            position: 0,
            epoch: LeaderEpoch(0),
        })
        .collect()
}

#[test]
fn a_gap_is_what_no_chunk_has() {
    assert_eq!(first_gap(&places(&[(0, 4), (5, 5), (6, 9)]), 0), None);
    assert_eq!(first_gap(&places(&[(0, 4), (6, 9)]), 0), Some(5));
    assert_eq!(first_gap(&places(&[(0, 4), (6, 9)]), 6), None);
    assert_eq!(first_gap(&places(&[(3, 4)]), 2), Some(2));
    assert_eq!(first_gap(&[], 2), None);
}
