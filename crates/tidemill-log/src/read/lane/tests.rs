//! When a lane has come to its end.

use super::*;
use crate::{AppendHow, Log, LogOptions, StreamSpec, testing::batch};
use std::path::Path;
use tidemill_env::World;

#[test]
fn a_segment_that_is_sealed_after_a_look_still_has_what_came_before_the_seal() {
    let sim = World::simulated(1);
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    let log = Log::open(&sim.world, Path::new("/log"), options).unwrap();
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    let append = || streamlet.append(&batch(1), AppendHow::default()).unwrap().base_offset;
    append();
    let segment = Arc::clone(streamlet.segments().values().next().unwrap());
    let mut lane = Lane::new(Arc::clone(&segment));
    assert!(lane.skip(&streamlet, 1, How::default()).unwrap(), "it may get the next offset");
    assert!(lane.head.is_none() && !lane.has_ended());
    assert_eq!(append(), 1);
    streamlet.seal(&segment);
    assert!(!lane.has_ended(), "nothing was there before");
    assert!(lane.skip(&streamlet, 1, How::default()).unwrap());
    assert!(matches!(&lane.head, Some(Head::Good(reference, _)) if reference.base == 1));
    assert!(!lane.skip(&streamlet, 2, How::default()).unwrap(), "now it has ended");
}
