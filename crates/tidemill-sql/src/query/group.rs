//! `GROUP BY` and `DISTINCT`: groups in the order of their first row, each with its accumulators.

use super::{
    QueryError, evaluate, plan,
    reach::{self, Reach},
    shaped, truth,
};
use crate::{
    error::{ExprError, plan_error},
    evaluate::{canonical::with_one_zero, physical},
};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DECIMAL256_MAX_PRECISION, DataType, SchemaRef};
use arrow_select::filter::filter_record_batch;
use datafusion_common::DFSchema;
use datafusion_expr::{
    Accumulator, Cast, EmitTo, Expr as Logical, ExprSchemable, GroupsAccumulator,
    execution_props::ExecutionProps,
    expr::{AggregateFunction, AggregateFunctionParams, Alias},
};
use datafusion_physical_expr::{
    GroupsAccumulatorAdapter, PhysicalExpr,
    aggregate::{AggregateFunctionExpr, LoweredAggregateBuilder},
};
use foldhash::fast::FixedState;
use indexmap::IndexSet;
use std::sync::Arc;

/// An aggregate and its `FILTER`.
type PlannedAggregate = (Arc<AggregateFunctionExpr>, Option<Arc<dyn PhysicalExpr>>);

/// The keys and the aggregates of a group step.
#[derive(Debug)]
pub(super) struct GroupPlan {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    sort_fields: Vec<SortField>,
    aggregates: Vec<PlannedAggregate>,
    schema: SchemaRef,
    /// The bound of the results for the rows of a piece.
    pub(super) reach: Reach,
}

impl GroupPlan {
    pub(super) fn new(
        (keys, aggregates): (&[Logical], &[Logical]),
        input: &DFSchema,
        output: &DFSchema,
    ) -> Result<Self, ExprError> {
        if keys.iter().any(|it| matches!(it, Logical::GroupingSet(_))) {
            return Err(ExprError::new("grouping sets are not known here"));
        }
        let keys = plan::all_physical(keys, input)?;
        let mut all = Reach::default();
        let aggregates = aggregates.iter().map(|it| {
            let (it, reach) = aggregate(it, input)?;
            all = all.and(reach).and(Reach::KEY);
            Ok(it)
        });
        let aggregates = aggregates.collect::<Result<_, _>>()?;
        Self::of(keys, (aggregates, all), plan::schema_of(output))
    }

    /// The plan of `DISTINCT`: every column is a key.
    pub(super) fn distinct(input: &DFSchema) -> Result<Self, ExprError> {
        let keys: Vec<_> = input.columns().into_iter().map(Logical::Column).collect();
        let keys = plan::all_physical(&keys, input)?;
        Self::of(keys, (Vec::new(), Reach::default()), plan::schema_of(input))
    }

    fn of(
        (keys, of_keys): (Vec<Arc<dyn PhysicalExpr>>, Reach),
        (aggregates, of_aggregates): (Vec<PlannedAggregate>, Reach),
        schema: SchemaRef,
    ) -> Result<Self, ExprError> {
        let fields = schema.fields().iter().take(keys.len());
        let sort_fields: Vec<_> = fields.map(|it| SortField::new(it.data_type().clone())).collect();
        if !RowConverter::supports_fields(&sort_fields) {
            return Err(ExprError::new("a column of a type that cannot be grouped by"));
        }
        let encoded = keys.iter().fold(of_keys, |all, _| all.and(Reach::KEY));
        Ok(Self { keys, sort_fields, aggregates, schema, reach: encoded.and(of_aggregates) })
    }
}

