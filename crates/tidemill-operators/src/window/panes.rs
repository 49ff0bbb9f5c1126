//! Tumbling, sliding and global windows, on panes.
//!
//! ```text
//! time    ├─pane─┼─pane─┼─pane─┼─pane─┤        a pane is as long as the greatest common divisor
//! window         └──────size───┘                of `size` and `every`
//! ```
//!
//! A row is taken once, into the pane of its time, however many windows overlap there
//! (KerA chapter 4); a window that closes merges its panes. A tumbling window is one pane.

use super::table::Table;
use super::{Emitter, Late, Prepared, Windowed, shown};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState,
    StateAt, StateTable, TakeRows,
};
use tidemill_state::{Delta, SavedError, State, Structure};
use tidemill_types::{Micros, SliceId};

/// Emptied tables kept by a slice, at most.
const SPARE_MAX: usize = 4;

/// Panes of one slice, by end.
struct Panes {
    plan: Arc<Windowed>,
    open: BTreeMap<i64, Table>,
    spare: Vec<Table>,
    /// Changes are noted, for checkpoints.
    is_tracked: bool,
    /// Panes that went since the last checkpoint began.
    gone: Vec<i64>,
    /// Panes that had gone when the one under way began, and what those that went since held then.
    frozen: Delta,
}

#[derive(Clone)]
struct Factory {
    plan: Arc<Windowed>,
    /// Size, step and pane of the windows in microseconds; none: one window, closed by the end.
    spans: Option<Spans>,
}

#[derive(Clone, Copy, Debug)]
struct Spans {
    size: i64,
    every: i64,
    pane: i64,
}

struct Lane {
    factory: Factory,
    emitter: Emitter,
    rows: Vec<u32>,
    groups: Vec<u32>,
    late: Vec<u32>,
}

/// Windows of `size` that begin at every multiple of `every`.
pub(super) fn sliding(plan: Arc<Windowed>, size: i64, every: i64) -> Arc<dyn OperatorFactory> {
    let pane = greatest_common_divisor(size, every);
    Arc::new(Factory { plan, spans: Some(Spans { size, every, pane }) })
}

/// One window over everything.
pub(super) fn global(plan: Arc<Windowed>) -> Arc<dyn OperatorFactory> {
    Arc::new(Factory { plan, spans: None })
}

pub(super) fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl OperatorFactory for Factory {
    fn outputs(&self) -> Vec<arrow_schema::SchemaRef> {
        vec![Arc::clone(&self.plan.output), Arc::clone(&self.plan.input)]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Lane {
            emitter: Emitter::new(&self.plan),
            factory: self.clone(),
            rows: Vec::new(),
            groups: Vec::new(),
            late: Vec::new(),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(Panes {
            plan: Arc::clone(&self.plan),
            open: BTreeMap::new(),
            spare: Vec::new(),
            is_tracked: false,
            gone: Vec::new(),
            frozen: Delta::default(),
        })
    }

    fn does(&self) -> String {
        format!("{} over {:?}", self.plan.does(), self.spans)
    }

    fn wants_time(&self) -> bool {
        self.spans.is_some()
    }

    fn tables(&self) -> Vec<StateTable> {
        vec![shown::table(&self.plan)]
    }

    fn rows(
        &self,
        _: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let watermark = at.watermark;
        let panes: &Panes = at.of();
        let mut showing = shown::Showing::new(&self.plan, take);
        let Some(spans) = self.spans else {
            for table in panes.open.values() {
                if showing.window((&table.groups, &table.cells), (0, 0))?.is_break() {
                    return Ok(());
                }
            }
            return showing.finish();
        };
        let mut ends = BTreeSet::new();
        for pane_end in panes.open.keys() {
            spans.closing(*pane_end, watermark, Micros::MAX, &mut ends);
        }
        for end in ends {
            let bounds = (end - spans.size, end);
            let shown = match panes.open.get(&end).filter(|_| spans.pane == spans.size) {
                Some(table) => showing.window((&table.groups, &table.cells), bounds)?,
                None => {
                    let mut merged = Table::new(&self.plan);
                    merged.add(&self.plan, panes.open.range(bounds.0 + 1..=end))?;
                    showing.window((&merged.groups, &merged.cells), bounds)?
                }
            };
            if shown.is_break() {
                return Ok(());
            }
        }
        showing.finish()
    }
}

impl Spans {
    /// The end of the pane of a time; the end of time if it is beyond.
    #[inline]
    fn pane_end(&self, time: i64) -> i64 {
        (time.div_euclid(self.pane) * self.pane).saturating_add(self.pane)
    }

    /// The end of the last window that a pane belongs to.
    fn last_window_end(&self, pane_end: i64) -> i64 {
        let start = (pane_end - self.pane).div_euclid(self.every) * self.every;
        start.saturating_add(self.size)
    }

    /// The ends of the windows of a pane that close between two watermarks.
    fn closing(&self, pane_end: i64, before: Micros, now: Micros, ends: &mut BTreeSet<i64>) {
        let mut end = self.last_window_end(pane_end);
        while end >= pane_end && end > before.0 {
            if end <= now.0 {
                ends.insert(end);
            }
            end -= self.every;
        }
    }

    /// Whether any window at all can close between two watermarks.
    fn any_closes(&self, before: Micros, now: Micros) -> bool {
        let nth = |at: Micros| at.0.saturating_sub(self.size).div_euclid(self.every);
        before < now && (before == Micros::MIN || now == Micros::MAX || nth(before) < nth(now))
    }
}

impl Panes {
    fn table(&mut self, pane_end: i64) -> &mut Table {
        let (spare, plan, is_tracked) = (&mut self.spare, &self.plan, self.is_tracked);
        self.open.entry(pane_end).or_insert_with(|| {
            let mut table = spare.pop().unwrap_or_else(|| Table::new(plan));
            if is_tracked {
                table.track();
            }
            table
        })
    }

    /// A pane is not open any more.
    fn let_go(&mut self, pane_end: i64, mut table: Table) {
        if self.is_tracked {
            self.frozen.within(&pane_key(pane_end), |delta| table.drain(delta, usize::MAX));
            self.gone.push(pane_end);
        }
        self.give_back(table);
    }

    fn give_back(&mut self, mut table: Table) {
        if self.spare.len() < SPARE_MAX {
            table.reset();
            self.spare.push(table);
        }
    }
}

/// The end of a pane, as bytes in the same order.
fn pane_key(pane_end: i64) -> [u8; 8] {
    (pane_end ^ i64::MIN).to_be_bytes()
}

impl State for Panes {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }
}

