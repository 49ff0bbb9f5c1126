//! The last passes before an expression becomes physical:
//!
//! 1. functions become the catalogue's, types are coerced, and functions that DataFusion runs only in
//!    another form get that form,
//! 2. constants are evaluated,
//! 3. a comparison of a cast column with a constant becomes one of the column with the cast constant,
//! 4. `in` and `case x when` compare like `=`.
//!
//! Nothing else is simplified. DataFusion's simplifier also merges lists of `in`, and rewrites signs and
//! patterns in ways that change the result for nulls and negative numbers. It gets constants only.

use super::{like, operands::OperandRewriter};
use crate::{
    catalogue::{self, registry},
    evaluate::{canonical, floats, physical},
};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema, TimeUnit};
use datafusion_common::{
    DFSchema, DataFusionError, ScalarValue,
    config::ConfigOptions,
    plan_err,
    tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{
    Between, BinaryExpr, Case, Cast, ColumnarValue, Expr as Logical, ExprSchemable, Operator,
    expr::{InList, ScalarFunction},
    planner::ContextProvider,
    simplify::{ExprSimplifyResult, SimplifyContext},
};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

/// Most nodes that copies of repeated parts may add to an expression.
const REPEATED_NODES_MAX: usize = 100_000;

/// Coerces and simplifies expressions over one schema.
pub(crate) struct Coercion<'a> {
    schema: &'a DFSchema,
    context: SimplifyContext,
    simplifier: ExprSimplifier,
}

