//! A queue gives the oldest cycle first, then the furthest downstream; timers come when due.

use super::*;
use crate::runtime::{inbox::Inbox, lane::LaneState};
use tidemill_env::sync::atomic::AtomicBool;
use tidemill_types::{LaneIx, LayoutVersion, StageIx, WorkerId};

pub(super) fn lane(rank: u32) -> Arc<Lane> {
    Arc::new(Lane {
        stage: StageIx(0),
        index: LaneIx(0),
        slices: 0..1,
        worker: WorkerId(0),
        rank,
        layout: LayoutVersion(1),
        is_short: AtomicBool::new(false),
        state: Mutex::new(LaneState {
            inbox: Inbox::new(0, Cycle::FIRST),
            open: true,
            scheduled: false,
            writing: false,
            snapshot_wanted: false,
            woken: false,
            is_source: true,
            source_next: Cycle::FIRST,
            until: None,
        }),
        core: Mutex::new(None),
    })
}

/// Ranks in the order in which a queue gives its lanes at `now_us`, then what it says.
fn drain(queue: &WorkerQueue, now_us: u64) -> (Vec<u32>, String) {
    let mut ranks = Vec::new();
    loop {
        match queue.next(now_us) {
            Next::Run(lane) => ranks.push(lane.rank),
            Next::Due(lane) => ranks.push(100 + lane.rank),
            Next::Sleep(until_us) => return (ranks, format!("until {until_us}")),
        }
    }
}

#[test]
fn the_oldest_cycle_comes_first_then_the_furthest_downstream() {
    let queue = Arc::new(WorkerQueue::default());
    for (cycle, rank) in [(3, 0), (1, 1), (2, 5), (1, 2), (2, 7)] {
        queue.push(Cycle(cycle), lane(rank));
    }
    assert_eq!(drain(&queue, 0).0, [2, 1, 7, 5, 0]);
}

#[test]
fn a_timer_comes_when_it_is_due_and_only_its_latest_setting() {
    let queue = WorkerQueue::default();
    let timed = lane(1);
    queue.push_timer(50, Arc::clone(&timed));
    queue.push_timer(80, timed);
    queue.push_timer(70, lane(2));
    assert_eq!(drain(&queue, 60), (vec![], "until 70".to_owned()));
    assert_eq!(drain(&queue, 90).0, [101, 102]);
}
