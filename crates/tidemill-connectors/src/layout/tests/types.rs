//! A table: every type of Arrow, by itself and within a list and an object, through every sink, as a
//! key, as a column of PostgreSQL and as the text that a `schema` may ask for. Each comes out as it is,
//! or is refused before the job runs, with the column's name and what to do.

use super::*;
use arrow_array::{
    BinaryArray, BooleanArray, DictionaryArray, Int8Array, Int64Array, NullArray, PrimitiveArray,
    StringArray, UnionArray,
    builder::{Int32Builder, MapBuilder, StringBuilder},
    types::*,
};
use arrow_schema::UnionFields;

/// Two values and a null of a type, and the first value in JSON; none if JSON has no form for it.
type Case = (ArrayRef, Option<&'static str>);

fn primitive<T: ArrowPrimitiveType>(first: T::Native, second: T::Native) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter([Some(first), Some(second), None]))
}

fn numbers() -> Vec<Case> {
    let decimals = || arrow_array::Decimal128Array::from(vec![Some(12345), Some(-1), None]);
    let halves = primitive::<Float32Type>(1.5, -0.25);
    let of_scale = |digits, scale| -> ArrayRef {
        Arc::new(decimals().with_precision_and_scale(digits, scale).unwrap())
    };
    let mut all = vec![
        (primitive::<Int8Type>(i8::MIN, 127), Some("-128")),
        (primitive::<Int16Type>(i16::MIN, 5), Some("-32768")),
        (primitive::<Int32Type>(i32::MIN, 5), Some("-2147483648")),
        (primitive::<Int64Type>(i64::MIN, 5), Some("-9223372036854775808")),
        (primitive::<UInt8Type>(u8::MAX, 5), Some("255")),
        (primitive::<UInt16Type>(u16::MAX, 5), Some("65535")),
        (primitive::<UInt32Type>(u32::MAX, 5), Some("4294967295")),
        (primitive::<UInt64Type>(u64::MAX, 5), Some("18446744073709551615")),
        (exact(&halves, &DataType::Float16).unwrap(), Some("1.5")),
        (halves, Some("1.5")),
        (primitive::<Float64Type>(2.5, f64::INFINITY), Some("2.5")),
        (of_scale(38, -2), Some("1234500")),
        (exact(&of_scale(38, 2), &DataType::Decimal256(76, 2)).unwrap(), Some("123.45")),
    ];
    let small = of_scale(9, 2);
    for to in [DataType::Decimal32(9, 2), DataType::Decimal64(18, 2), DataType::Decimal128(38, 2)] {
        all.push((exact(&small, &to).unwrap(), Some("123.45")));
    }
    all
}

fn times() -> Vec<Case> {
    let zoned = primitive::<TimestampSecondType>(-1, 0);
    let zoned = zoned.as_primitive::<TimestampSecondType>().clone().with_timezone("+02:00");
    let (day, nanos) = (IntervalDayTimeType::make_value, IntervalMonthDayNanoType::make_value);
    vec![
        (primitive::<TimestampSecondType>(-1, 0), Some("\"1969-12-31T23:59:59Z\"")),
        (primitive::<TimestampMillisecondType>(-1, 0), Some("\"1969-12-31T23:59:59.999Z\"")),
        (primitive::<TimestampMicrosecondType>(-1, 0), Some("\"1969-12-31T23:59:59.999999Z\"")),
        (primitive::<TimestampNanosecondType>(-1, 0), Some("\"1969-12-31T23:59:59.999999999Z\"")),
        (Arc::new(zoned), Some("\"1969-12-31T23:59:59Z\"")),
        (primitive::<Date32Type>(-1, 19_000), Some("\"1969-12-31\"")),
        (primitive::<Date64Type>(-86_400_000, 0), Some("\"1969-12-31T00:00:00Z\"")),
        (primitive::<Time32SecondType>(86_399, 0), Some("\"23:59:59\"")),
        (primitive::<Time32MillisecondType>(1, 86_399_999), Some("\"00:00:00.001\"")),
        (primitive::<Time64MicrosecondType>(1, 0), Some("\"00:00:00.000001\"")),
        (primitive::<Time64NanosecondType>(1, 0), Some("\"00:00:00.000000001\"")),
        (primitive::<DurationSecondType>(90, -1), Some("\"PT90S\"")),
        (primitive::<DurationMillisecondType>(-1, 1_500), Some("\"-PT0.001S\"")),
        (primitive::<DurationMicrosecondType>(i64::MIN, 0), Some("\"-PT9223372036854.775808S\"")),
        (primitive::<DurationNanosecondType>(1, -1), Some("\"PT0.000000001S\"")),
        (primitive::<IntervalYearMonthType>(14, 0), Some("\"1 years 2 mons\"")),
        (
            primitive::<IntervalDayTimeType>(day(1, 1_500), day(-1, 0)),
            Some("\"1 days 1.500 secs\""),
        ),
        (
            primitive::<IntervalMonthDayNanoType>(nanos(14, 3, 1), nanos(-1, 0, 0)),
            Some("\"14 mons 3 days 0.000000001 secs\""),
        ),
    ]
}

