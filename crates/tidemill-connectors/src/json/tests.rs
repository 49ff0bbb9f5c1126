//! Fields that stand twice, and lines that are no record.

use super::*;
use crate::type_inference::Guesses;
use arrow_array::{cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field};

fn shape(columns: &[(&str, DataType)]) -> Shape {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
    Shape { fields: columns.iter().map(field).collect(), time: None }
}

/// The whole numbers of a column, and the reasons of dead letters.
fn read(shape: &Shape, lines: &[&str]) -> (RecordBatch, Vec<String>) {
    let mut decoder = JsonDecoder::new(shape);
    let outcomes = lines.iter().map(|line| decoder.record(line.as_bytes()));
    let mut bad: Vec<String> = outcomes.filter_map(Result::err).collect();
    let (batch, late) = decoder.finish().expect("a batch");
    bad.extend(late.into_iter().map(|(_, reason)| reason));
    (batch, bad)
}

#[test]
fn the_last_of_two_fields_counts_and_no_other() {
    let shape = shape(&[("n", DataType::Int64)]);
    let (batch, bad) = read(
        &shape,
        &[
            r#"{"n":5,"n":6}"#,
            r#"{"n":"x","n":1}"#,
            r#"{"n":1,"n":"x"}"#,
            r#"{"n":1,"n":null}"#,
            r#"{"n":null,"n":7}"#,
            r#"{"n":99999999999999999999,"n":8}"#,
            r#"{"n":{"a":1},"n":9}"#,
            r#"{"n":3,"\u006e":10}"#,
            r#"{"n":"x","n":"y","n":11}"#,
            r#"{"n":"x","\u006e":"y"}"#,
        ],
    );
    let values = batch.column(0).as_primitive::<Int64Type>();
    let values: Vec<Option<i64>> = values.iter().collect();
    let expected = [Some(6), Some(1), None, Some(7), Some(8), Some(9), Some(10), Some(11)];
    assert_eq!(values, expected);
    let reasons = ["field `n`: \"x\" is not a bigint", "field `n`: \"y\" is not a bigint"];
    assert_eq!(bad, reasons);
}

#[test]
fn an_event_time_that_is_replaced_does_not_count() {
    let mut shape = shape(&[("ts", crate::column_type::moment_type())]);
    shape.time = Some(0);
    let (batch, bad) = read(
        &shape,
        &[
            r#"{"ts":"no time","ts":"2026-01-01T00:00:01Z"}"#,
            r#"{"ts":"2026-01-01T00:00:02Z","ts":null}"#,
            r#"{"ts":"2026-01-01T00:00:02Z","ts":"no time"}"#,
        ],
    );
    assert_eq!((batch.num_rows(), bad.len()), (1, 2));
    assert!(bad[0].contains("is missing") && bad[1].contains("no time"), "{bad:?}");
}

/// The columns that lines show, as text.
fn guessed(lines: &[&str]) -> String {
    let mut guesses = Guesses::default();
    lines.iter().for_each(|line| guess_line(line.as_bytes(), &mut guesses));
    let column = |it: &Field| format!("{}: {}", it.name(), it.data_type());
    guesses.shape().fields.iter().map(column).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_value_that_is_replaced_decides_no_type() {
    let lines = [
        r#"{"id":1,"n":"x","n":1,"o":{"a":"x","a":2,"b":1e400,"b":1}}"#,
        r#"{"id":2,"n":2,"o":{"a":3}}"#,
        r#"{"id":3,"n":[1],"\u006e":3,"o":{"a":{},"\u0061":4},"l":[{"a":"x","a":1}]}"#,
    ];
    let expected = "id: Int64, n: Int64, o: Struct(\"a\": Int64, \"b\": Int64), \
                    l: List(Struct(\"a\": Int64))";
    assert_eq!(guessed(&lines), expected);
}

#[test]
fn a_number_that_a_float_would_change_is_text() {
    assert_eq!(guessed(&[r#"{"n":1}"#, r#"{"n":1.5}"#]), "n: Float64");
    assert_eq!(guessed(&[r#"{"n":0.10000000000000001}"#]), "n: Float64");
    assert_eq!(guessed(&[r#"{"n":18446744073709551615}"#, r#"{"n":0}"#]), "n: UInt64");
    for lines in [
        &[r#"{"n":18446744073709551616}"#][..],
        &[r#"{"n":18446744073709551615}"#, r#"{"n":-1}"#],
        &[r#"{"n":9007199254740993}"#, r#"{"n":0.5}"#],
        &[r#"{"n":0.5}"#, r#"{"n":9007199254740993}"#],
        &[r#"{"n":1e400}"#, r#"{"n":1}"#],
        &[r#"{"n":3.14159265358979323846}"#],
    ] {
        assert_eq!(guessed(lines), "n: Utf8", "{lines:?}");
    }
    assert_eq!(guessed(&[r#"{"o":{"a":[1e400]}}"#]), "o: Struct(\"a\": List(Utf8))");
    let mut guesses = Guesses::default();
    guess_line(br#"{"o":{"a":[1e400]},"t":"x","n":9007199254740993}"#, &mut guesses);
    guess_line(br#"{"t":1e400,"n":0.5}"#, &mut guesses);
    let kept: Vec<_> = guesses.kept_as_text().into_iter().collect();
    let expected = [("n", "9007199254740993"), ("o", "1e400")];
    assert_eq!(kept, expected.map(|(name, it)| (name.to_owned(), it.to_owned())));
}

#[test]
fn a_line_is_checked_as_it_is_read() {
    for good in [r#"{}"#, r#" {"a":"\ud83d\ude00","b":[{"c":null}]} "#] {
        assert_eq!(check_json_object(good.as_bytes()), Ok(()));
    }
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(129), "]".repeat(129));
    for bad in [
        "1",
        "[]",
        "null",
        "\"x\"",
        "",
        "x",
        "{",
        r#"{"a":"\ud83d"}"#,
        r#"{"\udc00":1}"#,
        r#"{"a":01}"#,
        r#"{"a":1}}"#,
        r#"{"a":1} {}"#,
        deep.as_str(),
    ] {
        assert!(check_json_object(bad.as_bytes()).is_err(), "{bad}");
        assert!(read(&shape(&[("a", DataType::Utf8)]), &[bad]).1.len() == 1, "{bad}");
    }
    assert!(check_json_object(b"{\"a\":\"\xff\"}").is_err());
}
