//! Analysis of expressions: some have a value for every row, others may fail.

use super::{canonical::Canonical, decimals::NearestFloat, postprocess::WithPostprocess};
use arrow_schema::{DataType, Schema};
use datafusion_expr::Operator;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{
        BinaryExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr, TryCastExpr,
    },
};
use std::sync::Arc;

/// Returns true if evaluation may fail for some rows. Unknown expressions count as such.
pub(super) fn can_fail(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
    let is_fine = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let types = [binary.left(), binary.right()].map(|it| it.data_type(input));
        let of = |is: fn(&DataType) -> bool| types.iter().all(|it| it.as_ref().is_ok_and(is));
        match binary.op() {
            Operator::Plus
            | Operator::Minus
            | Operator::Multiply
            | Operator::Divide
            | Operator::Modulo => of(DataType::is_floating),
            other => other.supports_propagation() || matches!(other, Operator::And | Operator::Or),
        }
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(input);
        from.is_ok_and(|from| from.is_numeric()) && cast.cast_type().is_floating()
    } else {
        expr.is::<Column>()
            || expr.is::<Literal>()
            || expr.is::<NotExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>()
            || expr.is::<TryCastExpr>()
            || expr.is::<NearestFloat>()
            || expr.is::<WithPostprocess<Canonical>>()
    };
    !is_fine || expr.children().into_iter().any(|child| can_fail(child, input))
}
