//! A table: the same values in every layout, through the casts of sources and through each sink.

use super::*;
use crate::FileSource;
use crate::column_cast::{can_cast, cast_column};
use crate::column_type::parse;
use crate::postgres::copy_bytes;
use crate::sink::{FileSink, rows_as};
use crate::stream::rows::UncommittedRows;
use arrow_array::{Int32Array, RunArray, types::Int32Type};
use std::path::Path;
use tidemill_env::World;
use tidemill_flow::{Block, Payload, Read, ReadRequest};
use tidemill_types::{
    Cycle, SliceId,
    job::{FileSourceSpec, Format},
};

/// Two values, a null and the first again in a plain type.
fn plain_values() -> Vec<ArrayRef> {
    let bytes = |it: &[Option<&[u8]>]| -> ArrayRef {
        Arc::new(arrow_array::BinaryArray::from_iter(it.iter().copied()))
    };
    let texts: ArrayRef = Arc::new(arrow_array::StringArray::from(vec![
        Some("a,b"),
        Some("\u{e4}\n"),
        None,
        Some("a,b"),
    ]));
    let decimals =
        arrow_array::Decimal128Array::from(vec![Some(12345), Some(-1), None, Some(12345)]);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        Some(vec![Some(2), Some(3)]),
        None,
        Some(vec![Some(1), None]),
    ]);
    vec![
        bytes(&[Some(b"abcd"), Some(b"\xff\x00\x01\x02"), None, Some(b"abcd")]),
        texts,
        Arc::new(decimals.with_precision_and_scale(9, 2).unwrap()),
        Arc::new(lists),
        Arc::new(arrow_array::Float32Array::from(vec![Some(1.5), Some(-0.25), None, Some(1.5)])),
        Arc::new(Int32Array::from(vec![Some(7), Some(-7), None, Some(7)])),
    ]
}

/// The same values in all other layouts.
fn layouts(plain: &ArrayRef) -> Vec<ArrayRef> {
    use DataType as D;
    let types = match plain.data_type() {
        D::Binary => vec![D::LargeBinary, D::BinaryView, D::FixedSizeBinary(4)],
        D::Utf8 => vec![D::LargeUtf8, D::Utf8View],
        D::Decimal128(digits, scale) => vec![
            D::Decimal32(*digits, *scale),
            D::Decimal64(*digits, *scale),
            D::Decimal256(*digits, *scale),
        ],
        D::List(element) => {
            let element = || Arc::clone(element);
            vec![
                D::LargeList(element()),
                D::ListView(element()),
                D::LargeListView(element()),
                D::FixedSizeList(element(), 2),
            ]
        }
        D::Float32 => vec![D::Float16],
        _ => Vec::new(),
    };
    let mut found: Vec<ArrayRef> = types.iter().map(|it| exact(plain, it).unwrap()).collect();
    if !plain.data_type().is_nested() {
        let keys = Int32Array::from(vec![Some(0), Some(1), None, Some(0)]);
        let values = plain.slice(0, 2);
        let dictionary = arrow_array::DictionaryArray::new(keys, values);
        found.push(Arc::new(dictionary));
        let ends = Int32Array::from(vec![1, 2, 3, 4]);
        found.push(Arc::new(RunArray::try_new(&ends, plain).unwrap()));
    }
    found
}

/// A column by itself, as a list's elements and as an object's field.
fn nested(column: &ArrayRef) -> Vec<ArrayRef> {
    let field = Arc::new(Field::new("item", column.data_type().clone(), true));
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([1, 1, 1, 1]);
    let lists = ListArray::new(Arc::clone(&field), offsets, Arc::clone(column), None);
    let objects = StructArray::new(vec![field].into(), vec![Arc::clone(column)], None);
    vec![Arc::clone(column), Arc::new(lists), Arc::new(objects)]
}

fn batch(column: &ArrayRef) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    RecordBatch::try_from_iter_with_nullable([("id", id, false), ("c", Arc::clone(column), true)])
        .unwrap()
}

