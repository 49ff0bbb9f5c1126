//! What a stage runs: an [`OperatorFactory`] makes one [`Operator`] a lane and one state a slice.
//!
//! ```text
//! stage ┬ lane (the slices one worker runs) ── operator: compiled expressions, scratch memory
//!       │   ├ slice 0 ── state
//!       │   └ slice 1 ── state                 moves between lanes when threads change
//!       └ lane …
//! ```
//!
//! An operator is called once a cycle, with the lane's whole input of that cycle. What it writes
//! must be a function of state, input and [`Context`] alone, slice by slice in ascending order:
//! then a slice's output is the same bytes whatever the threads did (DESIGN 9, invariant 4).
//! The clock, randomness and the order of a hash map have no place in it.

use crate::block::{Block, Payload};
use crate::look::{StateAt, StateTable, TakeRows};
use crate::rows::{Rows, RowsPool};
use crate::runtime::held::Held;
use crate::slice_runs::SliceRuns;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use std::{any::Any, ops::Range, sync::Arc};
use tidemill_state::{HashOfEntry, State, structure};
use tidemill_types::{ByteSize, Cycle, Micros, SliceId, Span};

/// The state of one slice. What is in it belongs to the operator; checkpoints save its structures.
pub type SliceState = Box<dyn State>;

/// Between the names of the stages that one stage runs, in its name. No stage has it in its own.
pub const MEMBERS_SEPARATOR: char = '+';

/// What a stage runs, shared by its lanes.
pub trait OperatorFactory: Send + Sync {
    /// Schemas of the outputs: the main one first, then side outputs.
    fn outputs(&self) -> Vec<SchemaRef>;
    /// Whether an output is for rows that are no results, such as late ones. Default: all but the
    /// main one are.
    fn is_side(&self, output: usize) -> bool {
        output > 0
    }
    /// An operator for one lane.
    fn operator(&self) -> Box<dyn Operator>;
    /// The empty state of a slice.
    fn state(&self, slice: SliceId) -> SliceState;
    /// The stages of the job that it runs, where they are several: [`Self::tables`] has one for
    /// each, in this order. Default: it is one stage.
    fn members(&self) -> Vec<String> {
        Vec::new()
    }
    /// The stage that an output is of, if it runs several. Default: it is one stage.
    fn member_of(&self, _output: usize) -> Option<String> {
        None
    }
    /// What the operator does, in words that are the same exactly if a saved state still fits it.
    /// Default: the columns that it writes.
    fn does(&self) -> String {
        self.outputs().iter().map(columns_in_words).collect::<Vec<_>>().join("; ")
    }
    /// The hash of the key that an entry of its state holds in its value: then its states can be read
    /// key by key ([`tidemill_state::State::read_by_key`]), and its operator asks for those it needs
    /// ([`Context::state_by_key`]). Default: they are read as a whole.
    fn hash_of_entry(&self) -> Option<HashOfEntry> {
        None
    }
    /// Why its state cannot be part of a checkpoint, if it cannot. Default: it can, unless it has too
    /// many structures.
    fn cannot_save(&self) -> Option<String> {
        structure::cannot_save(&mut *self.state(SliceId(0)))
    }
    /// Whether the lane must be called in cycles without input, because event time alone can
    /// make it write (windows, joins). Default: no.
    fn wants_time(&self) -> bool {
        false
    }
    /// How far in event time a row may wait before it is written with its own time (the rows of
    /// an outer join that find no partner): the watermark of the output trails the input's by
    /// that, so those who read it do not take such rows for late ones. Default: nothing.
    fn holds_back(&self) -> Span {
        Span(0)
    }
    /// The tables as which a state can be looked at. Default: none.
    fn tables(&self) -> Vec<StateTable> {
        Vec::new()
    }
    /// Gives the rows of one of [`Self::tables`], some thousand at a time, until no more are
    /// wanted. Their order follows from the state alone, and the state does not change.
    ///
    /// # Errors
    /// A value cannot be shown.
    fn rows(
        &self,
        _table: usize,
        _at: StateAt<'_>,
        _take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// Columns with their types, for [`OperatorFactory::does`].
#[must_use]
pub fn columns_in_words(schema: &SchemaRef) -> String {
    let field = |it: &arrow_schema::FieldRef| format!("{} {}", it.name(), it.data_type());
    schema.fields().iter().map(field).collect::<Vec<_>>().join(", ")
}

/// The work of one lane.
pub trait Operator: Send {
    /// Processes the whole input of one cycle.
    ///
    /// # Errors
    /// An error fails the job, with the stage, slice, cycle and row of [`Context::at`].
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError>;
}

/// Why an operator cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct OperatorError {
    /// What happened, for a person.
    pub message: String,
}

impl OperatorError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// The input of a lane in one cycle. A port is one of the operator's inputs, such as the left
/// side of a join; links of a union share a port.
#[derive(Debug, Default)]
pub struct CycleInput {
    /// By port: the blocks, in the order of upstream and sequence. All of them hold rows of the lane.
    pub ports: Vec<Vec<Arc<Block>>>,
}

impl CycleInput {
    /// The blocks of one port, in order.
    #[must_use]
    pub fn port(&self, port: usize) -> &[Arc<Block>] {
        self.ports.get(port).map_or(&[], Vec::as_slice)
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.iter().all(Vec::is_empty)
    }
}

/// Where an operator stands: the cycle, its time, its slices and their state.
pub struct Context<'a> {
    /// The cycle.
    pub cycle: Cycle,
    /// The recorded time of the cycle: the only clock an operator has.
    pub cycle_time: Micros,
    /// A seed of the cycle, the same on every replay.
    pub seed: u64,
    /// By port, the watermark as of the end of this cycle. A record whose time is below the
    /// watermark of an *earlier* cycle is late.
    pub watermarks: &'a [Micros],
    /// Lowest watermark of all ports as of the end of this cycle.
    pub watermark: Micros,
    /// Lowest watermark of all ports as of the end of the previous cycle.
    pub watermark_before: Micros,
    /// By port: no more records come after this cycle.
    pub ended: &'a [bool],
    /// The slices of this lane.
    pub slices: Range<u32>,
    pub(crate) states: &'a mut [Held],
    pub(crate) place: Place,
    pub(crate) letters: &'a mut Vec<DeadLetter>,
}

