//! Functions with a state for each slice: of one record, or of a slice's rows of a cycle.

use super::CycleInfo;
use super::emit::Emit;
use super::record::{Record, RecordColumns};
use super::state_tables;
use crate::lane::{BlockPart, PickedRows, PortParts};
use crate::row_picker::RowPicker;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::{fmt, sync::Arc};
use tidemill_flow::{
    Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState, StateAt,
    StateTable, TakeRows, columns_in_words,
};
use tidemill_state::State;
use tidemill_types::SliceId;

type KeyedOutcome = Result<(), OperatorError>;

/// A description of a function with the state `S`, for checkpoints. The modules of type names are left
/// out.
fn does<S>(output: &SchemaRef) -> String {
    let is_of_name = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
    let pieces = std::any::type_name::<S>().split_inclusive(|it| !is_of_name(it));
    let state: String = pieces.map(|it| it.rsplit("::").next().unwrap_or(it)).collect();
    format!("a function with the state {state} to {}", columns_in_words(output))
}

/// The rows of a slice in one cycle, in order.
#[derive(Clone, Copy, Debug)]
pub struct SliceInput<'a> {
    parts: &'a [BlockPart],
    blocks: &'a [PickedRows<'a>],
}

/// Rows of a slice in one batch.
#[derive(Clone, Copy, Debug)]
pub struct SliceRows<'a> {
    part: BlockPart,
    picked: &'a PickedRows<'a>,
}

impl<'a> SliceInput<'a> {
    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// Returns true without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The rows, batch by batch, without copying them.
    pub fn batches(&self) -> impl Iterator<Item = SliceRows<'a>> {
        let blocks = self.blocks;
        self.parts.iter().map(move |part| SliceRows { part: *part, picked: &blocks[part.block] })
    }

    /// The rows copied into one batch. None without rows.
    ///
    /// # Errors
    /// The rows do not fit one batch: text of more than 2 GiB.
    pub fn to_batch(&self) -> Result<Option<RecordBatch>, OperatorError> {
        let mut gather = RowPicker::default();
        for rows in self.batches() {
            let source = gather.source(rows.batch());
            rows.rows().for_each(|row| gather.pick(source, row));
        }
        gather.finish()
    }
}

impl<'a> SliceRows<'a> {
    /// The batch; it holds rows of other slices too.
    #[must_use]
    pub fn batch(&self) -> &'a RecordBatch {
        &self.picked.batch
    }

    /// The row numbers of this slice in the batch, ascending.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        let picked = self.picked;
        self.part.rows().map(move |number| picked.row(number))
    }
}

/// Made by [`keyed`].
pub struct Keyed<S, F> {
    schema: SchemaRef,
    state: Arc<dyn Fn() -> S + Send + Sync>,
    function: Arc<F>,
    every_cycle: bool,
}

