//! Every slice belongs to one lane, whatever the numbers.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn lanes_cover_all_slices_in_order(slices in 1_u32..70_000, workers in 0_usize..1_100) {
        let ranges = cut(slices, workers);
        prop_assert!(ranges.len() <= workers.max(1));
        prop_assert_eq!(ranges[0].start, 0);
        prop_assert_eq!(ranges[ranges.len() - 1].end, slices);
        for pair in ranges.windows(2) {
            prop_assert_eq!(pair[0].end, pair[1].start);
        }
        let sizes: Vec<u32> = ranges.iter().map(|range| range.end - range.start).collect();
        let spread = sizes.iter().max().expect("a lane") - sizes.iter().min().expect("a lane");
        prop_assert!(spread <= 1);
    }
}