fn bytes_and_texts() -> Vec<Case> {
    use DataType as D;
    let bytes: ArrayRef =
        Arc::new(BinaryArray::from_iter([Some(&b"ab"[..]), Some(b"\xff\0"), None]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a\u{e4}"), Some(""), None]));
    let bytes = [D::Binary, D::LargeBinary, D::BinaryView, D::FixedSizeBinary(2)]
        .map(|to| (exact(&bytes, &to).unwrap(), Some("\"ab\"")));
    let texts = [D::Utf8, D::LargeUtf8, D::Utf8View]
        .map(|to| (exact(&texts, &to).unwrap(), Some("\"a\u{e4}\"")));
    bytes.into_iter().chain(texts).collect()
}

/// A map with one entry, an empty one and a null.
fn map<K: arrow_array::builder::ArrayBuilder>(keys: K, put: impl FnOnce(&mut K)) -> ArrayRef {
    let mut maps = MapBuilder::new(None, keys, Int32Builder::new());
    put(maps.keys());
    maps.values().append_value(1);
    for is_there in [true, true, false] {
        maps.append(is_there).unwrap();
    }
    Arc::new(maps.finish())
}

fn unions() -> Vec<Case> {
    let field = |name, data_type| Arc::new(Field::new(name, data_type, true));
    let fields: UnionFields =
        [(0, field("i", DataType::Int32)), (1, field("t", DataType::Utf8))].into_iter().collect();
    let ints = |it: Vec<Option<i32>>| -> ArrayRef { Arc::new(Int32Array::from(it)) };
    let texts = |it: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(it)) };
    let ids = || vec![0_i8, 1, 0].into();
    let sparse = vec![ints(vec![Some(1), None, None]), texts(vec!["", "a", ""])];
    let sparse = UnionArray::try_new(fields.clone(), ids(), None, sparse).unwrap();
    let dense = vec![ints(vec![Some(1), None]), texts(vec!["a"])];
    let dense = UnionArray::try_new(fields, ids(), Some(vec![0, 0, 1].into()), dense).unwrap();
    vec![(Arc::new(sparse), None), (Arc::new(dense), None)]
}

fn nested_types() -> Vec<Case> {
    use DataType as D;
    let element = || Arc::new(Field::new("item", D::Int32, true));
    let lists = [
        D::List(element()),
        D::LargeList(element()),
        D::ListView(element()),
        D::LargeListView(element()),
        D::FixedSizeList(element(), 2),
    ];
    let plain: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        Some(vec![Some(2), Some(3)]),
        None,
    ]));
    let lists = lists.map(|to| (exact(&plain, &to).unwrap(), Some("[1,null]")));
    let maps = [
        (map(StringBuilder::new(), |keys| keys.append_value("k")), Some("{\"k\":1}")),
        (map(Int32Builder::new(), |keys| keys.append_value(7)), None),
    ];
    lists.into_iter().chain(maps).collect()
}