impl<'a> Coercion<'a> {
    pub(crate) fn new(schema: &'a DFSchema) -> Self {
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(schema.clone()))
            .with_config_options(Arc::new(ConfigOptions::default()))
            .build();
        Self { schema, simplifier: ExprSimplifier::new(context.clone()), context }
    }

    /// The expression with the catalogue's functions, and with casts where its types differ.
    pub(crate) fn typed(&self, expr: Logical) -> Result<Logical, DataFusionError> {
        let expr = expr.transform_up(|node| Ok(called_here(node))).data()?;
        let expr = expr.transform_up(like::escaped).data()?;
        let expr = self.coerced(expr)?;
        let Transformed { data: expr, transformed: has_body, .. } =
            expr.transform_up(|node| self.with_body(node))?;
        if has_body { self.coerced(expr) } else { Ok(expr) }
    }

    /// The expression with casts where its types differ, and nothing else.
    pub(crate) fn coerced(&self, expr: Logical) -> Result<Logical, DataFusionError> {
        expr.rewrite(&mut OperandRewriter::new(self.schema)).data()
    }

    /// Runs passes 2 to 4 of this module. Types must be coerced, and all functions must be pure.
    pub(crate) fn finished(&self, expr: Logical) -> Result<Logical, DataFusionError> {
        let first = self.in_form(expr)?;
        // A type may follow from a constant that was computed only now, such as the digits of
        // `round(price, 1)`, and what is beside it is cast to that, or it to what is beside it.
        let typed = self.typed(first.clone())?;
        if typed == first { Ok(first) } else { self.in_form(typed) }
    }

    fn in_form(&self, expr: Logical) -> Result<Logical, DataFusionError> {
        let expr = expr.transform_down(|node| self.computed(node)).data()?;
        let expr = expr.transform_up(|node| Ok(self.compared(node))).data()?;
        expr.transform_up(|node| self.listed(node)).data()
    }

    fn with_body(&self, node: Logical) -> Result<Transformed<Logical>, DataFusionError> {
        let Logical::ScalarFunction(call) = node else { return Ok(Transformed::no(node)) };
        if catalogue::function(call.func.name()).is_none_or(|row| row.has_body) {
            return Ok(Transformed::no(Logical::ScalarFunction(call)));
        }
        call.args.iter().try_for_each(|it| may_be_repeated(it, 1))?;
        Ok(match call.func.simplify(call.args, &self.context)? {
            ExprSimplifyResult::Simplified(other) => Transformed::yes(other),
            ExprSimplifyResult::Original(args) => {
                let call = ScalarFunction { func: call.func, args };
                Transformed::no(Logical::ScalarFunction(call))
            }
        })
    }

    /// The value of a constant expression. A cast that fails is refused. Any other constant that fails stays
    /// an expression, because it may stand in a branch that no row takes.
    fn computed(&self, node: Logical) -> Result<Transformed<Logical>, DataFusionError> {
        if matches!(node, Logical::Literal(..)) || node.any_column_refs() {
            return Ok(Transformed::no(node));
        }
        let Ok(value) = self.value(node.clone()) else {
            // What DataFusion has too many digits for, it writes without one of them.
            if let Logical::Literal(value, _) = self.simplifier.simplify(node.clone())?
                && value.data_type().is_decimal()
            {
                canonical::with_digits(&value.to_array()?)?;
            }
            return Ok(Transformed::no(node));
        };
        Ok(match Some(value.data_type()) == node.get_type(self.schema).ok() {
            true => Transformed::yes(Logical::Literal(value, None)),
            false => Transformed::no(node),
        })
    }

    fn value(&self, constant: Logical) -> Result<ScalarValue, DataFusionError> {
        let constant = constant.transform_up(|node| self.listed(node)).data()?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
        match physical::physical(&constant, &DFSchema::empty())?.evaluate(&one)? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
        }
    }

    /// A comparison of a cast with a constant, as one of its operand.
    fn compared(&self, node: Logical) -> Transformed<Logical> {
        let made = match &node {
            Logical::BinaryExpr(it) => {
                let swapped = || it.op.swap().map(|op| (&it.right, op, &it.left));
                let turned = [Some((&it.left, it.op, &it.right)), swapped()];
                turned.into_iter().flatten().find_map(|(cast, op, constant)| {
                    let (left, right) = self.uncast(cast, op, [&**constant])?;
                    let right = Box::new(right.into_iter().next()?);
                    Some(Logical::BinaryExpr(BinaryExpr { left, op, right }))
                })
            }
            Logical::Between(it) => {
                // Whether bounds count does not change what they are cast to.
                let bounds = [&*it.low, &*it.high];
                self.uncast(&it.expr, Operator::LtEq, bounds).and_then(|(expr, bounds)| {
                    let [low, high] = <[Logical; 2]>::try_from(bounds).ok()?.map(Box::new);
                    Some(Logical::Between(Between { expr, negated: it.negated, low, high }))
                })
            }
            Logical::InList(it) => {
                let uncast = self.uncast(&it.expr, Operator::Eq, &it.list);
                let negated = it.negated;
                uncast.map(|(expr, list)| Logical::InList(InList { expr, list, negated }))
            }
            _ => None,
        };
        made.map_or_else(|| Transformed::no(node), Transformed::yes)
    }

    /// The operand of a cast, and the constants in its type. None if a constant has no equal in that type.
    fn uncast<'b>(
        &self,
        cast: &Logical,
        op: Operator,
        constants: impl IntoIterator<Item = &'b Logical>,
    ) -> Option<(Box<Logical>, Vec<Logical>)> {
        let Logical::Cast(Cast { expr, field }) = cast else { return None };
        let held = expr.get_type(self.schema).ok()?;
        if !is_comparison(op) || !keeps_all(&held, field.data_type()) {
            return None;
        }
        let one = |constant: &Logical| {
            let Logical::Literal(value, _) = constant else { return None };
            let in_its_type = value.cast_to(&held).ok()?;
            // A constant with more digits than the type has lies between its values.
            let is_one = in_its_type.cast_to(field.data_type()).ok()? == *value;
            is_one.then_some(Logical::Literal(in_its_type, None))
        };
        let constants: Option<Vec<Logical>> = constants.into_iter().map(one).collect();
        Some((expr.clone(), constants?))
    }

    /// `in` and `case x when` as a chain of `=`. DataFusion's own compare all bits of floats, which have two
    /// zeros and many NaN, and its `in` takes a list for constants if it can be evaluated without a row.
    fn listed(&self, node: Logical) -> Result<Transformed<Logical>, DataFusionError> {
        let (expr, list, negated) = match node {
            Logical::InList(InList { expr, list, negated }) => (expr, list, negated),
            Logical::Case(Case { expr: Some(of), when_then_expr, else_expr }) => {
                if self.is_of_zeros(&of)? {
                    may_be_repeated(&of, when_then_expr.len())?;
                    let equal = |when: Box<Logical>| Box::new(of.as_ref().clone().eq(*when));
                    let branches = when_then_expr.into_iter();
                    let when_then_expr = branches.map(|(when, then)| (equal(when), then)).collect();
                    let case = Case { expr: None, when_then_expr, else_expr };
                    return Ok(Transformed::yes(Logical::Case(case)));
                }
                let Some(zero) = self.zero(&of)? else {
                    let case = Case { expr: Some(of), when_then_expr, else_expr };
                    return Ok(Transformed::no(Logical::Case(case)));
                };
                let branch = |(when, then): (Box<Logical>, _)| {
                    Ok((Box::new(with_one_zero(*when, &zero)?), then))
                };
                let when_then_expr = when_then_expr
                    .into_iter()
                    .map(branch)
                    .collect::<Result<_, DataFusionError>>()?;
                let expr = Some(Box::new(with_one_zero(*of, &zero)?));
                return Ok(Transformed::yes(Logical::Case(Case {
                    expr,
                    when_then_expr,
                    else_expr,
                })));
            }
            other => return Ok(Transformed::no(other)),
        };
        let zero = self.zero(&expr)?;
        let is_of_zeros = self.is_of_zeros(&expr)?;
        let is_constant = |it: &Logical| !is_of_zeros && matches!(it, Logical::Literal(..));
        if list.is_empty() || (zero.is_none() && list.iter().all(is_constant)) {
            return Ok(Transformed::no(Logical::InList(InList { expr, list, negated })));
        }
        let (constants, others): (Vec<_>, Vec<_>) = list.into_iter().partition(is_constant);
        may_be_repeated(&expr, others.len())?;
        let mut any: Vec<Logical> =
            others.into_iter().map(|it| expr.as_ref().clone().eq(it)).collect();
        if !constants.is_empty() {
            let (mut listed, mut list) = (expr, constants);
            if let Some(zero) = zero {
                let one = |it| with_one_zero(it, &zero);
                list = list.into_iter().map(one).collect::<Result<_, DataFusionError>>()?;
                listed = Box::new(with_one_zero(*listed, &zero)?);
            }
            // Where these decide, nobody asks the others, which may have no value.
            any.insert(0, Logical::InList(InList { expr: listed, list, negated: false }));
        }
        let any = either(any);
        Ok(Transformed::yes(if negated { Logical::Not(Box::new(any)) } else { any }))
    }

    /// Returns true for lists and objects with floats; DataFusion compares them correctly only with `=`.
    fn is_of_zeros(&self, expr: &Logical) -> Result<bool, DataFusionError> {
        let data_type = expr.get_type(self.schema)?;
        Ok(data_type.is_nested() && floats::has_floats(&data_type))
    }

    /// The zero of a float's type.
    fn zero(&self, expr: &Logical) -> Result<Option<ScalarValue>, DataFusionError> {
        let data_type = expr.get_type(self.schema)?;
        data_type.is_floating().then(|| ScalarValue::new_zero(&data_type)).transpose()
    }
}