/// The slice and row being processed, for errors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) slice: Option<SliceId>,
    pub(crate) row: Option<usize>,
}

/// A record that could not be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The stage or source that refused it.
    pub stage: String,
    /// The cycle in which it came.
    pub cycle: Cycle,
    /// The slice that refused it. Letters of a cycle are written by stage and slice, those of one
    /// slice in the order in which it refused them.
    pub slice: SliceId,
    /// Where it stood: file, byte offset and line; or slice and row; or that it was in a batch.
    pub position: String,
    /// Why it was refused.
    pub reason: String,
    /// Its bytes, cut to the limit.
    pub record: Vec<u8>,
}

#[inline]
fn of_type<T: 'static>(state: &mut SliceState) -> &mut T {
    let state: &mut dyn Any = &mut **state;
    state.downcast_mut().expect("the type that the factory made")
}

impl Context<'_> {
    /// Whether no more records come after this cycle, from any port.
    #[must_use]
    pub fn all_ended(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    /// The state of a slice of this lane.
    ///
    /// # Panics
    /// Panics if the slice is not of this lane, or its state is of another type: both are errors
    /// of the operator's programmer.
    pub fn state<T: 'static>(&mut self, slice: SliceId) -> &mut T {
        of_type(self.held(slice).get())
    }

    /// The same, for somebody who needs some of its keys: where a checkpoint has the state, it is
    /// empty at first, and reads them when it is asked for them
    /// ([`tidemill_state::State::read_by_key`]).
    ///
    /// # Panics
    /// As [`Self::state`].
    pub fn state_by_key<T: 'static>(&mut self, slice: SliceId) -> &mut T {
        of_type(self.held(slice).by_key())
    }

    /// These slices are about to be asked for, all of each or, `by_key`, some of its keys: what is not
    /// in memory is read meanwhile.
    pub fn read_ahead(&self, slices: impl Iterator<Item = SliceId>, by_key: bool) {
        for slice in slices {
            self.states[(slice.0 - self.slices.start) as usize].read_ahead(by_key);
        }
    }

    /// Whether all of every state is in memory.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.states.iter().all(|state| matches!(state, Held::Here(_)))
    }

    #[inline]
    fn held(&mut self, slice: SliceId) -> &mut Held {
        if self.place.slice != Some(slice) {
            self.at_slice(slice);
        }
        &mut self.states[(slice.0 - self.slices.start) as usize]
    }

    /// Notes which record is being processed; an error or a panic names it.
    pub fn at(&mut self, slice: SliceId, row: usize) {
        self.place = Place { slice: Some(slice), row: Some(row) };
    }

    /// Notes which slice is being processed, and no record of it.
    pub fn at_slice(&mut self, slice: SliceId) {
        self.place = Place { slice: Some(slice), row: None };
    }

    /// Sends a record to the dead-letter sink. `row` counts within the slice's input of the cycle.
    pub fn dead_letter(&mut self, slice: SliceId, row: usize, reason: String, record: &[u8]) {
        self.letter(slice, format!("slice {slice}, row {row}"), reason, record);
    }

    /// As [`Self::dead_letter`], of who sees rows of several slices as one batch and does not know
    /// which of them it is. `slice` is the first of them.
    pub fn dead_letter_of_batch(&mut self, slice: SliceId, reason: String, record: &[u8]) {
        // Where batches begin depends on threads, and what is written must not.
        self.letter(slice, "in a batch".to_owned(), reason, record);
    }

    fn letter(&mut self, slice: SliceId, position: String, reason: String, record: &[u8]) {
        let kept = record.len().min(tidemill_types::limits::DEAD_LETTER_BYTES_MAX);
        self.letters.push(DeadLetter {
            stage: String::new(),
            cycle: self.cycle,
            slice,
            position,
            reason,
            record: record[..kept].to_vec(),
        });
    }
}

