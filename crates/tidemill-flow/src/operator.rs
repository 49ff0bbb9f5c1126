//! Operators: an [`OperatorFactory`] makes one [`Operator`] a lane and one state a slice.
//!
//! ```text
//! stage ┬ lane (the slices one worker runs) ── operator: compiled expressions, scratch memory
//!       │   ├ slice 0 ── state
//!       │   └ slice 1 ── state                 moves between lanes when threads change
//!       └ lane …
//! ```
//!
//! An operator is called once a cycle, with the lane's whole input of that cycle. Its output must
//! be a function of state, input and [`Context`] alone, slice by slice in ascending order. Then the
//! output of a slice is the same bytes whatever the threads did. The clock, randomness and the
//! order of a hash map have no place in it.

use crate::block::{Block, Payload};
pub use crate::error::OperatorError;
use crate::rows::{Rows, RowsPool};
use crate::runtime::slice_slot::SliceSlot;
use crate::slice_runs::SliceRuns;
use crate::snapshot::{StateAt, StateTable, TakeRows};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use std::{any::Any, ops::Range, sync::Arc};
use tidemill_state::{HashOfEntry, State, structure};
use tidemill_types::{ByteSize, Cycle, Micros, SliceId, Span};

/// The state of one slice. Its content belongs to the operator; checkpoints save its structures.
pub type SliceState = Box<dyn State>;

/// Separates the names of the job-file stages that one stage of the graph runs, in its name. No name
/// in a job file contains it.
pub const MEMBERS_SEPARATOR: char = '+';

/// Makes the operators and states of a stage. Its lanes share it.
pub trait OperatorFactory: Send + Sync {
    /// Schemas of the outputs: the main one first, then side outputs.
    fn outputs(&self) -> Vec<SchemaRef>;
    /// Returns true if an output takes rows that are no results, such as late ones. Default: all
    /// outputs but the main one.
    fn is_side(&self, output: usize) -> bool {
        output > 0
    }
    /// An operator for one lane.
    fn operator(&self) -> Box<dyn Operator>;
    /// The empty state of a slice.
    fn state(&self, slice: SliceId) -> SliceState;
    /// The stages of the job file that it runs, if there are several: [`Self::tables`] has one
    /// table for each, in this order. Default: one stage.
    fn members(&self) -> Vec<String> {
        Vec::new()
    }
    /// The stage of the job file that an output belongs to, if there are several. Default: one
    /// stage.
    fn member_of(&self, _output: usize) -> Option<String> {
        None
    }
    /// A description of the operator. It is the same text exactly if a saved state still fits.
    /// Default: the columns of its outputs.
    fn does(&self) -> String {
        self.outputs().iter().map(columns_in_words).collect::<Vec<_>>().join("; ")
    }
    /// The function that hashes the key in the value of a state entry. With it, states are read key
    /// by key ([`tidemill_state::State::read_by_key`]), and the operator asks for the keys it needs
    /// ([`Context::state_by_key`]). Default: states are read as a whole.
    fn hash_of_entry(&self) -> Option<HashOfEntry> {
        None
    }
    /// The reason why its state cannot be part of a checkpoint. Default: none, unless the state has
    /// too many structures.
    fn cannot_save(&self) -> Option<String> {
        structure::cannot_save(&mut *self.state(SliceId(0)))
    }
    /// Returns true if the lane must be called in cycles without input, because event time alone
    /// can make it write (windows, joins). Default: false.
    fn wants_time(&self) -> bool {
        false
    }
    /// The longest time, in event time, that a row waits before it is written with its own time
    /// (the rows of an outer join that find no partner). The output's watermark trails the input's
    /// by this span, so downstream stages do not take such rows for late ones. Default: zero.
    fn holds_back(&self) -> Span {
        Span(0)
    }
    /// The tables that show a state. Default: none.
    fn tables(&self) -> Vec<StateTable> {
        Vec::new()
    }
    /// Gives the rows of one of [`Self::tables`], some thousand at a time, until `take` breaks.
    /// Their order follows from the state alone, and the state does not change.
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

    /// Returns true if there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.iter().all(Vec::is_empty)
    }
}

/// The context of one call of an operator: the cycle, its time, its slices and their state.
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
    pub(crate) states: &'a mut [SliceSlot],
    pub(crate) place: RecordPlace,
    pub(crate) letters: &'a mut Vec<DeadLetter>,
}

