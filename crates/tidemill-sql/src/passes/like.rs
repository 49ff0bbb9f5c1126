//! Patterns of `like` with another escape than the backslash, as in `t like 'a!%' escape '!'`. DataFusion
//! supports the backslash only, so the pattern is rewritten: a constant while planning, any other by an
//! internal function.

use crate::error::ExprError;
use arrow_array::{ArrayRef, StringArray, cast::AsArray};
use arrow_schema::DataType;
use datafusion_common::{Result, ScalarValue, exec_err, tree_node::Transformed};
use datafusion_expr::{
    ColumnarValue, Expr as Logical, Like, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, expr::ScalarFunction,
};
use datafusion_sql::sqlparser::ast;
use std::{
    ops::ControlFlow,
    sync::{Arc, LazyLock},
};

/// The name of the internal function; expressions cannot call it.
pub(crate) const ESCAPED: &str = "pattern of like";

/// Rewrites a pattern from the escape of the second argument to backslashes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Escaped {
    signature: Signature,
}

static ESCAPED_BY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let texts = vec![DataType::Utf8, DataType::Utf8];
    let signature = Signature::exact(texts, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Escaped { signature }))
});

impl ScalarUDFImpl for Escaped {
    fn name(&self) -> &str {
        ESCAPED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let texts = ColumnarValue::values_to_arrays(&arguments.args)?;
        let (patterns, signs) = (texts[0].as_string::<i32>(), texts[1].as_string::<i32>());
        let made = patterns.iter().zip(signs).map(|both| match both {
            (Some(pattern), Some(sign)) => {
                sign.chars().next().map(|sign| with_backslashes(pattern, sign)).transpose()
            }
            _ => Ok(None),
        });
        let made: ArrayRef = Arc::new(made.collect::<Result<StringArray>>()?);
        let is_constant = arguments.args.iter().all(|it| matches!(it, ColumnarValue::Scalar(_)));
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

/// Refuses an invalid escape with the right reason: DataFusion says of a letter with several bytes that it
/// is more than one character.
pub(crate) fn check_sign(expr: &ast::Expr) -> ControlFlow<ExprError> {
    let (ast::Expr::Like { escape_char: Some(it), .. }
    | ast::Expr::ILike { escape_char: Some(it), .. }) = expr
    else {
        return ControlFlow::Continue(());
    };
    match &it.value {
        ast::Value::SingleQuotedString(sign) if sign.len() == 1 => ControlFlow::Continue(()),
        sign => {
            let error = ExprError::new(format!("{sign} cannot escape in `like`"));
            let mut error = error.at(it.span.start);
            error.expected = Some("one sign of ASCII, such as `escape '!'`".to_owned());
            ControlFlow::Break(error)
        }
    }
}

/// A `like` with another escape, rewritten to backslashes.
pub(super) fn escaped(node: Logical) -> Result<Transformed<Logical>> {
    let Logical::Like(Like { escape_char: Some(sign), .. }) = &node else {
        return Ok(Transformed::no(node));
    };
    let sign = *sign;
    let Logical::Like(mut like) = node else { unreachable!("it is one") };
    if sign == '\\' {
        return Ok(Transformed::no(Logical::Like(like)));
    }
    like.escape_char = None;
    like.pattern = Box::new(match *like.pattern {
        Logical::Literal(value, more) => match value.try_as_str().flatten() {
            Some(pattern) => {
                Logical::Literal(ScalarValue::from(with_backslashes(pattern, sign)?), None)
            }
            None => Logical::Literal(value, more),
        },
        pattern => {
            let sign = Logical::Literal(ScalarValue::from(sign.to_string()), None);
            let func = Arc::clone(&ESCAPED_BY);
            Logical::ScalarFunction(ScalarFunction { func, args: vec![pattern, sign] })
        }
    });
    Ok(Transformed::yes(Logical::Like(like)))
}

fn with_backslashes(pattern: &str, sign: char) -> Result<String> {
    let (mut made, mut signs) = (String::with_capacity(pattern.len()), pattern.chars());
    while let Some(it) = signs.next() {
        match (it == sign, it) {
            (true, _) => match signs.next() {
                Some(next @ ('%' | '_' | '\\')) => made.extend(['\\', next]),
                Some(next) => made.push(next),
                None => {
                    return exec_err!(
                        "the pattern `{pattern}` of `like` ends with its escape `{sign}`, which \
                         escapes nothing there"
                    );
                }
            },
            (false, '\\') => made.push_str("\\\\"),
            (false, other) => made.push(other),
        }
    }
    Ok(made)
}
