//! What a function wrote is there, whatever became of the rows between.

use super::*;
use arrow_array::types::Int64Type;
use arrow_schema::Schema;

fn emit(fields: Vec<Field>) -> Emit {
    Emit::new(&Arc::new(Schema::new(fields)))
}

/// The first columns of all rows.
fn numbers(emit: &mut Emit) -> Vec<i64> {
    emit.flush().unwrap();
    let of = |(it, _): &(RecordBatch, SliceRuns)| {
        it.column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    emit.done.iter().flat_map(of).collect()
}

#[test]
fn a_row_that_does_not_fit_takes_no_other_along() {
    let mut emit = emit(vec![
        Field::new("n", DataType::Int64, false),
        Field::new("text", DataType::Utf8, false),
    ]);
    let bad = |emit: &mut Emit| {
        emit.row(|row| {
            row.i64(-1).f64(0.5);
        })
        .unwrap_err();
        emit.row(|row| {
            row.i64(-2);
        })
        .unwrap_err();
    };
    emit.now = Some(Micros(7));
    bad(&mut emit);
    for n in 0..3 {
        emit.row(|row| {
            row.i64(n).str("text");
        })
        .unwrap();
        emit.dead_letter("odd", b"x");
        bad(&mut emit);
    }
    assert_eq!((emit.letters.len(), emit.now), (3, Some(Micros(7))));
    assert_eq!(numbers(&mut emit), [0, 1, 2]);
}

#[test]
fn a_null_is_written_to_a_column_of_any_type() {
    let mut emit = emit(vec![
        Field::new("n", DataType::Int64, false),
        Field::new("price", DataType::Decimal128(10, 2), true),
    ]);
    for n in 0..2 {
        emit.row(|row| {
            row.i64(n).null();
        })
        .unwrap();
        emit.row(|row| {
            row.i64(n).i64(n);
        })
        .unwrap_err();
    }
    assert_eq!(numbers(&mut emit), [0, 1]);
    assert!(emit.done.iter().all(|(it, _)| it.column(1).null_count() == it.num_rows()));
}
