//! What retention takes.

use super::*;

fn aged(end: i64, appended_s: u32, may_go: bool) -> Aged {
    Aged { end, bytes: 100, appended_s, may_go }
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
}

#[test]
fn row_13_a_forward_jump_of_the_clock_is_not_believed() {
    let mut trusted = Trusted::default();
    assert_eq!(trusted.now(1_000, 0), 1_000);
    assert_eq!(trusted.now(1_080, 80), 1_080);
    let day = 86_400_000_000;
    assert_eq!(trusted.now(day, 160), 1_170);
    assert_eq!(trusted.now(500, 240), 500, "backward is believed");
}
