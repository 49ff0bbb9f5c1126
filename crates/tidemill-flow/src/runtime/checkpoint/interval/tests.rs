//! A pace that is said stays; one that is measured settles.

use super::*;
use proptest::prelude::*;
use tidemill_types::Span;

fn auto() -> CheckpointInterval {
    CheckpointInterval::new(&Every::Auto)
}

#[test]
fn a_pace_that_is_said_stays() {
    let mut pace = CheckpointInterval::new(&Every::from(Span(5_000_000)));
    pace.completed(60_000_000, true);
    assert_eq!(pace.every_us(), 5_000_000);
    let pace = CheckpointInterval::new(&Every::Bounds { time: None, records: Some(10) });
    assert_eq!((pace.every_us(), pace.shown_us()), (u64::MAX, 0));
}

#[test]
fn a_backend_that_is_behind_is_asked_less_often() {
    let mut pace = auto();
    pace.completed(1, true);
    assert_eq!(pace.every_us(), 2 * FIRST_US);
    pace.completed(10 * FIRST_US, false);
    assert_eq!(pace.every_us(), 20 * FIRST_US, "twice what it took");
    (0..60).for_each(|_| pace.completed(1, false));
    assert_eq!(pace.every_us(), CHECKPOINT_EVERY_US_MIN);
}

proptest! {
    /// A backend whose checkpoints take a part that does not change, and a part for each second
    /// that they cover, ends up busy for between a twentieth and half of the time, if the bounds
    /// let it.
    #[test]
    fn it_settles(fixed_us in 10_000_u64..1_000_000, per_second_us in 0_u64..300_000) {
        let mut pace = auto();
        let took = |every_us: u64| fixed_us + per_second_us * every_us / 1_000_000;
        (0..100).for_each(|_| pace.completed(took(pace.every_us()), false));
        let every_us = pace.every_us();
        prop_assert!(took(every_us) <= every_us / 2 + 1, "{} of {every_us}", took(every_us));
        prop_assert!(
            took(every_us) >= every_us / 20 || every_us == CHECKPOINT_EVERY_US_MIN,
            "{} of {every_us}", took(every_us)
        );
        let before = every_us;
        pace.completed(took(every_us), false);
        prop_assert_eq!(pace.every_us(), before, "and stays there");
    }
}
