//! Open windows as a table for queries: the row that each would emit now.
//!
//! Reading some accumulators changes them, which a query must not do to a state: they are copied first,
//! byte by byte as a checkpoint has them.

use super::{Emitter, ROWS_OUT_MAX, Windowed};
use crate::aggregate::Cells;
use crate::groups::Groups;
use crate::transform::arrow_error;
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use std::{ops::ControlFlow, sync::Arc};
use tidemill_flow::{ErrorKind, OperatorError, StateTable, TIME_COLUMN, TakeRows};
use tidemill_state::ByteReader;

/// The only table of a stage with windows: the columns that it writes, but for the hidden time.
pub(super) fn table(plan: &Windowed) -> StateTable {
    StateTable::only(shown_schema(&plan.output))
}

fn shown_schema(output: &Schema) -> SchemaRef {
    let fields = output.fields().iter().filter(|it| it.name() != TIME_COLUMN);
    Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()))
}

/// Open windows on their way to a query.
pub(super) struct WindowRows<'a, 'b> {
    plan: &'a Windowed,
    emitter: Emitter,
    /// Copies of the accumulators of one piece.
    copies: Cells,
    bytes: Vec<u8>,
    take: &'a mut TakeRows<'b>,
}

impl<'a, 'b> WindowRows<'a, 'b> {
    pub(super) fn new(plan: &'a Windowed, take: &'a mut TakeRows<'b>) -> Self {
        let (emitter, copies) = (Emitter::new(plan, 0), Cells::new(&plan.aggregates));
        Self { plan, emitter, copies, bytes: Vec::new(), take }
    }

    /// Shows every group of a window.
    pub(super) fn window(
        &mut self,
        (groups, cells): (&Groups, &Cells),
        bounds: (i64, i64),
    ) -> Result<ControlFlow<()>, OperatorError> {
        // New groups get their accumulators at the end of a piece of a cycle.
        let count = groups.len().min(cells.groups());
        for start in (0..count).step_by(ROWS_OUT_MAX) {
            let end = count.min(start + ROWS_OUT_MAX);
            groups.write(start..end, &mut self.emitter.keys);
            for group in start..end {
                self.copy(cells, group)?;
            }
            self.emitter.bounds(end - start, bounds, 0);
            if self.put()?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Shows one window of one key, whose accumulators are together those of `parts`.
    pub(super) fn row(
        &mut self,
        (groups, key): (&Groups, usize),
        cells: &Cells,
        parts: &[u32],
        bounds: (i64, i64),
    ) -> Result<ControlFlow<()>, OperatorError> {
        groups.write(std::iter::once(key), &mut self.emitter.keys);
        match parts {
            [only] => self.copy(cells, *only as usize)?,
            parts => {
                let to = self.copies.groups();
                self.copies.resize(to + 1);
                for part in parts {
                    self.copies.merge(&self.plan.aggregates, to, cells, *part as usize);
                }
            }
        }
        self.emitter.bounds(1, bounds, 0);
        if self.copies.groups() >= ROWS_OUT_MAX {
            self.put()
        } else {
            Ok(ControlFlow::Continue(()))
        }
    }

    /// Shows the remaining windows.
    pub(super) fn finish(mut self) -> Result<(), OperatorError> {
        // Nothing comes after it.
        self.put().map(|_| ())
    }

    fn copy(&mut self, cells: &Cells, group: usize) -> Result<(), OperatorError> {
        let to = self.copies.groups();
        self.copies.resize(to + 1);
        self.bytes.clear();
        cells.save(group, &mut self.bytes);
        let restored = self.copies.restore(to, &mut ByteReader::new(&self.bytes));
        restored.map_err(|error| OperatorError::of_kind(ErrorKind::Corrupt, error.0))
    }

    fn put(&mut self) -> Result<ControlFlow<()>, OperatorError> {
        let count = self.copies.groups();
        self.copies.read(&self.plan.aggregates, 0..count, &mut self.emitter.results);
        self.copies.reset();
        let Some(batch) = self.emitter.batch(self.plan)? else {
            return Ok(ControlFlow::Continue(()));
        };
        Ok((self.take)(without_time(&batch)?))
    }
}

fn without_time(batch: &RecordBatch) -> Result<RecordBatch, OperatorError> {
    let schema = batch.schema();
    let kept = schema.fields().iter().enumerate().filter(|(_, it)| it.name() != TIME_COLUMN);
    let kept: Vec<usize> = kept.map(|(index, _)| index).collect();
    batch.project(&kept).map_err(arrow_error)
}
