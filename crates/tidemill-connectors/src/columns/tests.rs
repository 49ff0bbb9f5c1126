//! A bad record leaves no trace; what fits is exact.

use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int16Type, Int64Type, TimestampMicrosecondType, UInt64Type,
};
use arrow_schema::DataType;

fn shape(types: &[(&str, DataType)], time: Option<usize>) -> Shape {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
    Shape { fields: types.iter().map(field).collect(), time }
}

#[test]
fn a_bad_row_is_taken_back_from_every_column() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    let types = [
        ("a", DataType::Int64),
        ("b", DataType::Utf8),
        ("c", DataType::Float64),
        ("d", DataType::Boolean),
        ("e", list),
        ("f", DataType::UInt64),
    ];
    let mut columns = Columns::new(&shape(&types, None));
    for row in 0..4 {
        columns.put(1, FieldValue::Text(b"text")).unwrap();
        columns.put(2, FieldValue::Number(b"1.5")).unwrap();
        columns.put(3, FieldValue::Bool(true)).unwrap();
        columns.put(4, FieldValue::Nested(b"[1]")).unwrap();
        columns.put(5, FieldValue::Number(b"18446744073709551615")).unwrap();
        if row % 2 == 0 {
            columns.put(0, FieldValue::Number(b"7")).unwrap();
            columns.end_row().unwrap();
        } else {
            let error = columns.put(0, FieldValue::Text(b"seven")).unwrap_err();
            assert_eq!(error, "field `a`: \"seven\" is not a bigint");
            columns.undo_row();
        }
    }
    let (batch, bad) = columns.finish().unwrap();
    assert_eq!((batch.num_rows(), bad.len()), (2, 0));
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[7, 7]);
    assert_eq!(batch.column(5).as_primitive::<UInt64Type>().values(), &[u64::MAX; 2]);
    assert!(batch.columns().iter().all(|column| column.null_count() == 0 && column.len() == 2));
    assert_eq!(columns.finish().unwrap().0.num_rows(), 0, "nothing is left");
}

#[test]
fn a_second_value_replaces_the_first_and_missing_ones_are_null() {
    let types = [("a", DataType::Int64), ("b", DataType::Utf8), ("c", DataType::Float64)];
    let mut columns = Columns::new(&shape(&types, None));
    columns.put(0, FieldValue::Number(b"1")).unwrap();
    columns.put(0, FieldValue::Number(b"2.0")).unwrap();
    columns.put(1, FieldValue::Number(b"3")).unwrap();
    columns.end_row().unwrap();
    let (batch, _) = columns.finish().unwrap();
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 2);
    assert_eq!(batch.column(1).as_string::<i32>().value(0), "3");
    assert!(batch.column(2).as_primitive::<Float64Type>().is_null(0));
}

#[test]
fn integers_stay_in_their_bounds() {
    let mut columns = Columns::new(&shape(&[("a", DataType::Int16)], None));
    for (text, fits) in [("32767", true), ("32768", false), ("-32768", true), ("1.5", false)] {
        assert_eq!(columns.put(0, FieldValue::Number(text.as_bytes())).is_ok(), fits, "{text}");
        if fits { columns.end_row().unwrap() } else { columns.undo_row() }
    }
    let (batch, _) = columns.finish().unwrap();
    assert_eq!(batch.column(0).as_primitive::<Int16Type>().values(), &[i16::MAX, i16::MIN]);
}

#[test]
fn a_number_beyond_a_float_is_none_and_the_words_are() {
    let types = [("s", DataType::Float32), ("d", DataType::Float64)];
    let mut columns = Columns::new(&shape(&types, None));
    let beyond = format!("1{}", "0".repeat(309));
    for text in ["1e400", "-1e999", beyond.as_str()] {
        for column in [0, 1] {
            assert!(columns.put(column, FieldValue::Number(text.as_bytes())).is_err(), "{text}");
            assert!(columns.put(column, FieldValue::Text(text.as_bytes())).is_err(), "{text}");
            columns.undo_row();
        }
    }
    let error = columns.put(0, FieldValue::Number(b"1e39")).unwrap_err();
    assert_eq!(error, "field `s`: 1e39 is not a real");
    columns.undo_row();
    for (single, double) in [("3.4028235e38", "1e39"), ("inf", "-inf"), ("-inf", "inf")] {
        columns.put(0, FieldValue::Text(single.as_bytes())).unwrap();
        columns.put(1, FieldValue::Text(double.as_bytes())).unwrap();
        columns.end_row().unwrap();
    }
    columns.put(0, FieldValue::Text(b"NaN")).unwrap();
    columns.put(1, FieldValue::Text(b"NaN")).unwrap();
    columns.end_row().unwrap();
    let (batch, bad) = columns.finish().unwrap();
    assert!(bad.is_empty());
    let singles = batch.column(0).as_primitive::<Float32Type>().values();
    assert_eq!(singles[..3], [f32::MAX, f32::INFINITY, f32::NEG_INFINITY]);
    let doubles = batch.column(1).as_primitive::<Float64Type>().values();
    assert_eq!(doubles[..3], [1e39, f64::NEG_INFINITY, f64::INFINITY]);
    assert!(singles[3].is_nan() && doubles[3].is_nan());
}

