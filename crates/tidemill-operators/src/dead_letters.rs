//! Rows that an expression has no value for, such as `1 / n` where `n` is 0: they become dead letters,
//! and the others go on.
//!
//! ```text
//! batch ── evaluated at once ─▶ all rows have values
//!       └─ fails ─▶ its halves, their halves … ─▶ values of the parts that have them
//!                                              └─▶ rows that fail alone
//! ```
//!
//! Invariant: which rows are refused follows from each row alone; blocks, lanes and replays do not show.
//! The results of the parts are therefore final: rows may fail together of which none fails alone, such
//! as those whose results are too large together.

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_json::{WriterBuilder, writer::LineDelimited};
use arrow_schema::{Field, Schema};
use arrow_select::{
    concat::concat_batches,
    take::{take, take_record_batch},
};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};
use tidemill_flow::{Block, Context, OperatorError, Payload, Routing, TIME_COLUMN};
use tidemill_types::SliceId;

/// Makes something of some rows; an error is of one of them, or of how many they are.
type Evaluate<'a> = dyn Fn(&RecordBatch) -> Result<RecordBatch, OperatorError> + 'a;

/// Blocks, and the result of each.
pub(crate) type BlockResults<'a, T> = (Cow<'a, [Arc<Block>]>, Vec<T>);

/// Largest result of a batch that is made part by part: a result too large at once is not made in pieces.
const MADE_BYTES_MAX: usize = 1 << 30;

/// The results of the rows of a batch.
struct SplitBatch {
    /// The results of all rows but the refused ones, in their order.
    made: RecordBatch,
    /// The rows that are refused, each with its reason.
    refused: BTreeMap<usize, String>,
}

impl SplitBatch {
    fn new(batch: &RecordBatch, evaluate: &Evaluate<'_>) -> Result<Self, OperatorError> {
        let (mut made, mut made_bytes) = (Vec::new(), 0);
        let mut refused = BTreeMap::new();
        let mut of_all = None;
        // What is left to look at, the next at the end.
        let mut parts = vec![(0, batch.num_rows())];
        while let Some((first, rows)) = parts.pop() {
            let is_all = rows == batch.num_rows();
            let part = if is_all { batch.clone() } else { rows_alone(batch, first, rows)? };
            match evaluate(&part) {
                Ok(it) if is_all => return Ok(Self { made: it, refused }),
                Ok(it) => {
                    made_bytes += bytes_of(&it)?;
                    made.push(it);
                }
                Err(error) if rows == 0 => return Err(error),
                Err(error) if rows == 1 => {
                    // The batch may itself be a part, and the value that is none another row's.
                    let alone = match is_all && has_lists(batch) {
                        true => evaluate(&rows_alone(batch, first, rows)?),
                        false => Err(error),
                    };
                    match alone {
                        Ok(it) => made.push(it),
                        Err(error) => {
                            refused.insert(first, error.message);
                        }
                    }
                }
                Err(error) => {
                    let half = rows / 2;
                    parts.extend([(first + half, rows - half), (first, half)]);
                    of_all.get_or_insert(error);
                }
            }
            if made_bytes > MADE_BYTES_MAX
                && let Some(error) = of_all
            {
                return Err(error);
            }
        }
        let made = match made.first() {
            Some(first) => {
                concat_batches(first.schema_ref(), &made).map_err(crate::lane::failed)?
            }
            None => evaluate(&batch.slice(0, 0))?,
        };
        Ok(Self { made, refused })
    }
}

/// Returns true if a part of the batch still has values of its other rows.
fn has_lists(batch: &RecordBatch) -> bool {
    batch.columns().iter().any(|it| it.data_type().is_nested())
}

/// Some rows, with nothing of the others. Lists and objects are copied, because a part of them keeps the
/// values of all rows, and a kernel over their values would process them all.
fn rows_alone(
    batch: &RecordBatch,
    first: usize,
    rows: usize,
) -> Result<RecordBatch, OperatorError> {
    let part = batch.slice(first, rows);
    if !has_lists(batch) {
        return Ok(part);
    }
    let all = UInt32Array::from_iter_values(0..rows as u32);
    let alone = |it: &ArrayRef| match it.data_type().is_nested() {
        true => take(it, &all, None),
        false => Ok(Arc::clone(it)),
    };
    let columns: Result<Vec<ArrayRef>, _> = part.columns().iter().map(alone).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    columns
        .and_then(|it| RecordBatch::try_new_with_options(part.schema(), it, &options))
        .map_err(crate::lane::failed)
}

/// Bytes of the rows of a batch, without those that it shares with others.
fn bytes_of(batch: &RecordBatch) -> Result<usize, OperatorError> {
    let of_column = |it: &ArrayRef| it.to_data().get_slice_memory_size();
    batch.columns().iter().map(of_column).sum::<Result<_, _>>().map_err(crate::lane::failed)
}

