//! What becomes of values in types that a job names, and what of those that do not fit.

use super::*;
use crate::column_type::{moment_type, parse};
use crate::sink::cell::Cell;
use arrow_array::{
    BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeListArray, Float32Array,
    Float64Array, Int32Array, Int64Array, LargeStringArray, NullArray, StructArray,
    Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt64Array, types::Int8Type,
};
use arrow_schema::TimeUnit;

/// The column as the job's type, as texts, and the rows that do not fit with their reasons.
fn read(column: impl Array + 'static, to: &str) -> (Vec<String>, Vec<(usize, String)>) {
    let column: ArrayRef = Arc::new(column);
    let field = Field::new("c", parse(to).unwrap(), true);
    assert!(can_cast(column.data_type(), field.data_type()), "{column:?} as {to}");
    let (column, misfits) = cast_column(&column, &field).unwrap();
    assert_eq!(column.data_type(), field.data_type());
    for misfit in &misfits {
        assert!(column.data_type().is_nested() || column.is_null(misfit.row));
    }
    let cell = Cell::new(&column).unwrap();
    let text = |row| {
        let mut text = Vec::new();
        match cell.is_null(row) {
            true => text.extend_from_slice(b"null"),
            false => cell.write(row, &mut text).unwrap(),
        }
        String::from_utf8(text).unwrap()
    };
    let texts = (0..column.len()).map(text).collect();
    (texts, misfits.into_iter().map(|it| (it.row, it.reason)).collect())
}

/// Only the rows that do not fit.
fn bad(column: impl Array + 'static, to: &str) -> Vec<usize> {
    read(column, to).1.into_iter().map(|(row, _)| row).collect()
}

#[test]
fn numbers_are_not_cut_to_fit() {
    let (texts, bad_rows) = read(Float64Array::from(vec![Some(2.0), Some(1.7), None]), "bigint");
    assert_eq!(texts, ["2", "null", "null"]);
    assert_eq!(bad_rows, [(1, "field `c`: 1.7 is not a bigint".to_owned())]);
    assert_eq!(bad(Float64Array::from(vec![f64::NAN, 1e300, -0.0]), "bigint"), [0, 1]);
    let decimals = Decimal128Array::from(vec![199, 200, 900_719_925_474_099_300]);
    let decimals = decimals.with_precision_and_scale(38, 2).unwrap();
    let (texts, bad_rows) = read(decimals, "bigint");
    assert_eq!(texts, ["null", "2", "9007199254740993"]);
    assert_eq!(bad_rows.len(), 1);
    assert_eq!(bad(Int64Array::from(vec![127, 128, -128, -129]), "tinyint"), [1, 3]);
    assert_eq!(bad(UInt64Array::from(vec![u64::MAX, 1]), "bigint"), [0]);
    assert_eq!(bad(Int64Array::from(vec![-1, 1]), "uint64"), [0]);
}

#[test]
fn floats_hold_whole_numbers_exactly_or_they_do_not_fit() {
    let exact = 1 << 53;
    assert_eq!(bad(Int64Array::from(vec![exact, exact + 1, i64::MIN, i64::MAX]), "double"), [1, 3]);
    assert_eq!(bad(Int32Array::from(vec![1 << 24, (1 << 24) + 1]), "real"), [1]);
    let (texts, bad_rows) = read(Float64Array::from(vec![0.1, 1e300, f64::INFINITY]), "real");
    assert_eq!(texts, ["0.1", "null", "inf"], "fractions are the nearest that there are");
    assert_eq!(bad_rows.len(), 1);
    assert_eq!(read(Float32Array::from(vec![0.5]), "double").0, ["0.5"]);
}

#[test]
fn numbers_are_milliseconds_where_times_are_asked_for() {
    let millis = Int64Array::from(vec![Some(1_700_000_000_000), Some(i64::MAX), None]);
    let (texts, bad_rows) = read(millis, "timestamp");
    assert_eq!(texts, ["2023-11-14T22:13:20Z", "null", "null"]);
    assert_eq!(bad_rows.len(), 1);
    let halves = Float64Array::from(vec![0.5, f64::NAN]);
    assert_eq!(read(halves, "timestamp").0, ["1970-01-01T00:00:00.000500Z", "null"]);
}

#[test]
fn times_of_other_units_are_the_same_times_or_do_not_fit() {
    assert_eq!(bad(TimestampSecondArray::from(vec![0, i64::MAX]), "timestamp"), [1]);
    let nanos = TimestampNanosecondArray::from(vec![1_999, -1]);
    let texts = ["1970-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.999999Z"];
    assert_eq!(read(nanos, "timestamp").0, texts);
    assert_eq!(bad(Date32Array::from(vec![0, i32::MAX]), "timestamp"), [1]);
    let moments = TimestampMicrosecondArray::from(vec![-1]);
    assert_eq!(read(moments.clone(), "date").0, ["1969-12-31"]);
    assert_eq!(read(moments, "text").0, ["1969-12-31T23:59:59.999999Z"]);
    assert_eq!(read(Date32Array::from(vec![i32::MAX]), "text").0, ["+5881580-07-11"]);
    assert_eq!(bad(Time32MillisecondArray::from(vec![0, 86_400_000]), "text"), [1]);
}

