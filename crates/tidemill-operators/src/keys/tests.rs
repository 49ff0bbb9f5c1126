//! Text in dictionaries is a key as plain text is, wherever in a dictionary it stands.

use super::*;
use crate::{dedup::dedup, join::join, top::top, window::windowed};
use arrow_array::{DictionaryArray, Int64Array, StringArray, types::Int32Type};
use arrow_schema::Field;
use std::sync::Arc;
use tidemill_flow::{OperatorFactory, Partition, trial::Trial};
use tidemill_types::{
    Micros,
    job::{DedupSpec, EmptySpec, JoinKind, JoinSpec, TopSpec, WindowSpec},
};

const PLAIN: DataType = DataType::Utf8;

fn folded() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn schema(key: &DataType) -> SchemaRef {
    let fields = vec![Field::new("k", key.clone(), true), Field::new("n", DataType::Int64, false)];
    Arc::new(arrow_schema::Schema::new(fields))
}

/// Some rows; each batch has a dictionary of its own, with a null in it and words that nobody uses.
fn batch(key: &DataType, cycle: i64, columns: usize) -> RecordBatch {
    let words = [Some("b"), None, Some("unused"), Some("a"), Some("tide")];
    let turned = (0..words.len()).map(|it| words[(it + cycle as usize) % words.len()]);
    let numbers = cycle * 10..cycle * 10 + 10;
    let places = numbers.clone().map(|n| (n % 7 != 0).then_some((n % 5) as i32));
    let places = places
        .map(|it| it.filter(|it| words[(*it as usize + cycle as usize) % 5] != Some("unused")));
    let values = Arc::new(turned.collect::<StringArray>());
    let keys: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(places.collect(), values));
    let keys = cast(&keys, key).unwrap();
    let columns =
        [keys, Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef][..columns].to_vec();
    let schema = Arc::new(schema(key).project(&(0..columns.len()).collect::<Vec<_>>()).unwrap());
    RecordBatch::try_new(schema, columns).unwrap()
}

/// What an operator writes of keys of these types, by port, with keys as plain text.
fn written(
    factory: Arc<dyn OperatorFactory>,
    ports: &[(DataType, usize)],
    lanes: u32,
) -> Vec<RecordBatch> {
    let parts = ports.iter().map(|_| Partition::Key(vec![0])).collect();
    let mut trial = Trial::new(factory, parts, 4, lanes);
    let mut all = Vec::new();
    for cycle in 0..6 {
        let of = |(key, columns): &(DataType, usize)| {
            (0..2).map(|nth| batch(key, 2 * cycle + nth, *columns)).collect()
        };
        let input = ports.iter().map(of).collect();
        all.extend(trial.cycle(input, Micros::MIN, cycle == 5).unwrap());
    }
    let plain = |(_, batch): (usize, RecordBatch)| {
        let columns =
            batch.schema_ref().fields().iter().zip(batch.columns()).map(|(field, column)| {
                let kind =
                    if *field.data_type() == folded() { PLAIN } else { field.data_type().clone() };
                (field.name().clone(), cast(column, &kind).unwrap(), true)
            });
        RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).unwrap()
    };
    all.into_iter().map(plain).collect()
}

#[test]
fn text_in_dictionaries_is_a_key_as_plain_text_is() {
    let of_one = |make: &dyn Fn(&SchemaRef) -> Arc<dyn OperatorFactory>| {
        let of = |key: DataType, lanes| written(make(&schema(&key)), &[(key, 2)], lanes);
        let wanted = of(PLAIN, 1);
        assert!(wanted.iter().map(RecordBatch::num_rows).sum::<usize>() > 3);
        assert_eq!(of(folded(), 1), wanted);
        assert_eq!(of(folded(), 3), of(PLAIN, 3));
    };
    let calls = [("n".to_owned(), "sum(n)".to_owned())].into_iter().collect();
    of_one(&|schema| {
        let window = Some(WindowSpec::Global(EmptySpec {}));
        windowed(schema, &["k".to_owned()], window.as_ref(), &calls).unwrap()
    });
    of_one(&|schema| {
        let spec = DedupSpec { on: vec!["k".to_owned()], within: None };
        dedup(schema, &spec).unwrap()
    });
    of_one(&|schema| {
        let (by, per) = ("n".to_owned(), vec!["k".to_owned()]);
        top(schema, &TopSpec { k: 2, by, ascending: false, per }).unwrap().factory
    });
    let spec = JoinSpec {
        left: "l".to_owned(),
        right: None,
        table: Some("r".to_owned()),
        on: vec!["k".to_owned()],
        within: None,
        kind: JoinKind::Left,
    };
    let joined = |left: DataType, right: DataType| {
        let ports = [(left, 2), (right, 2)];
        let made = join(&schema(&ports[0].0), &schema(&ports[1].0), &spec).unwrap();
        written(made.factory, &ports, 2)
    };
    let wanted = joined(PLAIN, PLAIN);
    assert!(wanted.iter().map(RecordBatch::num_rows).sum::<usize>() > 3);
    assert_eq!(joined(folded(), PLAIN), wanted);
    assert_eq!(joined(PLAIN, folded()), wanted);
    assert_eq!(joined(folded(), folded()), wanted);
}

#[test]
fn floats_in_dictionaries_are_no_key() {
    let of = |value| DataType::Dictionary(Box::new(DataType::UInt8), Box::new(value));
    let is_key = |kind: &DataType| tidemill_flow::partition::check_key_type(kind).is_ok();
    assert!(is_key(&of(DataType::Int64)) && is_key(&of(DataType::LargeUtf8)));
    // Their two zeros would be two keys.
    assert!(!is_key(&of(DataType::Float64)) && !is_key(&of(of(DataType::Utf8))));
}
