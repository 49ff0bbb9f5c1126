//! Each duration is counted once, in the class of its bound.

use super::*;

#[test]
fn durations_fall_into_their_classes() {
    let counter = SyncCounter::default();
    for took_us in [0, 50, 51, 1_000_000, 1_000_001, 5_000_000] {
        counter.took(took_us);
    }
    let figures = counter.figures();
    let of = |bound: u64| figures.classes.iter().find(|it| it.0 == bound).unwrap().1;
    assert_eq!((of(50), of(100), of(1_000_000), figures.longer), (2, 1, 1, 2));
    assert_eq!(figures.count(), 6);
    assert_eq!(figures.total_us, 7_000_102);
    assert!(figures.classes.windows(2).all(|two| two[0].0 < two[1].0));
}
