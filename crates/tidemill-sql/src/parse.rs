//! Text to syntax: one SQL expression, with an upper bound of its depth.

use crate::error::{ExprError, syntax_error};
use datafusion_sql::sqlparser::{
    ast,
    dialect::GenericDialect,
    parser::Parser,
    tokenizer::{Token, Tokenizer},
};
use std::ops::ControlFlow;

pub(crate) mod call;
pub(crate) mod depth;
pub(crate) mod keywords;

/// The syntax tree of an expression.
pub(crate) struct Parsed {
    pub(crate) ast: ast::Expr,
    /// An upper bound of the tree's depth.
    pub(crate) depth: usize,
}

/// Parses one SQL expression; anything after it is refused.
pub(crate) fn parse(sql: &str) -> Result<Parsed, ExprError> {
    let syntax = |error: &dyn std::fmt::Display| syntax_error(&error.to_string());
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| syntax(&error))?;
    keywords::quote_names(&mut tokens);
    let depth = depth::checked(&tokens)?;
    let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens);
    let mut ast = parser.parse_expr().map_err(|error| syntax(&error))?;
    negate_whole_intervals(&mut ast);
    let next = parser.peek_token();
    if next.token == Token::EOF {
        return Ok(Parsed { ast, depth });
    }
    let mut error = ExprError::new(format!("unexpected `{}`", next.token)).at(next.span.start);
    error.expected = Some("the end of the expression".to_owned());
    Err(error)
}

/// Puts the interval of `-interval '1 month 2 days'` into brackets: without, DataFusion writes the sign
/// before the text, where it is that of the months alone.
fn negate_whole_intervals(ast: &mut ast::Expr) {
    let _ = ast::visit_expressions_mut(ast, |expr| {
        if let ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: length } = expr
            && matches!(**length, ast::Expr::Interval(_))
        {
            let null = ast::Expr::value(ast::Value::Null);
            let interval = std::mem::replace(&mut **length, null);
            **length = ast::Expr::Nested(Box::new(interval));
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Checks the syntax of an expression; its names and types are not resolved.
///
/// # Errors
/// The text is not an expression.
pub fn check_syntax(sql: &str) -> Result<(), ExprError> {
    parse(sql).map(|_| ())
}
