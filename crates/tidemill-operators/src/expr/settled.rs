//! Expressions that are ready to become physical ones:
//!
//! 1. functions that DataFusion runs only as other expressions have that form,
//! 2. constants are computed,
//! 3. what is cast to be compared with a constant is compared as it is, with the constant cast.
//!
//! Nothing else is changed: DataFusion's simplifier also merges lists of `in`, takes signs for
//! complements and patterns for what they mostly mean, and then rows are others where something is
//! null or negative. So it sees no more of an expression than a constant or one comparison.

use arrow_schema::{DataType, Field, TimeUnit};
use datafusion_common::{
    Column, DFSchema, DataFusionError, ScalarValue,
    config::ConfigOptions,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    Between, BinaryExpr, Cast, Expr as Logical, ExprSchemable, Operator,
    expr::InList,
    simplify::{ExprSimplifyResult, SimplifyContext},
};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

/// Functions without a body of their own.
const WITHOUT_BODY: [&str; 7] =
    ["arrow_cast", "arrow_try_cast", "cast_to_type", "coalesce", "nvl", "nvl2", "try_cast_to_type"];

/// Settles expressions over one schema.
pub(crate) struct Settling<'a> {
    schema: &'a DFSchema,
    context: SimplifyContext,
    simplifier: ExprSimplifier,
}

impl<'a> Settling<'a> {
    pub(crate) fn new(schema: &'a DFSchema) -> Self {
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(schema.clone()))
            .with_config_options(Arc::new(ConfigOptions::default()))
            .build();
        Self { schema, simplifier: ExprSimplifier::new(context.clone()), context }
    }

    /// The expression with casts where its types differ.
    pub(crate) fn typed(&self, expr: Logical) -> Result<Logical, DataFusionError> {
        self.simplifier.coerce(expr, self.schema)
    }

    /// See the module. Types are settled, and nothing of it differs from call to call.
    pub(crate) fn settled(&self, expr: Logical) -> Result<Logical, DataFusionError> {
        let first = self.in_form(expr)?;
        // A type may follow from a constant that was computed only now, such as the digits of
        // `round(price, 1)`, and what is beside it is cast to that, or it to what is beside it.
        let typed = self.typed(first.clone())?;
        if typed == first { Ok(first) } else { self.in_form(typed) }
    }

    fn in_form(&self, expr: Logical) -> Result<Logical, DataFusionError> {
        let expr = expr.transform_up(|node| self.with_body(node)).data()?;
        let expr = expr.transform_down(|node| self.computed(node)).data()?;
        expr.transform_up(|node| Ok(self.compared(node))).data()
    }

    fn with_body(&self, node: Logical) -> Result<Transformed<Logical>, DataFusionError> {
        let Logical::ScalarFunction(call) = node else { return Ok(Transformed::no(node)) };
        if !WITHOUT_BODY.contains(&call.func.name()) {
            return Ok(Transformed::no(Logical::ScalarFunction(call)));
        }
        Ok(match call.func.simplify(call.args, &self.context)? {
            ExprSimplifyResult::Simplified(other) => Transformed::yes(other),
            ExprSimplifyResult::Original(args) => {
                let call = datafusion_expr::expr::ScalarFunction { func: call.func, args };
                Transformed::no(Logical::ScalarFunction(call))
            }
        })
    }

    /// A constant. A cast without a value is refused; else one that has none stays as it is, for it
    /// may be in a branch that no row takes.
    fn computed(&self, node: Logical) -> Result<Transformed<Logical>, DataFusionError> {
        if matches!(node, Logical::Literal(..)) || node.any_column_refs() {
            return Ok(Transformed::no(node));
        }
        let data_type = |it: &Logical| it.get_type(self.schema).ok();
        Ok(match self.simplifier.simplify(node.clone())? {
            value @ Logical::Literal(..) if data_type(&value) == data_type(&node) => {
                Transformed::yes(value)
            }
            _ => Transformed::no(node),
        })
    }

    /// A comparison of something as it is.
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

    /// What is cast, and the constants that it is compared with in its type, if they all are there.
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
        let fields = vec![Field::new(COMPARED, held.clone(), true)];
        let schema = DFSchema::from_unqualified_fields(fields.into(), [].into()).ok()?;
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(schema))
            .with_config_options(Arc::new(ConfigOptions::default()))
            .build();
        let simplifier = ExprSimplifier::new(context);
        let column = || Box::new(Logical::Column(Column::new_unqualified(COMPARED)));
        let one = |constant: &Logical| {
            let Logical::Literal(value, _) = constant else { return None };
            if value.is_null() {
                return Some(Logical::Literal(ScalarValue::try_from(&held).ok()?, None));
            }
            let left = Box::new(Logical::Cast(Cast { expr: column(), field: Arc::clone(field) }));
            let right = Box::new(constant.clone());
            let whole = Logical::BinaryExpr(BinaryExpr { left, op, right });
            match simplifier.simplify(whole).ok()? {
                Logical::BinaryExpr(it) if it.left == column() && it.op == op => {
                    matches!(*it.right, Logical::Literal(..)).then_some(*it.right)
                }
                _ => None,
            }
        };
        let constants: Option<Vec<Logical>> = constants.into_iter().map(one).collect();
        Some((expr.clone(), constants?))
    }
}

/// Stands for what is compared.
const COMPARED: &str = "compared";

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Whether different values are different after a cast, and in the same order.
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
        (from, to) => from.is_string() && to.is_string(),
    }
}
