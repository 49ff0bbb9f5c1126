//! A lane: the slices of one stage that one worker runs, under one layout.
//!
//! ```text
//! waiting ──(its next cycle is complete)──▶ queued ──▶ running ──▶ waiting …
//!    ▲                                                    │
//!    └── handed over: its slices now belong to lanes of the next layout
//! ```

use super::inbox::Inbox;
use super::{operator_lane::OperatorLane, sink_lane::SinkLane, source_lane::SourceLane};
use std::ops::Range;
use tidemill_env::sync::{Mutex, atomic::AtomicBool};
use tidemill_types::{Cycle, LaneIx, LayoutVersion, StageIx, WorkerId};

/// The work of a lane, by the kind of its stage.
pub(crate) enum Core {
    Source(Box<SourceLane>),
    Operator(Box<OperatorLane>),
    Sink(SinkLane),
}

/// The slices of one stage that one worker runs.
pub(crate) struct Lane {
    pub(crate) stage: StageIx,
    pub(crate) index: LaneIx,
    pub(crate) slices: Range<u32>,
    pub(crate) worker: WorkerId,
    /// Position of the stage in the order of the graph.
    pub(crate) rank: u32,
    /// The layout it belongs to.
    pub(crate) layout: LayoutVersion,
    /// Its last run took no longer than it takes to wake another worker.
    pub(crate) is_short: AtomicBool,
    pub(crate) state: Mutex<LaneState>,
    /// Held by the worker while it runs the lane; empty before the lane is open and after it was
    /// handed over.
    pub(crate) core: Mutex<Option<Core>>,
}

/// The facts that decide when a lane runs.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) inbox: Inbox,
    /// It has its slices.
    pub(crate) open: bool,
    /// It is in a worker's queue, or running.
    pub(crate) scheduled: bool,
    /// Of an operator: it has entries to write out for a checkpoint, or keys to evict.
    pub(crate) writing: bool,
    /// Of an operator: a snapshot of its slices is wanted.
    pub(crate) snapshot_wanted: bool,
    /// It was woken while it ran.
    pub(crate) woken: bool,
    /// It is of a source, which has no inbox to wait for.
    pub(crate) is_source: bool,
    /// Of a source: the cycle it cuts next.
    pub(crate) source_next: Cycle,
    /// The first cycle of the next layout, once there is one: the lane is handed over before it.
    pub(crate) until: Option<Cycle>,
}

impl PartialEq for Lane {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lane {} of stage {} in layout {}", self.index, self.stage, self.layout)
    }
}

impl LaneState {
    pub(crate) fn is_ready(&self) -> bool {
        self.open && (self.is_source || self.inbox.is_ready() || self.is_past())
    }

    /// True if the lane has anything to do, if only to write out for a checkpoint.
    pub(crate) fn has_work(&self) -> bool {
        self.runs_again() || (self.open && self.writing)
    }

    /// True if the lane runs again right away.
    pub(crate) fn runs_again(&self) -> bool {
        self.is_ready() || (self.open && self.snapshot_wanted)
    }

    /// True if the next cycle belongs to the next layout.
    pub(crate) fn is_past(&self) -> bool {
        self.until.is_some_and(|until| self.next() >= until)
    }

    /// The cycle that the lane would run next.
    pub(crate) fn next(&self) -> Cycle {
        if self.is_source { self.source_next } else { self.inbox.next() }
    }
}

/// The next step of a lane that has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Run it again if its next cycle is ready.
    Ready,
    /// As [`Self::Ready`]; if it is not, poke it at this time of the monotonic clock, in
    /// microseconds.
    ReadyOrAt(u64),
    /// It is woken by another thread.
    Wait,
    /// Poke it at this time of the monotonic clock, in microseconds.
    At(u64),
    /// Its next cycle belongs to another layout.
    HandOver,
    /// It will never run again.
    Done,
}
