//! The thread-control table: which worker runs which slices, as of a cycle.
//!
//! ```text
//! layout 1, from cycle 1:   stage a  [0..32) worker 0   [32..64) worker 1
//! layout 2, from cycle 917: stage a  [0..64) worker 0
//! ```
//!
//! A change is a new layout from a cycle that no source has begun. Cycles before it drain in the
//! lanes of the old layout while those after it queue up in the new ones: nothing stops. A node's
//! slices are handed over when all its old lanes have processed the last old cycle. Slices that a
//! source gets while the job runs are there from such a cycle on ([`super::growth`]).

use super::inbox::Inbox;
use super::lane::{Lane, LaneState};
use super::plan::{Plan, Work};
use std::{ops::Range, sync::Arc};
use tidemill_env::sync::{Mutex, atomic::AtomicBool};
use tidemill_types::Cycle;

mod change;
#[cfg(test)]
mod tests;

/// Who runs what, from a cycle on.
pub(crate) struct Layout {
    pub(crate) version: u64,
    pub(crate) workers: usize,
    /// By node.
    pub(crate) lanes: Vec<Vec<Arc<Lane>>>,
    /// By link: the first of its inputs in the inbox of the node it ends in.
    pub(crate) input_base: Vec<usize>,
}

/// Cuts `slices` into at most `workers` ranges of nearly equal length, in order.
pub(crate) fn cut(slices: u32, workers: usize) -> Vec<Range<u32>> {
    let lanes = u64::from(slices).min(workers.max(1) as u64).max(1);
    let bound = |lane: u64| (u64::from(slices) * lane / lanes) as u32;
    (0..lanes).map(|lane| bound(lane)..bound(lane + 1)).collect()
}

impl Layout {
    /// The first, with lanes for all nodes. None is open: each opens when it is given its slices.
    pub(crate) fn new(plan: &Plan, version: u64, from: Cycle, workers: usize) -> Self {
        Self::of(plan, version, from, workers, |node| plan.nodes[node].slices)
    }

    /// The next one, in which each source has so many slices, by node.
    pub(crate) fn after(
        &self,
        plan: &Plan,
        from: Cycle,
        workers: usize,
        slices_of: impl Fn(usize) -> u32,
    ) -> Self {
        Self::of(plan, self.version + 1, from, workers, slices_of)
    }

    /// How many slices a source has in it.
    pub(crate) fn source_slices(&self, node: usize) -> u32 {
        self.lanes[node].len() as u32
    }

    fn of(
        plan: &Plan,
        version: u64,
        from: Cycle,
        workers: usize,
        source_slices: impl Fn(usize) -> u32,
    ) -> Self {
        let ranges: Vec<Vec<Range<u32>>> = plan
            .nodes
            .iter()
            .enumerate()
            .map(|(id, node)| match node.work {
                // A source slice is a lane of its own: it has a position of its own.
                Work::Source { .. } => {
                    (0..source_slices(id)).map(|slice| slice..slice + 1).collect()
                }
                Work::Stage { .. } | Work::Sink => cut(node.slices, workers),
            })
            .collect();
        let mut input_base = vec![0; plan.links.len()];
        let mut inputs = vec![0; plan.nodes.len()];
        for (node, inputs) in plan.nodes.iter().zip(&mut inputs) {
            for link in &node.links_in {
                input_base[*link] = *inputs;
                *inputs += ranges[plan.links[*link].from].len();
            }
        }
        let lanes = ranges
            .into_iter()
            .enumerate()
            .map(|(node, ranges)| {
                let many = ranges.len() > 1;
                let lane = |(index, slices): (usize, Range<u32>)| {
                    let seat = if many { index } else { plan.nodes[node].seat };
                    Arc::new(Lane {
                        node,
                        index,
                        slices,
                        worker: seat % workers.max(1),
                        rank: plan.nodes[node].rank,
                        layout: version,
                        is_short: AtomicBool::new(false),
                        state: Mutex::new(LaneState {
                            inbox: Inbox::new(inputs[node], from),
                            open: false,
                            scheduled: false,
                            writing: false,
                            looked_at: false,
                            poked: false,
                            is_source: matches!(plan.nodes[node].work, Work::Source { .. }),
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

    /// The first input and the number of inputs of a link, in the inbox of the node it ends in.
    pub(crate) fn inputs_of(&self, plan: &Plan, link: usize) -> Range<usize> {
        let first = self.input_base[link];
        first..first + self.lanes[plan.links[link].from].len()
    }
}
