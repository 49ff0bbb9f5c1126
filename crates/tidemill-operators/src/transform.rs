//! A stage without state: `flat_map`, `where`, `select`, in this order.
//!
//! A block whose rows all stay goes on by reference: nothing is copied.

use crate::dead_letters::of_rows;
use crate::lane::{BlockPart, PickedRows, PortParts, no_value};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, cast::AsArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::{filter::filter_record_batch, take::take};
use std::sync::Arc;
use tidemill_flow::{
    Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceRuns, SliceState,
    TIME_COLUMN,
};
use tidemill_sql::{Expr, ExprError};
use tidemill_types::{
    SliceId,
    job::{FlatMapSpec, Named},
};

#[cfg(test)]
mod tests;

/// The refusal of a stage: the part at fault, and the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{part}`: {error}")]
pub struct TransformError {
    /// The part, such as `where` or `select.delay`.
    pub part: String,
    /// The fault.
    pub error: ExprError,
}

#[derive(Clone)]
struct Transform {
    unnest: Option<Unnest>,
    filter: Option<Expr>,
    select: Option<Vec<Expr>>,
    /// Place of the hidden time column among the columns that `select` sees.
    time: Option<usize>,
    output: SchemaRef,
}

#[derive(Clone)]
struct Unnest {
    list: Expr,
    element: DataType,
    /// The column that the element replaces, or the end.
    place: usize,
    schema: SchemaRef,
}

/// A stage that unnests, filters and computes columns; each part may be left out.
///
/// # Errors
/// An expression does not fit the columns it is given.
pub fn transform(
    input: &SchemaRef,
    flat_map: Option<&FlatMapSpec>,
    filter: Option<&str>,
    select: Option<&Named<String>>,
) -> Result<Arc<dyn OperatorFactory>, TransformError> {
    let unnest = flat_map.map(|spec| Unnest::new(input, spec)).transpose()?;
    let inner = unnest.as_ref().map_or_else(|| Arc::clone(input), |it| Arc::clone(&it.schema));
    let part = |part: &str, error| TransformError { part: part.to_owned(), error };
    let filter = filter
        .map(|sql| compile_filter(sql, &inner))
        .transpose()
        .map_err(|error| part("where", error))?;
    let time = inner.index_of(TIME_COLUMN).ok();
    let (select, output) = match select {
        None => (None, inner),
        Some(select) => {
            let mut exprs = Vec::with_capacity(select.len());
            let mut fields: Vec<FieldRef> = Vec::with_capacity(select.len() + 1);
            for (name, sql) in select {
                let expr = not_reserved(name).and_then(|()| Expr::compile(sql, &inner));
                let expr = expr.map_err(|error| part(&format!("select.{name}"), error))?;
                let field = Field::new(name, expr.data_type().clone(), expr.nullable());
                fields.push(Arc::new(field));
                exprs.push(expr);
            }
            fields.extend(time.map(|index| Arc::clone(&inner.fields()[index])));
            (Some(exprs), Arc::new(Schema::new(fields)))
        }
    };
    Ok(Arc::new(Transform { unnest, filter, select, time, output }))
}

/// Event time is a column that no other may be called as.
pub(crate) fn not_reserved(name: &str) -> Result<(), ExprError> {
    if name != TIME_COLUMN {
        return Ok(());
    }
    let mut error = ExprError::new(format!("`{TIME_COLUMN}` is a name that is reserved"));
    error.expected = Some("another name".to_owned());
    Err(error)
}

fn compile_filter(sql: &str, input: &SchemaRef) -> Result<Expr, ExprError> {
    let expr = Expr::compile(sql, input)?;
    if matches!(expr.data_type(), DataType::Boolean | DataType::Null) {
        return Ok(expr);
    }
    let mut error =
        ExprError::new(format!("the condition gives {}, not true or false", expr.data_type()));
    error.expected = Some("a condition such as `delay > 15`".to_owned());
    Err(error)
}

impl Unnest {
    fn new(input: &SchemaRef, spec: &FlatMapSpec) -> Result<Self, TransformError> {
        not_reserved(&spec.name)
            .map_err(|error| TransformError { part: "flat_map.as".to_owned(), error })?;
        let part = "flat_map.unnest".to_owned();
        let list = match Expr::compile(&spec.unnest, input) {
            Ok(list) => list,
            Err(error) => return Err(TransformError { part, error }),
        };
        let element = match list.data_type() {
            DataType::List(field) | DataType::LargeList(field) => field.data_type().clone(),
            other => {
                let mut error = ExprError::new(format!("the expression gives {other}, not a list"));
                error.expected = Some("a list such as `string_to_array(text, ' ')`".to_owned());
                return Err(TransformError { part, error });
            }
        };
        let mut fields: Vec<FieldRef> = input.fields().iter().cloned().collect();
        let field = Arc::new(Field::new(&spec.name, element.clone(), true));
        let place = match input.index_of(&spec.name) {
            Ok(place) => {
                fields[place] = field;
                place
            }
            Err(_) => {
                fields.push(field);
                fields.len() - 1
            }
        };
        Ok(Self { list, element, place, schema: Arc::new(Schema::new(fields)) })
    }