impl<S, F> fmt::Debug for Keyed<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Calls `function` with the state of a slice and its rows of a cycle: for each slice that has
/// rows, and when the input ends once more for every slice ([`CycleInfo::ended`]).
pub fn keyed<S, F>(
    output: SchemaRef,
    state: impl Fn() -> S + Send + Sync + 'static,
    function: F,
) -> Keyed<S, F>
where
    S: State,
    F: Fn(&mut S, SliceInput<'_>, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync + 'static,
{
    let (state, function) = (Arc::new(state), Arc::new(function));
    Keyed { schema: output, state, function, every_cycle: false }
}

impl<S, F> Keyed<S, F> {
    /// Calls the function in every cycle for every slice, with rows or without: for output that event
    /// time alone triggers.
    #[must_use]
    pub fn every_cycle(mut self) -> Self {
        self.every_cycle = true;
        self
    }
}

impl<S, F> OperatorFactory for Keyed<S, F>
where
    S: State,
    F: Fn(&mut S, SliceInput<'_>, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync + 'static,
{
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![Arc::clone(&self.schema)]
    }

    fn does(&self) -> String {
        does::<S>(&self.schema)
    }

    fn operator(&self) -> Box<dyn Operator> {
        let run = Arc::clone(&self.function);
        Box::new(KeyedOperator {
            every_cycle: self.every_cycle,
            lane: PortParts::default(),
            emit: Emit::new(&self.schema),
            run: move |context: &mut Context<'_>, slice, input: SliceInput<'_>, emit: &mut Emit| {
                let info = CycleInfo::new(context, slice);
                context.at_slice(slice);
                run(context.state::<S>(slice), input, emit, &info)
            },
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new((self.state)())
    }

    fn wants_time(&self) -> bool {
        self.every_cycle
    }

    fn tables(&self) -> Vec<StateTable> {
        state_tables::tables(&mut (self.state)())
    }

    fn rows(&self, table: usize, at: StateAt<'_>, take: &mut TakeRows<'_>) -> KeyedOutcome {
        state_tables::rows(at.state, table, take)
    }
}

struct KeyedOperator<R> {
    every_cycle: bool,
    lane: PortParts,
    emit: Emit,
    run: R,
}

impl<R> Operator for KeyedOperator<R>
where
    R: Fn(&mut Context<'_>, SliceId, SliceInput<'_>, &mut Emit) -> KeyedOutcome + Send,
{
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> KeyedOutcome {
        let blocks = input.port(0);
        let slices = context.slices.clone();
        self.lane.read(blocks, &slices);
        let blocks: Vec<_> = blocks.iter().map(|block| PickedRows::new(block, &slices)).collect();
        let all = self.every_cycle || context.all_ended();
        let mut call = |slice, parts| {
            let input = SliceInput { parts, blocks: &blocks };
            self.emit.begin(slice);
            (self.run)(context, slice, input, &mut self.emit)?;
            send_letters(&mut self.emit, context, slice, 0);
            Ok(())
        };
        if all {
            for slice in slices.clone().map(SliceId) {
                call(slice, self.lane.of(slice))?;
            }
        } else {
            self.lane.slices().try_for_each(|(slice, parts)| call(slice, parts))?;
        }
        self.emit.finish(output)
    }
}

fn send_letters(emit: &mut Emit, context: &mut Context<'_>, slice: SliceId, row: usize) {
    for (reason, record) in emit.letters.drain(..) {
        context.dead_letter(slice, row, reason, &record);
    }
}

type Closing<S> = dyn Fn(&mut S, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync;

/// Made by [`keyed_record`] and [`per_record`].
pub struct KeyedRecord<S, F> {
    schema: SchemaRef,
    state: Arc<dyn Fn() -> S + Send + Sync>,
    function: Arc<F>,
    on_cycle: Option<Arc<Closing<S>>>,
    on_end: Option<Arc<Closing<S>>>,
}

impl<S, F> fmt::Debug for KeyedRecord<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRecord").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Calls `function` with each record and the state of its slice.
pub fn keyed_record<S, F>(
    output: SchemaRef,
    state: impl Fn() -> S + Send + Sync + 'static,
    function: F,
) -> KeyedRecord<S, F>
where
    S: State,
    F: Fn(&mut S, &Record<'_>, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync + 'static,
{
    let (state, function) = (Arc::new(state), Arc::new(function));
    KeyedRecord { schema: output, state, function, on_cycle: None, on_end: None }
}

/// Calls `function` with each record.
pub fn per_record<F>(
    output: SchemaRef,
    function: F,
) -> KeyedRecord<
    (),
    impl Fn(&mut (), &Record<'_>, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync + 'static,
>
where
    F: Fn(&Record<'_>, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync + 'static,
{
    keyed_record(
        output,
        || (),
        move |(): &mut (), record: &Record<'_>, emit: &mut Emit, info: &CycleInfo| {
            function(record, emit, info)
        },
    )
}

impl<S, F> KeyedRecord<S, F> {
    /// Calls `closing` for every slice at the end of every cycle, after its records.
    #[must_use]
    pub fn on_cycle(
        mut self,
        closing: impl Fn(&mut S, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync + 'static,
    ) -> Self {
        self.on_cycle = Some(Arc::new(closing));
        self
    }

    /// Calls `closing` for every slice when the input has ended.
    #[must_use]
    pub fn on_end(
        mut self,
        closing: impl Fn(&mut S, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync + 'static,
    ) -> Self {
        self.on_end = Some(Arc::new(closing));
        self
    }
}

impl<S, F> OperatorFactory for KeyedRecord<S, F>
where
    S: State,
    F: Fn(&mut S, &Record<'_>, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync + 'static,
{
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![Arc::clone(&self.schema)]
    }

    fn does(&self) -> String {
        does::<S>(&self.schema)
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(RecordOperator {
            function: Arc::clone(&self.function),
            on_cycle: self.on_cycle.clone(),
            on_end: self.on_end.clone(),
            lane: PortParts::default(),
            emit: Emit::new(&self.schema),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new((self.state)())
    }

    fn wants_time(&self) -> bool {
        self.on_cycle.is_some()
    }

    fn tables(&self) -> Vec<StateTable> {
        state_tables::tables(&mut (self.state)())
    }

    fn rows(&self, table: usize, at: StateAt<'_>, take: &mut TakeRows<'_>) -> KeyedOutcome {
        state_tables::rows(at.state, table, take)
    }
}

struct RecordOperator<S, F> {
    function: Arc<F>,
    on_cycle: Option<Arc<Closing<S>>>,
    on_end: Option<Arc<Closing<S>>>,
    lane: PortParts,
    emit: Emit,
}

impl<S, F> Operator for RecordOperator<S, F>
where
    S: State,
    F: Fn(&mut S, &Record<'_>, &mut Emit, &CycleInfo) -> KeyedOutcome + Send + Sync + 'static,
{
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> KeyedOutcome {
        let blocks = input.port(0);
        let slices = context.slices.clone();
        self.lane.read(blocks, &slices);
        let blocks: Vec<_> = blocks.iter().map(|block| PickedRows::new(block, &slices)).collect();
        let columns: Vec<_> =
            blocks.iter().map(|picked| RecordColumns::new(&picked.batch)).collect();
        let on_end = self.on_end.take_if(|_| context.all_ended());
        if self.on_cycle.is_none() && on_end.is_none() {
            for (slice, parts) in self.lane.slices() {
                let input = SliceInput { parts, blocks: &blocks };
                records(&*self.function, context, slice, input, &columns, &mut self.emit)?;
            }
            return self.emit.finish(output);
        }
        for slice in slices.map(SliceId) {
            let input = SliceInput { parts: self.lane.of(slice), blocks: &blocks };
            records(&*self.function, context, slice, input, &columns, &mut self.emit)?;
            let info = CycleInfo::new(context, slice);
            context.at_slice(slice);
            for closing in self.on_cycle.iter().chain(&on_end) {
                closing(context.state::<S>(slice), &mut self.emit, &info)?;
            }
            send_letters(&mut self.emit, context, slice, 0);
        }
        self.emit.finish(output)
    }
}

/// Calls the function with each record of a slice.
fn records<S, F>(
    function: &F,
    context: &mut Context<'_>,
    slice: SliceId,
    input: SliceInput<'_>,
    columns: &[RecordColumns<'_>],
    emit: &mut Emit,
) -> KeyedOutcome
where
    S: 'static,
    F: Fn(&mut S, &Record<'_>, &mut Emit, &CycleInfo) -> KeyedOutcome,
{
    let info = CycleInfo::new(context, slice);
    emit.begin(slice);
    let mut number = 0;
    for rows in input.batches() {
        let columns = &columns[rows.part.block];
        for row in rows.rows() {
            context.at(slice, number);
            let record = columns.record(row);
            emit.now = record.time();
            function(context.state::<S>(slice), &record, emit, &info)?;
            if !emit.letters.is_empty() {
                send_letters(emit, context, slice, number);
            }
            number += 1;
        }
    }
    emit.now = None;
    Ok(())
}
