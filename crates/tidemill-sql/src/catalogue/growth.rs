//! Functions whose results may be far larger than their arguments, such as `repeat(name, n)`.
//!
//! A function builds its whole result before the caller can check its size, and a record may choose the
//! arguments. The size is therefore computed before the call. A row whose result would exceed
//! [`ROW_BYTES_MAX`] has no value and becomes a dead letter, like a row that divides by zero. Rows
//! whose results would together exceed [`ROWS_BYTES_MAX`] are evaluated in parts; if the parts together
//! still exceed it, the job fails, because no single record is at fault.
//!
//! `concat_ws` is not among them: the size of the record times the size of the job's text bounds its
//! results.

use arrow_array::{
    Array, ArrayRef, Int64Array,
    cast::AsArray,
    types::{Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType},
};
use arrow_cast::cast;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs};
use regex::Regex;
use std::sync::{Arc, LazyLock};

/// Largest result of a row.
const ROW_BYTES_MAX: u64 = 1 << 20;
/// Largest result of all rows that are evaluated at once.
const ROWS_BYTES_MAX: u64 = 1 << 30;
/// Approximate bytes of a list element other than text.
const ELEMENT_BYTES: u64 = 16;
/// A group of the pattern as a replacement text names it, in POSIX syntax.
static GROUP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\(\d+)").expect("a pattern"));
/// In microseconds.
const DAY_US: i64 = 86_400_000_000;

/// The reason why a function's result may be large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Growth {
    /// The first argument, a text, as often as the second says.
    Repeated,
    /// A list of the first argument as often as the second says.
    Listed,
    /// As many letters as the second argument says.
    Padded,
    /// As many elements as the second argument says, with the third in the new ones.
    Resized,
    /// From the first argument to the second in steps of the third; or from 0 to the first.
    Counted,
    /// The third argument in all places of the second within the first.
    Replaced,
    /// The same, where the second is a pattern, if the fourth has `g`.
    Matched,
    /// The elements of the first argument, a list, with the second between them, and the third in the
    /// place of those that are null.
    Joined,
}

/// The bound of a result in a query, known from the expression alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultReach {
    /// At most all arguments, this many times.
    Sum(u64),
    /// The first argument, as often as this argument says.
    Repeated(usize),
    /// As many characters as this argument says.
    Padded(usize),
    /// A list of as many elements as this argument says.
    Resized(usize),
    /// Each byte of the first argument may become one of these arguments and this many bytes more.
    Replaced(&'static [usize], u64),
    /// The first argument stands between all others.
    Joined,
}

impl Growth {
    /// The arguments, after the check that no result is too large.
    pub(super) fn checked(
        self,
        name: &str,
        mut arguments: ScalarFunctionArgs,
    ) -> Result<ScalarFunctionArgs> {
        if self == Self::Padded
            && let Some(length) = arguments.args.get_mut(1)
        {
            not_below_nothing(length);
        }
        let columns = arguments.args.iter().map(ArgumentColumn::new).collect::<Result<Vec<_>>>()?;
        let rows = match columns.iter().all(|it| it.is_constant) {
            true => 1,
            false => arguments.number_rows,
        };
        let mut all = 0_u64;
        for row in 0..rows {
            let bytes = self.bytes(&columns, row);
            if bytes > ROW_BYTES_MAX {
                return exec_err!(
                    "a result of `{name}` would have {bytes} bytes, and at most {ROW_BYTES_MAX} are \
                     made for a row"
                );
            }
            all = all.saturating_add(bytes);
            if all > ROWS_BYTES_MAX {
                return exec_err!(
                    "results of `{name}` would have more than {ROWS_BYTES_MAX} bytes together; let \
                     cycles end sooner, with `cycle: {{records: N}}`"
                );
            }
        }
        if let ([text, length, fill @ ..], Self::Padded) = (&columns[..], self) {
            not_of_nothing(&mut arguments, text, length, fill.first());
        }
        Ok(arguments)
    }