/// Takes what a lane writes in a cycle: port 0 is the main output, others are side outputs.
/// Rows must be written in ascending order of their slice.
pub struct Output {
    pub(crate) pool: Arc<RowsPool>,
    pub(crate) slice: SliceId,
    pub(crate) emitted: Vec<(usize, SliceId, Emitted)>,
    pub(crate) rows: Option<Rows>,
    pub(crate) rows_bytes_max: usize,
    /// Whether a stage reads what is written under the slices that write it.
    by_slice: bool,
    most: Most,
}

/// How much may be written in a cycle, which is in memory as a whole before it goes on.
#[derive(Clone, Copy, Debug)]
struct Most {
    bytes: u64,
    /// What is left of it. A part of a column counts as all of it until that would be too much.
    left: u64,
}

/// The panic of who writes more than that.
#[derive(Debug)]
pub(crate) struct TooMuch(pub(crate) String);

/// What was written at once.
pub(crate) enum Emitted {
    /// New rows, of one slice or of whichever.
    Rows(Payload),
    /// New rows of several slices.
    Runs(RecordBatch, SliceRuns),
    /// All rows of a block of the input.
    Block(Arc<Block>),
}

impl Output {
    /// An empty output whose byte records are cut into blocks of `rows_bytes_max` bytes.
    #[must_use]
    pub fn new(rows_bytes_max: usize) -> Self {
        Self {
            pool: RowsPool::new(64),
            slice: SliceId(0),
            emitted: Vec::new(),
            rows: None,
            rows_bytes_max: rows_bytes_max.clamp(1, 1 << 30),
            by_slice: true,
            most: Most { bytes: u64::MAX, left: u64::MAX },
        }
    }

    /// As it is, but for the bytes that may be written in a cycle.
    pub(crate) fn limited(mut self, bytes: ByteSize) -> Self {
        self.most = Most { bytes: bytes.0, left: bytes.0 };
        self
    }

    /// As it is, but if nobody asks of which slice a row is, that is not noted.
    pub(crate) fn by_slice(mut self, by_slice: bool) -> Self {
        self.by_slice = by_slice;
        self
    }

    /// Begins a cycle, with nothing written.
    pub(crate) fn begin(&mut self, slice: SliceId) {
        self.slice = slice;
        self.most.left = self.most.bytes;
    }

    /// Counts what is written.
    #[inline]
    fn count(&mut self, bytes: usize) {
        match self.most.left.checked_sub(bytes as u64) {
            Some(left) => self.most.left = left,
            None => self.recount(),
        }
    }

