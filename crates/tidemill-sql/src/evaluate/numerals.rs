//! Texts that are cast to decimals: numbers with an exponent, such as `1e5`, and with any number of digits.
//!
//! Arrow refuses both, and names another type than that of the cast. Here such a text becomes the digits
//! that the decimal has room for, rounded half away from zero, and Arrow reads those.

use super::postprocess::{Postprocess, postprocess};
use arrow_array::{Array, ArrayRef, StringArray, cast::AsArray};
use arrow_cast::cast;
use arrow_schema::{DECIMAL256_MAX_PRECISION, DataType, Schema};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{CastExpr, TryCastExpr},
};
use std::{borrow::Cow, sync::Arc};

/// Digits that Arrow reads.
const DIGITS_MAX: usize = DECIMAL256_MAX_PRECISION as usize;

/// The cast of a text to a decimal with its operand in plain digits.
pub(super) fn plain_digits(
    node: &Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let (from, to, is_tried) = if let Some(it) = node.downcast_ref::<CastExpr>() {
        (it.expr(), it.cast_type(), false)
    } else if let Some(it) = node.downcast_ref::<TryCastExpr>() {
        (it.expr(), it.cast_type(), true)
    } else {
        return Ok(None);
    };
    let (precision, scale) = match *to {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (precision, scale),
        _ => return Ok(None),
    };
    let Ok(scale) = u8::try_from(scale) else { return Ok(None) };
    if !from.data_type(input)?.is_string() {
        return Ok(None);
    }
    let numerals = Numerals { precision, scale, is_tried };
    Ok(Some(Arc::clone(node).with_new_children(vec![postprocess(from, numerals)])?))
}

/// Texts as numbers that Arrow reads as a decimal of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Numerals {
    precision: u8,
    scale: u8,
    is_tried: bool,
}

impl Numerals {
    /// A number in plain digits, with as many behind the point as the type has if Arrow could not read
    /// it otherwise. None if the text is not a number, or is beyond the type.
    fn plain<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        let text = text.trim();
        let (sign, number) = match text.as_bytes().first()? {
            b'-' => ("-", &text[1..]),
            b'+' => ("", &text[1..]),
            _ => ("", text),
        };
        let (number, exponent) = match number.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, Some(exponent)),
            None => (number, None),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_digits = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) || whole.len() + fraction.len() == 0 {
            return None;
        }
        if exponent.is_none() && whole.len() <= DIGITS_MAX && fraction.len() <= DIGITS_MAX {
            return Some(Cow::Borrowed(text));
        }
        let exponent = exponent.map_or(Some(0), power_of_ten)?;
        let digits = format!("{whole}{fraction}");
        let zeros = digits.len() - digits.trim_start_matches('0').len();
        let digits = &digits[zeros..];
        // The place of the point among the digits; far outside of them if the exponent is large.
        let point = whole.len() as i64 - zeros as i64 + exponent;
        if digits.is_empty() || point < -i64::from(self.scale) {
            return Some(Cow::Borrowed("0"));
        }
        if point > DIGITS_MAX as i64 {
            return None;
        }
        let kept = usize::try_from(point + i64::from(self.scale)).ok()?;
        let is_up = digits.as_bytes().get(kept).is_some_and(|it| *it >= b'5');
        let unscaled: String =
            digits.bytes().chain(std::iter::repeat(b'0')).take(kept).map(char::from).collect();
        let unscaled = if is_up { incremented(&unscaled) } else { unscaled };
        let unscaled = format!("{unscaled:0>width$}", width = usize::from(self.scale) + 1);
        let (whole, fraction) = unscaled.split_at(unscaled.len() - usize::from(self.scale));
        Some(Cow::Owned(format!("{sign}{whole}.{fraction}")))
    }
}

/// The exponent of a number. One that no digits of a text could make up for is as good as ten billion.
fn power_of_ten(exponent: &str) -> Option<i64> {
    const LARGE: i64 = 10_000_000_000;
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse::<i64>().unwrap_or(LARGE).min(LARGE);
    Some(if exponent.starts_with('-') { -size } else { size })
}

/// Digits of the next whole number.
fn incremented(digits: &str) -> String {
    let nines = digits.len() - digits.trim_end_matches('9').len();
    let (head, _) = digits.split_at(digits.len() - nines);
    let mut made = head.to_owned();
    let last = made.pop().and_then(|it| it.to_digit(10)).unwrap_or(0);
    made.extend(char::from_digit(last + 1, 10));
    made.extend(std::iter::repeat_n('0', nines));
    made
}

impl Postprocess for Numerals {
    fn apply(&self, values: ColumnarValue) -> Result<ColumnarValue> {
        let array = values.to_array(1)?;
        let texts = cast(&array, &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        let mut is_same = true;
        let mut plain = Vec::with_capacity(texts.len());
        for text in texts {
            let Some(text) = text else {
                plain.push(None);
                continue;
            };
            let made = self.plain(text);
            if made.is_none() && !self.is_tried {
                let (precision, scale) = (self.precision, self.scale);
                return exec_err!(
                    "`{text}` is not a number of the type decimal({precision}, {scale})"
                );
            }
            is_same &= matches!(made, Some(Cow::Borrowed(it)) if it == text);
            plain.push(made);
        }
        if is_same {
            return Ok(values);
        }
        let plain: ArrayRef = Arc::new(plain.iter().map(Option::as_deref).collect::<StringArray>());
        let plain = cast(&plain, array.data_type())?;
        Ok(match values {
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&plain, 0)?)
            }
            ColumnarValue::Array(_) => ColumnarValue::Array(plain),
        })
    }
}