    /// Approximate bytes of a row's result; 0 if the function itself refuses the arguments.
    fn bytes(self, columns: &[ArgumentColumn], row: usize) -> u64 {
        let number = |nth: usize| columns.get(nth).and_then(|it| it.number(row));
        let count = |nth: usize| number(nth).map_or(0, |it| u64::try_from(it).unwrap_or(0));
        let element =
            |nth: usize| columns.get(nth).map_or(ELEMENT_BYTES, |it| it.element_bytes(row));
        let text = |nth: usize| columns.get(nth).and_then(|it| it.text(row)).unwrap_or_default();
        // Of nothing a list can be made; all else of nothing is nothing.
        if self != Self::Listed && columns.first().is_some_and(|it| it.is_null(row)) {
            return 0;
        }
        match self {
            Self::Repeated => (text(0).len() as u64).saturating_mul(count(1)),
            Self::Listed => element(0).saturating_mul(count(1)),
            Self::Padded if columns.get(2).is_some_and(|it| it.is_null(row)) => 0,
            Self::Padded => count(1),
            Self::Resized => element(2).saturating_mul(count(1)),
            Self::Counted => {
                let (from, to) = match columns.len() {
                    0 | 1 => (Some(0), number(0)),
                    _ => (number(0), number(1)),
                };
                let step = if columns.len() > 2 { number(2) } else { Some(1) };
                let (Some(from), Some(to), Some(step)) = (from, to, step) else { return 0 };
                // Steps that lead away from the end are none.
                if (to > from) != (step > 0) {
                    return 0;
                }
                let steps = from.abs_diff(to).checked_div(step.unsigned_abs());
                steps.map_or(0, |it| it.saturating_mul(8))
            }
            Self::Replaced => {
                let (within, old, new) = (text(0), text(1), text(2));
                let places = match old {
                    // What is put in is no longer than what it replaces.
                    _ if new.len() <= old.len() => 0,
                    "" => within.chars().count() + 1,
                    old => within.matches(old).count(),
                };
                (within.len() as u64).saturating_add(places as u64 * new.len() as u64)
            }
            Self::Matched => matched_bytes(text(0), text(1), text(2), text(3)),
            Self::Joined => {
                let (texts, elements) = columns.first().map_or((0, 0), |it| it.list_bytes(row));
                let between = text(1).len().max(text(2).len()) as u64;
                texts.saturating_add(elements.saturating_mul(between))
            }
        }
    }
}

/// The bytes of a text after its matches of a pattern are replaced. An upper bound if that is below
/// [`ROW_BYTES_MAX`], else exact up to that limit.
fn matched_bytes(within: &str, pattern: &str, new: &str, flags: &str) -> u64 {
    let (is_all, length) = (flags.contains('g'), within.len() as u64);
    // The new text may repeat what a match has, as often as it names one of its groups.
    let groups = new.matches(['\\', '$']).count() as u64;
    let places = if is_all { length + 1 } else { 1 };
    let most =
        length.saturating_mul(groups + 1).saturating_add(places.saturating_mul(new.len() as u64));
    if most <= ROW_BYTES_MAX {
        return most;
    }
    // A pattern that is none, the function refuses.
    let flags: String = flags.chars().filter(|it| *it != 'g').collect();
    let pattern =
        if flags.is_empty() { pattern.to_owned() } else { format!("(?{flags}){pattern}") };
    let Ok(pattern) = Regex::new(&pattern) else { return 0 };
    let new = GROUP.replace_all(new, "$${$1}");
    let (mut bytes, mut place) = (length, String::new());
    for found in pattern.captures_iter(within).take(if is_all { usize::MAX } else { 1 }) {
        place.clear();
        found.expand(&new, &mut place);
        bytes = bytes.saturating_add(place.len() as u64);
        // Matches do not overlap, so no more than all of the text goes.
        if bytes.saturating_sub(length) > ROW_BYTES_MAX {
            break;
        }
        bytes = bytes.saturating_sub(found.get(0).map_or(0, |it| it.len() as u64));
    }
    bytes
}

/// Replaces negative lengths with 0: the function would allocate memory for a huge length.
fn not_below_nothing(length: &mut ColumnarValue) {
    match length {
        ColumnarValue::Array(array) => {
            if let Some(lengths) = array.as_primitive_opt::<Int64Type>() {
                *array = Arc::new(lengths.unary::<_, Int64Type>(|it| it.max(0)));
            }
        }
        ColumnarValue::Scalar(ScalarValue::Int64(Some(length))) => *length = (*length).max(0),
        ColumnarValue::Scalar(_) => {}
    }
}

/// Replaces the lengths of rows with a null argument by 0: the function would allocate memory for them too.
fn not_of_nothing(
    arguments: &mut ScalarFunctionArgs,
    text: &ArgumentColumn,
    length: &ArgumentColumn,
    fill: Option<&ArgumentColumn>,
) {
    let rows = arguments.number_rows;
    let is_null = |row: usize| text.is_null(row) || fill.is_some_and(|it| it.is_null(row));
    if !(0..rows).any(is_null) {
        return;
    }
    arguments.args[1] = if text.is_constant && fill.is_none_or(|it| it.is_constant) {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(0)))
    } else {
        let lengths = (0..rows).map(|row| if is_null(row) { Some(0) } else { length.number(row) });
        ColumnarValue::Array(Arc::new(lengths.collect::<Int64Array>()))
    };
}