impl Structure for Panes {
    fn memory(&self) -> usize {
        let tables = self.open.values().chain(&self.spare).map(Table::memory).sum::<usize>();
        tables + self.frozen.memory() + self.gone.capacity() * size_of::<i64>()
    }

    fn track(&mut self) {
        self.is_tracked = true;
    }

    fn freeze(&mut self) {
        for pane_end in self.gone.drain(..) {
            self.frozen.clear(&pane_key(pane_end));
        }
        self.open.values_mut().for_each(Table::freeze);
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        delta.append(&mut self.frozen);
        let end = delta.len().saturating_add(most);
        self.open.iter_mut().all(|(pane_end, table)| {
            let most = end.saturating_sub(delta.len());
            delta.within(&pane_key(*pane_end), |delta| table.drain(delta, most))
        })
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let (pane, row) = key.split_first_chunk().ok_or_else(|| SavedError::new("no pane"))?;
        self.table(i64::from_be_bytes(*pane) ^ i64::MIN).restore(row, value)
    }
}

impl Lane {
    /// Takes `rows` of a block into one pane.
    fn take(
        &mut self,
        panes: &mut Panes,
        pane_end: i64,
        (block, prepared): (&Block, &Prepared),
    ) -> Result<(), OperatorError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let plan = &self.factory.plan;
        let table = panes.table(pane_end);
        let hashes = prepared.hashes(block);
        table.groups.resolve(&prepared.keys, hashes, &self.rows, &mut self.groups);
        table.change(&self.groups);
        table.cells.resize(table.groups.len());
        if self.factory.spans.is_none() && prepared.times.is_some() {
            let latest = self.rows.iter().map(|row| prepared.time(*row as usize)).max();
            table.latest = table.latest.max(latest.unwrap_or(i64::MIN));
        }
        table.cells.update(&plan.aggregates, prepared.taken(), &self.rows, &self.groups)?;
        self.rows.clear();
        Ok(())
    }

    /// Takes the rows of one slice in one block, pane by pane as they come.
    fn take_slice(
        &mut self,
        panes: &mut Panes,
        slice: SliceId,
        (block, prepared): (&Block, &Prepared),
        before: Micros,
    ) -> Result<(), OperatorError> {
        let selection = block.rows_of(slice);
        let (Some(spans), Some(times)) = (self.factory.spans, &prepared.times) else {
            selection.for_each(|row| self.rows.push(row as u32));
            return self.take(panes, i64::MAX, (block, prepared));
        };
        let times = times.values();
        // The bounds of the pane that the last row was in, and whether rows there are late.
        let (mut from, mut to, mut is_late) = (i64::MAX, i64::MIN, false);
        let mut outcome = Ok(());
        selection.for_each(|row| {
            let time = times[row];
            if time < from || time >= to {
                if outcome.is_ok() {
                    outcome = self.take(panes, to, (block, prepared));
                }
                to = spans.pane_end(time);
                from = to - spans.pane;
                is_late = spans.last_window_end(to) <= before.0;
            }
            if is_late { self.late.push(row as u32) } else { self.rows.push(row as u32) }
        });
        outcome?;
        self.take(panes, to, (block, prepared))
    }

    /// Puts out every window of a slice that closes now.
    fn close(
        &mut self,
        panes: &mut Panes,
        (before, now): (Micros, Micros),
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let Some(spans) = self.factory.spans else { return Ok(()) };
        let mut ends = BTreeSet::new();
        for pane_end in panes.open.keys() {
            spans.closing(*pane_end, before, now, &mut ends);
        }
        for end in ends {
            let start = end - spans.size;
            if spans.pane == spans.size {
                if let Some(mut table) = panes.open.remove(&end) {
                    self.put_out(&mut table, (start, end), end - 1, output)?;
                    panes.let_go(end, table);
                }
                continue;
            }
            let mut merged = self.merge(panes, start, end)?;
            self.put_out(&mut merged, (start, end), end - 1, output)?;
            panes.give_back(merged);
        }
        while let Some(first) = panes.open.first_entry()
            && spans.last_window_end(*first.key()) <= now.0
        {
            let (pane_end, table) = first.remove_entry();
            panes.let_go(pane_end, table);
        }
        Ok(())
    }

    /// The panes of one window together.
    fn merge(&self, panes: &mut Panes, start: i64, end: i64) -> Result<Table, OperatorError> {
        let plan = &self.factory.plan;
        let mut merged = panes.spare.pop().unwrap_or_else(|| Table::new(plan));
        merged.add(plan, panes.open.range(start + 1..=end))?;
        Ok(merged)
    }

    fn put_out(
        &mut self,
        table: &mut Table,
        bounds: (i64, i64),
        time: i64,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let plan = &self.factory.plan;
        let count = table.groups.len();
        table.groups.write(0..count, &mut self.emitter.keys);
        table.cells.read(&plan.aggregates, 0..count, &mut self.emitter.results);
        self.emitter.bounds(count, bounds, time);
        self.emitter.flush_if_full(plan, output)
    }

    /// Puts out the one window of a slice.
    fn close_global(
        &mut self,
        panes: &mut Panes,
        slice: SliceId,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let plan = Arc::clone(&self.factory.plan);
        let without_key = plan.keys.columns.is_empty() && slice.0 == 0;
        if panes.open.is_empty() && without_key {
            // SQL: an aggregate over nothing is one row.
            let table = panes.table(i64::MAX);
            table.groups.resolve(&crate::groups::BlockKeys::Unit, &[], &[0], &mut self.groups);
            table.change(&self.groups);
            table.cells.resize(1);
        }
        for (pane_end, mut table) in std::mem::take(&mut panes.open) {
            let latest = table.latest;
            self.put_out(&mut table, (0, 0), latest, output)?;
            panes.let_go(pane_end, table);
        }
        Ok(())
    }
}

impl Operator for Lane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let (before, now) = (context.watermark_before, context.watermark);
        let blocks = input.port(0);
        let prepared = blocks
            .iter()
            .map(|block| self.factory.plan.prepare(block))
            .collect::<Result<Vec<_>, _>>()?;
        let closes = self.factory.spans.is_some_and(|spans| spans.any_closes(before, now));
        let ends = context.all_ended() && self.factory.spans.is_none();
        if blocks.is_empty() && !closes && !ends {
            return Ok(());
        }
        let mut late = Late::default();
        for slice in context.slices.clone().map(SliceId) {
            let panes: &mut Panes = context.state(slice);
            for (nth, (block, prepared)) in blocks.iter().zip(&prepared).enumerate() {
                self.take_slice(panes, slice, (block, prepared), before)?;
                late.add(nth, &mut self.late);
            }
            if closes {
                self.close(panes, (before, now), output)?;
            }
            if ends {
                self.close_global(panes, slice, output)?;
            }
        }
        self.emitter.flush(&self.factory.plan, output)?;
        late.put_out(&prepared, output)
    }
}
