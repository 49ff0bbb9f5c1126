//! How much is taken out of the queue at once.

use super::*;
use crate::testing::unsynced;
use tidemill_env::World;

#[test]
fn however_many_wait_no_more_are_synced_together_than_files_may_be_open() {
    let sim = World::simulated(1);
    let (log, streamlet, segment) = unsynced(&sim.world);
    let shared = &streamlet.shared;
    log.sync();
    let work = || (Arc::clone(&streamlet), Arc::clone(&segment));
    (0..1_100).for_each(|_| shared.committer.push(work()));
    let taken = || match shared.committer.next(shared) {
        Some(SyncTask::Sync(round)) => round.len(),
        _ => 0,
    };
    for count in [TOGETHER_MAX, TOGETHER_MAX, 100] {
        assert_eq!(taken(), count);
    }
    let before = log.sync_figures().count();
    sync(shared, (0..1_100).map(|_| work()).collect());
    assert_eq!(log.sync_figures().count() - before, 3);
}
