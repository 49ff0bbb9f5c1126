//! Plain values are shown as what they are, others as JSON.

use super::{ColumnKind, ColumnValue, kind_of, show};
use crate::structure::{List, Map, Queue, Structure, Value, Window};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::ControlFlow};
use tidemill_types::Micros;

#[derive(Serialize, Deserialize)]
struct Point {
    x: i32,
    name: String,
}

fn rows(of: &dyn Structure) -> Vec<Vec<ColumnValue>> {
    let mut rows = Vec::new();
    of.show(&mut |row| {
        rows.push(row);
        ControlFlow::Continue(())
    });
    rows
}

#[test]
fn plain_values_are_shown_as_what_they_are() {
    assert_eq!(
        (kind_of::<String>(), show(&"a".to_owned())),
        (ColumnKind::Text, ColumnValue::Text("a".into()))
    );
    assert_eq!((kind_of::<u16>(), show(&7_u16)), (ColumnKind::UInt, ColumnValue::UInt(7)));
    assert_eq!((kind_of::<i64>(), show(&-7_i64)), (ColumnKind::Int, ColumnValue::Int(-7)));
    assert_eq!((kind_of::<f32>(), show(&0.5_f32)), (ColumnKind::Float, ColumnValue::Float(0.5)));
    assert_eq!((kind_of::<bool>(), show(&true)), (ColumnKind::Bool, ColumnValue::Bool(true)));
    assert_eq!(
        (kind_of::<Micros>(), show(&Micros(3))),
        (ColumnKind::Time, ColumnValue::Time(Micros(3)))
    );
    assert_eq!(
        (kind_of::<Option<i64>>(), show(&None::<i64>)),
        (ColumnKind::Int, ColumnValue::Null)
    );
    assert_eq!(show(&Some(5_i64)), ColumnValue::Int(5));
}

#[test]
fn other_values_are_json_and_what_json_cannot_say_is_null() {
    let point = Point { x: 1, name: "p".into() };
    assert_eq!(kind_of::<Point>(), ColumnKind::Json);
    assert_eq!(show(&point), ColumnValue::Text(r#"{"x":1,"name":"p"}"#.into()));
    assert_eq!(show(&(1_i64, "a".to_owned())), ColumnValue::Text(r#"[1,"a"]"#.into()));
    assert_eq!(show(&BTreeMap::from([((1, 2), 3)])), ColumnValue::Null);
}

#[test]
fn every_structure_shows_its_values_in_order() {
    let (mut map, mut list) = (Map::<String, i64>::default(), List::<bool>::default());
    let (mut queue, mut window) = (Queue::<u8>::default(), Window::<f64>::default());
    for n in 0..3 {
        map.set(format!("k{n}"), n);
        list.push(n == 1);
        queue.push(n as u8);
        window.push(Micros(n), n as f64);
    }
    map.delete("k1");
    queue.pop();
    let names = |of: &dyn Structure| -> Vec<&str> {
        of.columns().into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&map), ["key", "value"]);
    let text = |it: &str| ColumnValue::Text(it.into());
    assert_eq!(
        rows(&map),
        [vec![text("k0"), ColumnValue::Int(0)], vec![text("k2"), ColumnValue::Int(2)]]
    );
    assert_eq!(rows(&list)[1], [ColumnValue::UInt(1), ColumnValue::Bool(true)]);
    assert_eq!(
        rows(&queue),
        [
            vec![ColumnValue::UInt(0), ColumnValue::UInt(1)],
            vec![ColumnValue::UInt(1), ColumnValue::UInt(2)]
        ]
    );
    assert_eq!(names(&window), ["time", "value"]);
    assert_eq!(rows(&window)[2], [ColumnValue::Time(Micros(2)), ColumnValue::Float(2.0)]);
    assert_eq!(rows(&Value::new(7_i64)), [vec![ColumnValue::Int(7)]]);
}

#[test]
fn who_has_seen_enough_is_shown_no_more() {
    let mut list = List::<i64>::default();
    (0..100).for_each(|n| list.push(n));
    let mut seen = 0;
    list.show(&mut |_| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(seen, 3);
}
