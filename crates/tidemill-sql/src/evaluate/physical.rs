//! Physical expressions, with corrections of DataFusion's.
//!
//! - Integers do not wrap: a result of `+`, `-` and `*` beyond its type has no value, as in PostgreSQL.
//! - The right side of `and` and `or` is evaluated only for rows that the left side does not decide.
//! - NaN has one bit pattern, and decimals have no more digits than their type.
//! - Casts and comparisons of lists and objects see reachable elements only, and treat 0.0 and -0.0 in
//!   them as equal.

use super::{
    canonical::{self, canonical},
    casts, decimals, elements, floats, nested, numerals,
    short_circuit::short_circuit,
    times,
};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};
use datafusion_common::{
    DFSchema, DataFusionError, ScalarValue,
    tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{Expr as Logical, ExprSchemable, Operator, execution_props::ExecutionProps};
use datafusion_physical_expr::{
    PhysicalExpr, create_physical_expr,
    expressions::{BinaryExpr, CastExpr, Literal, NegativeExpr, TryCastExpr},
};
use std::sync::Arc;

fn is_arithmetic(operator: Operator) -> bool {
    matches!(operator, Operator::Plus | Operator::Minus | Operator::Multiply)
}

/// An expression ready to run.
pub(crate) fn physical(
    logical: &Logical,
    schema: &DFSchema,
) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    let expr = create_physical_expr(logical, schema, &ExecutionProps::new(), &Default::default())?;
    fails(expr, schema.as_arrow())
}

/// The same of one that DataFusion has made.
pub(crate) fn fails(
    expr: Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    expr.transform_up(|node| checked(node, input)).data()
}

fn checked(
    node: Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Result<Transformed<Arc<dyn PhysicalExpr>>, DataFusionError> {
    if let Some(it) = decimals::arithmetic(&node, input) {
        let it: Arc<dyn PhysicalExpr> = Arc::new(it);
        return Ok(Transformed::yes(canonical::checked(&it)));
    }
    if let Some(it) = decimals::nearest_float(&node, input) {
        return Ok(Transformed::yes(Arc::new(it)));
    }
    if let Some(it) = times::floored_cast(&node, input)? {
        return Ok(Transformed::yes(it));
    }
    if let Some(it) = numerals::plain_digits(&node, input)? {
        return Ok(Transformed::yes(canonical(&it, input).unwrap_or(it)));
    }
    let made = if let Some(it) = node.downcast_ref::<BinaryExpr>() {
        let is_integer = it.left().data_type(input)?.is_integer();
        (is_integer && is_arithmetic(*it.op()))
            .then(|| BinaryExpr::new(Arc::clone(it.left()), *it.op(), Arc::clone(it.right())))
    } else if let Some(it) = node.downcast_ref::<NegativeExpr>() {
        let data_type = it.arg().data_type(input)?;
        let zero = data_type.is_integer().then(|| ScalarValue::new_zero(&data_type)).transpose()?;
        zero.map(|zero| {
            let zero: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(zero));
            BinaryExpr::new(zero, Operator::Minus, Arc::clone(it.arg()))
        })
    } else {
        None
    };
    if let Some(it) = made {
        return Ok(Transformed::yes(Arc::new(it.with_fail_on_overflow(true))));
    }
    if let Some(it) = short_circuit(&node, input) {
        return Ok(Transformed::yes(Arc::new(it)));
    }
    if let Some(it) = elements::list_cast(&node, input)? {
        return Ok(Transformed::yes(Arc::new(it)));
    }
    if is_cast_within(&node, input)? {
        let children = node.children().into_iter().map(nested::reachable_values).collect();
        return Ok(Transformed::yes(node.with_new_children(children)?));
    }
    if is_of_zeros(&node, input)? {
        let children = node.children().into_iter().map(nested::comparable_values).collect();
        return Ok(Transformed::yes(node.with_new_children(children)?));
    }
    if let Some(cast) = casts::corrected(&node, input)? {
        return Ok(Transformed::yes(canonical(&cast, input).unwrap_or(cast)));
    }
    Ok(canonical(&node, input).map_or_else(|| Transformed::no(node), Transformed::yes))
}

/// Returns true for a cast of lists or objects.
fn is_cast_within(node: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<bool, DataFusionError> {
    let is_cast = node.is::<CastExpr>() || node.is::<TryCastExpr>();
    match node.children().first() {
        Some(from) if is_cast => Ok(from.data_type(input)?.is_nested()),
        _ => Ok(false),
    }
}

/// Returns true for a comparison of lists or objects that contain floats.
fn is_of_zeros(node: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<bool, DataFusionError> {
    let Some(it) = node.downcast_ref::<BinaryExpr>() else { return Ok(false) };
    let held = it.left().data_type(input)?;
    Ok(it.op().supports_propagation() && held.is_nested() && floats::has_floats(&held))
}

/// Refuses sums, differences and products of constants that overflow: the simplifier would wrap them
/// during planning. Types must be coerced.
pub(crate) fn refuse_constants(expr: &Logical) -> Result<(), DataFusionError> {
    let nothing = DFSchema::empty();
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    let looked = expr.apply(|node| {
        let is_sum = match node {
            Logical::BinaryExpr(it) => is_arithmetic(it.op),
            Logical::Negative(_) => true,
            _ => false,
        };
        let is_whole = || node.get_type(&nothing).is_ok_and(|it: DataType| it.is_integer());
        if !is_sum || node.any_column_refs() || !is_whole() {
            return Ok(TreeNodeRecursion::Continue);
        }
        physical(node, &nothing)?.evaluate(&one)?;
        Ok(TreeNodeRecursion::Jump)
    });
    looked.map(|_| ())
}
