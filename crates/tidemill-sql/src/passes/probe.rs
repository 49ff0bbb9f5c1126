//! Checks of constants such as the unit in `date_trunc('fortnight', at)`, before a job runs.
//!
//! If all arguments of a function but its subject are constants, planning calls it once, with the default
//! value of the subject's type: an empty text, or the first moment of 1970.

use super::like;
use crate::{catalogue, evaluate::physical};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use datafusion_common::{
    DFSchema, DataFusionError, ScalarValue,
    tree_node::{TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{BinaryExpr, Expr as Logical, ExprSchemable, Operator, expr::ScalarFunction};
use std::sync::Arc;

/// Refuses functions and patterns with invalid constants. Types must be coerced.
pub(crate) fn refuse_wrong_constants(
    expr: &Logical,
    schema: &DFSchema,
) -> Result<(), DataFusionError> {
    let looked = expr.apply(|node| answer(node, schema).map(|()| TreeNodeRecursion::Continue));
    looked.map(|_| ())
}

fn is_pattern(operator: Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(operator, RegexIMatch | RegexMatch | RegexNotIMatch | RegexNotMatch)
}

/// Evaluates a call with a default value in place of its subject. Ok if the call cannot be checked so.
fn answer(node: &Logical, schema: &DFSchema) -> Result<(), DataFusionError> {
    let is_constant = |it: &Logical| matches!(it, Logical::Literal(..));
    let something = |it: &Logical| {
        let value = ScalarValue::new_default(&it.get_type(schema).ok()?).ok()?;
        Some(Logical::Literal(value, None))
    };
    let made = match node {
        Logical::ScalarFunction(call) if call.func.name() == like::ESCAPED => {
            call.args.iter().all(is_constant).then(|| node.clone())
        }
        Logical::ScalarFunction(call) => {
            let place = catalogue::function(call.func.name()).and_then(|row| row.probe);
            let others_are = |place| {
                call.args.iter().enumerate().all(|(nth, it)| nth == place || is_constant(it))
            };
            place.filter(|place| others_are(*place)).and_then(|place| {
                let mut args = call.args.clone();
                args[place] = something(args.get(place)?)?;
                let func = Arc::clone(&call.func);
                Some(Logical::ScalarFunction(ScalarFunction { func, args }))
            })
        }
        Logical::BinaryExpr(it) if is_pattern(it.op) && is_constant(&it.right) => {
            something(&it.left).map(|left| {
                let (left, right) = (Box::new(left), it.right.clone());
                Logical::BinaryExpr(BinaryExpr { left, op: it.op, right })
            })
        }
        _ => None,
    };
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    match made.map(|it| physical::physical(&it, &DFSchema::empty())) {
        Some(Ok(physical)) => physical.evaluate(&one).map(|_| ()),
        _ => Ok(()),
    }
}
