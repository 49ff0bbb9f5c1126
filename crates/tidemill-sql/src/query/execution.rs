//! A running query: rows go through its steps in pieces, and the memory of the steps is counted.
//!
//! Before a step gets rows, the largest result that it can make of them is computed ([`Reach`]). If that
//! is much, the step gets the rows in smaller pieces; if the result of a single row exceeds the query's
//! memory, the query fails. Memory is checked after every step. It does not include the input rows that
//! the caller still holds, the stack, memory that DataFusion's aggregates do not report, and the
//! temporary memory of a comparison or a regular expression.

use super::{
    Query, QueryError, Step, evaluate,
    group::GroupState,
    reach::Reach,
    shaped,
    sort::{SortState, of_row},
    truth,
};
use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::{filter::filter_record_batch, take::take_record_batch};
use std::ops::ControlFlow;

/// The result of a step for one piece takes at most this part of the query's memory, unless the piece
/// is a single row.
const PIECES: usize = 8;

/// The state of a step.
enum StepState<'a> {
    Nothing,
    Group(GroupState<'a>),
    Sort(SortState<'a>),
    /// The rows that remain to be skipped, and to be taken.
    Limit(usize, usize),
}

/// A running query. It gets the rows of its table in batches.
pub struct RunningQuery<'a> {
    query: &'a Query,
    states: Vec<StepState<'a>>,
    /// Memory of each step in bytes.
    held: Vec<usize>,
    /// Bytes of pieces that wait for a step.
    waiting: usize,
    bytes_max: usize,
    answer: Vec<RecordBatch>,
    answer_bytes: usize,
    rows: usize,
    rows_max: usize,
}

impl<'a> RunningQuery<'a> {
    pub(super) fn new(
        query: &'a Query,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<Self, QueryError> {
        let states = query.steps.iter().map(|step| {
            Ok(match step {
                Step::Filter(..) | Step::Project(..) => StepState::Nothing,
                Step::Group(plan) => StepState::Group(GroupState::new(plan)?),
                Step::Sort(plan) => StepState::Sort(SortState::new(plan)?),
                Step::Limit(skip, fetch) => StepState::Limit(*skip, fetch.unwrap_or(usize::MAX)),
            })
        });
        let states = states.collect::<Result<Vec<_>, QueryError>>()?;
        let held = vec![0; states.len()];
        let (answer, answer_bytes) = (Vec::new(), 0);
        Ok(Self {
            query,
            states,
            held,
            waiting: 0,
            bytes_max,
            answer,
            answer_bytes,
            rows: 0,
            rows_max,
        })
    }
}