/// A float with one zero, and a constant with one NaN.
fn with_one_zero(expr: Logical, zero: &ScalarValue) -> Result<Logical, DataFusionError> {
    match expr {
        Logical::Literal(value, _) if !value.is_null() => {
            let value = match canonical::of_constant(&value) {
                Some(value) => value,
                None => value.add(zero)?,
            };
            Ok(Logical::Literal(value, None))
        }
        Logical::Literal(..) => Ok(expr),
        other => {
            let (left, right) = (Box::new(other), Box::new(Logical::Literal(zero.clone(), None)));
            Ok(Logical::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }))
        }
    }
}

/// The disjunction of at least one condition, as a balanced tree, because a list may be long.
fn either(mut any: Vec<Logical>) -> Logical {
    while any.len() > 1 {
        let mut all = any.into_iter();
        any = Vec::with_capacity(all.len().div_ceil(2));
        while let Some(one) = all.next() {
            any.push(match all.next() {
                Some(other) => one.or(other),
                None => one,
            });
        }
    }
    any.swap_remove(0)
}

/// Refuses an expression that is too large to be copied this many times. Nested copies multiply.
fn may_be_repeated(expr: &Logical, times: usize) -> Result<(), DataFusionError> {
    let most = REPEATED_NODES_MAX.checked_div(times).unwrap_or(usize::MAX);
    let mut nodes = 0;
    expr.apply(|_| {
        nodes += 1;
        Ok(if nodes > most { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if nodes <= most {
        return Ok(());
    }
    plan_err!(
        "`coalesce`, `nvl` and `in` are nested too deeply: each computes what is in it more than once"
    )
}

/// Returns true for `coalesce`. `nvl` casts its arguments to another type.
fn takes_first(call: &ScalarFunction) -> bool {
    call.func.name() == "coalesce"
}

/// A call of the catalogue's function of this name: operators such as `@>` call DataFusion's own. A
/// `coalesce` within another is merged into it: as `case`, each would copy its first argument, and nested
/// ones would multiply.
fn called_here(node: Logical) -> Transformed<Logical> {
    let Logical::ScalarFunction(mut call) = node else { return Transformed::no(node) };
    let is_first = |it: &Logical| matches!(it, Logical::ScalarFunction(it) if takes_first(it));
    if takes_first(&call) && call.args.iter().any(is_first) {
        let args = call.args.into_iter().flat_map(|it| match it {
            Logical::ScalarFunction(inner) if takes_first(&inner) => inner.args,
            other => vec![other],
        });
        call.args = args.collect();
        return Transformed::yes(Logical::ScalarFunction(call));
    }
    match registry::shared().get_function_meta(call.func.name()) {
        Some(here) if *here != *call.func => {
            call.func = here;
            Transformed::yes(Logical::ScalarFunction(call))
        }
        _ => Transformed::no(Logical::ScalarFunction(call)),
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Returns true if the cast maps different values to different values, in the same order.
fn keeps_all(from: &DataType, to: &DataType) -> bool {
    let digits = |it: TimeUnit| match it {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    match (from, to) {
        (DataType::Timestamp(from, from_zone), DataType::Timestamp(to, to_zone)) => {
            let clock = |zone: &Option<Arc<str>>| zone.as_deref().unwrap_or("UTC").to_owned();
            digits(*from) <= digits(*to) && clock(from_zone) == clock(to_zone)
        }
        (from, to) if from.is_signed_integer() && to.is_signed_integer() => {
            from.primitive_width() <= to.primitive_width()
        }
        (from, to) if from.is_unsigned_integer() && to.is_unsigned_integer() => {
            from.primitive_width() <= to.primitive_width()
        }
        (from, to) if from.is_unsigned_integer() && to.is_signed_integer() => {
            from.primitive_width() < to.primitive_width()
        }
        (DataType::Date32, DataType::Timestamp(_, _)) => true,
        (from, to) => from.is_string() && to.is_string(),
    }
}
