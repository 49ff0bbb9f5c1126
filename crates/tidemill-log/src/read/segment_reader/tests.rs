//! When a reader has come to its end.

use super::*;
use crate::{AppendOptions, Log, LogOptions, StreamSpec, testing::batch};
use std::path::Path;
use tidemill_env::World;

#[test]
fn a_segment_that_is_sealed_after_a_look_still_has_what_came_before_the_seal() {
    let sim = World::simulated(1);
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    let log = Log::open(&sim.world, Path::new("/log"), options).unwrap();
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    let append = || streamlet.append(&batch(1), AppendOptions::default()).unwrap().base_offset;
    append();
    let segment = Arc::clone(streamlet.segments().values().next().unwrap());
    let mut reader = SegmentReader::new(Arc::clone(&segment));
    assert!(reader.skip(&streamlet, 1, ReadMode::default()).unwrap(), "it may get the next offset");
    assert!(reader.head.is_none() && !reader.has_ended());
    assert_eq!(append(), 1);
    streamlet.seal(&segment);
    assert!(!reader.has_ended(), "nothing was there before");
    assert!(reader.skip(&streamlet, 1, ReadMode::default()).unwrap());
    assert!(matches!(&reader.head, Some(EntryState::Good(reference, _)) if reference.base == 1));
    assert!(!reader.skip(&streamlet, 2, ReadMode::default()).unwrap(), "now it has ended");
}
