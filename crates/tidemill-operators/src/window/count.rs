//! Count windows: after each given number of records of a key, aggregates over its last records.
//!
//! ```text
//! records   [pane][pane][pane][pane]          a pane: the greatest common divisor of size, every
//! queue     front: ready sums of the panes left there  │ back: panes, and their sum
//! ```
//!
//! The queue is two stacks, so a record costs the same however large the window is: every pane is
//! merged a constant number of times between coming and leaving. Order is kept for `first`, `last`.

mod open_windows;

use super::spans::greatest_common_divisor;
use super::{Emitter, Prepared, Windowed, has_rows, state_table};
use crate::lane::TAKEN_AT_ONCE;
use open_windows::{CountWindow, CountWindows};
use std::sync::Arc;
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState,
    StateAt, StateTable, TakeRows,
};
use tidemill_state::{ENTRIES_AHEAD, prefetch};
use tidemill_types::SliceId;

/// Windows larger than this keep everything, and so need no panes.
const UNBOUNDED: u64 = 1 << 40;

#[derive(Clone)]
struct CountFactory {
    plan: Arc<Windowed>,
    every: u64,
    /// Records of a pane, and panes of a window.
    pane: u64,
    panes: u64,
}

struct CountLane {
    factory: CountFactory,
    emitter: Emitter,
    /// Rows of a slice in a block.
    rows: Vec<u32>,
    /// The keys of some of them.
    keys: Vec<u32>,
}

/// Windows over the last `size` records, put out after every `every`.
pub(super) fn count(plan: Arc<Windowed>, size: u64, every: u64) -> Arc<dyn OperatorFactory> {
    let whole = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    let pane = greatest_common_divisor(whole(size), whole(every)).unsigned_abs();
    let (pane, panes) = if size >= UNBOUNDED { (u64::MAX, u64::MAX) } else { (pane, size / pane) };
    Arc::new(CountFactory { plan, every, pane, panes })
}

impl OperatorFactory for CountFactory {
    fn outputs(&self) -> Vec<arrow_schema::SchemaRef> {
        vec![Arc::clone(&self.plan.output), Arc::clone(&self.plan.input)]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(CountLane {
            emitter: Emitter::new(&self.plan, 0),
            factory: self.clone(),
            rows: Vec::new(),
            keys: Vec::new(),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(CountWindows::new(&self.plan))
    }

    fn does(&self) -> String {
        let Self { plan, every, pane, panes } = self;
        format!("{} over {panes} panes of {pane} records, every {every}", plan.does())
    }

    fn tables(&self) -> Vec<StateTable> {
        vec![state_table::table(&self.plan)]
    }

    fn rows(
        &self,
        _: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let state: &CountWindows = at.of();
        let mut showing = state_table::WindowRows::new(&self.plan, take);
        for (key, it) in state.windows.iter().enumerate() {
            let away = state.expiry.as_ref().filter(|_| it.is_away);
            let alone = away.map(|expiry| {
                let mut alone = CountWindows::new(&self.plan);
                expiry.look_at(key, |bytes| alone.restore_row(0, bytes));
                alone
            });
            let (state, key) = alone.as_ref().map_or((state, key), |alone| (alone, 0));
            let parts = self.next_result(&state.windows[key]);
            if parts.is_empty() {
                continue;
            }
            if showing.row((&state.keys, key), &state.cells, &parts, (0, 0))?.is_break() {
                return Ok(());
            }
        }
        showing.finish()
    }
}

impl CountFactory {
    /// The accumulators of a key's next result so far. Some of the held panes may leave before it is
    /// due.
    fn next_result(&self, it: &CountWindow) -> Vec<u32> {
        let whole = [it.front.last().copied(), it.back_sum, it.filling];
        if self.panes == u64::MAX {
            return whole.into_iter().flatten().collect();
        }
        let full = it.records / self.pane;
        let due = (it.records / self.every + 1) * (self.every / self.pane);
        let first = due.saturating_sub(self.panes);
        let (held, kept) = ((it.front.len() + it.back.len()) as u64, full.saturating_sub(first));
        let leaves = held.saturating_sub(kept) as usize;
        let filling = it.filling.filter(|_| full >= first);
        match leaves.checked_sub(it.front.len()) {
            // Each of the front is the sum from its pane to the end of the front.
            None => {
                let front = it.front[it.front.len() - 1 - leaves];
                [Some(front), it.back_sum, filling].into_iter().flatten().collect()
            }
            Some(of_back) => it.back[of_back..].iter().copied().chain(filling).collect(),
        }
    }
}

impl CountWindows {
    /// Adds the accumulators of `from` to those of `to`.
    fn add(&mut self, plan: &Windowed, to: u32, from: u32) {
        self.cells.add_within(&plan.aggregates, to as usize, from as usize);
    }

    /// The full pane goes to the back; the oldest leaves if the window is full.
    fn end_pane(&mut self, it: &CountFactory, key: usize) {
        let Some(pane) = self.windows[key].filling.take() else { return };
        self.windows[key].in_pane = 0;
        let held = self.windows[key].front.len() + self.windows[key].back.len();
        if held as u64 >= it.panes {
            self.end_oldest(it, key);
        }
        let sum = match self.windows[key].back_sum {
            Some(sum) => sum,
            None => {
                let sum = self.fresh();
                self.windows[key].back_sum = Some(sum);
                sum
            }
        };
        self.add(&it.plan, sum, pane);
        self.windows[key].back.push(pane);
    }

    /// The oldest pane leaves. An empty front is first made of the back: sums from each pane to
    /// the last, so that the front always has the sum of its remaining panes.
    fn end_oldest(&mut self, it: &CountFactory, key: usize) {
        if self.windows[key].front.is_empty() {
            let back = std::mem::take(&mut self.windows[key].back);
            let mut newer: Option<u32> = None;
            for pane in back.into_iter().rev() {
                if let Some(newer) = newer {
                    self.add(&it.plan, pane, newer);
                }
                newer = Some(pane);
                self.windows[key].front.push(pane);
            }
            if let Some(sum) = self.windows[key].back_sum.take() {
                self.release(sum);
            }
        }
        if let Some(oldest) = self.windows[key].front.pop() {
            self.release(oldest);
        }
    }

    /// The accumulators of the whole window, in a new cell.
    fn whole(&mut self, it: &CountFactory, key: usize) -> u32 {
        let window = &self.windows[key];
        let parts = [window.front.last().copied(), window.back_sum, window.filling];
        let whole = self.fresh();
        for part in parts.into_iter().flatten() {
            self.add(&it.plan, whole, part);
        }
        whole
    }
}

impl CountLane {
    /// Takes the rows of a slice.
    fn take_slice(
        &mut self,
        state: &mut CountWindows,
        slice: SliceId,
        (block, prepared): (&Block, &Prepared),
    ) {
        let (mut rows, mut keys) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.keys));
        rows.clear();
        block.rows_of(slice).for_each(|row| rows.push(row as u32));
        let looked_up = (&prepared.keys, prepared.hashes(block));
        state.keys.look_ahead(looked_up.1, &rows);
        for start in (0..rows.len()).step_by(TAKEN_AT_ONCE) {
            let some = start..rows.len().min(start + TAKEN_AT_ONCE);
            let windows = &state.windows;
            let coming = |key| prefetch(windows, key as usize);
            state.keys.resolve(looked_up, (&rows, some.clone()), &mut keys, coming);
            for (nth, row) in rows[some].iter().enumerate() {
                if let Some(ahead) = keys.get(nth + ENTRIES_AHEAD) {
                    state.prefetch(*ahead as usize);
                }
                self.take_row(state, keys[nth] as usize, (*row as usize, prepared));
            }
        }
        (self.rows, self.keys) = (rows, keys);
    }