#[test]
fn event_time_is_text_or_milliseconds_and_never_missing() {
    let mut columns = Columns::new(&shape(&[("t", column_type::moment_type())], Some(0)));
    let good = [
        FieldValue::Text(b"1970-01-01T00:00:01Z"),
        FieldValue::Number(b"1000"),
        FieldValue::Number(b"1000.0"),
        FieldValue::Text(b"1000"),
        FieldValue::Micros(1_000_000),
    ];
    for value in good {
        columns.put(0, value).unwrap();
        columns.end_row().unwrap();
    }
    for value in [FieldValue::Text(b"soon"), FieldValue::Bool(true), FieldValue::Number(b"1e300")] {
        assert!(columns.put(0, value).unwrap_err().starts_with("field `t`: "));
        columns.undo_row();
    }
    assert_eq!(columns.end_row().unwrap_err(), "field `t`: event time is missing");
    columns.undo_row();
    columns.put(0, FieldValue::Null).unwrap();
    assert!(columns.end_row().is_err());
    columns.undo_row();
    let outside = [
        FieldValue::Text(b"+10000-01-01T00:00:00Z"),
        FieldValue::Number(b"-9223372036854775"),
        FieldValue::Number(b"9223372036854775"),
        FieldValue::Micros(i64::MIN),
        FieldValue::Micros(i64::MAX),
    ];
    for value in outside {
        let reason = columns.put(0, value).and_then(|()| columns.end_row()).unwrap_err();
        let unread = "field `t`: \"+10000-01-01T00:00:00Z\" is not a time (";
        let unfit = "field `t`: event time is not within the years 0000 to 9999";
        assert!(reason == unfit || reason.starts_with(unread), "{reason}");
        columns.undo_row();
    }
    let (batch, _) = columns.finish().unwrap();
    for name in ["t", TIME_COLUMN] {
        let times = batch.column_by_name(name).unwrap();
        assert_eq!(times.as_primitive::<TimestampMicrosecondType>().values(), &[1_000_000; 5]);
    }
    assert_eq!(largest_time(&batch), Some(1_000_000));
}

#[test]
fn a_list_that_does_not_fit_is_found_at_the_end() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    let mut columns = Columns::new(&shape(&[("n", DataType::Int64), ("l", list)], None));
    for (row, text) in ["[1,2]", "[\"x\"]", "[]", "{}"].iter().enumerate() {
        columns.put(0, FieldValue::Number(row.to_string().as_bytes())).unwrap();
        columns.put(1, FieldValue::Nested(text.as_bytes())).unwrap();
        columns.end_row().unwrap();
    }
    let (batch, bad) = columns.finish().unwrap();
    assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(bad[0].1, "field `l`: `[0]`: \"x\" is not a bigint");
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[0, 2]);
}

#[test]
fn nothing_in_a_list_or_an_object_is_cut_to_a_whole_number() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    let inner = vec![Field::new("n", list, true), Field::new("x", DataType::Float64, true)];
    let object = DataType::Struct(inner.into());
    let mut columns = Columns::new(&shape(&[("o", object)], None));
    let (good, bad) = (
        [
            r#"{"n":[1,2.0,1e3],"x":1.5}"#,
            r#"{"x":2.5,"more":1.5}"#,
            r#"{"n":[9007199254740991.0]}"#,
            r#"{"n":[9223372036854775807],"x":1e-3}"#,
        ],
        [r#"{"n":[1,1.9]}"#, r#"{"n":[1e-1]}"#, r#"{"n":[9007199254740993.0]}"#],
    );
    for text in good.iter().chain(&bad) {
        columns.put(0, FieldValue::Nested(text.as_bytes())).unwrap();
        columns.end_row().unwrap();
    }
    let (batch, misfits) = columns.finish().unwrap();
    assert_eq!(misfits.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [4, 5, 6]);
    assert!(misfits[0].1.ends_with(": 1.9 is not a whole number"), "{}", misfits[0].1);
    let numbers = batch.column(0).as_struct().column(0).as_list::<i32>();
    assert_eq!(numbers.value(0).as_primitive::<Int64Type>().values(), &[1, 2, 1_000]);
    assert_eq!(numbers.value(3).as_primitive::<Int64Type>().values(), &[i64::MAX]);
}