    /// Counts all that was written, each byte once.
    #[cold]
    fn recount(&mut self) {
        let of = |(_, _, emitted): &(usize, SliceId, Emitted)| match emitted {
            Emitted::Rows(Payload::Arrow(batch)) | Emitted::Runs(batch, _) => {
                let of = |it: &ArrayRef| it.to_data().get_slice_memory_size();
                let all = batch.columns().iter().map(of).sum::<Result<usize, _>>();
                all.unwrap_or_else(|_| batch.get_array_memory_size())
            }
            Emitted::Rows(Payload::Rows(rows)) => rows.bytes(),
            // It goes on by reference.
            Emitted::Block(_) => 0,
        };
        let written = self.emitted.iter().map(of).sum::<usize>() as u64;
        match self.most.bytes.checked_sub(written) {
            Some(left) => self.most.left = left,
            None => std::panic::resume_unwind(Box::new(TooMuch(format!(
                "one thread wrote more than {} in a cycle: give the job a larger `buffer: {{output: …}}`, or begin it anew with shorter cycles, such as `cycle: {{records: 1000}}`",
                ByteSize(self.most.bytes)
            )))),
        }
    }

    /// Whether a stage reads what is written with the partition `local`, under the slices that
    /// write it. Who else writes for several slices at once need not tell them apart.
    #[must_use]
    pub fn is_by_slice(&self) -> bool {
        self.by_slice
    }

    /// Says that what follows is written by `slice`. Who does not say it writes all under the first
    /// slice of the lane, which depends on the number of threads. Costs nothing where nobody asks
    /// ([`Self::is_by_slice`]).
    pub fn set_slice(&mut self, slice: SliceId) {
        if self.by_slice && self.slice != slice {
            self.flush_rows();
            self.slice = slice;
        }
    }

    /// Writes columns to the main output.
    pub fn emit(&mut self, batch: RecordBatch) {
        self.emit_to(0, batch);
    }

    /// Writes columns to an output.
    pub fn emit_to(&mut self, port: usize, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.flush_rows();
            let bytes = batch.get_array_memory_size();
            self.emitted.push((port, self.slice, Emitted::Rows(Payload::Arrow(batch))));
            self.count(bytes);
        }
    }

    /// Writes columns of several slices to an output.
    pub fn emit_runs(&mut self, port: usize, batch: RecordBatch, runs: SliceRuns) {
        match runs.first().filter(|_| self.by_slice && batch.num_rows() > 0) {
            Some((_, false)) => {
                self.flush_rows();
                let bytes = batch.get_array_memory_size();
                self.emitted.push((port, self.slice, Emitted::Runs(batch, runs)));
                self.count(bytes);
            }
            Some((slice, true)) => {
                self.set_slice(slice);
                self.emit_to(port, batch);
            }
            None => self.emit_to(port, batch),
        }
    }

    /// Writes one byte record to the main output.
    #[inline]
    pub fn push(&mut self, record: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(record));
    }

    /// Writes one byte record that `write` appends to the bytes.
    #[inline]
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let rows = self.rows.get_or_insert_with(|| self.pool.take());
        rows.push_with(write);
        if rows.bytes() >= self.rows_bytes_max {
            self.flush_rows();
        }
    }

    /// Writes all rows of a block of the input to the main output, as they are: the block goes on
    /// by reference, without a copy, wherever its rows go to one slice. Its schema must be that of
    /// the output.
    pub fn pass(&mut self, block: &Arc<Block>) {
        if !block.is_empty() {
            self.flush_rows();
            self.emitted.push((0, self.slice, Emitted::Block(Arc::clone(block))));
        }
    }

    /// Ends the byte records written so far.
    pub fn flush_rows(&mut self) {
        if let Some(rows) = self.rows.take_if(|rows| !rows.is_empty()) {
            let bytes = rows.bytes();
            self.emitted.push((0, self.slice, Emitted::Rows(Payload::Rows(rows))));
            self.count(bytes);
        }
    }

    /// What was written, for tests of operators: port and columns, in order.
    pub fn take_batches(&mut self) -> Vec<(usize, RecordBatch)> {
        self.flush_rows();
        let batch = |emitted: Emitted| match emitted {
            Emitted::Rows(payload) => Block::whole(payload, SliceId(0)).batch(),
            Emitted::Runs(batch, _) => batch,
            Emitted::Block(block) => block.batch(),
        };
        self.emitted.drain(..).map(|(port, _, emitted)| (port, batch(emitted))).collect()
    }
}
