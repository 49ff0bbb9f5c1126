//! `key` + `window` + `aggregate`: rows are gathered by key and in time, and come out as one row
//! for each key of each window.
//!
//! ```text
//! tumbling, sliding   panes ── a window is one pane or several, merged   (panes)
//! session             a window of a key ends when the key falls silent   (session)
//! count               the last records of a key                          (count)
//! global              one pane that closes when the input ends           (panes)
//! ```
//!
//! - Windows are aligned to 1970-01-01T00:00:00Z; the start belongs to them, the end does not.
//! - A window closes in the cycle whose watermark reaches its end, after that cycle's rows.
//! - A row is late if every window it belongs to closed in an earlier cycle: it goes, whole, to
//!   output 1.
//! - Rows come out by slice, then by the end of the window, then by first appearance of the key; of
//!   stages that share panes, by first appearance in the newest of them.

use crate::aggregate::{AggregateError, Aggregates, ArgColumn, Columns, Results, Taken};
use crate::dead_letters::{BlockResults, beside, of_blocks};
use crate::groups::{BlockKeys, KeyOut, KeyPlan};
use crate::transform::arrow_error;
use arrow_array::{
    ArrayRef, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray, UInt32Array,
    cast::AsArray, types::TimestampMicrosecondType,
};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow_select::take::take_record_batch;
use std::sync::Arc;
use tidemill_flow::{
    Block, Context, OperatorError, OperatorFactory, Output, SliceRuns, TIME_COLUMN,
};
use tidemill_sql::{Expr, ExprError, nearest};
use tidemill_types::SliceId;
use tidemill_types::job::{Named, WindowSpec};
use tidemill_types::signs;

mod count;
mod pane_sharing;
mod panes;
mod session;
mod spans;
mod state_table;
mod table;
#[cfg(test)]
mod tests;

pub use pane_sharing::{SharedStage, groups, shared};
use spans::Spans;

/// Rows of a result that are put out together, at most.
const ROWS_OUT_MAX: usize = 8_192;

/// A compiled windowed stage, shared by its lanes.
pub(crate) struct Windowed {
    pub(crate) input: SchemaRef,
    pub(crate) output: SchemaRef,
    pub(crate) keys: Arc<KeyPlan>,
    pub(crate) aggregates: Aggregates,
    /// Place of the hidden time column in the input.
    pub(crate) time: Option<usize>,
    /// True if rows carry `window_start` and `window_end`.
    pub(crate) bounds: bool,
}

/// The type of all times.
pub(crate) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// A stage that aggregates by key and window. Output 0 are the results, output 1 late rows.
/// Without a window, the window is `global`.
///
/// # Errors
/// A key, an aggregate or the window does not fit the input.
pub fn windowed(
    input: &SchemaRef,
    key: &[String],
    window: Option<&WindowSpec>,
    aggregate: &Named<String>,
) -> Result<Arc<dyn OperatorFactory>, AggregateError> {
    let spans = match window {
        Some(window) => Spans::of(window).map_err(wrong_window)?,
        None => None,
    };
    let stage = (window, aggregate);
    let plan = compile(input, key, &[stage])?.swap_remove(0);
    Ok(match window {
        Some(WindowSpec::Session(gap)) if gap.0 <= 0 => {
            return Err(wrong_window("the gap must not be 0"));
        }
        Some(WindowSpec::Session(gap)) => session::session(plan, gap.0),
        Some(WindowSpec::Count(it)) if it.size == 0 || it.every == 0 => {
            return Err(wrong_window("`size` and `every` must not be 0"));
        }
        Some(WindowSpec::Count(it)) => count::count(plan, it.size, it.every),
        None | Some(WindowSpec::Global(_) | WindowSpec::Tumbling(_) | WindowSpec::Sliding(_)) => {
            panes::on_panes(vec![panes::PaneStage { plan, spans, name: None }])
        }
    })
}

fn wrong(part: impl Into<String>, error: ExprError) -> AggregateError {
    AggregateError { part: part.into(), error }
}

