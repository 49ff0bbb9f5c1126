//! The pairs that a lane finds in a cycle, copied together once.

use super::Codecs;
use crate::lane::failed;
use crate::row_picker::{GATHERED_ROWS_MAX, RowPicker};
use crate::row_store::{RowCodec, RowStore};
use arrow_array::{
    ArrayRef, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray, new_null_array,
};
use arrow_schema::{FieldRef, Schema, SchemaRef};
use std::sync::Arc;
use tidemill_flow::{OperatorError, Output};
use tidemill_types::{SliceId, job::JoinKind};

/// The columns of a join's output: the left's, then some of the right's.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) schema: SchemaRef,
    pub(super) left_columns: usize,
    /// The left's hidden time, which becomes that of the pair.
    pub(super) left_time: Option<usize>,
    /// The columns of the right that the output has.
    pub(super) right_columns: Vec<usize>,
    pub(super) kind: JoinKind,
}

impl Shape {
    /// A description of the join, for checkpoints.
    pub(super) fn does(&self, sides: &Codecs) -> String {
        let types: Vec<String> = sides.left.1.iter().map(ToString::to_string).collect();
        let keys = (&sides.left.0, &sides.right.0, types.join(", "));
        let held = tidemill_flow::columns_in_words(&self.schema);
        format!(
            "{:?} join by columns {:?} and {:?} ({}) to {held}",
            self.kind, keys.0, keys.1, keys.2
        )
    }

    /// The codec of held rows of the left side.
    pub(super) fn left_codec(&self) -> Arc<RowCodec> {
        self.codec(&self.schema.fields()[..self.left_columns])
    }

    /// The codec of held rows of the right side.
    pub(super) fn right_codec(&self) -> Arc<RowCodec> {
        self.codec(&self.schema.fields()[self.left_columns..])
    }

    fn codec(&self, fields: &[FieldRef]) -> Arc<RowCodec> {
        Arc::new(RowCodec::new(Arc::new(Schema::new(fields.to_vec()))))
    }

    /// The right's columns that the output has, as the output has them.
    pub(super) fn right_part(&self, batch: &RecordBatch) -> Result<RecordBatch, OperatorError> {
        let columns: Vec<ArrayRef> =
            self.right_columns.iter().map(|it| Arc::clone(batch.column(*it))).collect();
        self.right_batch(columns, batch.num_rows())
    }

    /// A row of nulls in place of the right's columns.
    fn no_right(&self) -> Result<RecordBatch, OperatorError> {
        let fields = &self.schema.fields()[self.left_columns..];
        let nulls = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
        self.right_batch(nulls, 1)
    }

    fn right_batch(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<RecordBatch, OperatorError> {
        let fields = self.schema.fields()[self.left_columns..].to_vec();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .map_err(failed)
    }
}

/// Pairs, in order.
#[derive(Debug)]
pub(super) struct Pairs {
    shape: Shape,
    pub(super) left: RowPicker,
    right: RowPicker,
    /// The source of the right that is a row of nulls.
    nulls: Option<usize>,
    /// The times of the pairs; unused where they are the left's.
    times: Vec<i64>,
}

impl Pairs {
    pub(super) fn new(shape: Shape) -> Self {
        let (left, right) = (RowPicker::default(), RowPicker::default());
        Self { shape, left, right, nulls: None, times: Vec::new() }
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Says that pairs of a slice follow.
    pub(super) fn next_slice(&mut self, slice: SliceId) {
        self.left.next_slice(slice);
        self.right.next_slice(slice);
    }

    /// Notes the time of the next pair, if it is not the left's.
    pub(super) fn time(&mut self, time: i64) {
        self.times.push(time);
    }

    /// Adds the right's part of a pair.
    pub(super) fn right_held<T>(&mut self, held: &RowStore<T>, slot: u32) {
        if !self.shape.right_columns.is_empty() {
            self.right.pick_held(held, slot);
        }
    }

    /// Adds nulls as the right's part.
    pub(super) fn right_nulls(&mut self) -> Result<(), OperatorError> {
        if self.shape.right_columns.is_empty() {
            return Ok(());
        }
        let source = match self.nulls {
            Some(source) => source,
            None => *self.nulls.insert(self.right.source(&self.shape.no_right()?)),
        };
        self.right.pick(source, 0);
        Ok(())
    }

    /// Returns true once enough pairs wait to be written.
    pub(super) fn is_full(&self) -> bool {
        self.left.len() >= GATHERED_ROWS_MAX
    }

    /// Writes the pairs. All sources are forgotten.
    pub(super) fn write(&mut self, output: &mut Output) -> Result<(), OperatorError> {
        let (left, right) = (self.left.finish()?, self.right.finish()?);
        self.nulls = None;
        let times = std::mem::take(&mut self.times);
        let Some(left) = left else { return Ok(()) };
        let mut columns = left.columns().to_vec();
        if let (Some(index), false) = (self.shape.left_time, times.is_empty()) {
            let data_type = self.shape.schema.field(index).data_type().clone();
            let times = TimestampMicrosecondArray::from(times).with_data_type(data_type);
            columns[index] = Arc::new(times);
        }
        columns.extend(right.iter().flat_map(|right| right.columns().iter().cloned()));
        let batch = RecordBatch::try_new(Arc::clone(&self.shape.schema), columns);
        output.emit_runs(0, batch.map_err(failed)?, self.left.runs());
        Ok(())
    }
}
