//! Constants that no record goes with, such as `date_trunc('fortnight', at)`: found before a job runs.
//!
//! A function with some constants is called twice with something else in the place of the others:
//! with nulls, and with values such as 0 and an empty text. If it has an answer to neither, its
//! constants are wrong.

use super::{ExprError, checked, one_line};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};
use datafusion_common::{
    DFSchema, DataFusionError, ScalarValue,
    tree_node::{TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{BinaryExpr, Expr as Logical, ExprSchemable, Operator, expr::ScalarFunction};
use std::sync::Arc;

/// Refuses functions and patterns whose constants are wrong. The expression is settled.
pub(crate) fn refuse_wrong_constants(expr: &Logical, schema: &DFSchema) -> Result<(), ExprError> {
    let mut found = None;
    let looked = expr.apply(|node| {
        if !has_some_constants(node) {
            return Ok(TreeNodeRecursion::Continue);
        }
        let of_nulls = answer(node, schema, |it| ScalarValue::try_from(it));
        if let Err(error) = of_nulls
            && answer(node, schema, ScalarValue::new_default).is_err()
        {
            found = Some(ExprError::new(one_line(&error)));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    looked.map_err(|error| super::plan_error(&error))?;
    found.map_or(Ok(()), Err)
}

/// Whether some of its arguments are constants, and others are not.
fn has_some_constants(node: &Logical) -> bool {
    let is_constant = |it: &Logical| matches!(it, Logical::Literal(..));
    match node {
        Logical::ScalarFunction(call) => {
            call.args.iter().any(is_constant) && !call.args.iter().all(is_constant)
        }
        Logical::BinaryExpr(it) => is_pattern(it.op) && is_constant(&it.right),
        _ => false,
    }
}

fn is_pattern(operator: Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(operator, RegexIMatch | RegexMatch | RegexNotIMatch | RegexNotMatch)
}

/// What comes of it with this in the place of what is no constant. What cannot be asked so is right.
fn answer(
    node: &Logical,
    schema: &DFSchema,
    value: impl Fn(&DataType) -> Result<ScalarValue, DataFusionError>,
) -> Result<(), DataFusionError> {
    let other = |it: &Logical| match it {
        Logical::Literal(..) => Some(it.clone()),
        _ => {
            let data_type = it.get_type(schema).ok()?;
            Some(Logical::Literal(value(&data_type).ok()?, None))
        }
    };
    let made = match node {
        Logical::ScalarFunction(call) => {
            let args: Option<Vec<Logical>> = call.args.iter().map(other).collect();
            args.map(|args| {
                Logical::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args })
            })
        }
        Logical::BinaryExpr(it) => other(&it.left).map(|left| {
            let (left, right) = (Box::new(left), it.right.clone());
            Logical::BinaryExpr(BinaryExpr { left, op: it.op, right })
        }),
        _ => None,
    };
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    match made.map(|it| checked::physical(&it, &DFSchema::empty())) {
        Some(Ok(physical)) => physical.evaluate(&one).map(|_| ()),
        _ => Ok(()),
    }
}
