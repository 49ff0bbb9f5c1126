//! Rows with a column of each type. They hold the values in which types differ: null, the smallest and
//! the largest value, both zeros, NaN, empty texts and lists, years far from 1970.

use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, TimeUnit};
use std::sync::Arc;

/// A column that expressions name.
pub(super) struct TestColumn {
    /// See [`super::forms`].
    pub(super) kind: char,
    pub(super) name: &'static str,
    /// The values that it takes, as text; `-` is none.
    values: &'static [&'static str],
}

const fn column(kind: char, name: &'static str, values: &'static [&'static str]) -> TestColumn {
    TestColumn { kind, name, values }
}

/// Seconds of 2024-02-29, of 9999-12-31, 0001-01-01, and of moments around 1970.
const SECONDS: &[&str] =
    &["-", "1709164800", "253402214400", "-62135596800", "0", "-1", "1709210096"];
const MICROS: &[&str] = &[
    "-",
    "1709164800000000",
    "253402214400000000",
    "253402300799999999",
    "-62135596800000000",
    "0",
    "-1",
    "1709210096789012",
];

/// All of them.
pub(super) static COLUMNS: [TestColumn; 21] = [
    column('b', "flag", &["true", "false", "-"]),
    column('i', "i64", &["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "-", "5"]),
    column('i', "i32", &["0", "3", "-", "2147483647", "-2147483648"]),
    column('i', "i16", &["2", "-", "32767", "-32768"]),
    column('i', "i8", &["1", "-", "127", "-128", "0"]),
    column('i', "u8", &["0", "255", "-", "2"]),
    column('i', "u16", &["-", "65535", "3"]),
    column('i', "u32", &["1", "4294967295", "-"]),
    column('i', "u64", &["18446744073709551615", "0", "-", "4", "9223372036854775808"]),
    column('f', "f64", &["0.0", "-0.0", "NaN", "inf", "-inf", "1e308", "2.5", "-", "5e-324", "-3"]),
    column('f', "f32", &["0.0", "-0.0", "NaN", "3.4e38", "-", "1.5", "-inf"]),
    column('m', "small", &["12.34", "-0.05", "-", "0.00", "99999999.99"]),
    column('m', "large", &["9999999999999999999999999999.9999999999", "-1.5000000000", "-", "0"]),
    column(
        't',
        "text",
        &[
            "",
            "a",
            "A,b",
            "-",
            "1",
            "-7",
            "é%_\\",
            "2024-02-29",
            "9999-12-31T00:00:00Z",
            "true",
            "%Y",
        ],
    ),
    column('d', "day", &["2024-02-29", "9999-12-31", "0001-01-01", "1969-12-31", "-"]),
    column('s', "at", MICROS),
    column('s', "plain", MICROS),
    column('s', "seconds", SECONDS),
    column(
        'l',
        "numbers",
        &["", "1", "1,2,null", "-", "null", "3,3,-9223372036854775808,0", "300"],
    ),
    column('w', "words", &["", "a", "a,b,null", "-", "null", "1,2", "\u{20ac},,x"]),
    // The fields `a`, a number, and `b`, a text.
    column('o', "thing", &["1,x", "-", "null,y", "-5,null", "7,a"]),
];

fn data_type(name: &str) -> DataType {
    let micros =
        |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
    match name {
        "flag" => DataType::Boolean,
        "i64" => DataType::Int64,
        "i32" => DataType::Int32,
        "i16" => DataType::Int16,
        "i8" => DataType::Int8,
        "u8" => DataType::UInt8,
        "u16" => DataType::UInt16,
        "u32" => DataType::UInt32,
        "u64" => DataType::UInt64,
        "f64" => DataType::Float64,
        "f32" => DataType::Float32,
        "small" => DataType::Decimal128(10, 2),
        "large" => DataType::Decimal128(38, 10),
        "day" => DataType::Date32,
        "at" => micros(Some("UTC")),
        "plain" => micros(None),
        "seconds" => DataType::Timestamp(TimeUnit::Second, None),
        _ => DataType::Utf8,
    }
}

/// The value of a column in a row of a table: `None` is null.
pub(super) fn value(column: &TestColumn, table: u8, row: usize) -> Option<&'static str> {
    // Any order does in which each value meets each other one.
    let mix = (usize::from(table) + 1) * 7919 + row * 104_729;
    let mix = mix ^ column.name.bytes().fold(0, |all, it| all * 31 + usize::from(it));
    let place = (mix ^ (mix >> 7)) % column.values.len();
    Some(column.values[place]).filter(|it| *it != "-")
}

/// The elements of a list, or the fields of an object.
fn parts(value: &str) -> Vec<Option<&str>> {
    let all = Some(value).filter(|it| !it.is_empty());
    let part = |it| Some(it).filter(|it| *it != "null");
    all.into_iter().flat_map(|it| it.split(',')).map(part).collect()
}

/// A column of these values. Lists and objects that are null hold something, as files may have it.
fn array(column: &TestColumn, values: &[Option<&'static str>]) -> ArrayRef {
    let nulls: NullBuffer = values.iter().map(Option::is_some).collect();
    let texts = |texts: Vec<Option<&str>>| Arc::new(StringArray::from(texts)) as ArrayRef;
    let as_type = |it: ArrayRef, to: &DataType| cast(&it, to).expect("values of the type");
    if column.kind == 'o' {
        let field = |nth: usize| {
            let of = |it: &Option<&'static str>| parts(it.unwrap_or("9,hidden"))[nth];
            texts(values.iter().map(of).collect())
        };
        let fields = vec![
            Arc::new(Field::new("a", DataType::Int64, true)),
            Arc::new(Field::new("b", DataType::Utf8, true)),
        ];
        let columns = vec![as_type(field(0), &DataType::Int64), field(1)];
        return Arc::new(StructArray::new(fields.into(), columns, Some(nulls)));
    }
    let to = data_type(column.name);
    if !matches!(column.kind, 'l' | 'w') {
        let values = texts(values.to_vec());
        return match to {
            DataType::Timestamp(_, _) => as_type(as_type(values, &DataType::Int64), &to),
            _ => as_type(values, &to),
        };
    }
    let hidden = if column.kind == 'l' { "300" } else { "hidden" };
    let lists: Vec<_> = values.iter().map(|it| parts(it.unwrap_or(hidden))).collect();
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
    let element = if column.kind == 'l' { DataType::Int64 } else { DataType::Utf8 };
    let elements = as_type(texts(lists.into_iter().flatten().collect()), &element);
    let field = Arc::new(Field::new_list_field(element, true));
    Arc::new(ListArray::new(field, offsets, elements, Some(nulls)))
}

/// Some rows of a table, with their numbers as `id`.
pub(super) fn rows(table: u8, rows: std::ops::Range<usize>) -> RecordBatch {
    let ids = Arc::new(Int64Array::from_iter_values(rows.clone().map(|it| it as i64))) as ArrayRef;
    let columns = COLUMNS.iter().map(|column| {
        let values: Vec<_> = rows.clone().map(|row| value(column, table, row)).collect();
        (column.name, array(column, &values), true)
    });
    RecordBatch::try_from_iter_with_nullable(std::iter::once(("id", ids, false)).chain(columns))
        .expect("columns of one length")
}

/// A value of a column as a constant of its type, if that can be said in SQL.
pub(super) fn constant(column: &TestColumn, value: Option<&str>) -> Option<String> {
    let quoted = |it: &str| format!("'{}'", it.replace('\'', "''"));
    let part = |it: Option<&str>| it.map_or("null".to_owned(), quoted);
    let all = |it: &str| parts(it).into_iter().map(part).collect::<Vec<_>>().join(", ");
    let data_type = match (column.kind, data_type(column.name)) {
        ('l', _) => "List(Int64)".to_owned(),
        ('w', _) => "List(Utf8)".to_owned(),
        (_, DataType::Timestamp(TimeUnit::Microsecond, Some(zone))) => {
            format!("Timestamp(Microsecond, Some(\"{zone}\"))")
        }
        (_, DataType::Timestamp(unit, _)) => format!("Timestamp({unit:?}, None)"),
        (_, other) => format!("{other:?}"),
    };
    let value = match (column.kind, value) {
        ('o', None) => return None,
        ('o', Some(it)) => {
            let [a, b] = <[_; 2]>::try_from(parts(it)).ok()?.map(part);
            return Some(format!("named_struct('a', cast({a} as bigint), 'b', cast({b} as text))"));
        }
        (_, None) => "null".to_owned(),
        ('l' | 'w', Some(it)) => format!("make_array({})", all(it)),
        ('s', Some(it)) => format!("arrow_cast({it}, 'Int64')"),
        (_, Some(it)) => quoted(it),
    };
    Some(format!("arrow_cast({value}, '{data_type}')"))
}