/// All types, and those of single values as dictionaries and as runs.
fn cases() -> Vec<Case> {
    let nothing: ArrayRef = Arc::new(NullArray::new(3));
    let truths: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
    let mut all = vec![(nothing, Some("null")), (truths, Some("true"))];
    all.extend(numbers().into_iter().chain(times()).chain(bytes_and_texts()));
    let mut packed: Vec<Case> = Vec::new();
    for (column, json) in &all[1..] {
        let keys = Int8Array::from(vec![Some(0), Some(1), None]);
        packed.push((Arc::new(DictionaryArray::new(keys, column.slice(0, 2))), *json));
        let ends = Int64Array::from(vec![1, 2, 3]);
        packed.push((Arc::new(RunArray::<Int64Type>::try_new(&ends, column).unwrap()), *json));
    }
    all.into_iter().chain(packed).chain(nested_types()).chain(unions()).collect()
}

/// The column by itself, as a list's elements and as an object's field.
fn forms((column, json): &Case) -> Vec<(ArrayRef, Option<String>)> {
    let field = Arc::new(Field::new("f", column.data_type().clone(), true));
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([1, 1, 1]);
    let lists = ListArray::new(Arc::clone(&field), offsets, Arc::clone(column), None);
    let objects = StructArray::new(vec![field].into(), vec![Arc::clone(column)], None);
    vec![
        (Arc::clone(column), json.map(str::to_owned)),
        (Arc::new(lists), json.map(|it| format!("[{it}]"))),
        (Arc::new(objects), json.map(|it| format!("{{\"f\":{it}}}"))),
    ]
}

fn rows_of(column: &ArrayRef) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    RecordBatch::try_from_iter_with_nullable([("id", id, false), ("c", Arc::clone(column), true)])
        .unwrap()
}

/// A refusal names the column, or the part of it, and what to do.
#[track_caller]
fn assert_helps(message: &str, name: &str) {
    assert!(message.contains("column `c"), "{name}: {message}");
    assert!(message.contains("with `select`"), "{name}: {message}");
    for kind in ["Schema error", "Parquet error", "Json error", "NYI", "Field {"] {
        assert!(!message.contains(kind), "{name}: {message}");
    }
}

#[test]
fn every_type_is_written_as_text_or_refused_with_the_column() {
    for case in cases() {
        for (column, json) in forms(&case) {
            let (batch, name) = (rows_of(&column), column.data_type().to_string());
            for format in [Format::Json, Format::Csv, Format::Text] {
                let rows = rows_as(format, &batch.schema(), std::slice::from_ref(&batch));
                let rows = match (rows, &json) {
                    (Err(error), None) => {
                        assert_helps(&error.message, &name);
                        continue;
                    }
                    (rows, Some(_)) => String::from_utf8(rows.expect(&name)).unwrap(),
                    (Ok(_), None) => panic!("{name} has no form in {format}"),
                };
                let Some(json) = &json else { continue };
                if format == Format::Json {
                    let first = rows.lines().next().unwrap();
                    assert_eq!(first, format!("{{\"id\":1,\"c\":{json}}}"), "{name}");
                    for line in rows.lines() {
                        serde_json::from_str::<serde_json::Value>(line).expect(&name);
                    }
                    continue;
                }
                // As in JSON; texts and times without the quotes.
                let json = json.as_str();
                let is_nested = column.data_type().is_nested() && !json.starts_with('"');
                let value = if is_nested { json } else { json.trim_matches('"') };
                let value = if value == "null" { "" } else { value };
                let line = match format {
                    Format::Text => format!("1\t{value}"),
                    _ if value.contains([',', '"']) => {
                        format!("1,\"{}\"", value.replace('"', "\"\""))
                    }
                    _ => format!("1,{value}"),
                };
                let skipped = usize::from(format == Format::Csv);
                assert_eq!(rows.lines().nth(skipped).unwrap(), line, "{name} in {format}");
            }
        }
    }
}