fn wrong_window(text: &str) -> AggregateError {
    wrong("window", ExprError::new(text))
}

/// Compiles stages over one input by one key, so that they have the same accumulators.
fn compile(
    input: &SchemaRef,
    key: &[String],
    stages: &[(Option<&WindowSpec>, &Named<String>)],
) -> Result<Vec<Arc<Windowed>>, AggregateError> {
    let mut columns = Vec::with_capacity(key.len());
    for (nth, name) in key.iter().enumerate() {
        let index = key_column(input, name).map_err(|error| wrong(format!("key[{nth}]"), error))?;
        columns.push(index);
    }
    let aggregates = Aggregates::compile(input, stages.iter().map(|(_, calls)| *calls))?;
    let time = input.index_of(TIME_COLUMN).ok();
    let keys = KeyPlan::new(input, columns)
        .map_err(|error| wrong("key", ExprError::new(error.message)))?;
    let keys = Arc::new(keys);
    let one = |((window, _), aggregates): (&(Option<&WindowSpec>, _), Aggregates)| {
        let timed = matches!(
            window,
            Some(WindowSpec::Tumbling(_) | WindowSpec::Sliding(_) | WindowSpec::Session(_))
        );
        if timed && time.is_none() {
            let mut error = ExprError::new("a window over time needs records with event time");
            error.expected = Some("`time: {field: …}` at the source".to_owned());
            return Err(wrong("window", error));
        }
        let output = output_schema(&keys, &aggregates, timed, time.is_some());
        each_name_once(&output, key)?;
        let (input, keys) = (Arc::clone(input), Arc::clone(&keys));
        Ok(Arc::new(Windowed { input, output, keys, aggregates, time, bounds: timed }))
    };
    stages.iter().zip(aggregates).map(one).collect()
}

fn key_column(input: &SchemaRef, name: &str) -> Result<usize, ExprError> {
    let names =
        || input.fields().iter().map(|it| it.name().as_str()).filter(|it| *it != TIME_COLUMN);
    if !names().any(|it| it == name) {
        let mut error = ExprError::new(format!("unknown column `{name}`"));
        error.nearest = nearest(name, names());
        error.message.push_str(&signs::note(name, error.nearest.as_deref()));
        let all: Vec<String> = names().map(|it| format!("`{it}`")).collect();
        error.expected = Some(format!("one of {}", all.join(", ")));
        return Err(error);
    }
    let index = input.index_of(name).map_err(|error| ExprError::new(error.to_string()))?;
    tidemill_flow::partition::check_key_type(input.field(index).data_type())
        .map_err(|error| ExprError::new(error.to_string()))?;
    Ok(index)
}

fn output_schema(keys: &KeyPlan, aggregates: &Aggregates, bounds: bool, timed: bool) -> SchemaRef {
    let mut fields: Vec<FieldRef> = keys.fields.clone();
    let time = |name: &str| Arc::new(Field::new(name, time_type(), false));
    if bounds {
        fields.extend([time("window_start"), time("window_end")]);
    }
    for it in &aggregates.results {
        fields.push(Arc::new(Field::new(&it.name, it.data_type.clone(), it.nullable)));
    }
    if timed {
        fields.push(time(TIME_COLUMN));
    }
    Arc::new(Schema::new(fields))
}

/// Refuses results with two columns of one name, which a reader could not tell apart.
fn each_name_once(output: &SchemaRef, key: &[String]) -> Result<(), AggregateError> {
    let names: Vec<&str> = output.fields().iter().map(|it| it.name().as_str()).collect();
    // The bounds of windows have no part of the job that names them, nor has event time.
    let part = |nth: usize| match names[nth] {
        _ if nth < key.len() => Some(format!("key[{nth}]")),
        "window_start" | "window_end" if nth < key.len() + 2 => None,
        TIME_COLUMN if nth + 1 == names.len() => None,
        name => Some(format!("aggregate.{name}")),
    };
    for nth in 0..names.len() {
        let Some(first) = names[..nth].iter().position(|it| *it == names[nth]) else { continue };
        let mut error = ExprError::new(format!("the rows would have two columns `{}`", names[nth]));
        error.expected =
            Some("another name, which a `select` or the aggregate can give".to_owned());
        return Err(wrong(part(nth).or_else(|| part(first)).unwrap_or_default(), error));
    }
    Ok(())
}