/// An argument: a value for each row, or one for all.
struct ArgumentColumn {
    array: ArrayRef,
    /// The values as 64-bit integers: times and intervals in microseconds, integers beyond 64 bits as the
    /// largest one. None if the argument has another type.
    numbers: Option<Int64Array>,
    is_constant: bool,
}

impl ArgumentColumn {
    fn new(argument: &ColumnarValue) -> Result<Self> {
        let (array, is_constant) = match argument {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        let numbers = match array.data_type() {
            it if it.is_integer() => Some(whole(&array, &DataType::Int64)?),
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, _) => {
                Some(whole(&array, &DataType::Timestamp(TimeUnit::Microsecond, None))?)
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let steps = array.as_primitive::<IntervalMonthDayNanoType>().iter();
                Some(steps.map(|it| it.map(step_us)).collect())
            }
            _ => None,
        };
        Ok(Self { array, numbers, is_constant })
    }

    fn row(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }

    fn is_null(&self, row: usize) -> bool {
        self.array.is_null(self.row(row))
    }

    fn number(&self, row: usize) -> Option<i64> {
        let (numbers, row) = (self.numbers.as_ref()?, self.row(row));
        match (numbers.is_valid(row), self.array.is_valid(row)) {
            (true, _) => Some(numbers.value(row)),
            (false, true) => Some(i64::MAX),
            (false, false) => None,
        }
    }

    fn text(&self, row: usize) -> Option<&str> {
        let row = self.row(row);
        self.array.is_valid(row).then(|| match self.array.data_type() {
            DataType::Utf8 => Some(self.array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(self.array.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(self.array.as_string_view().value(row)),
            _ => None,
        })?
    }

    /// Approximate bytes of the elements of a list as text, and the number of elements, nested lists
    /// included.
    fn list_bytes(&self, row: usize) -> (u64, u64) {
        let row = self.row(row);
        let (mut values, mut from, mut to) = (Arc::clone(&self.array), row, row + 1);
        loop {
            let (inner, offsets) = match values.data_type() {
                DataType::List(_) => {
                    let list = values.as_list::<i32>();
                    let at = |it: usize| list.value_offsets()[it] as usize;
                    (Arc::clone(list.values()), (at(from), at(to)))
                }
                DataType::LargeList(_) => {
                    let list = values.as_list::<i64>();
                    let at = |it: usize| list.value_offsets()[it] as usize;
                    (Arc::clone(list.values()), (at(from), at(to)))
                }
                DataType::FixedSizeList(_, size) => {
                    let size = usize::try_from(*size).unwrap_or(0);
                    let list = values.as_fixed_size_list();
                    (Arc::clone(list.values()), (from * size, to * size))
                }
                _ => break,
            };
            (values, (from, to)) = (inner, offsets);
        }
        let elements = (to - from) as u64;
        // A number has 24 letters at most.
        if !values.data_type().is_string() && elements * 24 <= ROW_BYTES_MAX {
            return (elements * 24, elements);
        }
        let texts = cast(&values.slice(from, to - from), &DataType::LargeUtf8);
        let texts = texts.map(|it| {
            let texts = it.as_string::<i64>();
            texts.offsets().last().zip(texts.offsets().first()).map_or(0, |(to, from)| to - from)
        });
        // What is no text, the function refuses.
        (texts.map_or(0, i64::unsigned_abs), elements)
    }

    /// Approximate bytes of a list element.
    fn element_bytes(&self, row: usize) -> u64 {
        let within = match self.array.data_type() {
            DataType::List(_) => {
                let length = self.array.as_list::<i32>().value_length(self.row(row));
                u64::try_from(length).unwrap_or(0) * ELEMENT_BYTES
            }
            _ => self.text(row).map_or(0, |it| it.len() as u64),
        };
        within + ELEMENT_BYTES
    }
}

/// Values as 64-bit integers; null where they do not fit.
fn whole(array: &ArrayRef, data_type: &DataType) -> Result<Int64Array> {
    let numbers = cast(array, data_type)?;
    Ok(match data_type {
        DataType::Int64 => numbers.as_primitive::<Int64Type>().clone(),
        _ => numbers.as_primitive::<TimestampMicrosecondType>().reinterpret_cast(),
    })
}

/// A lower bound of an interval, in microseconds; 0 for other types.
fn step_us(step: IntervalMonthDayNano) -> i64 {
    let days = i64::from(step.months) * 28 + i64::from(step.days);
    let whole = days.saturating_mul(DAY_US).saturating_add(step.nanoseconds / 1_000);
    if whole == 0 { step.nanoseconds.signum() } else { whole }
}
