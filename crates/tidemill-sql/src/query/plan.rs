//! From SQL to steps: DataFusion parses and resolves names and types. Its plan must be a chain over one
//! table, which becomes a list of steps.

use super::{
    Query, Step,
    admission::{self, not_known},
    group::GroupPlan,
    reach::{self, Reach},
    sort::SortPlan,
    times,
};
use crate::{
    catalogue::registry,
    error::{ExprError, plan_error},
    evaluate,
    passes::{QueryPart, run_passes},
    resolve::refuse_unfit,
};
use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion_common::{
    DFSchema, DataFusionError, Result as Planned, TableReference, config::ConfigOptions, plan_err,
};
use datafusion_expr::{
    AggregateUDF, Distinct, Expr as Logical, FetchType, HigherOrderUDF, LogicalPlan, ScalarUDF,
    SkipType, TableSource, WindowUDF,
    logical_plan::builder::LogicalTableSource,
    planner::{ContextProvider, ExprPlanner, TypePlanner},
};
use datafusion_functions_aggregate::planner::AggregateFunctionPlanner;
use datafusion_optimizer::Analyzer;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_sql::planner::{ParserOptions, SqlToRel};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};
use tidemill_types::TIME_COLUMN;

/// The tables and functions that a query may name.
struct QueryScope<'a> {
    tables: &'a [(String, SchemaRef)],
    planners: Vec<Arc<dyn ExprPlanner>>,
}

/// Aggregate functions by name.
static AGGREGATES: LazyLock<BTreeMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    for function in datafusion_functions_aggregate::all_default_aggregate_functions() {
        for name in function.aliases() {
            all.insert(name.clone(), Arc::clone(&function));
        }
        all.insert(function.name().to_owned(), function);
    }
    all
});

impl ContextProvider for QueryScope<'_> {
    fn get_table_source(&self, name: TableReference) -> Planned<Arc<dyn TableSource>> {
        let named = |(table, _): &&(String, SchemaRef)| matches!(&name, TableReference::Bare { table: bare } if **bare == **table);
        match self.tables.iter().find(named) {
            Some((_, schema)) => Ok(Arc::new(LogicalTableSource::new(Arc::clone(schema)))),
            None => {
                let all: Vec<String> =
                    self.tables.iter().map(|(table, _)| format!("`{table}`")).collect();
                plan_err!("there is no table `{name}`; there is {}", all.join(", "))
            }
        }
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        registry::shared().get_type_planner()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        registry::shared().get_function_meta(name)
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        AGGREGATES.get(&name.to_lowercase()).cloned()
    }

    fn get_window_meta(&self, _: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        registry::shared().options()
    }

    fn udf_names(&self) -> Vec<String> {
        registry::shared().udf_names()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        AGGREGATES.keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}

pub(super) fn compile(sql: &str, tables: &[(String, SchemaRef)]) -> Result<Query, ExprError> {
    let statement = admission::parse(sql)?;
    let mut planners = registry::shared().get_expr_planners().to_vec();
    planners.push(Arc::new(AggregateFunctionPlanner));
    let names = QueryScope { tables, planners };
    let options = ParserOptions {
        enable_ident_normalization: false,
        map_string_types_to_utf8view: false,
        collect_spans: true,
        ..ParserOptions::default()
    };
    let planner = SqlToRel::new_with_options(&names, options);
    let plan = planner.sql_statement_to_plan(statement).map_err(|it| placed(&it))?;
    let analyzer = Analyzer::new();
    let plan = times::in_zones(plan)
        .and_then(times::with_types)
        .and_then(|it| analyzer.execute_and_check(it, names.options(), |_, _| {}))
        .and_then(times::in_microseconds)
        .map_err(|it| placed(&it))?;
    if plan.schema().fields().is_empty() {
        let mut error = ExprError::new("the query names no columns");
        error.expected = Some("`SELECT *`, or columns between `SELECT` and `FROM`".to_owned());
        return Err(error);
    }
    if plan.schema().fields().iter().any(|it| it.name() == TIME_COLUMN) {
        let mut error = ExprError::new(format!("no column of an answer can be `{TIME_COLUMN}`"));
        error.expected = Some("another name, with `AS`".to_owned());
        return Err(error);
    }
    let mut steps = Vec::new();
    let table = chain(&plan, &mut steps)?;
    let table = tables.iter().position(|(name, _)| *name == table);
    let table = table.ok_or_else(|| ExprError::new("the query reads no table"))?;
    Ok(Query { table, steps, schema: schema_of(plan.schema()) })
}

/// Returns true if an aggregate has this name.
pub(super) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains_key(&name.to_lowercase())
}

/// An error with its place, if DataFusion knows it.
fn placed(error: &DataFusionError) -> ExprError {
    let mut placed = plan_error(error);
    if let Some(span) = error.diagnostic().and_then(|it| it.span)
        && span.start.line > 0
    {
        (placed.line, placed.column) = (span.start.line, span.start.column);
    }
    placed
}

