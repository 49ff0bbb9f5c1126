//! The largest size of an expression's results, known before evaluation.
//!
//! A function builds its whole result before the caller can check its size. The reach of an expression is
//! therefore computed from its text: the result of a row has at most `times` the bytes of that row plus
//! `plus` bytes, intermediate results included. The expression then gets rows in pieces that fit, and
//! constants are evaluated only after this check. Three rules make the bound possible:
//!
//! - A length, and a replacement text, must be a constant.
//! - A function without a bound is refused; a test goes through all registered functions.
//! - A regular expression must be a constant: each one compiles to some megabytes that stay in memory.
//!
//! The same walk counts the copies that planning makes of parts of an expression: `coalesce` copies its
//! arguments, so that each level of nesting doubles the expression.

use super::admission::not_known;
use crate::{
    catalogue::{self, growth::ResultReach},
    error::{ExprError, plan_error},
    passes::{arithmetic, like},
};
use arrow_schema::DataType;
use datafusion_common::{
    DFSchema, ScalarValue,
    tree_node::{TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{
    Cast, Expr as Logical, ExprSchemable, Operator, TryCast, expr::ScalarFunction,
};

/// Largest length that an argument may ask for.
const LENGTH_MAX: u64 = 4_096;
/// Bytes that an expression may make independent of the size of a row.
const CONSTANT_BYTES_MAX: u64 = 16 << 20;
/// Most nodes that an expression may have, copies counted and constants not.
const COPIES_MAX: u64 = 2_048;
/// Largest result of a fixed size, and the overhead of any other result.
const FIXED_BYTES: u64 = 64;

/// The bound of a result of a fixed size.
const FIXED: Reach = Reach { times: 0, plus: FIXED_BYTES };

/// The bound of a result: `times` the bytes of its row, plus `plus` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    times: u64,
    plus: u64,
}

impl Reach {
    /// The encoded form of a key, in addition to its value.
    pub(super) const KEY: Self = Self { times: 2, plus: FIXED_BYTES };

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            times: self.times.saturating_add(other.times),
            plus: self.plus.saturating_add(other.plus),
        }
    }

    fn scaled(self, by: u64) -> Self {
        Self { times: self.times.saturating_mul(by), plus: self.plus.saturating_mul(by) }
    }

    fn plus(self, bytes: u64) -> Self {
        self.and(Self { times: 0, plus: bytes })
    }

    /// Refuses constants that are too large to be computed before any row is seen.
    pub(super) fn of_constants(self) -> Result<(), ExprError> {
        if self.plus > CONSTANT_BYTES_MAX {
            let mib = CONSTANT_BYTES_MAX >> 20;
            return Err(ExprError::new(format!(
                "an expression makes more than {mib} MiB for a row"
            )));
        }
        Ok(())
    }

    /// The bound in bytes for rows of a known size.
    pub(super) fn of_rows(self, bytes: usize, rows: usize) -> usize {
        let content = self.times.saturating_mul(bytes as u64);
        let all = content.saturating_add(self.plus.saturating_mul(rows as u64));
        usize::try_from(all).unwrap_or(usize::MAX)
    }
}

/// The bound of a function's result. None if the function has none.
fn bound(name: &str) -> Option<ResultReach> {
    match name {
        like::ESCAPED => Some(ResultReach::Sum(2)),
        arithmetic::DAYS_AFTER | arithmetic::DAYS_BEFORE | arithmetic::LENGTH => {
            Some(ResultReach::Sum(1))
        }
        _ => catalogue::function(name)?.reach,
    }
}

/// True if a query may call a function.
#[cfg(test)]
pub(super) fn is_judged(name: &str) -> bool {
    bound(name).is_some()
}

/// The bound of an expression, intermediate results included.
pub(super) fn of(expr: &Logical, schema: &DFSchema) -> Result<Reach, ExprError> {
    let mut walk = Walk { schema, made: Reach::default() };
    walk.result(expr)?;
    Ok(walk.made)
}

struct Walk<'a> {
    schema: &'a DFSchema,
    made: Reach,
}

impl Walk<'_> {
    /// The bound of an expression's result, and the number of its nodes after planning.
    fn result(&mut self, expr: &Logical) -> Result<(Reach, u64), ExprError> {
        match expr {
            Logical::Alias(it) => return self.result(&it.expr),
            Logical::Column(_) => {
                let whole = Reach { times: 1, plus: 0 };
                return Ok((if is_fixed(&self.type_of(expr)?) { FIXED } else { whole }, 1));
            }
            Logical::Literal(value, _) => {
                let constant = Reach { times: 0, plus: value.size() as u64 };
                self.made = self.made.and(constant);
                return Ok((constant, 0));
            }
            _ => {}
        }
        let mut parts = Vec::new();
        let mut nodes = 1_u64;
        for part in parts_of(expr)? {
            let (reach, of_part) = self.result(part)?;
            nodes = nodes.saturating_add(of_part);
            parts.push(reach);
        }
        let nodes = nodes.saturating_mul(copies(expr));
        if nodes > COPIES_MAX {
            return Err(ExprError::new(
                "`CASE`, `BETWEEN`, `IN` and `coalesce` are nested too deeply: each computes what is in it more than once",
            ));
        }
        let mut made = made_by(expr, &parts)?;
        // As a text, an element of a list is longer than it was: a truth value is a bit there.
        if let Logical::Cast(Cast { expr, .. }) | Logical::TryCast(TryCast { expr, .. }) = expr
            && self.type_of(expr)?.is_nested()
        {
            made = made.scaled(FIXED_BYTES);
        }
        let data_type = self.type_of(expr)?;
        if data_type.to_string().contains("FixedSize") {
            return Err(not_known("types of a fixed number of bytes or elements"));
        }
        let made = if is_fixed(&data_type) { FIXED } else { made.and(FIXED) };
        self.made = self.made.and(made);
        Ok((made, nodes))
    }

    fn type_of(&self, expr: &Logical) -> Result<DataType, ExprError> {
        expr.get_type(self.schema).map_err(|error| plan_error(&error))
    }
}

