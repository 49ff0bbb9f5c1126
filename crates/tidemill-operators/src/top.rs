//! The rows with the largest values, of each group.
//!
//! - At most `k` rows of a group are held. Of equal values the one that came first is better;
//!   nulls are worse than all others, whichever way the order goes.
//! - Groups by window (`per` names `window_start` or `window_end`) come out when the watermark is
//!   past the time of their rows, which is the last moment of their window; others when the input
//!   ends.
//! - Groups come out in order of their window's end and of the arrival of their first row.

mod group;

#[cfg(test)]
mod tests;

use crate::dead_letters::{beside, of_blocks};
use crate::keys::{KeyCodec, Keys, UnknownColumn, columns};
use crate::lane::{PickedRows, PortParts, Times, failed};
use crate::row_picker::RowPicker;
use crate::row_store::{RowCodec, table};
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, SchemaRef, SortOptions};
use group::{Arrival, TopGroups};
use std::{fmt, sync::Arc};
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, Partition,
    SliceState, StateAt, StateTable, TIME_COLUMN, TakeRows, partition::check_key_type,
};
use tidemill_sql::{Expr, ExprError, with_one_zero};
use tidemill_state::{ENTRIES_AHEAD, KEYS_AHEAD, SLOTS_AHEAD};
use tidemill_types::job::TopSpec;
use tidemill_types::{Micros, SliceId, Span};

/// The place of a row in its group, from 1, where people see it.
const RANK_COLUMN: &str = "__rank";

/// Columns that tell the window of a row.
const WINDOW_COLUMNS: [&str; 2] = ["window_start", "window_end"];

/// The rows with the largest values, ready to run.
#[derive(Clone)]
pub struct Top {
    /// The operator.
    pub factory: Arc<dyn OperatorFactory>,
    /// The partition by which rows must reach it.
    pub partition: Partition,
}

impl fmt::Debug for Top {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Top").field("partition", &self.partition).finish_non_exhaustive()
    }
}

/// Why the largest cannot be found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TopError {
    /// `k` is 0.
    #[error("`k` is 0, but must be at least 1")]
    K,
    /// `per` names something else than a column.
    #[error("in `per`: {0}")]
    Unknown(#[from] UnknownColumn),
    /// A column cannot be a key.
    #[error("in `per`: the column `{name}` of type {data_type} cannot be a key")]
    KeyType {
        /// The column.
        name: String,
        /// Its type.
        data_type: DataType,
    },
    /// `by` is not an expression of the input's columns.
    #[error("in `by`: {0}")]
    By(ExprError),
    /// `by` has no order.
    #[error("in `by`: values of type {0} have no order")]
    Order(DataType),
}

/// The rows with the largest (or smallest) values, as a job describes them.
///
/// # Errors
/// The description does not fit the input.
pub fn top(input: &SchemaRef, spec: &TopSpec) -> Result<Top, TopError> {
    if spec.k == 0 {
        return Err(TopError::K);
    }
    let per = columns(input, &spec.per)?;
    let types: Vec<DataType> = per.iter().map(|it| input.field(*it).data_type().clone()).collect();
    for (name, data_type) in spec.per.iter().zip(&types) {
        if check_key_type(data_type).is_err() {
            let (name, data_type) = (name.clone(), data_type.clone());
            return Err(TopError::KeyType { name, data_type });
        }
    }
    let (by, data_type) = match input.index_of(&spec.by) {
        Ok(column) => (By::Column(column), input.field(column).data_type().clone()),
        Err(_) => {
            let expr = Expr::compile(&spec.by, input).map_err(TopError::By)?;
            let data_type = expr.data_type().clone();
            (By::Expr(Arc::new(expr)), data_type)
        }
    };
    let options = SortOptions { descending: !spec.ascending, nulls_first: false };
    let order = SortField::new_with_options(data_type.clone(), options);
    if !RowConverter::supports_fields(std::slice::from_ref(&order)) {
        return Err(TopError::Order(data_type));
    }
    let names_window = spec.per.iter().any(|name| WINDOW_COLUMNS.contains(&name.as_str()));
    let partition = if per.is_empty() { Partition::One } else { Partition::Key(per.clone()) };
    let does = format!(
        "the {} {} by {} per {:?} of {}",
        if spec.ascending { "smallest" } else { "largest" },
        spec.k,
        spec.by,
        spec.per,
        tidemill_flow::columns_in_words(input)
    );
    let factory = TopFactory {
        does,
        codec: Arc::new(RowCodec::new(Arc::clone(input))),
        schema: Arc::clone(input),
        per,
        types,
        by,
        order,
        k: spec.k,
        windowed: names_window && input.index_of(TIME_COLUMN).is_ok(),
    };
    Ok(Top { factory: Arc::new(factory), partition })
}

/// The columns that order the rows.
#[derive(Clone)]
enum By {
    Column(usize),
    Expr(Arc<Expr>),
}

struct TopFactory {
    schema: SchemaRef,
    per: Vec<usize>,
    types: Vec<DataType>,
    by: By,
    order: SortField,
    k: usize,
    windowed: bool,
    does: String,
    codec: Arc<RowCodec>,
}