/// Compiles an aggregate and its `FILTER`, and returns the bound of their arguments.
fn aggregate(expr: &Logical, input: &DFSchema) -> Result<(PlannedAggregate, Reach), ExprError> {
    let call = match expr {
        Logical::Alias(Alias { expr, .. }) => expr,
        other => other,
    };
    let Logical::AggregateFunction(AggregateFunction { func, params }) = call else {
        return Err(ExprError::new(format!("`{expr}` is not an aggregate")));
    };
    // What `WITHIN GROUP` orders is an argument too.
    if !params.order_by.is_empty() && !func.supports_within_group_clause() {
        return Err(ExprError::new("`ORDER BY` within an aggregate is not known here"));
    }
    let (mut args, mut all) = (Vec::new(), Reach::default());
    for arg in params.args.iter().chain(params.filter.as_deref()) {
        let (arg, reach) = plan::simple(arg.clone(), input)?;
        all = all.and(reach);
        args.push(arg);
    }
    let filter = params.filter.as_ref().and_then(|_| args.pop()).map(Box::new);
    judge(func.name(), &args)?;
    if func.name() == "sum" {
        args = args.into_iter().map(|arg| widened(arg, input)).collect::<Result<_, _>>()?;
    }
    let params = AggregateFunctionParams { args, filter, ..params.clone() };
    let call = Logical::AggregateFunction(AggregateFunction { func: Arc::clone(func), params });
    let (properties, context) = (ExecutionProps::new(), Default::default());
    let lowered =
        LoweredAggregateBuilder::new(&call, input, input.as_arrow(), &properties, &context);
    let lowered = lowered.build().map_err(|error| plan_error(&error))?;
    let fails = |it| physical::fails(it, input.as_arrow()).map_err(|error| plan_error(&error));
    let filter = lowered.filter.map(fails).transpose()?;
    let parts = lowered.aggregate.all_expressions();
    let args = parts.args.into_iter().map(fails).collect::<Result<_, _>>()?;
    let aggregate = lowered.aggregate.with_new_expressions(args, parts.order_by_exprs);
    let aggregate = aggregate.expect("it has as many arguments as before");
    Ok(((Arc::new(aggregate), filter), all))
}

/// The argument of `sum` in a type that no number of rows overflows: DataFusion's sum wraps. The final sum
/// must fit the column's own type.
fn widened(arg: Logical, input: &DFSchema) -> Result<Logical, ExprError> {
    let data_type = arg.get_type(input).map_err(|error| plan_error(&error))?;
    let wider = match data_type {
        it if it.is_integer() => DataType::Decimal128(20, 0),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale),
        _ => return Ok(arg),
    };
    Ok(Logical::Cast(Cast::new(Box::new(arg), wider)))
}

/// Refuses an aggregate whose memory depends on an argument that is too large.
fn judge(name: &str, args: &[Logical]) -> Result<(), ExprError> {
    let size = match name {
        "approx_percentile_cont" => args.get(2),
        "approx_percentile_cont_with_weight" => args.get(3),
        _ => None,
    };
    reach::length(size, &format!("the last argument of `{name}`")).map(|_| ())
}

/// The accumulators. A query without keys has accumulators of its own kind: only those know that they have
/// seen no row.
enum Accumulators {
    One(Vec<Box<dyn Accumulator>>),
    Groups(Vec<Box<dyn GroupsAccumulator>>),
}

/// The state of a group step.
pub(super) struct GroupState<'a> {
    plan: &'a GroupPlan,
    converter: RowConverter,
    /// Encoded keys, by number of the group.
    keys: IndexSet<Box<[u8]>, FixedState>,
    key_bytes: usize,
    groups: Accumulators,
}

impl<'a> GroupState<'a> {
    pub(super) fn new(plan: &'a GroupPlan) -> Result<Self, QueryError> {
        let of_groups = |(it, _): &PlannedAggregate| {
            if it.groups_accumulator_supported() {
                return it.create_groups_accumulator();
            }
            let it = Arc::clone(it);
            let each = GroupsAccumulatorAdapter::new(move || it.create_accumulator());
            Ok(Box::new(each) as Box<dyn GroupsAccumulator>)
        };
        let all = plan.aggregates.iter();
        let groups = if plan.keys.is_empty() {
            let of_all = all.map(|(it, _)| it.create_accumulator());
            Accumulators::One(of_all.collect::<Result<_, _>>()?)
        } else {
            Accumulators::Groups(all.map(of_groups).collect::<Result<_, _>>()?)
        };
        let converter = RowConverter::new(plan.sort_fields.clone())?;
        Ok(Self { plan, converter, keys: IndexSet::default(), key_bytes: 0, groups })
    }