    fn run(&self, batch: &RecordBatch, ends: &mut [usize]) -> Result<RecordBatch, OperatorError> {
        let list = self.list.evaluate(batch).map_err(no_value)?;
        let (rows, elements) = match list.data_type() {
            DataType::List(_) => {
                let list = list.as_list::<i32>();
                elements_of(list.offsets(), list.nulls(), list.values())
            }
            _ => {
                let list = list.as_list::<i64>();
                elements_of(list.offsets(), list.nulls(), list.values())
            }
        }?;
        debug_assert_eq!(elements.data_type(), &self.element);
        for end in ends {
            *end = rows.values().partition_point(|row| (*row as usize) < *end);
        }
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for column in batch.columns() {
            columns.push(take(column, &rows, None).map_err(arrow_error)?);
        }
        if columns.len() < self.schema.fields().len() {
            columns.insert(self.place, elements);
        } else {
            columns[self.place] = elements;
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(arrow_error)
    }
}

/// Unnests lists: the row of each element, and the elements. Null lists have none.
fn elements_of<O: arrow_array::OffsetSizeTrait>(
    offsets: &OffsetBuffer<O>,
    nulls: Option<&arrow_buffer::NullBuffer>,
    values: &ArrayRef,
) -> Result<(UInt32Array, ArrayRef), OperatorError> {
    let mut rows: Vec<u32> = Vec::new();
    let mut places: Vec<u32> = Vec::new();
    for row in 0..offsets.len() - 1 {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            continue;
        }
        let (start, end) = (offsets[row].as_usize() as u32, offsets[row + 1].as_usize() as u32);
        rows.extend(std::iter::repeat_n(row as u32, (end - start) as usize));
        places.extend(start..end);
    }
    let elements = take(values, &UInt32Array::from(places), None).map_err(arrow_error)?;
    Ok((UInt32Array::from(rows), elements))
}

pub(crate) fn arrow_error(error: arrow_schema::ArrowError) -> OperatorError {
    OperatorError::new(error.to_string())
}

impl OperatorFactory for Transform {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![Arc::clone(&self.output)]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(TransformLane {
            transform: self.clone(),
            lane: PortParts::default(),
            ends: Vec::new(),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

impl Transform {
    /// The rows that are made of a batch. `ends` says where some of its rows end, and then where
    /// those end that are made of them.
    fn run(&self, batch: RecordBatch, ends: &mut [usize]) -> Result<RecordBatch, OperatorError> {
        let batch = match &self.unnest {
            Some(unnest) => unnest.run(&batch, ends).map_err(|error| of_part("flat_map", error))?,
            None => batch,
        };
        let batch = match &self.filter {
            Some(filter) => keep(filter, batch, ends).map_err(|error| of_part("where", error))?,
            None => batch,
        };
        let Some(select) = &self.select else { return Ok(batch) };
        let mut columns = Vec::with_capacity(select.len() + 1);
        for (expr, field) in select.iter().zip(self.output.fields()) {
            let part = |error| of_part(&format!("select.{}", field.name()), error);
            columns.push(expr.evaluate(&batch).map_err(no_value).map_err(part)?);
        }
        columns.extend(self.time.map(|index| Arc::clone(batch.column(index))));
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)
            .map_err(arrow_error)
    }
}

fn of_part(part: &str, error: OperatorError) -> OperatorError {
    OperatorError::new(format!("`{part}`: {}", error.message))
}

fn keep(
    filter: &Expr,
    batch: RecordBatch,
    ends: &mut [usize],
) -> Result<RecordBatch, OperatorError> {
    let mask = filter.evaluate(&batch).map_err(no_value)?;
    let Some(mask) = mask.as_any().downcast_ref::<BooleanArray>() else {
        // The condition is `null`, which is not true for any row.
        ends.fill(0);
        return Ok(batch.slice(0, 0));
    };
    if mask.null_count() == 0 && mask.true_count() == batch.num_rows() {
        return Ok(batch);
    }
    let (mut from, mut kept) = (0, 0);
    for end in ends {
        kept += mask.slice(from, *end - from).true_count();
        from = std::mem::replace(end, kept);
    }
    filter_record_batch(&batch, mask).map_err(arrow_error)
}

/// A lane of the stage.
struct TransformLane {
    transform: Transform,
    lane: PortParts,
    /// Where the parts of a stretch end.
    ends: Vec<usize>,
}

impl Operator for TransformLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let blocks = input.port(0);
        self.lane.read(blocks, &context.slices);
        let mut picked: Vec<Option<PickedRows<'_>>> = blocks.iter().map(|_| None).collect();
        // The slice that was read last, and how many of its rows.
        let (mut slice, mut before) = (SliceId(context.slices.start), 0);
        for parts in self.lane.stretches() {
            let (block, nth) = (&blocks[parts[0].block], parts[0].block);
            let picked = picked[nth].get_or_insert_with(|| PickedRows::new(block, &context.slices));
            self.ends.clear();
            if output.is_by_slice() {
                self.ends.extend(parts.iter().map(|part| part.first + part.count - parts[0].first));
            }
            let rows = picked.part(BlockPart::of_stretch(parts))?;
            let written = self.transform.run(rows, &mut self.ends);
            if let Ok(written) = &written {
                output.emit_runs(0, written.clone(), runs(parts, &self.ends));
            }
            for part in parts {
                if part.slice != slice {
                    (slice, before) = (part.slice, 0);
                }
                if written.is_err() {
                    let run = |rows: &RecordBatch| self.transform.run(rows.clone(), &mut []);
                    output.set_slice(slice);
                    output.emit(of_rows(&picked.part(*part)?, &run, (slice, before), context)?);
                }
                before += part.count;
            }
        }
        Ok(())
    }
}

/// Whose the rows are that were made of some parts.
fn runs(parts: &[BlockPart], ends: &[usize]) -> SliceRuns {
    let mut runs = SliceRuns::default();
    let mut from = 0;
    for (part, end) in parts.iter().zip(ends) {
        runs.begin(part.slice, from);
        from = *end;
    }
    runs
}
