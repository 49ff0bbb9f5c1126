//! The thread-control table: which worker runs which slices, as of a cycle.
//!
//! ```text
//! layout 1, from cycle 1:   stage a  [0..32) worker 0   [32..64) worker 1
//! layout 2, from cycle 917: stage a  [0..64) worker 0
//! ```
//!
//! A change is a new layout from a cycle that no source has begun. Cycles before it drain in the
//! lanes of the old layout while those after it queue up in the new ones: nothing stops. A stage's
//! slices are handed over when all its old lanes have processed the last old cycle. Slices that a
//! source gets while the job runs are there from such a cycle on ([`super::growth`]).

use super::inbox::Inbox;
use super::lane::{Lane, LaneState};
use super::plan::{Plan, Work};
use std::{ops::Range, sync::Arc};
use tidemill_env::sync::{Mutex, atomic::AtomicBool};
use tidemill_types::{Cycle, LaneIx, LayoutVersion, LinkIx, StageIx, WorkerId};

mod change;
#[cfg(test)]
mod tests;

/// The thread-control table from a cycle on: the lanes of each stage, and the worker of each lane.
pub(crate) struct Layout {
    pub(crate) version: LayoutVersion,
    pub(crate) workers: usize,
    /// By stage.
    pub(crate) lanes: Vec<Vec<Arc<Lane>>>,
    /// By link: the first of its inputs in the inbox of the stage it ends in.
    pub(crate) input_base: Vec<usize>,
}

/// Cuts `slices` into at most `workers` ranges of nearly equal length, in order.
pub(crate) fn cut(slices: u32, workers: usize) -> Vec<Range<u32>> {
    let lanes = u64::from(slices).min(workers.max(1) as u64).max(1);
    let bound = |lane: u64| (u64::from(slices) * lane / lanes) as u32;
    (0..lanes).map(|lane| bound(lane)..bound(lane + 1)).collect()
}

impl Layout {
    /// The first layout, with lanes for all stages. A lane opens when it is given its slices.
    pub(crate) fn new(plan: &Plan, version: LayoutVersion, from: Cycle, workers: usize) -> Self {
        Self::of(plan, version, from, workers, |stage| plan[stage].slices)
    }

    /// The next layout, in which each source has `slices_of` it slices.
    pub(crate) fn after(
        &self,
        plan: &Plan,
        from: Cycle,
        workers: usize,
        slices_of: impl Fn(StageIx) -> u32,
    ) -> Self {
        Self::of(plan, LayoutVersion(self.version.0 + 1), from, workers, slices_of)
    }

    /// The lanes of a stage, in the order of their slices.
    #[inline]
    pub(crate) fn lanes_of(&self, stage: StageIx) -> &[Arc<Lane>] {
        &self.lanes[stage.index()]
    }

    /// The number of slices that a source has in this layout.
    pub(crate) fn source_slices(&self, stage: StageIx) -> u32 {
        self.lanes_of(stage).len() as u32
    }

    fn of(
        plan: &Plan,
        version: LayoutVersion,
        from: Cycle,
        workers: usize,
        source_slices: impl Fn(StageIx) -> u32,
    ) -> Self {
        let ranges: Vec<Vec<Range<u32>>> = plan
            .indexed()
            .map(|(id, stage)| match stage.work {
                // A source slice is a lane of its own: it has a position of its own.
                Work::Source { .. } => {
                    (0..source_slices(id)).map(|slice| slice..slice + 1).collect()
                }
                Work::Operator { .. } | Work::Sink => cut(stage.slices, workers),
            })
            .collect();
        for (stage, ranges) in plan.stages.iter().zip(&ranges) {
            debug_assert!(
                ranges.first().is_none_or(|it| it.start == 0)
                    && ranges.windows(2).all(|pair| pair[0].end == pair[1].start),
                "the lanes of `{}` divide its slices: {ranges:?}",
                stage.name
            );
        }
        let mut input_base = vec![0; plan.links.len()];
        let mut inputs = vec![0; plan.stages.len()];
        for (stage, inputs) in plan.stages.iter().zip(&mut inputs) {
            for link in &stage.links_in {
                input_base[link.index()] = *inputs;
                *inputs += ranges[plan[*link].from.index()].len();
            }
        }
        let lanes = ranges
            .into_iter()
            .enumerate()
            .map(|(id, ranges)| {
                let stage = StageIx::at(id);
                let many = ranges.len() > 1;
                let lane = |(index, slices): (usize, Range<u32>)| {
                    let seat = if many { index } else { plan[stage].seat };
                    Arc::new(Lane {
                        stage,
                        index: LaneIx::at(index),
                        slices,
                        worker: WorkerId::at(seat % workers.max(1)),
                        rank: plan[stage].rank,
                        layout: version,
                        is_short: AtomicBool::new(false),
                        state: Mutex::new(LaneState {
                            inbox: Inbox::new(inputs[id], from),
                            open: false,
                            scheduled: false,
                            writing: false,
                            snapshot_wanted: false,
                            woken: false,
                            is_source: matches!(plan[stage].work, Work::Source { .. }),
                            source_next: from,
                            until: None,
                        }),
                        core: Mutex::new(None),
                    })
                };
                ranges.into_iter().enumerate().map(lane).collect()
            })
            .collect();
        Self { version, workers, lanes, input_base }
    }

    /// The input of the first upstream lane of a link, in the inbox of the stage it ends in.
    #[inline]
    pub(crate) fn first_input_of(&self, link: LinkIx) -> usize {
        self.input_base[link.index()]
    }

    /// The inputs of a link, in the inbox of the stage it ends in: one for each lane that writes.
    pub(crate) fn inputs_of(&self, plan: &Plan, link: LinkIx) -> Range<usize> {
        let first = self.first_input_of(link);
        first..first + self.lanes_of(plan[link].from).len()
    }
}