/// Columns of one length as a batch, for callers that go by position.
pub(crate) fn beside(columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, OperatorError> {
    let field =
        |(nth, it): (usize, &ArrayRef)| Field::new(nth.to_string(), it.data_type().clone(), true);
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(crate::lane::failed)
}

/// A row as JSON, without its hidden time.
fn json(batch: &RecordBatch, row: usize) -> Vec<u8> {
    let shown =
        (0..batch.num_columns()).filter(|it| batch.schema_ref().field(*it).name() != TIME_COLUMN);
    let row = batch.slice(row, 1).project(&shown.collect::<Vec<_>>());
    let mut writer =
        WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::new());
    // A type that JSON has no form for costs the record its bytes, not its letter.
    let written = row.and_then(|row| writer.write(&row)).and_then(|()| writer.finish());
    let mut bytes = written.map(|()| writer.into_inner()).unwrap_or_default();
    bytes.truncate(bytes.trim_ascii_end().len());
    bytes
}

/// The results of the rows of a slice that are not refused. `first` of its rows of the cycle stand before
/// them.
pub(crate) fn of_rows(
    batch: &RecordBatch,
    evaluate: &Evaluate<'_>,
    (slice, first): (SliceId, usize),
    context: &mut Context<'_>,
) -> Result<RecordBatch, OperatorError> {
    let SplitBatch { made, refused } = SplitBatch::new(batch, evaluate)?;
    for (row, reason) in refused {
        context.dead_letter(slice, first + row, reason, &json(batch, row));
    }
    Ok(made)
}

/// The results of `evaluate` for each block, and the blocks without the rows that it refuses. Refused rows
/// of a lane's own slices become dead letters; other lanes report theirs.
pub(crate) fn of_blocks<'a>(
    blocks: &'a [Arc<Block>],
    evaluate: &Evaluate<'_>,
    context: &mut Context<'_>,
) -> Result<BlockResults<'a, RecordBatch>, OperatorError> {
    let of_block = |block: &Arc<Block>| evaluate(&block.batch());
    if let Ok(made) = blocks.iter().map(of_block).collect() {
        return Ok((Cow::Borrowed(blocks), made));
    }
    let slices = context.slices.clone();
    let mut before = vec![0; slices.len()];
    let (mut others, mut of_others) = (Vec::new(), Vec::new());
    for block in blocks {
        let batch = block.batch();
        let SplitBatch { made, refused } = SplitBatch::new(&batch, evaluate)?;
        for (slice, before) in slices.clone().map(SliceId).zip(&mut before) {
            let rows = block.rows_of(slice);
            let mut nth = *before;
            *before += rows.len();
            if refused.is_empty() {
                continue;
            }
            rows.for_each(|row| {
                if let Some(reason) = refused.get(&row) {
                    context.dead_letter(slice, nth, reason.clone(), &json(&batch, row));
                }
                nth += 1;
            });
        }
        let (block, made) = match refused.is_empty() {
            true => (Arc::clone(block), made),
            false => without_rows(block, (&batch, made), &refused)?,
        };
        others.push(block);
        of_others.push(made);
    }
    Ok((Cow::Owned(others), of_others))
}

/// A block without its refused rows, and the result of each remaining row; `made` has the rows that
/// stay.
fn without_rows(
    block: &Block,
    (batch, made): (&RecordBatch, RecordBatch),
    refused: &BTreeMap<usize, String>,
) -> Result<(Arc<Block>, RecordBatch), OperatorError> {
    let is_refused = |row: &u32| refused.contains_key(&(*row as usize));
    let stays: Vec<u32> = (0..batch.num_rows() as u32).filter(|row| !is_refused(row)).collect();
    let taken = |batch: &RecordBatch, rows: Vec<u32>| {
        take_record_batch(batch, &UInt32Array::from(rows)).map_err(crate::lane::failed)
    };
    let (Some(routing), Some(good)) = (&block.routing, stays.first()) else {
        let routing = block
            .routing
            .as_ref()
            .map(|it| Routing { starts: vec![0; it.starts.len()], ..Routing::default() });
        let payload = Payload::Arrow(taken(batch, stays)?);
        return Ok((Arc::new(Block { payload, routing, slice: block.slice }), made));
    };
    // Rows keep their numbers, by which their hashes are found: a refused one has the values of a
    // good one, and belongs to no slice.
    let rows = || 0..batch.num_rows() as u32;
    let filled = rows().map(|row| if is_refused(&row) { *good } else { row }).collect();
    let mut places = 0..;
    let place = |row| if is_refused(&row) { 0 } else { places.next().unwrap_or(0) };
    let made = taken(&made, rows().map(place).collect())?;
    let payload = Payload::Arrow(taken(batch, filled)?);
    let mut order = Vec::with_capacity(stays.len());
    let mut starts = vec![0];
    for bounds in routing.starts.windows(2) {
        let rows = &routing.order[bounds[0] as usize..bounds[1] as usize];
        order.extend(rows.iter().copied().filter(|row| !is_refused(row)));
        starts.push(order.len() as u32);
    }
    let routing = Routing { order, starts, hashes: routing.hashes.clone() };
    Ok((Arc::new(Block { payload, routing: Some(routing), slice: block.slice }), made))
}

#[cfg(test)]
mod tests;
