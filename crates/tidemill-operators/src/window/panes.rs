//! Tumbling, sliding and global windows, on panes.
//!
//! ```text
//! time       ├─pane─┼─pane─┼─pane─┼─pane─┤     a pane is as long as the greatest common divisor
//! stage a           └──────size───┘             of every `size` and `every`
//! stage b    └─────────────size───┘
//! ```
//!
//! A row is taken once, into the pane of its time, however many windows of however many stages
//! overlap there (KerA chapter 4); a window that closes merges its panes. A tumbling window that
//! shares nothing is one pane.
//!
//! A row may be late for one stage and not for another, and is kept then: no window of the first
//! one looks at that pane any more.

use super::spans::Spans;
use super::table::AggregateTable;
use super::{Emitter, Late, Prepared, Windowed, has_rows, state_table};
use crate::groups::BlockKeys;
use crate::lane::TAKEN_AT_ONCE;
use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
    sync::Arc,
};
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, Selection,
    SliceState, StateAt, StateTable, TakeRows,
};
use tidemill_state::HashOfEntry;
use tidemill_types::{Micros, SliceId, Span};

mod pane_store;
mod rows;

use pane_store::{Panes, WantedKeys};

/// Groups whose results are read together.
const READ_AT_ONCE: usize = 256;

/// One stage on panes.
pub(super) struct PaneStage {
    /// All stages on the same panes have the same keys and accumulators.
    pub(super) plan: Arc<Windowed>,
    /// Its windows; none: one window, closed by the end of the input.
    pub(super) spans: Option<Spans>,
    /// Its name, if it is one of several.
    pub(super) name: Option<String>,
}

impl PaneStage {
    /// Returns true if an emitted row has the latest time of its key's records.
    fn is_by_latest(&self) -> bool {
        self.spans.is_none() && self.plan.time.is_some()
    }
}

#[derive(Clone)]
struct PaneFactory {
    stages: Arc<[PaneStage]>,
}

struct PaneLane {
    stages: Arc<[PaneStage]>,
    outlets: Vec<PaneOutlet>,
    rows: Vec<u32>,
    groups: Vec<u32>,
}

/// The output of one stage.
struct PaneOutlet {
    emitter: Emitter,
    late: Vec<u32>,
    /// True while rows of the current pane are late.
    is_late: bool,
}

/// One stage, or several with windows over time and one pane length.
pub(super) fn on_panes(stages: Vec<PaneStage>) -> Arc<dyn OperatorFactory> {
    Arc::new(PaneFactory { stages: stages.into() })
}

impl OperatorFactory for PaneFactory {
    fn outputs(&self) -> Vec<arrow_schema::SchemaRef> {
        let of_stage = |it: &PaneStage| [Arc::clone(&it.plan.output), Arc::clone(&it.plan.input)];
        self.stages.iter().flat_map(of_stage).collect()
    }

    fn is_side(&self, output: usize) -> bool {
        output % 2 == 1
    }

