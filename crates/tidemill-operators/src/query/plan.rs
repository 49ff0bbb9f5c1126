//! From SQL to steps: DataFusion parses, finds names and types; its plan, which must be a chain over
//! one table, is taken apart.

use super::{Query, Step, group::GroupPlan, sort::SortPlan};
use crate::expr::{ExprError, functions, plan_error, refuse_volatile, syntax_error};
use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion_common::{
    DFSchema, DataFusionError, Result as Planned, TableReference, config::ConfigOptions, plan_err,
};
use datafusion_expr::{
    AggregateUDF, Distinct, Expr as Logical, FetchType, HigherOrderUDF, LogicalPlan, ScalarUDF,
    SkipType, TableSource, WindowUDF,
    execution_props::ExecutionProps,
    logical_plan::builder::LogicalTableSource,
    planner::{ContextProvider, ExprPlanner},
    simplify::SimplifyContext,
};
use datafusion_functions_aggregate::planner::AggregateFunctionPlanner;
use datafusion_optimizer::{Analyzer, simplify_expressions::ExprSimplifier};
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion_sql::{
    planner::{ParserOptions, SqlToRel},
    sqlparser::{
        ast::{self, Statement, Visit, Visitor},
        dialect::GenericDialect,
        keywords::Keyword,
        parser::Parser,
        tokenizer::{Token, Tokenizer},
    },
};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, LazyLock},
};

/// Longest query, in bytes.
const SQL_BYTES_MAX: usize = 64 << 10;
/// Most operators of a query. Planning them, nested as deeply as the parser lets, takes less than the
/// eight megabytes of stack that a thread of a node has, in a build without optimization too.
const OPERATORS_MAX: usize = 48;

/// What a query may name.
struct Names<'a> {
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

