//! What retention takes.

use super::*;

fn aged(end: i64, appended_s: u32, may_go: bool) -> SegmentAge {
    SegmentAge { end, bytes: 100, appended_s: Some(appended_s), may_go }
}

#[test]
fn segments_go_from_the_oldest_on_and_stop_at_one_that_must_stay() {
    let all = [aged(10, 1, true), aged(20, 2, true), aged(30, 3, true), aged(40, 4, false)];
    assert_eq!(new_start(&all, Some(3), None, 0), Some(20));
    assert_eq!(new_start(&all, Some(9), None, 0), Some(30), "the open one stays");
    assert_eq!(new_start(&all, Some(1), None, 0), None);
    assert_eq!(new_start(&all, None, Some(200), 0), Some(20));
    assert_eq!(new_start(&all, None, Some(201), 0), Some(10));
    assert_eq!(new_start(&all, None, None, 0), None);
    assert_eq!(new_start(&all, None, None, 19), Some(10), "what is read in part stays");
    assert_eq!(new_start(&all, None, None, 99), Some(30));
    assert_eq!(new_start(&[aged(5, 1, false), aged(9, 1, true)], Some(9), None, 0), None);
    let unknown = [SegmentAge { appended_s: None, ..aged(5, 1, true) }, aged(9, 1, true)];
    assert_eq!(new_start(&unknown, Some(9), None, 0), None);
    assert_eq!(new_start(&unknown, Some(0), Some(100), 0), Some(5), "size counts");
}

#[test]
fn row_13_a_forward_jump_of_the_clock_is_not_believed() {
    let mut trusted = TrustedClock::new(1_000, 0);
    let mut now = |wall_us, monotonic_us| trusted.now(wall_us, monotonic_us).us;
    assert_eq!(now(1_080, 80), 1_080);
    let day = 86_400_000_000;
    assert_eq!(now(day, 160), 1_170);
    assert_eq!(now(500, 240), 500, "backward is believed");
}

#[test]
fn row_13_the_time_of_day_is_sure_once_both_clocks_agreed_for_ten_minutes() {
    let (day, minute) = (86_400_000_000, 60_000_000);
    let mut trusted = TrustedClock::new(30 * day, 0);
    let mut sure = |wall_us: i64, minutes: i64| {
        trusted.now(wall_us + minutes * minute, (minutes * minute) as u64).is_sure
    };
    assert!(!sure(30 * day, 0) && !sure(30 * day, 9));
    assert!(!sure(day, 10), "it was set right");
    assert!(!sure(day, 19));
    assert!(sure(day, 20));
    assert!(sure(day + 900_000, 21), "a little is nothing");
    assert!(!sure(2 * day, 22) && !sure(2 * day, 31) && sure(2 * day, 32));
    assert!(sure(2 * day, 100_000), "no round in between");
}
