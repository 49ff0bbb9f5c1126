//! What happens to a segment whose file is given away.

use crate::testing::unsynced;
use std::io;
use tidemill_env::{Disk, World};

#[test]
fn row_38_nothing_is_written_to_a_file_that_was_given_away() {
    let sim = World::simulated(1);
    let (_log, streamlet, segment) = unsynced(&sim.world);
    // As if a sync of an earlier life had failed: it is to be written again.
    segment.state().doubtful = true;
    let before = sim.disk.read(&segment.path).unwrap();
    segment.retire();
    let operations = sim.disk.operations();
    let not_found = |it: Result<(), io::Error>| it.unwrap_err().kind() == io::ErrorKind::NotFound;
    assert!(not_found(segment.begin_sync_of_all(&streamlet.shared).map(drop)));
    assert!(not_found(segment.begin_sync(&streamlet.shared).map(drop)));
    assert!(segment.mark(0).is_ok() && segment.state().file.is_none());
    assert_eq!(sim.disk.operations(), operations);
    assert_eq!(sim.disk.read(&segment.path).unwrap(), before);
}