/// One block with all that the aggregates look at.
pub(crate) struct Prepared {
    pub(crate) batch: RecordBatch,
    pub(crate) keys: BlockKeys,
    pub(crate) arguments: Columns,
    pub(crate) times: Option<TimestampMicrosecondArray>,
    hashes: Option<Vec<u64>>,
}

impl Windowed {
    /// A description of the stage without its window, for checkpoints.
    pub(crate) fn does(&self) -> String {
        let key: Vec<String> =
            self.keys.fields.iter().map(|it| format!("{} {}", it.name(), it.data_type())).collect();
        format!("{} by {}", self.aggregates.does(), key.join(", "))
    }

    /// The values of the aggregates' arguments, as they are held.
    fn arguments(&self, batch: &RecordBatch) -> Result<RecordBatch, OperatorError> {
        let argument = |(sql, expr, held): &(String, Expr, crate::aggregate::NumberKind)| {
            let column = expr.evaluate(batch).map_err(crate::lane::no_value);
            column
                .and_then(|it| ArgColumn::values(&it, *held))
                .map_err(|error| OperatorError::new(format!("`{sql}`: {}", error.message)))
        };
        let columns = self.aggregates.arguments.iter().map(argument).collect::<Result<_, _>>()?;
        beside(columns, batch.num_rows())
    }

    /// The blocks of a cycle, and all that the aggregates look at. Rows that an argument has no value
    /// for are not among them: they become dead letters.
    pub(crate) fn prepare_all<'a>(
        &self,
        blocks: &'a [Arc<Block>],
        context: &mut Context<'_>,
    ) -> Result<BlockResults<'a, Prepared>, OperatorError> {
        let evaluate = |rows: &RecordBatch| self.arguments(rows);
        let (blocks, arguments) = of_blocks(blocks, &evaluate, context)?;
        let of_blocks = blocks.iter().zip(&arguments);
        let prepared =
            of_blocks.map(|(block, it)| self.prepare(block, it)).collect::<Result<_, _>>()?;
        Ok((blocks, prepared))
    }

    /// Reads the keys of a block, once for all slices, beside its arguments.
    fn prepare(&self, block: &Block, arguments: &RecordBatch) -> Result<Prepared, OperatorError> {
        let batch = block.batch();
        let held = self.aggregates.arguments.iter().map(|(_, _, held)| *held);
        let column = |(it, held)| ArgColumn::of(it, held);
        let arguments: Columns = arguments.columns().iter().zip(held).map(column).collect();
        let keys = self.keys.read(&batch)?;
        let hashes = self.keys.hashes(block)?;
        let times = self
            .time
            .map(|index| batch.column(index).as_primitive::<TimestampMicrosecondType>().clone());
        Ok(Prepared { batch, keys, arguments, times, hashes })
    }
}

impl Prepared {
    /// Key hashes by row.
    pub(crate) fn hashes<'a>(&'a self, block: &'a Block) -> &'a [u64] {
        match (&self.hashes, &block.routing) {
            (Some(hashes), _) => hashes,
            (None, Some(routing)) => &routing.hashes,
            (None, None) => &[],
        }
    }

    /// The columns that the accumulators read.
    pub(crate) fn taken(&self) -> Taken<'_> {
        let times = self.times.as_ref().map(|times| &times.values()[..]);
        Taken { arguments: &self.arguments, times }
    }

    /// Event time of a row; 0 if there is none.
    #[inline]
    pub(crate) fn time(&self, row: usize) -> i64 {
        self.times.as_ref().map_or(0, |times| times.value(row))
    }
}

/// Returns true if any row of these blocks belongs to a slice.
pub(crate) fn has_rows(blocks: &[Arc<Block>], slice: SliceId) -> bool {
    blocks.iter().any(|block| !block.rows_of(slice).is_empty())
}