    /// Memory of the step in bytes.
    pub(super) fn bytes(&self) -> usize {
        let accumulators: usize = match &self.groups {
            Accumulators::One(all) => all.iter().map(|it| it.size()).sum(),
            Accumulators::Groups(all) => all.iter().map(|it| it.size()).sum(),
        };
        // A key has its place in the set and in its order.
        accumulators + self.key_bytes + self.keys.len() * 48
    }

    pub(super) fn take(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        let groups = self.groups_of(batch)?;
        let count = self.keys.len();
        for (nth, (aggregate, filter)) in self.plan.aggregates.iter().enumerate() {
            let wanted = filter.as_ref().map(|expr| truth(expr, batch)).transpose()?;
            // Of a row that is left out no argument is computed: it may have no value.
            let kept = wanted.as_ref().map(|it| filter_record_batch(batch, it)).transpose()?;
            let values = aggregate.expressions();
            let values = values.iter().map(|expr| evaluate(expr, kept.as_ref().unwrap_or(batch)));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            match &mut self.groups {
                Accumulators::One(all) => all[nth].update_batch(&values)?,
                Accumulators::Groups(all) => {
                    let kept = wanted.as_ref().map(|it| kept_groups(&groups, it));
                    let groups = kept.as_ref().unwrap_or(&groups);
                    all[nth].update_batch(&values, groups, None, count)?;
                }
            }
        }
        Ok(())
    }

    /// The group of each row.
    fn groups_of(&mut self, batch: &RecordBatch) -> Result<Vec<usize>, QueryError> {
        if self.plan.keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.plan.keys.iter().map(|expr| evaluate(expr, batch));
        let keys = shaped_keys(self.plan, keys.collect::<Result<_, _>>()?, batch.num_rows())?;
        let keys: Vec<ArrayRef> = keys.into_iter().map(with_one_zero).collect();
        let rows = self.converter.convert_columns(&keys)?;
        let mut groups = Vec::with_capacity(batch.num_rows());
        for row in &rows {
            let key = row.data();
            groups.push(match self.keys.get_index_of(key) {
                Some(group) => group,
                None => {
                    self.key_bytes += key.len();
                    self.keys.insert_full(key.into()).0
                }
            });
        }
        Ok(groups)
    }

    /// The rows of all groups; without keys, one row even for an empty table.
    pub(super) fn finish(self) -> Result<Option<RecordBatch>, QueryError> {
        let (count, columns) = match self.groups {
            Accumulators::One(all) => {
                let column = |mut it: Box<dyn Accumulator>| it.evaluate()?.to_array();
                (1, all.into_iter().map(column).collect::<Result<Vec<_>, _>>()?)
            }
            Accumulators::Groups(_) if self.keys.is_empty() => return Ok(None),
            Accumulators::Groups(all) => {
                let parser = self.converter.parser();
                let keys = self.keys.iter().map(|key| parser.parse(key));
                let mut columns: Vec<ArrayRef> = self.converter.convert_rows(keys)?;
                for mut accumulator in all {
                    columns.push(accumulator.evaluate(EmitTo::All)?);
                }
                (self.keys.len(), columns)
            }
        };
        shaped(&self.plan.schema, columns, count).map(Some)
    }
}

/// The groups of the rows that are wanted.
fn kept_groups(groups: &[usize], wanted: &BooleanArray) -> Vec<usize> {
    let is_wanted = |row: usize| wanted.is_valid(row) && wanted.value(row);
    groups.iter().enumerate().filter(|(row, _)| is_wanted(*row)).map(|(_, it)| *it).collect()
}

fn shaped_keys(
    plan: &GroupPlan,
    keys: Vec<ArrayRef>,
    rows: usize,
) -> Result<Vec<ArrayRef>, QueryError> {
    let indices: Vec<usize> = (0..keys.len()).collect();
    let schema = Arc::new(plan.schema.project(&indices)?);
    Ok(shaped(&schema, keys, rows)?.columns().to_vec())
}
