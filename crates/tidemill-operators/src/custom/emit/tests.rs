//! What a function wrote is there, whatever became of the rows between.

use super::*;
use arrow_array::types::Int64Type;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Schema, TimeUnit};

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

/// What is written to one column of this type, and what it then holds, as text.
fn written(kind: DataType, values: &[EmitValue<'_>]) -> Result<Vec<String>, String> {
    let mut emit = emit(vec![Field::new("c", kind.clone(), true)]);
    for value in values {
        emit.row(|row| {
            row.put(*value);
        })
        .map_err(|error| error.message)?;
    }
    emit.flush().unwrap();
    let column = emit.done[0].0.column(0);
    assert_eq!(*column.data_type(), kind);
    let text = |row| match column.is_null(row) {
        true => "null".to_owned(),
        false => array_value_to_string(column, row).unwrap(),
    };
    Ok((0..column.len()).map(text).collect())
}

#[test]
fn a_row_is_written_to_columns_of_every_plain_type() {
    let of = |kind: &DataType, values: &[EmitValue<'_>], wanted: &[&str]| {
        let values = [values, &[EmitValue::Null][..]].concat();
        assert_eq!(
            written(kind.clone(), &values).unwrap(),
            [wanted, &["null"][..]].concat(),
            "{kind}"
        );
    };
    let refused = |kind: DataType, value: EmitValue<'_>| {
        let error = written(kind.clone(), &[value]).unwrap_err();
        assert!(error.ends_with(&format!(" written to the column `c` of type {kind}")), "{error}");
        error
    };
    for (kind, least, most) in [
        (DataType::Int8, -128, 127),
        (DataType::Int16, -32_768, 32_767),
        (DataType::Int32, i64::from(i32::MIN), i64::from(i32::MAX)),
        (DataType::UInt8, 0, 255),
        (DataType::UInt16, 0, 65_535),
        (DataType::UInt32, 0, i64::from(u32::MAX)),
    ] {
        let values = [EmitValue::I64(least), EmitValue::U64(most as u64)];
        of(&kind, &values, &[&least.to_string(), &most.to_string()]);
        assert!(
            refused(kind.clone(), EmitValue::I64(least - 1)).starts_with(&(least - 1).to_string())
        );
        assert!(
            refused(kind, EmitValue::U64(most as u64 + 1)).starts_with(&(most + 1).to_string())
        );
    }
    of(&DataType::Float16, &[EmitValue::F64(0.5)], &["0.5"]);
    let key = |kind| DataType::Dictionary(Box::new(kind), Box::new(DataType::Utf8));
    let text = [DataType::LargeUtf8, DataType::Utf8View, key(DataType::Int16)];
    for kind in &text {
        of(
            kind,
            &[EmitValue::Str("tide"), EmitValue::Str(""), EmitValue::Str("tide")],
            &["tide", "", "tide"],
        );
        refused(kind.clone(), EmitValue::I64(1));
    }
    for kind in [DataType::LargeBinary, DataType::BinaryView] {
        of(&kind, &[EmitValue::Bytes(b"ab"), EmitValue::Str("c")], &["6162", "63"]);
    }
    of(&DataType::FixedSizeBinary(2), &[EmitValue::Bytes(b"ab")], &["6162"]);
    assert!(refused(DataType::FixedSizeBinary(2), EmitValue::Bytes(b"abc")).starts_with("3 bytes"));
    let noon = 43_200_000_000;
    let time = |micros| EmitValue::Time(Micros(micros));
    for kind in [DataType::Date32, DataType::Date64] {
        let shown = written(kind.clone(), &[time(-2 * noon), time(0)]).unwrap();
        assert!(shown[0].starts_with("1969-12-31") && shown[1].starts_with("1970-01-01"));
        refused(kind.clone(), time(noon));
        refused(kind, EmitValue::I64(1));
    }
    for (unit, most) in
        [(TimeUnit::Second, 6), (TimeUnit::Millisecond, 3), (TimeUnit::Nanosecond, 0)]
    {
        for zone in [None, Some("UTC".into())] {
            let kind = DataType::Timestamp(unit, zone);
            let moment = 10_i64.pow(most) * 7;
            let shown = written(kind.clone(), &[time(moment), time(-moment)]).unwrap();
            let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
            assert_eq!(
                shown.iter().map(|it| it.trim_end_matches('Z')).collect::<Vec<_>>(),
                written(micros, &[time(moment), time(-moment)]).unwrap()
            );
        }
    }
    refused(DataType::Timestamp(TimeUnit::Second, None), time(1));
    refused(DataType::Timestamp(TimeUnit::Nanosecond, None), time(i64::MAX));
    for kind in
        [DataType::Decimal128(10, 2), DataType::Time32(TimeUnit::Second), key(DataType::Int8)]
    {
        assert_eq!(
            written(kind.clone(), &[EmitValue::I64(1)]).unwrap_err(),
            format!(
                "the column `c` of type {kind} cannot be written row by row: write it with `emit.batch`"
            )
        );
    }
}

#[test]
fn dates_are_read_as_they_are_written() {
    for kind in [DataType::Date32, DataType::Date64] {
        let mut emit = emit(vec![Field::new("day", kind, true)]);
        let days = [Some(Micros(-86_400_000_000)), None, Some(Micros(172_800_000_000))];
        for day in days {
            emit.row(|row| {
                row.put(day);
            })
            .unwrap();
        }
        emit.flush().unwrap();
        let batch = &emit.done[0].0;
        assert_eq!(crate::custom::read_records(batch, |it| it.timestamp("day")).unwrap(), days);
    }
}