/// The late rows of a cycle: blocks, rows and their slices, slice by slice, so that lanes do not show.
#[derive(Default)]
pub(crate) struct Late(Vec<(usize, Vec<u32>, SliceRuns)>);

impl Late {
    /// Takes a slice's late rows of a block.
    pub(crate) fn add(&mut self, slice: SliceId, block: usize, rows: &mut Vec<u32>) {
        if rows.is_empty() {
            return;
        }
        if self.0.last().is_none_or(|(last, ..)| *last != block) {
            self.0.push((block, Vec::new(), SliceRuns::default()));
        }
        if let Some((_, before, runs)) = self.0.last_mut() {
            runs.begin(slice, before.len());
            before.append(rows);
        }
    }

    /// Sends them to their output.
    pub(crate) fn put_out(
        self,
        blocks: &[Prepared],
        port: usize,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        for (block, rows, runs) in self.0 {
            let rows = UInt32Array::from(rows);
            let late = take_record_batch(&blocks[block].batch, &rows).map_err(arrow_error)?;
            output.emit_runs(port, late, runs);
        }
        Ok(())
    }
}

/// Result rows of a lane on their way out.
pub(crate) struct Emitter {
    /// The output that they go to.
    pub(crate) port: usize,
    pub(crate) keys: KeyOut,
    pub(crate) results: Results,
    starts: Vec<i64>,
    ends: Vec<i64>,
    times: Vec<i64>,
    runs: SliceRuns,
}

impl Emitter {
    pub(crate) fn new(plan: &Windowed, port: usize) -> Self {
        Self {
            port,
            keys: KeyOut::new(&plan.keys),
            results: Results::new(&plan.aggregates),
            starts: Vec::new(),
            ends: Vec::new(),
            times: Vec::new(),
            runs: SliceRuns::default(),
        }
    }

    /// Says that rows of a slice follow.
    pub(crate) fn begin(&mut self, slice: SliceId) {
        self.runs.begin(slice, self.times.len());
    }

    /// Says the bounds and the time of the next `count` rows.
    pub(crate) fn bounds(&mut self, count: usize, (start, end): (i64, i64), time: i64) {
        self.starts.extend(std::iter::repeat_n(start, count));
        self.ends.extend(std::iter::repeat_n(end, count));
        self.times.extend(std::iter::repeat_n(time, count));
    }

    /// Says the times of the next rows, which have no bounds.
    pub(crate) fn times(&mut self, times: &[i64]) {
        self.bounds(times.len(), (0, 0), 0);
        let first = self.times.len() - times.len();
        self.times[first..].copy_from_slice(times);
    }

    /// Emits the waiting rows if they are many.
    pub(crate) fn flush_if_full(
        &mut self,
        plan: &Windowed,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        if self.times.len() >= ROWS_OUT_MAX { self.flush(plan, output) } else { Ok(()) }
    }

    /// Emits the waiting rows.
    pub(crate) fn flush(
        &mut self,
        plan: &Windowed,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        if let Some(batch) = self.batch(plan)? {
            output.emit_runs(self.port, batch, self.runs.take());
        }
        Ok(())
    }

    /// Takes the waiting rows as columns of the output.
    pub(crate) fn batch(&mut self, plan: &Windowed) -> Result<Option<RecordBatch>, OperatorError> {
        let rows = self.times.len();
        if rows == 0 {
            return Ok(None);
        }
        let time = |values: Vec<i64>| -> ArrayRef {
            Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
        };
        let mut columns = self.keys.finish(&plan.keys)?;
        let (starts, ends) = (std::mem::take(&mut self.starts), std::mem::take(&mut self.ends));
        if plan.bounds {
            columns.extend([time(starts), time(ends)]);
        }
        columns.extend(self.results.finish(&plan.aggregates)?);
        let times = std::mem::take(&mut self.times);
        if plan.time.is_some() {
            columns.push(time(times));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&plan.output);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options);
        batch.map(Some).map_err(arrow_error)
    }
}