/// The rows of the file `out`, as JSON.
fn read_back(world: &World, format: Format) -> String {
    let factory = FileSource::new(world, "out", &FileSourceSpec::new("out", format), None).unwrap();
    let request = ReadRequest { cycle: Cycle(1), bytes: 1 << 20, records: 100, until: None };
    let mut letters = Vec::new();
    let read = factory.open(SliceId(0)).unwrap().read(&request, &mut letters).unwrap();
    let Read::Rows { payload: Payload::Arrow(batch), .. } = read else { panic!("{read:?}") };
    assert!(letters.is_empty(), "{letters:?}");
    let rows = rows_as(Format::Json, &batch.schema(), std::slice::from_ref(&batch)).unwrap();
    format!("{} {}", batch.schema(), String::from_utf8(rows).unwrap())
}

/// What each sink writes of a column, in words for comparison.
fn written(column: &ArrayRef) -> Vec<(String, String)> {
    let batch = batch(column);
    let mut all = Vec::new();
    for format in [Format::Json, Format::Csv, Format::Text] {
        let rows = rows_as(format, &batch.schema(), std::slice::from_ref(&batch)).unwrap();
        all.push((format.to_string(), String::from_utf8(rows).unwrap()));
    }
    // A stream and a topic encode rows by the same code.
    let key = ["c".to_owned()];
    let mut rows =
        UncommittedRows::new(("stream `s`", "s"), Format::Json, &key, &batch.schema()).unwrap();
    let block = Arc::new(Block::whole(Payload::Arrow(batch.clone()), SliceId(0)));
    rows.write(Cycle(1), std::slice::from_ref(&block)).unwrap();
    let pending = rows.take(Cycle(1)).remove(0);
    let keys: Vec<String> = pending
        .rows
        .iter()
        .map(|row| {
            format!("{:?}", row.key.clone().map(|it| pending.bytes[it].escape_ascii().to_string()))
        })
        .collect();
    all.push(("keys".to_owned(), keys.join(" ")));
    all.push(("postgres".to_owned(), format!("{:?}", copy_bytes(&batch))));
    for format in [Format::Arrow, Format::Parquet] {
        let sim = World::simulated(1);
        let spec = (Path::new("out"), format, batch.schema());
        let mut sink = FileSink::new(&sim.world, spec.0, spec.1, spec.2).unwrap();
        sink.open(false).unwrap();
        sink.write(Cycle(1), std::slice::from_ref(&block)).unwrap();
        sink.commit(Cycle(1)).unwrap();
        sink.close().unwrap();
        all.push((format.to_string(), read_back(&sim.world, format)));
    }
    all
}

#[test]
fn every_layout_is_read_and_written_as_the_plain_one() {
    for plain in plain_values() {
        let expected: Vec<_> = nested(&plain).iter().map(written).collect();
        for layout in layouts(&plain) {
            for ((column, plain), expected) in
                nested(&layout).iter().zip(nested(&plain)).zip(&expected)
            {
                assert_eq!(plain_type(column.data_type()), *plain.data_type());
                assert_eq!(&plain_array(column).unwrap(), &plain, "{}", column.data_type());
                for (ours, theirs) in written(column).iter().zip(expected) {
                    assert_eq!(ours, theirs, "{}", column.data_type());
                }
            }
        }
    }
}

#[test]
fn every_layout_is_recast_as_the_plain_one() {
    let types = ["text", "double", "bigint", "text[]", "timestamp", "boolean", "real"];
    for plain in plain_values() {
        for layout in layouts(&plain) {
            for (column, plain) in nested(&layout).iter().zip(nested(&plain)) {
                for to in types {
                    let field = Field::new("c", parse(to).unwrap(), true);
                    let is_possible = can_cast(plain.data_type(), field.data_type());
                    let name = format!("{} as {to}", column.data_type());
                    assert_eq!(
                        can_cast(column.data_type(), field.data_type()),
                        is_possible,
                        "{name}"
                    );
                    if is_possible {
                        let of = |it| {
                            let (column, misfits) = cast_column(it, &field).unwrap();
                            let misfits: Vec<_> =
                                misfits.into_iter().map(|it| (it.row, it.reason)).collect();
                            (column, misfits)
                        };
                        assert_eq!(of(column), of(&plain), "{name}");
                    }
                }
            }
        }
    }
}
mod types;
