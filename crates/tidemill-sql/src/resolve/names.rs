//! Names in an expression: each must be there, and an error says which name is near.

use crate::{
    catalogue::{JOB_AGGREGATES, registry},
    error::ExprError,
    passes::like,
};
use arrow_schema::SchemaRef;
use datafusion_sql::sqlparser::{
    ast::{self, Visit, Visitor},
    tokenizer::Span,
};
use std::ops::ControlFlow;
use tidemill_types::{TIME_COLUMN, signs};

/// The name among `names` that is most like `wrong`, if any is near enough to be meant.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    if let Some(twin) = names.iter().find(|it| signs::look_alike(wrong, it)) {
        return Some((*twin).to_owned());
    }
    let lower = wrong.to_lowercase();
    let far = wrong.chars().count().div_ceil(3).max(1);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, name)| (*distance, name.len()))
        .map(|(_, name)| name.to_owned())
}

struct NameCheck<'a> {
    input: &'a SchemaRef,
    /// Where names of parts stand, as `part` in `column[1].part`: they are no columns.
    parts: Vec<Span>,
}

/// Checks all columns and functions that an expression names.
pub(crate) fn check(parsed: &ast::Expr, input: &SchemaRef) -> Result<(), ExprError> {
    match parsed.visit(&mut NameCheck { input, parts: Vec::new() }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

impl Visitor for NameCheck<'_> {
    type Break = ExprError;

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<ExprError> {
        match expr {
            ast::Expr::Identifier(ident) if self.parts.contains(&ident.span) => {
                ControlFlow::Continue(())
            }
            ast::Expr::Identifier(ident) => self.column(ident),
            ast::Expr::CompoundFieldAccess { root, access_chain } => {
                self.parts_of(root, access_chain)
            }
            ast::Expr::CompoundIdentifier(idents) => {
                // `struct.field`: the first part is the column.
                idents.first().map_or(ControlFlow::Continue(()), |ident| self.column(ident))
            }
            ast::Expr::Function(function) => call(function),
            ast::Expr::Like { .. } | ast::Expr::ILike { .. } => like::check_sign(expr),
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => {
                ControlFlow::Break(ExprError::new("a `SELECT` has no place in an expression"))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

impl NameCheck<'_> {
    /// Notes the names of parts: those directly behind a column, as others are not planned.
    fn parts_of(&mut self, root: &ast::Expr, chain: &[ast::AccessExpr]) -> ControlFlow<ExprError> {
        let mut is_behind_column = matches!(root, ast::Expr::Identifier(_));
        for access in chain {
            match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(part)) if is_behind_column => {
                    self.parts.push(part.span);
                }
                ast::AccessExpr::Dot(ast::Expr::Identifier(part)) => {
                    let message = format!("`.{}` does not go behind brackets", part.value);
                    let mut error = ExprError::new(message).at(part.span.start);
                    error.expected = Some(format!("brackets again: `['{}']`", part.value));
                    return ControlFlow::Break(error);
                }
                _ => is_behind_column = false,
            }
        }
        ControlFlow::Continue(())
    }

    fn column(&self, ident: &ast::Ident) -> ControlFlow<ExprError> {
        let visible = || {
            let names = self.input.fields().iter().map(|field| field.name().as_str());
            names.filter(|name| *name != TIME_COLUMN)
        };
        if visible().any(|name| name == ident.value) {
            return ControlFlow::Continue(());
        }
        let error = ExprError::new(format!("unknown column `{}`", ident.value));
        let mut error = error.at(ident.span.start);
        let names: Vec<String> = visible().map(|name| format!("`{name}`")).collect();
        error.expected = Some(format!("one of {}", names.join(", ")));
        error.nearest = nearest(&ident.value, visible());
        error.message.push_str(&signs::note(&ident.value, error.nearest.as_deref()));
        ControlFlow::Break(error)
    }
}

fn call(function: &ast::Function) -> ControlFlow<ExprError> {
    let functions = registry::shared();
    let name = function.name.to_string();
    if functions.has(&name) {
        return ControlFlow::Continue(());
    }
    let place = function.name.0.first().and_then(|part| part.as_ident());
    let mut error = ExprError::new(format!("unknown function `{name}`"));
    if let Some(ident) = place {
        error = error.at(ident.span.start);
    }
    if JOB_AGGREGATES.contains(&name.to_lowercase().as_str()) {
        error.message = format!("`{name}` is an aggregate, and no function of one row");
        error.expected = Some("it under `aggregate`, with a `window`".to_owned());
        return ControlFlow::Break(error);
    }
    error.nearest = nearest(&name, functions.names());
    error.message.push_str(&signs::note(&name, error.nearest.as_deref()));
    ControlFlow::Break(error)
}
