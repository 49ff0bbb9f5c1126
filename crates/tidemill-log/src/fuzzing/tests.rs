//! A log whose files were changed, also with checksums that are right.

use super::*;
use proptest::prelude::*;

#[test]
fn seeds_of_all_kinds_are_gone_through() {
    log_seeds().iter().for_each(|seed| log(seed));
    log(&[]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn changed_files_are_told_and_what_is_served_is_what_was_written(
        changes in proptest::collection::vec(any::<[u8; 8]>(), 0..5),
    ) {
        log(changes.as_flattened());
    }
}
