//! A function for batches.

use super::emit::Emit;
use crate::lane::{BlockPart, PickedRows, PortParts};
use crate::row_picker::RowPicker;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tidemill_flow::{
    Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState,
};
use tidemill_types::SliceId;

/// Made by [`per_batch`].
#[derive(Debug)]
pub struct PerBatch<F> {
    schema: SchemaRef,
    function: Arc<F>,
}

/// Calls `function` with the rows of a lane, as batches, in ascending order of their slice.
///
/// Where one batch ends and the next begins depends on threads: the function must treat each row
/// by itself. It keeps nothing; [`keyed`](super::keyed) does.
pub fn per_batch<F>(output: SchemaRef, function: F) -> PerBatch<F>
where
    F: Fn(&RecordBatch, &mut Emit) -> Result<(), OperatorError> + Send + Sync + 'static,
{
    PerBatch { schema: output, function: Arc::new(function) }
}

impl<F> OperatorFactory for PerBatch<F>
where
    F: Fn(&RecordBatch, &mut Emit) -> Result<(), OperatorError> + Send + Sync + 'static,
{
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![Arc::clone(&self.schema)]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(BatchOperator {
            function: Arc::clone(&self.function),
            lane: PortParts::default(),
            emit: Emit::new(&self.schema),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

struct BatchOperator<F> {
    function: Arc<F>,
    lane: PortParts,
    emit: Emit,
}

impl<F> Operator for BatchOperator<F>
where
    F: Fn(&RecordBatch, &mut Emit) -> Result<(), OperatorError> + Send + Sync + 'static,
{
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let (blocks, slices) = (input.port(0), context.slices.clone());
        self.lane.read(blocks, &slices);
        let picked = || -> Vec<PickedRows<'_>> {
            blocks.iter().map(|block| PickedRows::new(block, &slices)).collect()
        };
        if output.is_by_slice() {
            let picked = picked();
            for (slice, parts) in self.lane.slices() {
                self.emit.begin(slice);
                if let Some(batch) = gathered(parts, &picked)? {
                    context.at_slice(slice);
                    call(&*self.function, &batch, &mut self.emit, (slice, context))?;
                }
            }
            return self.emit.finish(output);
        }
        let is_whole = |part: &BlockPart| {
            blocks[part.block].routing.is_none() && part.count == blocks[part.block].len()
        };
        let parts = self.lane.parts();
        if parts.iter().all(is_whole) {
            for part in parts {
                context.at_slice(part.slice);
                let batch = blocks[part.block].batch();
                call(&*self.function, &batch, &mut self.emit, (part.slice, context))?;
            }
        } else if let Some(batch) = gathered(parts, &picked())? {
            let first = SliceId(slices.start);
            call(&*self.function, &batch, &mut self.emit, (first, context))?;
        }
        self.emit.finish(output)
    }
}

/// Calls the function with a batch, whose first rows are of `slice`.
fn call<F>(
    function: &F,
    batch: &RecordBatch,
    emit: &mut Emit,
    (slice, context): (SliceId, &mut Context<'_>),
) -> Result<(), OperatorError>
where
    F: Fn(&RecordBatch, &mut Emit) -> Result<(), OperatorError>,
{
    function(batch, emit)?;
    for (reason, record) in emit.letters.drain(..) {
        context.dead_letter_of_batch(slice, reason, &record);
    }
    Ok(())
}

/// The rows of some parts in one batch.
fn gathered(
    parts: &[BlockPart],
    picked: &[PickedRows<'_>],
) -> Result<Option<RecordBatch>, OperatorError> {
    if let [part] = parts {
        return picked[part.block].part(*part).map(Some);
    }
    let mut gather = RowPicker::default();
    for it in picked {
        gather.source(&it.batch);
    }
    for part in parts {
        part.rows().for_each(|number| gather.pick(part.block, picked[part.block].row(number)));
    }
    gather.finish()
}