    fn operator(&self) -> Box<dyn Operator> {
        let outlet = |(nth, it): (usize, &PaneStage)| PaneOutlet {
            emitter: Emitter::new(&it.plan, 2 * nth),
            late: Vec::new(),
            is_late: false,
        };
        Box::new(PaneLane {
            outlets: self.stages.iter().enumerate().map(outlet).collect(),
            stages: Arc::clone(&self.stages),
            rows: Vec::new(),
            groups: Vec::new(),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(Panes::new(&self.stages[0].plan))
    }

    fn members(&self) -> Vec<String> {
        self.stages.iter().filter_map(|it| it.name.clone()).collect()
    }

    fn member_of(&self, output: usize) -> Option<String> {
        self.stages.get(output / 2).and_then(|it| it.name.clone())
    }

    fn does(&self) -> String {
        let spans: Vec<Spans> = self.stages.iter().filter_map(|it| it.spans).collect();
        let by_latest = if self.stages[0].is_by_latest() { ", at the latest of each" } else { "" };
        format!("{} over {spans:?}{by_latest}", self.stages[0].plan.does())
    }

    fn wants_time(&self) -> bool {
        self.stages.iter().any(|it| it.spans.is_some())
    }

    fn hash_of_entry(&self) -> Option<HashOfEntry> {
        self.stages[0].plan.keys.hash_of_entry()
    }

    /// Its rows come at the end of the input, with times that may be as early as any.
    fn holds_back(&self) -> Span {
        let stage = &self.stages[0];
        let is_held = stage.is_by_latest() && !stage.plan.keys.columns.is_empty();
        Span(if is_held { i64::MAX } else { 0 })
    }

    fn tables(&self) -> Vec<StateTable> {
        self.stages.iter().map(|it| state_table::table(&it.plan)).collect()
    }

    fn rows(
        &self,
        table: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let stage = &self.stages[table];
        let watermark = at.watermark;
        let panes: &Panes = at.of();
        let mut showing = state_table::WindowRows::new(&stage.plan, take);
        match stage.spans {
            Some(spans) => {
                for end in panes.closing(&spans, (watermark, Micros::MAX)) {
                    let bounds = (end - spans.size, end);
                    let mut merged = AggregateTable::new(&stage.plan);
                    let shown = match panes.open.get(&end).filter(|_| spans.pane == spans.size) {
                        Some(table) => table,
                        None => {
                            merged.add(&stage.plan, panes.open.range(bounds.0 + 1..=end));
                            &merged
                        }
                    };
                    if show(&mut showing, shown, bounds)?.is_break() {
                        return Ok(());
                    }
                }
            }
            None => {
                for table in panes.open.values() {
                    if show(&mut showing, table, (0, 0))?.is_break() {
                        return Ok(());
                    }
                }
            }
        }
        showing.finish()
    }
}

fn show(
    showing: &mut state_table::WindowRows<'_, '_>,
    table: &AggregateTable,
    bounds: (i64, i64),
) -> Result<ControlFlow<()>, OperatorError> {
    showing.window((&table.groups, &table.cells), bounds)
}

impl PaneLane {
    /// The part of the plan that all stages share.
    fn plan(&self) -> &Arc<Windowed> {
        &self.stages[0].plan
    }

    fn is_global(&self) -> bool {
        self.stages[0].spans.is_none()
    }

    /// Takes rows of a block into one pane.
    fn take(
        &mut self,
        panes: &mut Panes,
        pane_end: i64,
        (block, prepared): (&Block, &Prepared),
        rows: &[u32],
    ) {
        if rows.is_empty() {
            return;
        }
        let table = panes.table_of(pane_end, (block, prepared), rows);
        let (aggregates, groups) = (&self.stages[0].plan.aggregates, &mut self.groups);
        let keys = (&prepared.keys, prepared.hashes(block));
        table.groups.look_ahead(keys.1, rows);
        for start in (0..rows.len()).step_by(TAKEN_AT_ONCE) {
            let some = start..rows.len().min(start + TAKEN_AT_ONCE);
            let cells = &table.cells;
            table.groups.resolve(keys, (rows, some.clone()), groups, |it| cells.prefetch(it));
            table.change(groups);
            let rows = &rows[some];
            if self.stages[0].is_by_latest() {
                table.note_times(rows.iter().map(|row| prepared.time(*row as usize)), groups);
            }
            table.cells.update(aggregates, prepared.taken(), rows, groups);
        }
    }

    /// Takes the rows that were put together.
    fn take_gathered(&mut self, panes: &mut Panes, pane_end: i64, of: (&Block, &Prepared)) {
        let mut rows = std::mem::take(&mut self.rows);
        self.take(panes, pane_end, of, &rows);
        rows.clear();
        self.rows = rows;
    }

    /// Takes rows that are all in one pane.
    fn take_selected(
        &mut self,
        panes: &mut Panes,
        pane_end: i64,
        of: (&Block, &Prepared),
        (selection, before): (Selection<'_>, Micros),
    ) {
        let (is_late, is_taken) = self.enter(pane_end, before);
        let rows = match selection {
            Selection::Rows(rows) => rows,
            Selection::All(count) => &(0..count as u32).collect::<Vec<_>>(),
        };
        if is_late {
            let late = self.outlets.iter_mut().filter(|it| it.is_late);
            late.for_each(|it| it.late.extend_from_slice(rows));
        }
        if is_taken {
            self.take(panes, pane_end, of, rows);
        }
    }

    /// Takes the rows of one slice in one block, pane by pane as they come.
    fn take_slice(
        &mut self,
        panes: &mut Panes,
        slice: SliceId,
        (block, prepared, only_pane): (&Block, &Prepared, Option<i64>),
        before: Micros,
    ) {
        let selection = block.rows_of(slice);
        if let Some(pane_end) = only_pane {
            self.take_selected(panes, pane_end, (block, prepared), (selection, before));
            return;
        }
        let (Some(spans), Some(times)) = (self.stages[0].spans, &prepared.times) else {
            unreachable!("without times there is one pane");
        };
        let times = times.values();
        // The bounds of the pane that the last row was in; whether rows there are late for a stage,
        // and whether there is one for which they are not.
        let (mut from, mut to) = (i64::MAX, i64::MIN);
        let (mut is_late, mut is_taken) = (false, true);
        selection.for_each(|row| {
            let time = times[row];
            if time < from || time >= to {
                self.take_gathered(panes, to, (block, prepared));
                to = spans.pane_end(time);
                from = to - spans.pane;
                (is_late, is_taken) = self.enter(to, before);
            }
            if is_taken {
                self.rows.push(row as u32);
            }
            if is_late {
                let late = self.outlets.iter_mut().filter(|it| it.is_late);
                late.for_each(|it| it.late.push(row as u32));
            }
        });
        self.take_gathered(panes, to, (block, prepared));
    }

    /// Notes for which stages rows of a pane are late; gives back whether they are for any, and
    /// whether they are not for any.
    fn enter(&mut self, pane_end: i64, before: Micros) -> (bool, bool) {
        let (mut is_late, mut is_taken) = (false, false);
        for (stage, outlet) in self.stages.iter().zip(&mut self.outlets) {
            outlet.is_late = stage.spans.is_some_and(|it| it.last_window_end(pane_end) <= before.0);
            is_late |= outlet.is_late;
            is_taken |= !outlet.is_late;
        }
        (is_late, is_taken)
    }

    /// Puts out every window of a slice that closes now.
    fn close(
        &mut self,
        panes: &mut Panes,
        between: (Micros, Micros),
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let stages = Arc::clone(&self.stages);
        match &stages[..] {
            [stage] => self.close_own(panes, stage.spans, between, output)?,
            stages => self.close_shared(panes, stages, between, output)?,
        }
        let all_spans = || stages.iter().filter_map(|it| it.spans);
        while let Some(first) = panes.open.first_entry()
            && all_spans().all(|it| it.last_window_end(*first.key()) <= between.1.0)
        {
            let (pane_end, table) = first.remove_entry();
            panes.let_go(pane_end, table);
        }
        Ok(())
    }

    /// The windows of one stage with panes of its own.
    fn close_own(
        &mut self,
        panes: &mut Panes,
        spans: Option<Spans>,
        between: (Micros, Micros),
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let Some(spans) = spans else { return Ok(()) };
        for end in panes.closing(&spans, between) {
            let bounds = (end - spans.size, end);
            if spans.pane != spans.size {
                let mut merged = panes.spare();
                merged.add(&self.stages[0].plan, panes.open.range(bounds.0 + 1..=end));
                self.put_out(0, &mut merged, bounds, output)?;
                panes.give_back(merged);
            } else if let Some(mut table) = panes.open.remove(&end) {
                self.put_out(0, &mut table, bounds, output)?;
                panes.let_go(end, table);
            }
        }
        Ok(())
    }

    /// The windows of stages that share their panes. Of those that end together, a longer one begins
    /// with the merged panes of the shorter one, so that a pane is merged once: the newest first.
    /// Panes lie apart in time, so `first` and `last` need no order among them.
    fn close_shared(
        &mut self,
        panes: &mut Panes,
        stages: &[PaneStage],
        between: (Micros, Micros),
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let mut closing: BTreeMap<i64, Vec<(i64, usize)>> = BTreeMap::new();
        for (nth, stage) in stages.iter().enumerate() {
            let Some(spans) = stage.spans.filter(|it| it.any_closes(between)) else { continue };
            for end in panes.closing(&spans, between) {
                closing.entry(end).or_default().push((spans.size, nth));
            }
        }
        for (end, mut windows) in closing {
            windows.sort_unstable();
            let (mut merged, mut first) = (panes.spare(), end);
            for (size, nth) in windows {
                let start = end - size;
                // Empty for a second stage with windows as long.
                let older = panes.open.range((Bound::Excluded(start), Bound::Included(first)));
                merged.add(&stages[nth].plan, older.rev());
                first = start;
                self.put_out(nth, &mut merged, (start, end), output)?;
            }
            panes.give_back(merged);
        }
        Ok(())
    }

    fn put_out(
        &mut self,
        nth: usize,
        table: &mut AggregateTable,
        bounds: (i64, i64),
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let (plan, emitter) = (&self.stages[nth].plan, &mut self.outlets[nth].emitter);
        let count = table.groups.len();
        table.groups.write_all(&mut emitter.keys);
        emitter.results.reserve(count);
        // Column by column, of so few groups that they are in the nearest cache meanwhile.
        for start in (0..count).step_by(READ_AT_ONCE) {
            let groups = start..count.min(start + READ_AT_ONCE);
            table.cells.read(&plan.aggregates, groups, &mut emitter.results);
        }
        match table.latest.is_empty() {
            true => emitter.bounds(count, bounds, bounds.1 - 1),
            false => emitter.times(&table.latest),
        }
        emitter.flush_if_full(plan, output)
    }

    /// Puts out the one window of a slice.
    fn close_global(
        &mut self,
        panes: &mut Panes,
        (slice, before): (SliceId, Micros),
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let without_key = self.plan().keys.columns.is_empty() && slice.0 == 0;
        if panes.open.is_empty() && without_key {
            // SQL: an aggregate over nothing is one row. It has the time that the input had come to,
            // so that it is not late for the windows of others.
            let table = panes.table(i64::MAX);
            table.groups.resolve((&BlockKeys::Unit, &[]), (&[0], 0..1), &mut self.groups, |_| {});
            let time = if before.is_event_time() { before.0 } else { 0 };
            table.note_times(std::iter::once(time), &self.groups);
            table.change(&self.groups);
        }
        for (pane_end, mut table) in std::mem::take(&mut panes.open) {
            self.put_out(0, &mut table, (0, 0), output)?;
            panes.let_go(pane_end, table);
        }
        Ok(())
    }
}

impl Operator for PaneLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let between = (context.watermark_before, context.watermark);
        let (blocks, prepared) = self.plan().prepare_all(input.port(0), context)?;
        let blocks = &*blocks;
        let only_panes: Vec<_> = prepared.iter().map(|it| self.only_pane(it)).collect();
        let mut spans = self.stages.iter().filter_map(|it| it.spans);
        let closes = spans.any(|it| it.any_closes(between));
        let ends = context.all_ended() && self.is_global();
        if blocks.is_empty() && !closes && !ends {
            return Ok(());
        }
        if !context.is_whole() {
            self.read_ahead(context, (blocks, &prepared), closes || ends);
        }
        let mut late: Vec<Late> = self.stages.iter().map(|_| Late::default()).collect();
        for slice in context.slices.clone().map(SliceId) {
            // A state that is still to be read back is not asked for without need.
            if !closes && !ends && !has_rows(blocks, slice) {
                continue;
            }
            // Nor are all of its keys, if only some get rows.
            let panes: &mut Panes = match closes || ends {
                true => context.state(slice),
                false => context.state_by_key(slice),
            };
            let of_blocks = blocks.iter().zip(&prepared).zip(&only_panes);
            for (nth, ((block, prepared), only_pane)) in of_blocks.enumerate() {
                self.take_slice(panes, slice, (block, prepared, *only_pane), between.0);
                for (late, outlet) in late.iter_mut().zip(&mut self.outlets) {
                    late.add(slice, nth, &mut outlet.late);
                }
            }
            if closes || ends {
                self.outlets.iter_mut().for_each(|it| it.emitter.begin(slice));
            }
            if closes {
                self.close(panes, between, output)?;
            }
            if ends {
                self.close_global(panes, (slice, between.0), output)?;
            }
        }
        for ((stage, outlet), late) in self.stages.iter().zip(&mut self.outlets).zip(late) {
            outlet.emitter.flush(&stage.plan, output)?;
            late.put_out(&prepared, outlet.emitter.port + 1, output)?;
        }
        Ok(())
    }
}