/// The slice and row being processed, for errors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordPlace {
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
    /// Its place: file, byte offset and line; or slice and row; or that it was in a batch.
    pub position: String,
    /// The reason for the refusal.
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
    /// Returns true if no more records come after this cycle, from any port.
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

    /// The state of a slice of this lane, for an operator that needs some of its keys. If a
    /// checkpoint still has the state, it is empty at first and reads each key on request
    /// ([`tidemill_state::State::read_by_key`]).
    ///
    /// # Panics
    /// As [`Self::state`].
    pub fn state_by_key<T: 'static>(&mut self, slice: SliceId) -> &mut T {
        of_type(self.held(slice).by_key())
    }

    /// Starts reading these slices in the background: each as a whole or, `by_key`, some of its
    /// keys. Slices in memory are skipped.
    pub fn read_ahead(&self, slices: impl Iterator<Item = SliceId>, by_key: bool) {
        for slice in slices {
            self.states[(slice.0 - self.slices.start) as usize].read_ahead(by_key);
        }
    }

    /// Returns true if all of every state is in memory.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.states.iter().all(|state| matches!(state, SliceSlot::Resident(_)))
    }

    #[inline]
    fn held(&mut self, slice: SliceId) -> &mut SliceSlot {
        if self.place.slice != Some(slice) {
            self.at_slice(slice);
        }
        &mut self.states[(slice.0 - self.slices.start) as usize]
    }

    /// Notes the record being processed. An error or a panic names it.
    pub fn at(&mut self, slice: SliceId, row: usize) {
        self.place = RecordPlace { slice: Some(slice), row: Some(row) };
    }

    /// Notes the slice being processed, without a record.
    pub fn at_slice(&mut self, slice: SliceId) {
        self.place = RecordPlace { slice: Some(slice), row: None };
    }

    /// Sends a record to the dead-letter sink. `row` counts within the slice's input of the cycle.
    pub fn dead_letter(&mut self, slice: SliceId, row: usize, reason: String, record: &[u8]) {
        self.letter(slice, format!("slice {slice}, row {row}"), reason, record);
    }

    /// As [`Self::dead_letter`], for an operator that sees rows of several slices as one batch and
    /// cannot tell them apart. `slice` is the first of them.
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

/// The output of a lane in a cycle: port 0 is the main output, others are side outputs. Rows must
/// be written in ascending order of their slice.
pub struct Output {
    pub(crate) pool: Arc<RowsPool>,
    pub(crate) slice: SliceId,
    pub(crate) emitted: Vec<(usize, SliceId, Emitted)>,
    pub(crate) rows: Option<Rows>,
    pub(crate) rows_bytes_max: usize,
    /// True if a downstream stage reads rows by the slice that wrote them.
    by_slice: bool,
    most: OutputLimit,
}

/// The limit of one cycle of output, which is in memory as a whole before it is sent.
#[derive(Clone, Copy, Debug)]
struct OutputLimit {
    bytes: u64,
    /// The bytes left. A part of a column counts as the whole column until the limit is reached.
    left: u64,
}

/// The payload of the panic that ends an operator whose output exceeds the limit.
#[derive(Debug)]
pub(crate) struct OutputTooLarge(pub(crate) String);

/// One piece of output.
pub(crate) enum Emitted {
    /// New rows, all of one slice or of slices that need not be told apart.
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
            most: OutputLimit { bytes: u64::MAX, left: u64::MAX },
        }
    }

    /// The output with a limit on the bytes of a cycle.
    pub(crate) fn limited(mut self, bytes: ByteSize) -> Self {
        self.most = OutputLimit { bytes: bytes.0, left: bytes.0 };
        self
    }

    /// The output with the slices of its rows noted, or not.
    pub(crate) fn by_slice(mut self, by_slice: bool) -> Self {
        self.by_slice = by_slice;
        self
    }

    /// Begins a cycle, with nothing written.
    pub(crate) fn begin(&mut self, slice: SliceId) {
        self.slice = slice;
        self.most.left = self.most.bytes;
    }

    /// Counts written bytes.
    #[inline]
    fn count(&mut self, bytes: usize) {
        match self.most.left.checked_sub(bytes as u64) {
            Some(left) => self.most.left = left,
            None => self.recount(),
        }
    }

    /// Counts all output of the cycle, each byte once.
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
            None => std::panic::resume_unwind(Box::new(OutputTooLarge(format!(
                "one thread wrote more than {} in a cycle: give the job a larger `buffer: {{output: …}}`, or begin it anew with shorter cycles, such as `cycle: {{records: 1000}}`",
                ByteSize(self.most.bytes)
            )))),
        }
    }

    /// Returns true if a stage reads this output with the partition `local`, by the slice that
    /// wrote each row. Otherwise an operator may write the rows of several slices as one batch.
    #[must_use]
    pub fn is_by_slice(&self) -> bool {
        self.by_slice
    }

    /// Assigns the rows that follow to `slice`. Without a call all rows belong to the first slice
    /// of the lane, which depends on the number of threads. The call costs nothing where slices
    /// need not be told apart ([`Self::is_by_slice`]).
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

    /// The output so far, for tests of operators: port and columns, in order.
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