impl ContextProvider for Names<'_> {
    fn get_table_source(&self, name: TableReference) -> Planned<Arc<dyn TableSource>> {
        match self.tables.iter().find(|(table, _)| table == name.table()) {
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

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        functions::shared().get_function_meta(name)
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
        functions::shared().options()
    }

    fn udf_names(&self) -> Vec<String> {
        functions::shared().udf_names()
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
    let statement = parse(sql)?;
    let mut planners = functions::shared().get_expr_planners().to_vec();
    planners.push(Arc::new(AggregateFunctionPlanner));
    let names = Names { tables, planners };
    let options = ParserOptions {
        enable_ident_normalization: false,
        map_string_types_to_utf8view: false,
        collect_spans: true,
        ..ParserOptions::default()
    };
    let planner = SqlToRel::new_with_options(&names, options);
    let plan = planner.sql_statement_to_plan(statement).map_err(|it| placed(&it))?;
    let analyzer = Analyzer::new();
    let plan = analyzer.execute_and_check(plan, names.options(), |_, _| {});
    let plan = plan.map_err(|it| placed(&it))?;
    if plan.schema().fields().is_empty() {
        let mut error = ExprError::new("the query names no columns");
        error.expected = Some("`SELECT *`, or columns between `SELECT` and `FROM`".to_owned());
        return Err(error);
    }
    let mut steps = Vec::new();
    let table = chain(&plan, &mut steps)?;
    let table = tables.iter().position(|(name, _)| *name == table);
    let table = table.ok_or_else(|| ExprError::new("the query reads no table"))?;
    Ok(Query { table, steps, schema: schema_of(plan.schema()) })
}

/// Parses one `SELECT` over one table, whose nesting is bounded: planning goes as deep, on a stack.
fn parse(sql: &str) -> Result<Statement, ExprError> {
    if sql.len() > SQL_BYTES_MAX {
        return Err(ExprError::new(format!("the query has more than {SQL_BYTES_MAX} bytes")));
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| syntax_error(&error.to_string()))?;
    if let Some(token) = tokens.iter().filter(|it| deepens(&it.token)).nth(OPERATORS_MAX) {
        let error = ExprError::new(format!("the query has more than {OPERATORS_MAX} operators"));
        return Err(error.at(token.span.start));
    }
    let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statements().map_err(|error| syntax_error(&error.to_string()))?;
    let Ok([statement]) = <[Statement; 1]>::try_from(parsed) else {
        return Err(ExprError::new("there must be one statement"));
    };
    if !matches!(statement, Statement::Query(_)) {
        return Err(ExprError::new("only `SELECT` is possible: a state can be looked at"));
    }
    match statement.visit(&mut OneTable) {
        ControlFlow::Continue(()) => Ok(statement),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Whether what is parsed may become deeper with a token, beyond what the parser itself bounds.
fn deepens(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::XOR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::RLIKE
                | Keyword::REGEXP
                | Keyword::SIMILAR
                | Keyword::BETWEEN
                | Keyword::OVERLAPS
                | Keyword::COLLATE
                | Keyword::OPERATOR
                | Keyword::AT
                | Keyword::DIV
                | Keyword::NOTNULL
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::MINUS
        ),
        Token::Comma | Token::Period | Token::SemiColon | Token::LParen | Token::RParen => false,
        Token::Number(..) | Token::SingleQuotedString(_) | Token::Whitespace(_) | Token::EOF => {
            false
        }
        _ => true,
    }
}

/// Refuses what is no query over one table, before names and types are looked for.
struct OneTable;

impl Visitor for OneTable {
    type Break = ExprError;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<ExprError> {
        match &*query.body {
            ast::SetExpr::Select(select) => {
                let more = select.from.len() > 1;
                match more || select.from.iter().any(|it| !it.joins.is_empty()) {
                    true => ControlFlow::Break(not_known("joins")),
                    false => ControlFlow::Continue(()),
                }
            }
            ast::SetExpr::SetOperation { .. } => ControlFlow::Break(not_known("unions")),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn not_known(what: &str) -> ExprError {
    ExprError::new(format!("{what} are not known here"))
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

/// The steps of a plan, in the order in which rows meet them; gives back the table.
fn chain(plan: &LogicalPlan, steps: &mut Vec<Step>) -> Result<String, ExprError> {
    let refused = |what: &str| Err(not_known(what));
    Ok(match plan {
        LogicalPlan::TableScan(it) => it.table_name.table().to_owned(),
        LogicalPlan::SubqueryAlias(it) => chain(&it.input, steps)?,
        LogicalPlan::Projection(it) => {
            let table = chain(&it.input, steps)?;
            let exprs = it.expr.iter().map(|expr| physical(expr, it.input.schema()));
            steps.push(Step::Project(exprs.collect::<Result<_, _>>()?, schema_of(&it.schema)));
            table
        }
        LogicalPlan::Filter(it) => {
            let table = chain(&it.input, steps)?;
            steps.push(Step::Filter(physical(&it.predicate, it.input.schema())?));
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

/// The columns of a plan, all of which may be null.
pub(super) fn schema_of(schema: &DFSchema) -> SchemaRef {
    let nullable = |it: &Arc<arrow_schema::Field>| it.as_ref().clone().with_nullable(true);
    Arc::new(Schema::new(schema.as_arrow().fields().iter().map(nullable).collect::<Vec<_>>()))
}

/// An expression with its types settled and its constants computed.
pub(super) fn simple(expr: Logical, schema: &DFSchema) -> Result<Logical, ExprError> {
    refuse_volatile(&expr)?;
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::new(ConfigOptions::default()))
        .build();
    let simplifier = ExprSimplifier::new(context);
    let simple = simplifier.coerce(expr, schema).and_then(|expr| simplifier.simplify(expr));
    simple.map_err(|error| placed(&error))
}

/// An expression that is ready to run.
pub(super) fn physical(
    expr: &Logical,
    schema: &DFSchema,
) -> Result<Arc<dyn PhysicalExpr>, ExprError> {
    let simple = simple(expr.clone(), schema)?;
    create_physical_expr(&simple, schema, &ExecutionProps::new(), &Default::default())
        .map_err(|error| placed(&error))
}