impl OperatorFactory for TopFactory {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![Arc::clone(&self.schema)]
    }

    fn operator(&self) -> Box<dyn Operator> {
        let codec = KeyCodec::new(self.per.clone(), self.types.clone());
        let order = RowConverter::new(vec![self.order.clone()]);
        Box::new(TopOperator {
            codec: (!self.per.is_empty())
                .then(|| codec.expect("every type that can be a key can be compared")),
            by: self.by.clone(),
            order: order.expect("`by` was found to have an order"),
            k: self.k,
            windowed: self.windowed,
            lane: PortParts::default(),
            complete: RowPicker::default(),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(TopGroups::new(self.windowed, Arc::clone(&self.codec)))
    }

    fn does(&self) -> String {
        self.does.clone()
    }

    fn cannot_save(&self) -> Option<String> {
        self.codec.cannot_save()
    }

    fn wants_time(&self) -> bool {
        self.windowed
    }

    /// Without a window its rows come at the end of the input, with times that may be as early as any.
    fn holds_back(&self) -> Span {
        Span(if self.windowed { 0 } else { i64::MAX })
    }

    fn tables(&self) -> Vec<StateTable> {
        let rank = Arc::new(Field::new(RANK_COLUMN, DataType::UInt64, false));
        let timed = self.schema.index_of(TIME_COLUMN).is_ok();
        let behind = timed.then(table::event_time).into_iter().collect();
        let held = self.schema.fields();
        vec![StateTable::only(table::shown_schema(vec![rank], held, behind))]
    }

    fn rows(
        &self,
        _: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let groups: &TopGroups = at.of();
        let (slots, ranks) = groups.ranked();
        let beside = |first: usize, slots: &[u32], held: &RecordBatch| {
            let ranks = ranks[first..first + slots.len()].to_vec();
            let times = held.column_by_name(TIME_COLUMN).cloned();
            let ranks: ArrayRef = Arc::new(UInt64Array::from(ranks));
            Ok((vec![ranks], times.into_iter().collect()))
        };
        let schema = self.tables().remove(0).schema;
        table::rows(groups.held_rows(), &slots, &schema, beside, take)
    }
}

struct TopOperator {
    /// None if all rows are one group.
    codec: Option<KeyCodec>,
    by: By,
    order: RowConverter,
    k: usize,
    windowed: bool,
    lane: PortParts,
    /// Rows of complete groups, copied together once.
    complete: RowPicker,
}

impl Operator for TopOperator {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let evaluate = |rows: &RecordBatch| beside(vec![self.by(rows)?], rows.num_rows());
        let (blocks, by) = of_blocks(input.port(0), &evaluate, context)?;
        let blocks = &*blocks;
        let slices = context.slices.clone();
        self.lane.read(blocks, &slices);
        let limit = match (context.all_ended(), self.windowed) {
            (true, _) => Micros::MAX,
            (false, true) => context.watermark,
            (false, false) => Micros::MIN,
        };
        let read = |(block, by): (_, &RecordBatch)| self.read(block, by.column(0), context);
        let read: Vec<ReadBlock<'_>> =
            blocks.iter().zip(&by).map(read).collect::<Result<_, _>>()?;
        for (slice, parts) in self.lane.slices() {
            let groups: &mut TopGroups = context.state(slice);
            for part in parts {
                let block = &read[part.block];
                let times = Times::of(&block.picked.batch);
                let mut rows = groups.rows_of(&block.picked.batch, self.k);
                for number in part.rows() {
                    if let Some(keys) = &block.keys {
                        look_ahead(rows.groups(), keys, number, part.rows().end);
                    }
                    let row = block.picked.row(number);
                    let (hash, key) = block
                        .keys
                        .as_ref()
                        .map_or((0, &[][..]), |keys| (keys.hash(number), keys.bytes(number)));
                    let value = block.values.row(number);
                    let time = times.at(row);
                    rows.take(Arrival { row, hash, key, value: value.data(), time });
                }
            }
        }
        for slice in slices.map(SliceId) {
            let groups: &mut TopGroups = context.state(slice);
            self.complete.next_slice(slice);
            groups.complete(limit, &mut self.complete, output)?;
        }
        write(&mut self.complete, output)
    }
}

/// Prefetches the groups of the rows after this one and before `end`.
fn look_ahead(groups: &TopGroups, keys: &Keys, number: usize, end: usize) {
    let ahead = |by: usize| (number + by < end).then(|| keys.hash(number + by));
    if let Some(hash) = ahead(SLOTS_AHEAD) {
        groups.prefetch(hash);
    }
    if let Some(hash) = ahead(ENTRIES_AHEAD) {
        groups.prefetch_group(hash);
    }
    if let Some(hash) = ahead(KEYS_AHEAD) {
        groups.prefetch_best(hash);
    }
}

/// The lane's rows of a block: keys and values by number.
struct ReadBlock<'a> {
    picked: PickedRows<'a>,
    keys: Option<Keys>,
    values: arrow_row::Rows,
}

impl TopOperator {
    /// The values of a block's rows.
    fn by(&self, batch: &RecordBatch) -> Result<ArrayRef, OperatorError> {
        match &self.by {
            By::Column(column) => Ok(Arc::clone(batch.column(*column))),
            By::Expr(expr) => expr
                .evaluate(batch)
                .map_err(|error| OperatorError::new(format!("`by`: {}", error.message))),
        }
    }

    fn read<'a>(
        &self,
        block: &'a Arc<Block>,
        by: &ArrayRef,
        context: &Context<'_>,
    ) -> Result<ReadBlock<'a>, OperatorError> {
        let picked = PickedRows::new(block, &context.slices);
        let keys = self.codec.as_ref().map(|codec| codec.read(block, &picked)).transpose()?;
        let by = with_one_zero(picked.take(by)?);
        let values = self.order.convert_columns(&[by]).map_err(failed)?;
        Ok(ReadBlock { picked, keys, values })
    }
}

fn write(complete: &mut RowPicker, output: &mut Output) -> Result<(), OperatorError> {
    if let Some(batch) = complete.finish()? {
        output.emit_runs(0, batch, complete.runs());
    }
    Ok(())
}