fn is_fixed(data_type: &DataType) -> bool {
    data_type.is_primitive() || *data_type == DataType::Boolean
}

fn parts_of(expr: &Logical) -> Result<Vec<&Logical>, ExprError> {
    let mut parts = Vec::new();
    let walked = expr.apply_children(|part| {
        parts.push(part);
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(|error| plan_error(&error))?;
    Ok(parts)
}

/// The number of copies of an expression's parts that planning makes.
fn copies(expr: &Logical) -> u64 {
    match expr {
        Logical::Between(_) | Logical::Case(_) => 2,
        Logical::InList(_) => 3,
        Logical::ScalarFunction(call) => {
            catalogue::function(call.func.name()).map_or(1, |row| row.copies)
        }
        _ => 1,
    }
}

/// The bound of an expression's results, given those of its parts.
fn made_by(expr: &Logical, parts: &[Reach]) -> Result<Reach, ExprError> {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    let all = parts.iter().copied().fold(Reach::default(), Reach::and);
    match expr {
        Logical::ScalarFunction(call) => made_by_call(call, parts, all),
        Logical::BinaryExpr(it)
            if matches!(it.op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch) =>
        {
            constant(Some(&it.right), "the regular expression")?;
            Ok(all)
        }
        Logical::SimilarTo(it) => {
            constant(Some(&it.pattern), "the pattern of `SIMILAR TO`")?;
            Ok(all)
        }
        _ => Ok(all),
    }
}

fn made_by_call(
    ScalarFunction { func, args }: &ScalarFunction,
    parts: &[Reach],
    all: Reach,
) -> Result<Reach, ExprError> {
    let name = func.name();
    let Some(bound) = bound(name) else {
        let error = format!("`{name}` is not known in queries: its result may be of any size");
        return Err(ExprError::new(error));
    };
    if name.starts_with("regexp_") {
        constant(args.get(1), &format!("the regular expression of `{name}`"))?;
    }
    let first = parts.first().copied().unwrap_or_default();
    let argument = |nth: usize| format!("argument {} of `{name}`", nth + 1);
    Ok(match bound {
        ResultReach::Sum(times) => all.scaled(times),
        ResultReach::Joined => all.and(first.scaled(parts.len() as u64)),
        ResultReach::Repeated(nth) => {
            first.plus(FIXED_BYTES).scaled(length(args.get(nth), &argument(nth))?)
        }
        ResultReach::Padded(nth) => {
            Reach::default().plus(4 * length(args.get(nth), &argument(nth))?)
        }
        ResultReach::Resized(nth) => {
            let by = length(args.get(nth), &argument(nth))?;
            all.and(parts.get(2).copied().unwrap_or_default().plus(FIXED_BYTES).scaled(by))
        }
        ResultReach::Replaced(with, more) => {
            let mut each = more;
            for nth in with.iter().filter(|nth| **nth < args.len()) {
                each += constant(args.get(*nth), &argument(*nth))?.map_or(0, |it| it.size() as u64);
            }
            first.plus(1).scaled(each)
        }
    })
}

/// The value of a constant argument. None if the argument is missing.
fn constant<'a>(
    arg: Option<&'a Logical>,
    argument: &str,
) -> Result<Option<&'a ScalarValue>, ExprError> {
    match arg {
        None => Ok(None),
        Some(Logical::Literal(value, _)) => Ok(Some(value)),
        Some(Logical::Alias(it)) => constant(Some(&it.expr), argument),
        Some(Logical::Cast(it)) => constant(Some(&it.expr), argument),
        Some(_) => Err(ExprError::new(format!("{argument} must be a constant in queries"))),
    }
}

/// The value of an argument that sets a length.
pub(super) fn length(arg: Option<&Logical>, argument: &str) -> Result<u64, ExprError> {
    let Some(value) = constant(arg, argument)? else { return Ok(0) };
    let number = value.cast_to(&DataType::Int64).map_err(|error| plan_error(&error))?;
    match number {
        ScalarValue::Int64(Some(number)) if number > LENGTH_MAX as i64 => {
            Err(ExprError::new(format!("{argument} must be at most {LENGTH_MAX} in queries")))
        }
        ScalarValue::Int64(Some(number)) => Ok(u64::try_from(number).unwrap_or(0)),
        _ => Ok(0),
    }
}