/// Appends the steps of a plan in the order of execution, and returns the table.
fn chain(plan: &LogicalPlan, steps: &mut Vec<Step>) -> Result<String, ExprError> {
    let refused = |construct: &str| Err(not_known(construct));
    Ok(match plan {
        LogicalPlan::TableScan(it) => it.table_name.table().to_owned(),
        LogicalPlan::SubqueryAlias(it) => chain(&it.input, steps)?,
        LogicalPlan::Projection(it) => {
            let table = chain(&it.input, steps)?;
            let (exprs, reach) = all_physical(&it.expr, it.input.schema())?;
            steps.push(Step::Project(exprs, schema_of(&it.schema), reach));
            table
        }
        LogicalPlan::Filter(it) => {
            let table = chain(&it.input, steps)?;
            let (condition, reach) = physical(&it.predicate, it.input.schema())?;
            // A truth value for each row, and a copy of those that stay.
            steps.push(Step::Filter(condition, reach.and(Reach::KEY)));
            table
        }
        LogicalPlan::Aggregate(it) => {
            let table = chain(&it.input, steps)?;
            let parts = (&it.group_expr[..], &it.aggr_expr[..]);
            steps.push(Step::Group(GroupPlan::new(parts, it.input.schema(), &it.schema)?));
            table
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let table = chain(input, steps)?;
            steps.push(Step::Group(GroupPlan::distinct(input.schema())?));
            table
        }
        LogicalPlan::Sort(it) => {
            let table = chain(&it.input, steps)?;
            steps.push(Step::Sort(SortPlan::new(it, it.input.schema())?));
            table
        }
        LogicalPlan::Limit(it) => {
            let table = chain(&it.input, steps)?;
            let skip = match it.get_skip_type().map_err(|error| plan_error(&error))? {
                SkipType::Literal(skip) => skip,
                SkipType::UnsupportedExpr => return refused("other `OFFSET`s than a number"),
            };
            let fetch = match it.get_fetch_type().map_err(|error| plan_error(&error))? {
                FetchType::Literal(fetch) => fetch,
                FetchType::UnsupportedExpr => return refused("other `LIMIT`s than a number"),
            };
            // A sort that is cut off need not hold the rest.
            let last = steps.iter_mut().rev().find(|step| !matches!(step, Step::Project(..)));
            if let (Some(Step::Sort(sort)), Some(fetch)) = (last, fetch) {
                sort.fetch = Some(skip.saturating_add(fetch));
            }
            steps.push(Step::Limit(skip, fetch));
            table
        }
        LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => {
            return Err(ExprError::new("the query reads no table: say which with `FROM`"));
        }
        LogicalPlan::Join(_) => return refused("joins"),
        LogicalPlan::Union(_) => return refused("unions"),
        LogicalPlan::Window(_) => return refused("window functions"),
        LogicalPlan::Subquery(_) => return refused("subqueries within expressions"),
        LogicalPlan::Unnest(_) => return refused("`unnest` and other functions that make rows"),
        other => {
            let name = other.display().to_string();
            return refused(&format!("plans with `{name}`"));
        }
    })
}

/// The columns of a plan, all nullable.
pub(super) fn schema_of(schema: &DFSchema) -> SchemaRef {
    let nullable = |it: &Arc<arrow_schema::Field>| it.as_ref().clone().with_nullable(true);
    Arc::new(Schema::new(schema.as_arrow().fields().iter().map(nullable).collect::<Vec<_>>()))
}

/// The expression with coerced types and evaluated constants, and the bound of its results.
pub(super) fn simple(expr: Logical, schema: &DFSchema) -> Result<(Logical, Reach), ExprError> {
    refuse_unfit(&expr)?;
    let passed = |expr, part| run_passes(expr, schema, &[part]).map_err(|error| placed(&error));
    let expr = passed(expr, QueryPart::Types)?;
    let reach = reach::of(&expr, schema)?;
    reach.of_constants()?;
    // The functions that these add make small numbers, and have no name that could be judged.
    let simple = passed(expr, QueryPart::Values)?;
    Ok((simple, reach))
}

/// The physical expression, and the bound of its results.
pub(super) fn physical(
    expr: &Logical,
    schema: &DFSchema,
) -> Result<(Arc<dyn PhysicalExpr>, Reach), ExprError> {
    let (simple, reach) = simple(expr.clone(), schema)?;
    let it = evaluate::physical::physical(&simple, schema).map_err(|error| placed(&error))?;
    Ok((it, reach))
}

/// Several physical expressions, and the bound of their results together.
pub(super) fn all_physical(
    exprs: &[Logical],
    schema: &DFSchema,
) -> Result<(Vec<Arc<dyn PhysicalExpr>>, Reach), ExprError> {
    let mut all = Reach::default();
    let each = exprs.iter().map(|expr| {
        let (expr, reach) = physical(expr, schema)?;
        all = all.and(reach);
        Ok(expr)
    });
    let exprs = each.collect::<Result<_, _>>()?;
    Ok((exprs, all))
}
