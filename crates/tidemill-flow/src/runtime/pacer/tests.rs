//! The rules of pace, one a test.

use super::*;

#[test]
fn the_time_of_a_cycle_is_recorded_once_and_never_goes_back() {
    let mut pacer = Pacer::new(0);
    assert_eq!(pacer.begin(Cycle(1), Micros(100)), Micros(100));
    assert_eq!(pacer.begin(Cycle(1), Micros(900)), Micros(100), "the first to ask decides");
    assert_eq!(pacer.begin(Cycle(2), Micros(50)), Micros(100), "a clock that jumps back");
    assert_eq!(pacer.begin(Cycle(3), Micros(300)), Micros(300));
}

#[test]
fn a_replay_has_the_times_of_the_first_run() {
    let mut pacer = Pacer::new(0);
    pacer.replay([(Cycle(1), Micros(7)), (Cycle(2), Micros(9))]);
    assert_eq!(pacer.begin(Cycle(1), Micros(100)), Micros(7));
    assert_eq!(pacer.begin(Cycle(2), Micros(100)), Micros(9));
    assert_eq!(pacer.begin(Cycle(3), Micros(100)), Micros(100));
}

#[test]
fn others_wait_for_what_is_read_first() {
    let mut pacer = Pacer::new(1);
    assert_eq!(pacer.permit(Cycle(1), true), Permit::Read);
    assert_eq!(pacer.permit(Cycle(1), false), Permit::Hold);
    pacer.begin(Cycle(1), Micros(0));
    pacer.end(Cycle(1));
    assert_eq!(pacer.permit(Cycle(1), false), Permit::Empty);
    assert_eq!(pacer.permit(Cycle(2), false), Permit::Hold);
    pacer.begin(Cycle(2), Micros(0));
    assert!(pacer.end(Cycle(2)));
    assert!(pacer.preload_ended(Cycle(2)));
    assert_eq!(pacer.permit(Cycle(2), false), Permit::Empty, "the last preloaded cycle");
    assert_eq!(pacer.permit(Cycle(3), false), Permit::Read);
}

#[test]
fn a_stop_lets_everyone_finish_the_cycles_that_were_begun() {
    let mut pacer = Pacer::new(0);
    pacer.begin(Cycle(1), Micros(0));
    pacer.begin(Cycle(2), Micros(0));
    assert_eq!(pacer.stop(), Cycle(2));
    assert_eq!(pacer.permit(Cycle(2), false), Permit::Read);
    assert!(pacer.is_behind(Cycle(2)), "nobody waits for its time");
    assert_eq!(pacer.permit(Cycle(3), false), Permit::Stop);
}

#[test]
fn who_waits_for_a_cycle_does_not_move_what_comes_after_that_which_is_read_first() {
    let mut pacer = Pacer::new(1);
    pacer.want(Cycle(5));
    assert_eq!(pacer.permit(Cycle(1), false), Permit::Hold, "cycle 2 may be the first to read for");
    pacer.begin(Cycle(1), Micros(0));
    pacer.end(Cycle(1));
    assert!(pacer.preload_ended(Cycle(1)));
    assert_eq!(pacer.permit(Cycle(1), false), Permit::Empty);
    assert_eq!(pacer.permit(Cycle(2), false), Permit::Read);
}