#[test]
fn every_type_is_a_key_as_it_is_written_or_refused_with_the_column() {
    for case in cases() {
        for (column, json) in forms(&case) {
            let (batch, name) = (rows_of(&column), column.data_type().to_string());
            let of = ("stream `s`", "s");
            let rows = UncommittedRows::new(of, Format::Text, &["c".to_owned()], &batch.schema());
            let mut rows = match (rows, json) {
                (Err(error), None) => {
                    assert_helps(&error.message, &name);
                    continue;
                }
                (rows, _) => rows.expect(&name),
            };
            let block = Arc::new(Block::whole(Payload::Arrow(batch), SliceId(0)));
            rows.write(Cycle(1), std::slice::from_ref(&block)).expect(&name);
            let pending = rows.take(Cycle(1)).remove(0);
            let row = &pending.rows[0];
            let key = &pending.bytes[row.key.clone().unwrap()];
            // The value is `1`, a tab and the column, in which line breaks are escaped.
            assert_eq!(key, &pending.bytes[row.value.clone()][2..], "{name}");
        }
    }
}

#[test]
fn every_type_goes_into_a_table_or_is_refused_with_the_column() {
    for case in cases() {
        for (column, json) in forms(&case) {
            let name = column.data_type().to_string();
            match copy_bytes(&rows_of(&column)) {
                Ok(_) => assert!(json.is_some(), "{name}"),
                Err(message) => assert_helps(&message, &name),
            }
        }
    }
}

#[test]
fn every_type_comes_back_from_a_file_or_is_refused_with_the_column() {
    for case in cases() {
        for (column, json) in forms(&case) {
            let (batch, name) = (rows_of(&column), column.data_type().to_string());
            for format in [Format::Arrow, Format::Parquet] {
                let sim = World::simulated(1);
                let sink = FileSink::new(&sim.world, Path::new("out"), format, batch.schema());
                let mut sink = match sink {
                    Ok(sink) => sink,
                    Err(error) => {
                        assert_helps(&error.message, &name);
                        continue;
                    }
                };
                let block = Arc::new(Block::whole(Payload::Arrow(batch.clone()), SliceId(0)));
                sink.open(false).unwrap();
                sink.write(Cycle(1), std::slice::from_ref(&block)).expect(&name);
                sink.commit(Cycle(1)).expect(&name);
                sink.close().expect(&name);
                if json.is_none() {
                    continue;
                }
                let rows = rows_as(Format::Json, &batch.schema(), std::slice::from_ref(&batch));
                let rows = String::from_utf8(rows.unwrap()).unwrap();
                let found = read_back(&sim.world, format);
                assert!(found.ends_with(&rows), "{name} in {format}: {found}, and not {rows}");
            }
        }
    }
}

#[test]
fn every_type_is_recast_or_cannot_be() {
    for case in cases() {
        for (column, _) in forms(&case) {
            for to in ["text", "bigint", "double", "timestamp", "date", "boolean", "text[]"] {
                let field = Field::new("c", parse(to).unwrap(), true);
                let name = format!("{} as {to}", column.data_type());
                if !can_cast(column.data_type(), field.data_type()) {
                    continue;
                }
                let (recast, misfits) = cast_column(&column, &field).expect(&name);
                assert_eq!((recast.data_type(), recast.len()), (field.data_type(), 3), "{name}");
                for row in 0..3 {
                    let is_bad = misfits.iter().any(|it| it.row == row);
                    let was_none = column.logical_nulls().is_some_and(|it| it.is_null(row));
                    // A value is there or its record is bad: none becomes null unseen.
                    if !is_bad {
                        let is_none = recast.logical_nulls().is_some_and(|it| it.is_null(row));
                        assert_eq!(is_none, was_none, "{name}, row {row}");
                    }
                }
                for misfit in &misfits {
                    assert!(misfit.reason.starts_with("field `c`: "), "{name}: {}", misfit.reason);
                }
            }
        }
    }
}