#[test]
fn a_time_in_a_list_or_an_object_is_read_as_one_that_stands_alone() {
    let time = column_type::moment_type();
    let list = |of: DataType| DataType::List(Arc::new(Field::new("item", of, true)));
    let inner = vec![Field::new("t", time.clone(), true), Field::new("s", DataType::Utf8, true)];
    let object = DataType::Struct(inner.into());
    let types = [
        ("alone", time.clone()),
        ("list", list(time)),
        ("days", list(DataType::Date32)),
        ("objects", list(object)),
    ];
    let mut columns = Columns::new(&shape(&types, None));
    for alone in ["1714521600000", "1714521600000.5", "\"2024-05-01\"", "\"1714521600000\"", "null"]
    {
        let token = match alone.trim_matches('"') {
            "null" => FieldValue::Null,
            text if text.len() < alone.len() => FieldValue::Text(text.as_bytes()),
            text => FieldValue::Number(text.as_bytes()),
        };
        columns.put(0, token).unwrap();
        columns.put(1, FieldValue::Nested(format!("[ {alone} ]").as_bytes())).unwrap();
        columns.put(2, FieldValue::Nested(br#"["2024-05-01T23:00:00Z",null]"#)).unwrap();
        let object = format!(r#"[{{"x":[1],"t":1,"s":1.10}}, {{"\u0074":{alone}}}]"#);
        columns.put(3, FieldValue::Nested(object.as_bytes())).unwrap();
        columns.end_row().unwrap();
    }
    let (batch, bad) = columns.finish().unwrap();
    assert_eq!((batch.num_rows(), bad), (5, Vec::new()));
    let alone = batch.column(0).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(alone.value(0), 1_714_521_600_000_000);
    let times = batch.column(1).as_list::<i32>().values();
    assert_eq!(times.as_primitive::<TimestampMicrosecondType>(), alone);
    let days = batch.column(2).as_list::<i32>().value(0);
    let days = days.as_primitive::<arrow_array::types::Date32Type>();
    assert_eq!((days.value(0), days.is_null(1)), (19_844, true));
    for row in 0..5 {
        let objects = batch.column(3).as_list::<i32>().value(row);
        let objects = objects.as_struct();
        let times = objects.column(0).as_primitive::<TimestampMicrosecondType>();
        assert_eq!(times.slice(1, 1), alone.slice(row, 1));
        assert_eq!(times.value(0), 1_000, "other fields are as they were");
        assert_eq!(objects.column(1).as_string::<i32>().value(0), "1.10");
    }
}

#[test]
fn what_is_no_time_in_a_list_makes_a_bad_record() {
    let list = |of: DataType| DataType::List(Arc::new(Field::new("item", of, true)));
    let types = [("t", list(column_type::moment_type())), ("d", list(DataType::Date32))];
    let mut columns = Columns::new(&shape(&types, None));
    for (times, days) in [
        (r#"["soon"]"#, "[]"),
        ("[1]", "[1]"),
        ("[2]", "[null]"),
        (r#"[1,[2]]"#, "[]"),
        (r#"["2024-05-01T00:00:00[Europe/Berlin]"]"#, "[]"),
        ("{}", "[]"),
    ] {
        columns.put(0, FieldValue::Nested(times.as_bytes())).unwrap();
        columns.put(1, FieldValue::Nested(days.as_bytes())).unwrap();
        columns.end_row().unwrap();
    }
    let (batch, bad) = columns.finish().unwrap();
    assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 1, 3, 4, 5]);
    assert!(
        bad[0].1.ends_with(": \"soon\" is not a time (ISO 8601, or epoch milliseconds)"),
        "{}",
        bad[0].1
    );
    assert_eq!(batch.num_rows(), 1);
}
