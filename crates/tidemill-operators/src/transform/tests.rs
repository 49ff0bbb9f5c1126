//! Each part alone and all together; time goes along; wrong parts are named.

use super::*;
use arrow_array::{Int64Array, StringArray};
use tidemill_flow::{Partition, trial::Trial};
use tidemill_types::Micros;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new(TIME_COLUMN, DataType::Int64, false),
    ]))
}

fn batch() -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(StringArray::from(vec![Some("a b"), Some("c"), None])),
        Arc::new(Int64Array::from(vec![10, 20, 30])),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

fn select(columns: &[(&str, &str)]) -> Named<String> {
    columns.iter().map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect()
}

/// Runs a stage over `batch` and writes its rows as text.
#[track_caller]
fn check(
    flat_map: Option<FlatMapSpec>,
    filter: Option<&str>,
    columns: Option<&[(&str, &str)]>,
    expected: &[&str],
) {
    let select = columns.map(select);
    let factory = transform(&schema(), flat_map.as_ref(), filter, select.as_ref()).expect("right");
    let outputs = factory.outputs();
    let mut trial = Trial::new(factory, vec![Partition::Local], 1, 1);
    let written = trial.cycle(vec![vec![batch()]], Micros::MIN, true).expect("it runs");
    let mut rows = Vec::new();
    for (_, batch) in written {
        assert_eq!(batch.schema(), outputs[0]);
        let text: Vec<ArrayRef> = batch
            .columns()
            .iter()
            .map(|column| arrow_cast::cast(column, &DataType::Utf8).expect("text"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells = text.iter().map(|column| {
                let column = column.as_string::<i32>();
                if column.is_null(row) { "-" } else { column.value(row) }
            });
            rows.push(cells.collect::<Vec<_>>().join(","));
        }
    }
    assert_eq!(rows, expected);
}

fn words() -> Option<FlatMapSpec> {
    let unnest = "string_to_array(text, ' ')".to_owned();
    Some(FlatMapSpec { unnest, name: "word".to_owned() })
}

#[test]
fn a_condition_keeps_what_it_is_true_for() {
    check(None, Some("n > 1"), None, &["3,-,30"]);
    check(None, Some("n is null or n < 3"), None, &["1,a b,10", "-,c,20"]);
    check(None, Some("null"), None, &[]);
}

#[test]
fn new_columns_replace_all_but_time() {
    check(None, None, Some(&[("twice", "n * 2")]), &["2,10", "-,20", "6,30"]);
    check(None, Some("n = 1"), Some(&[("one", "1"), ("t", "text")]), &["1,a b,10"]);
}

#[test]
fn a_list_gives_one_row_an_element_and_nothing_gives_none() {
    check(words(), None, None, &["1,a b,10,a", "1,a b,10,b", "-,c,20,c"]);
    check(words(), Some("word <> 'b'"), Some(&[("word", "word")]), &["a,10", "c,20"]);
    let replace = FlatMapSpec { name: "text".to_owned(), ..words().expect("a list") };
    check(Some(replace), None, Some(&[("text", "text")]), &["a,10", "b,10", "c,20"]);
}

#[test]
fn a_wrong_part_is_named() {
    let refused = |flat_map: Option<FlatMapSpec>, filter, columns: Option<&[(&str, &str)]>| {
        let select = columns.map(select);
        let made = transform(&schema(), flat_map.as_ref(), filter, select.as_ref());
        made.err().expect("refused").part
    };
    assert_eq!(refused(None, Some("m > 1"), None), "where");
    assert_eq!(refused(None, Some("n + 1"), None), "where");
    assert_eq!(refused(None, None, Some(&[("x", "m")])), "select.x");
    assert_eq!(refused(None, None, Some(&[(TIME_COLUMN, "n")])), "select.__time");
    let unnest = |sql: &str| Some(FlatMapSpec { unnest: sql.to_owned(), name: "x".to_owned() });
    assert_eq!(refused(unnest("text"), None, None), "flat_map.unnest");
    assert_eq!(refused(unnest("txt"), None, None), "flat_map.unnest");
}
