//! Both ways of reading agree, and parts of a value are read as columns are.

use super::super::{Columns, FieldValue, Shape};
use super::*;
use arrow_array::types::Int64Type;
use proptest::prelude::*;

fn list(of: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", of, true)))
}

/// The array, and the rows that do not fit.
fn decode(data_type: &DataType, lines: &[&str]) -> (ArrayRef, Vec<(usize, String)>) {
    let (mut json, mut ends) = (Vec::new(), Vec::new());
    for line in lines {
        json.extend_from_slice(line.as_bytes());
        json.push(b'\n');
        ends.push(json.len());
    }
    decode_nested(&Field::new("f", data_type.clone(), true), &json, &ends).unwrap()
}

/// What a column that is no list makes of a value.
fn alone(data_type: &DataType, value: FieldValue<'_>) -> Option<ArrayRef> {
    let shape = Shape { fields: vec![Field::new("f", data_type.clone(), true)], time: None };
    let mut columns = Columns::new(&shape);
    columns.put(0, value).ok()?;
    columns.end_row().unwrap();
    Some(Arc::clone(columns.finish().unwrap().0.column(0)))
}

#[test]
fn what_stands_in_a_list_is_read_as_what_stands_alone() {
    let types = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int64,
        DataType::UInt16,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::Date32,
        crate::column_type::moment_type(),
    ];
    let numbers = [
        "0",
        "-0",
        "7",
        "7.0",
        "7.5",
        "1e2",
        "1e39",
        "-1e39",
        "1e400",
        "128",
        "-1",
        "65536",
        "9007199254740993",
        "9007199254740993.0",
        "18446744073709551615",
        "0.1",
        "16777217",
        "3.4028235e38",
        "1E-400",
    ];
    let texts = [
        "",
        "x",
        "TRUE",
        "False",
        " true ",
        " 7 ",
        "7.0",
        "+7",
        ".5",
        "1.",
        "+.5e3",
        "007",
        "2024-05-01",
        "20240501",
        "inf",
        "-INF",
        "+inf",
        "Infinity",
        "nan",
        "NaN",
        "-nan",
        "1e400",
        "1_0",
        "0x1",
        "ä\\\"\u{1f600}",
        "null",
    ];
    let others = ["true", "false", "null", "[]", "[1, \"a\\u00e4\"]", r#"{"a" : "\""}"#];
    let quoted: Vec<String> = texts.iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    let mut cases: Vec<(&str, FieldValue<'_>)> = Vec::new();
    cases.extend(numbers.iter().map(|it| (*it, FieldValue::Number(it.as_bytes()))));
    let of_texts = quoted.iter().zip(&texts);
    cases.extend(of_texts.map(|(json, it)| (json.as_str(), FieldValue::Text(it.as_bytes()))));
    cases.extend(others.iter().map(|it| {
        let value = match *it {
            "true" => FieldValue::Bool(true),
            "false" => FieldValue::Bool(false),
            "null" => FieldValue::Null,
            it => FieldValue::Nested(it.as_bytes()),
        };
        (*it, value)
    }));
    for data_type in &types {
        for (json, value) in &cases {
            let expected = alone(data_type, *value);
            let line = format!("[{json}]");
            let (array, misfits) = decode(&list(data_type.clone()), &[&line]);
            let found = misfits.is_empty().then(|| array.as_list::<i32>().value(0));
            // A NaN is none that another is equal to.
            assert_eq!(
                format!("{found:?}"),
                format!("{expected:?}"),
                "{json} as {data_type}: {misfits:?}"
            );
        }
    }
}

#[test]
fn a_part_that_is_text_takes_lists_and_objects() {
    let object = DataType::Struct(vec![Field::new("a", DataType::Utf8, true)].into());
    let lines = [r#"{"a":"x"}"#, r#"{"a":[1, 2]}"#, r#"{"b":1,"a":{"c":"\n"}}"#, r#"{"a":null}"#];
    let (array, misfits) = decode(&object, &lines);
    assert_eq!(misfits, []);
    let texts: Vec<Option<&str>> = array.as_struct().column(0).as_string::<i32>().iter().collect();
    assert_eq!(texts, [Some("x"), Some("[1, 2]"), Some(r#"{"c":"\n"}"#), None]);
}

#[test]
fn what_is_beyond_a_float_is_a_misfit_and_words_are_none() {
    let (array, misfits) = decode(&list(DataType::Float64), &["[1.5]", "[1e400]", r#"["inf"]"#]);
    assert_eq!(misfits, [(1, "`[0]`: 1e400 is not a double".to_owned())]);
    assert!(array.is_null(1));
    let value = |row| array.as_list::<i32>().value(row).as_primitive::<Float64Type>().value(0);
    assert_eq!((value(0), value(2)), (1.5, f64::INFINITY));
}

/// Whether the first of two is read at all does not hang on other rows.
#[test]
fn of_two_fields_with_one_name_the_last_counts() {
    let object = DataType::Struct(vec![Field::new("n", DataType::Int64, true)].into());
    let twice = r#"{"n":"x","n":1}"#;
    for lines in [&[twice][..], &[twice, r#"{"n":2.0}"#]] {
        let (array, misfits) = decode(&object, lines);
        assert_eq!(misfits, []);
        assert_eq!(array.as_struct().column(0).as_primitive::<Int64Type>().value(0), 1);
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value as V;
    let leaf = prop_oneof![
        Just(V::Null),
        any::<bool>().prop_map(V::from),
        any::<i64>().prop_map(V::from),
        (-300_i64..300).prop_map(V::from),
        any::<f64>().prop_map(V::from),
        "[a-e0-9.+ \"\\\\-]{0,6}".prop_map(V::from),
        prop_oneof![Just("true"), Just("inf"), Just("7.0"), Just("2024-05-01")].prop_map(V::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(V::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|it| V::Object(it.into_iter().collect())),
        ]
    })
}

fn any_type() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        Just(DataType::Boolean),
        Just(DataType::Int8),
        Just(DataType::Int64),
        Just(DataType::UInt64),
        Just(DataType::Float32),
        Just(DataType::Float64),
        Just(DataType::Utf8),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(list),
            proptest::collection::vec(inner, 1..4).prop_map(|types| {
                let field = |(at, it): (usize, DataType)| Field::new(["a", "b", "c"][at], it, true);
                DataType::Struct(types.into_iter().enumerate().map(field).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_is_the_same_as_written_and_rewritten(element in any_type(), json in any_json()) {
        let data_type = list(element);
        let line = format!("[{json}]\n");
        let (rewritten, _, misfits) = rewritten(&data_type, line.as_bytes(), &[line.len()]);
        let read = decode_lines(&data_type, &rewritten, 1);
        prop_assert!(read.is_ok(), "{line} as {data_type}: {read:?}");
        if let Some(array) = decode_as_written(&data_type, line.as_bytes(), 1) {
            prop_assert!(misfits.is_empty(), "{line} as {data_type}: {misfits:?}");
            prop_assert_eq!(format!("{array:?}"), format!("{:?}", read.unwrap()));
        }
    }
}