/// Also where nothing is to be cast: a sink of text could write none, and would end the job.
#[test]
fn a_time_of_day_beyond_the_day_makes_its_record_bad() {
    let as_is = |column: ArrayRef| {
        let field = Field::new("c", column.data_type().clone(), true);
        let (same, misfits) = cast_column(&column, &field).unwrap();
        assert_eq!(&same, &column);
        misfits.into_iter().map(|it| (it.row, it.value)).collect::<Vec<_>>()
    };
    let seconds = Time32SecondArray::from(vec![Some(86_399), Some(86_400), None, Some(-1)]);
    let bad = [(1, b"86400".to_vec()), (3, b"-1".to_vec())];
    assert_eq!(as_is(Arc::new(seconds)), bad);
    let micros = Time64MicrosecondArray::from(vec![86_399_999_999, 86_400_000_000]);
    assert_eq!(as_is(Arc::new(micros)), [(1, b"86400000000".to_vec())]);
    assert_eq!(as_is(Arc::new(Time32MillisecondArray::from(vec![0, 86_399_999]))), []);
}

#[test]
fn text_is_read_as_the_text_of_other_formats() {
    let texts = LargeStringArray::from(vec![Some("12"), Some("x"), None, Some(" 7.0")]);
    let (values, bad_rows) = read(texts, "bigint");
    assert_eq!(values, ["12", "null", "null", "7"]);
    assert_eq!(bad_rows, [(1, "field `c`: \"x\" is not a bigint".to_owned())]);
    let times = StringArray::from(vec!["2024-05-01 10:00", "soon", "20240501"]);
    let (values, bad_rows) = read(times, "timestamp");
    assert_eq!(values, ["2024-05-01T10:00:00Z", "null", "2024-05-01T00:00:00Z"]);
    assert_eq!(bad_rows.len(), 1);
    let dictionary: DictionaryArray<Int8Type> = ["TRUE", "no"].into_iter().collect();
    let (values, bad_rows) = read(dictionary, "boolean");
    assert_eq!((values, bad_rows.len()), (vec!["true".to_owned(), "null".to_owned()], 1));
    let bytes = BinaryArray::from(vec![&b"a"[..], b"\xff"]);
    assert_eq!(bad(bytes, "text"), [1]);
    assert_eq!(read(BooleanArray::from(vec![true]), "text").0, ["true"]);
    assert_eq!(read(NullArray::new(2), "bigint").0, ["null", "null"]);
}

#[test]
fn lists_are_read_element_by_element_and_as_text_they_are_json() {
    let list = |rows: Vec<Option<Vec<Option<f64>>>>| {
        ListArray::from_iter_primitive::<arrow_array::types::Float64Type, _, _>(rows)
    };
    let rows = vec![
        Some(vec![Some(1.0), None]),
        Some(vec![]),
        None,
        Some(vec![Some(2.0), Some(2.5), Some(3.5)]),
        Some(vec![Some(4.0)]),
    ];
    let (texts, bad_rows) = read(list(rows.clone()), "bigint[]");
    assert_eq!((&texts[0], &texts[4]), (&"[1, ]".to_owned(), &"[4]".to_owned()));
    assert_eq!(bad_rows, [(3, "field `c`: 2.5 is not a bigint".to_owned())]);
    assert_eq!(bad(list(rows).slice(2, 2), "bigint[]"), [1], "a slice has offsets of its own");
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a\"", "b"]));
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let names = FixedSizeListArray::new(item, 2, names, None);
    assert_eq!(read(names.clone(), "text").0, [r#"["a\"","b"]"#]);
    assert_eq!(read(names, "text[]").0, ["[a\", b]"]);
    let fields = vec![Field::new("x", DataType::Int32, true)];
    let object = StructArray::new(fields.into(), vec![Arc::new(Int32Array::from(vec![1]))], None);
    assert_eq!(read(object, "text").0, [r#"{"x":1}"#]);
}

#[test]
fn types_of_which_no_value_fits_are_known_before() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Boolean, true)));
    for (from, to) in [
        (moment_type(), "bigint"),
        (DataType::Date32, "int"),
        (DataType::Boolean, "bigint"),
        (DataType::Int64, "boolean"),
        (DataType::Int64, "date"),
        (DataType::Time64(TimeUnit::Microsecond), "timestamp"),
        (list.clone(), "bigint[]"),
        (list, "bigint"),
        (DataType::Utf8, "text[]"),
        (DataType::Binary, "bigint"),
    ] {
        assert!(!can_cast(&from, &parse(to).unwrap()), "{from} as {to}");
    }
}
