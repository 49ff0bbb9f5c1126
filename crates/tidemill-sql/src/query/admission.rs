//! Admission of SQL, before names and types are resolved.
//!
//! Unsupported clauses are refused: DataFusion ignores some of them, and the answer would be that of
//! another question. And the depth of the syntax tree is bounded, because the parser, the planner and
//! `drop` recurse on the stack of a thread:
//!
//! | source of depth | bound |
//! | --- | --- |
//! | operators, which the parser reads in a loop | [`OPERATORS_MAX`], counted before parsing |
//! | brackets | [`NESTED_MAX`], counted before parsing |
//! | words before an expression, as `NOT` | the parser's own, 50 |
//! | queries, each of which may read the one before | [`QUERIES_MAX`], counted after parsing |

use super::plan::is_aggregate;
use crate::{
    error::{ExprError, syntax_error},
    parse::keywords,
    passes::like,
};
use datafusion_sql::sqlparser::{
    ast::{self, SetExpr, Statement, TableFactor, Visit, Visitor},
    dialect::GenericDialect,
    keywords::Keyword,
    parser::Parser,
    tokenizer::{Token, Tokenizer},
};
use std::ops::ControlFlow;

/// Longest query, in bytes.
const SQL_BYTES_MAX: usize = 64 << 10;
/// Most operators of a query. At the parser's largest nesting, planning them takes less than the eight
/// megabytes of stack of a node's threads, in a build without optimization too.
const OPERATORS_MAX: usize = 48;
/// Largest nesting of brackets.
const NESTED_MAX: usize = 48;
/// Most queries of a query: itself, those in `WITH` and those in `FROM`.
const QUERIES_MAX: usize = 16;
/// Most calls of `overlay`: each level of nesting doubles the time to plan.
const OVERLAYS_MAX: usize = 8;

/// Parses one `SELECT` over one table.
pub(super) fn parse(sql: &str) -> Result<Statement, ExprError> {
    if sql.len() > SQL_BYTES_MAX {
        return Err(ExprError::new(format!("the query has more than {SQL_BYTES_MAX} bytes")));
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| syntax_error(&error.to_string()))?;
    keywords::quote_names(&mut tokens);
    if let Some(token) = tokens.iter().filter(|it| deepens(&it.token)).nth(OPERATORS_MAX) {
        let error = ExprError::new(format!("the query has more than {OPERATORS_MAX} operators"));
        return Err(error.at(token.span.start));
    }
    let mut nested = 0_usize;
    for token in &tokens {
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => nested += 1,
            Token::RParen | Token::RBracket | Token::RBrace => nested = nested.saturating_sub(1),
            _ => {}
        }
        if nested > NESTED_MAX {
            let error = format!("the query has more than {NESTED_MAX} brackets within brackets");
            return Err(ExprError::new(error).at(token.span.start));
        }
    }
    let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statements().map_err(|error| syntax_error(&error.to_string()))?;
    let Ok([statement]) = <[Statement; 1]>::try_from(parsed) else {
        return Err(ExprError::new("there must be one statement"));
    };
    if !matches!(statement, Statement::Query(_)) {
        return Err(ExprError::new("only `SELECT` is possible: a state can be looked at"));
    }
    match statement.visit(&mut Admission { queries: 0, overlays: 0 }) {
        ControlFlow::Continue(()) => Ok(statement),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Returns true for tokens that deepen the syntax tree and that neither brackets nor the parser bound.
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
                | Keyword::MATCH
                | Keyword::MEMBER
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
                | Keyword::JOIN
                | Keyword::INTERVAL
        ),
        Token::Comma | Token::Period | Token::SemiColon | Token::LParen | Token::RParen => false,
        Token::Number(..) | Token::SingleQuotedString(_) | Token::Whitespace(_) | Token::EOF => {
            false
        }
        _ => true,
    }
}

pub(super) fn not_known(construct: &str) -> ExprError {
    ExprError::new(format!("{construct} are not known here"))
}

/// Refuses the first clause that is present.
fn none_of(constructs: &[(bool, &str)]) -> ControlFlow<ExprError> {
    match constructs.iter().find(|(is_there, _)| *is_there) {
        Some((_, name)) => ControlFlow::Break(ExprError::new(format!("{name} is not known here"))),
        None => ControlFlow::Continue(()),
    }
}

/// A visitor of the syntax tree that stops at the first refusal.
struct Admission {
    queries: usize,
    overlays: usize,
}

impl Visitor for Admission {
    type Break = ExprError;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<ExprError> {
        self.queries += 1;
        if self.queries > QUERIES_MAX {
            let error = format!("there are more than {QUERIES_MAX} queries within the query");
            return ControlFlow::Break(ExprError::new(error));
        }
        if matches!(&*query.body, SetExpr::SetOperation { .. }) {
            return ControlFlow::Break(not_known("unions"));
        }
        clauses_around(query)
    }

    fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<ExprError> {
        if select.from.len() > 1 {
            return ControlFlow::Break(not_known("joins"));
        }
        select.from.iter().try_for_each(without_joins)?;
        clauses_within(select)
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<ExprError> {
        table_alone(table)
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<ExprError> {
        let named = |it: &ast::Function| it.name.to_string().to_lowercase() == "overlay";
        let overlay = matches!(expr, ast::Expr::Overlay { .. })
            || matches!(expr, ast::Expr::Function(call) if named(call));
        self.overlays += usize::from(overlay);
        none_of(&[(self.overlays > OVERLAYS_MAX, "`overlay` more than eight times")])?;
        match expr {
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => {
                ControlFlow::Break(not_known("subqueries within expressions"))
            }
            ast::Expr::Map(_) => none_of(&[(true, "`map`")]),
            ast::Expr::Function(call) => call_alone(call),
            ast::Expr::Like { .. } | ast::Expr::ILike { .. } => like::check_sign(expr),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn without_joins(from: &ast::TableWithJoins) -> ControlFlow<ExprError> {
    match from.joins.is_empty() {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(not_known("joins")),
    }
}

/// Checks the clauses before and behind a `SELECT`. All fields are named, so that a new one of the parser
/// does not compile here.
fn clauses_around(query: &ast::Query) -> ControlFlow<ExprError> {
    let ast::Query {
        with,
        body: _,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    let limit_by = matches!(
        limit_clause,
        Some(ast::LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty()
    );
    let ordered = |it: &ast::OrderBy| match &it.kind {
        ast::OrderByKind::Expressions(all) => all.iter().any(|it| it.with_fill.is_some()),
        ast::OrderByKind::All(_) => false,
    };
    let hinted = |it: &ast::Cte| it.materialized.is_some() || it.from.is_some();
    none_of(&[
        (with.as_ref().is_some_and(|it| it.recursive), "`WITH RECURSIVE`"),
        (with.as_ref().is_some_and(|it| it.cte_tables.iter().any(hinted)), "`MATERIALIZED`"),
        (order_by.as_ref().is_some_and(ordered), "`WITH FILL`"),
        (order_by.as_ref().is_some_and(|it| it.interpolate.is_some()), "`INTERPOLATE`"),
        (limit_by, "`LIMIT … BY`"),
        (fetch.is_some(), "`FETCH`: write `LIMIT`, for it"),
        (!locks.is_empty(), "`FOR UPDATE`"),
        (for_clause.is_some(), "`FOR`"),
        (settings.is_some(), "`SETTINGS`"),
        (format_clause.is_some(), "`FORMAT`"),
        (!pipe_operators.is_empty(), "`|>`"),
    ])
}

/// Checks the clauses of a `SELECT`.
fn clauses_within(select: &ast::Select) -> ControlFlow<ExprError> {
    let ast::Select {
        select_token: _,
        optimizer_hints,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection: _,
        exclude,
        into,
        from: _,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor: _,
    } = select;
    let (ast::GroupByExpr::All(modifiers) | ast::GroupByExpr::Expressions(_, modifiers)) = group_by;
    none_of(&[
        (!optimizer_hints.is_empty(), "a hint"),
        (matches!(distinct, Some(ast::Distinct::On(_))), "`DISTINCT ON`"),
        (select_modifiers.is_some(), "a modifier of `SELECT`"),
        (top.is_some(), "`TOP`"),
        (exclude.is_some(), "`EXCLUDE` behind the columns"),
        (into.is_some(), "`INTO`"),
        (!lateral_views.is_empty(), "`LATERAL VIEW`"),
        (prewhere.is_some(), "`PREWHERE`"),
        (!connect_by.is_empty(), "`CONNECT BY`"),
        (!modifiers.is_empty(), "`WITH ROLLUP` and its like: such a grouping"),
        (!cluster_by.is_empty(), "`CLUSTER BY`"),
        (!distribute_by.is_empty(), "`DISTRIBUTE BY`"),
        (!sort_by.is_empty(), "`SORT BY`"),
        (!named_window.is_empty(), "`WINDOW`"),
        (qualify.is_some(), "`QUALIFY`"),
        (value_table_mode.is_some(), "`AS STRUCT` and `AS VALUE`: such a table"),
    ])
}

/// Checks an item of `FROM`, which must be a table or a query.
fn table_alone(table: &TableFactor) -> ControlFlow<ExprError> {
    let named = match table {
        TableFactor::Table {
            name: _,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            none_of(&[
                (args.is_some(), "a function in `FROM`"),
                (!with_hints.is_empty() || !index_hints.is_empty(), "a hint"),
                (version.is_some(), "an older version of a table: `--checkpoint` names one, it"),
                (*with_ordinality, "`WITH ORDINALITY`"),
                (!partitions.is_empty(), "`PARTITION`"),
                (json_path.is_some(), "a path behind a table"),
                (sample.is_some(), "`TABLESAMPLE`"),
            ])?;
            alias
        }
        TableFactor::Derived { lateral, subquery: _, alias, sample } => {
            none_of(&[(*lateral, "`LATERAL`"), (sample.is_some(), "`TABLESAMPLE`")])?;
            alias
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            without_joins(table_with_joins)?;
            alias
        }
        TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => {
            return none_of(&[(true, "`PIVOT`")]);
        }
        _ => return none_of(&[(true, "a function in `FROM`")]),
    };
    none_of(&[(named.as_ref().is_some_and(|it| it.at.is_some()), "`AT` behind a table")])
}

/// Checks the clauses of a call, most of which belong to aggregates only.
fn call_alone(call: &ast::Function) -> ControlFlow<ExprError> {
    let name = call.name.to_string();
    none_of(&[
        (call.over.is_some(), "`OVER`: a window function"),
        // Its type doubles with each level of nesting, and with it the time to plan it.
        (["map", "make_map"].contains(&&*name.to_lowercase()), "`map`"),
        (!matches!(call.parameters, ast::FunctionArguments::None), "a second list of arguments"),
    ])?;
    if is_aggregate(&name) {
        return ControlFlow::Continue(());
    }
    let distinct = matches!(
        &call.args,
        ast::FunctionArguments::List(it)
            if it.duplicate_treatment.is_some() || !it.clauses.is_empty()
    );
    none_of(&[
        (distinct, "`DISTINCT` or `ORDER BY` in the call of what is no aggregate"),
        (call.filter.is_some(), "`FILTER` behind what is no aggregate"),
        (call.null_treatment.is_some(), "`NULLS` behind what is no aggregate"),
        (!call.within_group.is_empty(), "`WITHIN GROUP` behind what is no aggregate"),
    ])
}