impl RunningQuery<'_> {
    /// Takes rows. Returns `Break` once further rows cannot change the answer.
    ///
    /// # Errors
    /// An expression has no value for a row, or the query needs too much memory.
    pub fn push(&mut self, batch: RecordBatch) -> Result<ControlFlow<()>, QueryError> {
        self.push_from(0, batch)
    }

    /// Ends the input and returns the answer, in batches with [`Query::schema`].
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self) -> Result<Vec<RecordBatch>, QueryError> {
        for nth in 0..self.states.len() {
            let batch = match std::mem::replace(&mut self.states[nth], StepState::Nothing) {
                StepState::Group(it) => {
                    // What is put out is about as large as what was held.
                    self.fits(self.held[nth])?;
                    it.finish()?
                }
                StepState::Sort(it) => it.finish(self.left())?,
                it => {
                    self.states[nth] = it;
                    continue;
                }
            };
            self.held[nth] = 0;
            if let Some(batch) = batch {
                self.fits(bytes(&batch))?;
                let _ = self.push_from(nth + 1, batch)?;
            }
        }
        Ok(self.answer)
    }

    /// The columns of its answer.
    #[cfg(test)]
    pub(super) fn schema(&self) -> arrow_schema::SchemaRef {
        self.query.schema()
    }

    /// The query's memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.held.iter().sum::<usize>() + self.waiting + self.answer_bytes
    }

    fn left(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes())
    }

    fn fits(&self, more: usize) -> Result<(), QueryError> {
        let all = self.bytes().saturating_add(more);
        if all > self.bytes_max { Err(QueryError::Memory) } else { Ok(()) }
    }

    /// Sends rows through a step and the later ones, in pieces.
    fn push_from(&mut self, nth: usize, batch: RecordBatch) -> Result<ControlFlow<()>, QueryError> {
        let query = self.query;
        let Some(step) = query.steps.get(nth) else { return self.put_out(batch) };
        let mut pieces = vec![batch];
        while let Some(piece) = pieces.pop() {
            let (rows, made) = (piece.num_rows(), made_of(&piece, step.reach()));
            if rows > 1 && made > self.bytes_max / PIECES {
                let half = rows / 2;
                pieces.push(piece_of(&piece, half..rows)?);
                pieces.push(piece_of(&piece, 0..half)?);
                continue;
            }
            let piece = if rows == 1 { piece_of(&piece, 0..1)? } else { piece };
            let waiting: usize = pieces.iter().map(bytes).sum();
            self.waiting += waiting;
            self.fits(bytes(&piece).saturating_add(made_of(&piece, step.reach())))?;
            let wants = if rows == 0 { ControlFlow::Continue(()) } else { self.step(nth, piece)? };
            self.waiting -= waiting;
            if wants.is_break() {
                return Ok(wants);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Runs one step on a piece whose result fits the memory.
    fn step(&mut self, nth: usize, batch: RecordBatch) -> Result<ControlFlow<()>, QueryError> {
        let room = self.left();
        let made = match (&self.query.steps[nth], &mut self.states[nth]) {
            (Step::Filter(expr, _), _) => filter_record_batch(&batch, &truth(expr, &batch)?)?,
            (Step::Project(exprs, schema, _), _) => {
                let columns = exprs.iter().map(|expr| evaluate(expr, &batch));
                let columns = columns.collect::<Result<_, _>>()?;
                shaped(schema, columns, batch.num_rows())?
            }
            (_, StepState::Group(it)) => {
                it.take(&batch)?;
                self.held[nth] = it.bytes();
                self.fits(0)?;
                return Ok(ControlFlow::Continue(()));
            }
            (_, StepState::Sort(it)) => {
                it.take(batch, room)?;
                self.held[nth] = it.bytes();
                self.fits(0)?;
                return Ok(ControlFlow::Continue(()));
            }
            (_, StepState::Limit(skip, fetch)) => {
                let left_out = batch.num_rows().min(*skip);
                *skip -= left_out;
                let taken = (batch.num_rows() - left_out).min(*fetch);
                *fetch -= taken;
                let ended = *fetch == 0;
                let wants = self.push_from(nth + 1, batch.slice(left_out, taken))?;
                return Ok(if ended { ControlFlow::Break(()) } else { wants });
            }
            (_, StepState::Nothing) => {
                unreachable!("a step that has given what it held takes no more")
            }
        };
        self.fits(bytes(&batch).saturating_add(bytes(&made)))?;
        drop(batch);
        self.push_from(nth + 1, made)
    }

    fn put_out(&mut self, batch: RecordBatch) -> Result<ControlFlow<()>, QueryError> {
        if batch.num_rows() > 0 {
            self.rows += batch.num_rows();
            self.answer_bytes += bytes(&batch);
            if self.rows > self.rows_max {
                return Err(QueryError::Rows(self.rows_max));
            }
            self.answer.push(batch);
            self.fits(0)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn bytes(batch: &RecordBatch) -> usize {
    batch.get_array_memory_size()
}

fn made_of(batch: &RecordBatch, reach: Reach) -> usize {
    reach.of_rows(bytes(batch), batch.num_rows())
}

/// A copy of some rows, which does not keep the other rows in memory.
fn piece_of(batch: &RecordBatch, rows: std::ops::Range<usize>) -> Result<RecordBatch, QueryError> {
    let (from, to) = (of_row(rows.start)?, of_row(rows.end)?);
    Ok(take_record_batch(batch, &UInt32Array::from_iter_values(from..to))?)
}