    fn take_row(
        &mut self,
        state: &mut CountWindows,
        key: usize,
        (row, prepared): (usize, &Prepared),
    ) {
        let it = &self.factory;
        let plan = &it.plan;
        state.change(key);
        if state.windows.len() <= key {
            state.windows.resize_with(key + 1, CountWindow::default);
        }
        let cell = match state.windows[key].filling {
            Some(cell) => cell,
            None => {
                let cell = state.fresh();
                state.windows[key].filling = Some(cell);
                cell
            }
        };
        state.cells.update(&plan.aggregates, prepared.taken(), &[row as u32], &[cell]);
        let window = &mut state.windows[key];
        window.records += 1;
        window.in_pane += 1;
        let (is_full, is_due) =
            (window.in_pane == it.pane, window.records.is_multiple_of(it.every));
        if is_full {
            state.end_pane(it, key);
        }
        if is_due {
            let only = state.windows[key].filling.filter(|_| it.panes == u64::MAX);
            let whole = match only {
                Some(cell) => cell,
                None => state.whole(it, key),
            };
            state.keys.write(std::iter::once(key), &mut self.emitter.keys);
            let results = &mut self.emitter.results;
            state.cells.read(&plan.aggregates, std::iter::once(whole as usize), results);
            self.emitter.bounds(1, (0, 0), prepared.time(row));
            if only.is_none() {
                state.release(whole);
            }
        }
    }
}

impl Operator for CountLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let plan = Arc::clone(&self.factory.plan);
        let (blocks, prepared) = plan.prepare_all(input.port(0), context)?;
        let blocks = &*blocks;
        for slice in context.slices.clone().map(SliceId).filter(|it| has_rows(blocks, *it)) {
            let state: &mut CountWindows = context.state(slice);
            self.emitter.begin(slice);
            for (block, prepared) in blocks.iter().zip(&prepared) {
                self.take_slice(state, slice, (block, prepared));
                self.emitter.flush_if_full(&plan, output)?;
            }
        }
        self.emitter.flush(&plan, output)
    }
}
