//! The panes of a cycle's rows, and the parts of them that are still to be read back.

use super::{PaneLane, Panes, WantedKeys};
use crate::window::{Prepared, has_rows};
use std::sync::Arc;
use tidemill_flow::{Block, Context};
use tidemill_types::SliceId;

impl PaneLane {
    /// Reads ahead the saved state that this cycle needs.
    pub(super) fn read_ahead(
        &self,
        context: &mut Context<'_>,
        (blocks, prepared): (&[Arc<Block>], &[Prepared]),
        is_all: bool,
    ) {
        let slices = context.slices.clone().map(SliceId);
        if is_all {
            context.read_ahead(slices, false);
            return;
        }
        let slices: Vec<SliceId> = slices.filter(|it| has_rows(blocks, *it)).collect();
        context.read_ahead(slices.iter().copied(), true);
        for slice in slices {
            let panes: &mut Panes = context.state_by_key(slice);
            let mut wanted = WantedKeys::default();
            for (block, prepared) in blocks.iter().zip(prepared) {
                let end = |row: usize| self.pane_end(prepared, row);
                panes.want((block, prepared), block.rows_of(slice), end, &mut wanted);
            }
            if !panes.ask(wanted) {
                context.read_ahead(std::iter::once(slice), false);
            }
        }
    }

    /// The end of the pane that a row is in.
    fn pane_end(&self, prepared: &Prepared, row: usize) -> i64 {
        let spans = self.stages[0].spans;
        spans.map_or(i64::MAX, |spans| spans.pane_end(prepared.time(row)))
    }

    /// The end of the pane that all rows of a block are in, if it is one. The column of times is
    /// read through once for that, where a look at the time of each row of each slice would go
    /// through it from end to end for every slice.
    pub(super) fn only_pane(&self, prepared: &Prepared) -> Option<i64> {
        let (Some(spans), Some(times)) = (self.stages[0].spans, &prepared.times) else {
            return Some(i64::MAX);
        };
        let (earliest, latest) = (times.values().iter())
            .fold((i64::MAX, i64::MIN), |(min, max), time| (min.min(*time), max.max(*time)));
        let end = (earliest <= latest).then(|| spans.pane_end(earliest))?;
        (end == spans.pane_end(latest)).then_some(end)
    }
}
