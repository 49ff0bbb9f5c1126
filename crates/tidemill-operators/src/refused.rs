//! Rows that an expression has no value for, such as `1 / n` where `n` is 0: they become dead letters,
//! and the others go on.
//!
//! ```text
//! batch ── evaluated at once ─▶ all rows have values
//!       └─ fails ─▶ its halves, their halves … ─▶ rows that fail alone
//! ```
//!
//! Invariant: which rows are refused follows from each row alone; blocks, lanes and replays do not show.

use arrow_array::{RecordBatch, UInt32Array};
use arrow_json::{WriterBuilder, writer::LineDelimited};
use arrow_select::{filter::filter_record_batch, take::take_record_batch};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};
use tidemill_flow::{Block, Context, OperatorError, Payload, Routing, TIME_COLUMN};
use tidemill_types::SliceId;

/// Evaluates some rows; an error is of one of them.
type Evaluate<'a> = dyn Fn(&RecordBatch) -> Result<(), OperatorError> + 'a;

/// Blocks, and what was made of each.
pub(crate) type OfBlocks<'a, T> = (Cow<'a, [Arc<Block>]>, Vec<T>);

/// The rows of a batch that are refused, ascending, each with its reason.
fn refused_rows(batch: &RecordBatch, evaluate: &Evaluate<'_>) -> Vec<(usize, String)> {
    let mut refused = Vec::new();
    // What is left to look at, the next at the end.
    let mut parts = vec![(0, batch.num_rows())];
    while let Some((first, rows)) = parts.pop() {
        let Err(error) = evaluate(&batch.slice(first, rows)) else { continue };
        if rows > 1 {
            let half = rows / 2;
            parts.extend([(first + half, rows - half), (first, half)]);
        } else if rows == 1 {
            refused.push((first, error.message));
        }
    }
    refused
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

/// The rows of a slice that are not refused. `first` of its rows of the cycle stand before them.
pub(crate) fn without_refused(
    batch: &RecordBatch,
    evaluate: &Evaluate<'_>,
    (slice, first): (SliceId, usize),
    context: &mut Context<'_>,
) -> Result<RecordBatch, OperatorError> {
    let refused: BTreeMap<usize, String> = refused_rows(batch, evaluate).into_iter().collect();
    let stays = (0..batch.num_rows()).map(|row| Some(!refused.contains_key(&row))).collect();
    let others = filter_record_batch(batch, &stays).map_err(crate::lane::failed)?;
    for (row, reason) in refused {
        context.dead_letter(slice, first + row, reason, &json(batch, row));
    }
    Ok(others)
}

/// What `of_block` makes of each block, and the blocks: those without the rows that `evaluate` refuses,
/// if there are any.
pub(crate) fn of_blocks<'a, T>(
    blocks: &'a [Arc<Block>],
    of_block: impl Fn(&Arc<Block>) -> Result<T, OperatorError>,
    evaluate: &Evaluate<'_>,
    context: &mut Context<'_>,
) -> Result<OfBlocks<'a, T>, OperatorError> {
    let of_all = |blocks: &[Arc<Block>]| blocks.iter().map(&of_block).collect::<Result<_, _>>();
    if let Ok(made) = of_all(blocks) {
        return Ok((Cow::Borrowed(blocks), made));
    }
    let blocks = screened(blocks, evaluate, context)?;
    let made = of_all(&blocks)?;
    Ok((Cow::Owned(blocks), made))
}

/// The blocks without the rows that are refused. Those of a lane's own slices become dead letters; other
/// lanes see to theirs.
fn screened(
    blocks: &[Arc<Block>],
    evaluate: &Evaluate<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Arc<Block>>, OperatorError> {
    let slices = context.slices.clone();
    let mut before = vec![0; slices.len()];
    let mut others = Vec::with_capacity(blocks.len());
    for block in blocks {
        let batch = block.batch();
        let refused: BTreeMap<usize, String> = refused_rows(&batch, evaluate).into_iter().collect();
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
        others.push(match refused.is_empty() {
            true => Arc::clone(block),
            false => Arc::new(without_rows(block, &batch, &refused)?),
        });
    }
    Ok(others)
}

fn without_rows(
    block: &Block,
    batch: &RecordBatch,
    refused: &BTreeMap<usize, String>,
) -> Result<Block, OperatorError> {
    let is_refused = |row: &u32| refused.contains_key(&(*row as usize));
    let stays: Vec<u32> = (0..batch.num_rows() as u32).filter(|row| !is_refused(row)).collect();
    let taken = |rows: Vec<u32>| {
        let batch = take_record_batch(batch, &UInt32Array::from(rows)).map_err(crate::lane::failed);
        batch.map(Payload::Arrow)
    };
    let (Some(routing), Some(good)) = (&block.routing, stays.first()) else {
        let routing = block
            .routing
            .as_ref()
            .map(|it| Routing { starts: vec![0; it.starts.len()], ..Routing::default() });
        return Ok(Block { payload: taken(stays)?, routing, slice: block.slice });
    };
    // Rows keep their numbers, by which their hashes are found: a refused one has the values of a
    // good one, and belongs to no slice.
    let payload = taken(
        (0..batch.num_rows() as u32)
            .map(|row| if is_refused(&row) { *good } else { row })
            .collect(),
    )?;
    let mut order = Vec::with_capacity(stays.len());
    let mut starts = vec![0];
    for bounds in routing.starts.windows(2) {
        let rows = &routing.order[bounds[0] as usize..bounds[1] as usize];
        order.extend(rows.iter().copied().filter(|row| !is_refused(row)));
        starts.push(order.len() as u32);
    }
    let routing = Routing { order, starts, hashes: routing.hashes.clone() };
    Ok(Block { payload, routing: Some(routing), slice: block.slice })
}

#[cfg(test)]
mod tests;
