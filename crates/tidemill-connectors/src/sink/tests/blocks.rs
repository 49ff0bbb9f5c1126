//! The bytes of a file follow from rows and cycles, not from the blocks in which the rows came: how
//! many those are depends on the number of threads.

use super::*;
use arrow_array::{BinaryArray, types::Int64Type};

const ROWS: usize = 20_000;

/// Rows with nulls, of which each column has long runs without one, and lists of every length.
fn rows() -> RecordBatch {
    let there = |row: usize| !(7_000..9_000).contains(&row) || row.is_multiple_of(3);
    let ints = Int64Array::from_iter((0..ROWS).map(|it| there(it).then_some(it as i64 * 7_919)));
    let texts = (0..ROWS).map(|it| there(it + 500).then(|| format!("{}", it * it % 977)));
    let bytes = (0..ROWS).map(|it| there(it + 900).then(|| vec![it as u8; it % 5]));
    let list =
        |it: usize| there(it + 300).then(move || (0..it % 4).map(move |n| Some((n + it) as i64)));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>((0..ROWS).map(list));
    let field = Arc::new(Field::new("x", DataType::Float64, true));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(|it| it as f64)));
    let objects = StructArray::new(vec![field].into(), vec![floats], None);
    let columns: [(_, ArrayRef); 5] = [
        ("i", Arc::new(ints)),
        ("s", Arc::new(StringArray::from_iter(texts))),
        ("y", Arc::new(BinaryArray::from_iter(bytes))),
        ("l", Arc::new(lists)),
        ("o", Arc::new(objects)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, it)| (name, it, true))).unwrap()
}

/// What is written of the rows in three cycles, each in blocks of so many rows.
fn written_in(format: Format, rows: &RecordBatch, sizes: impl Fn(usize) -> usize) -> Vec<u8> {
    let sim = World::simulated(1);
    let mut sink = FileSink::new(&sim.world, "f", format, rows.schema()).unwrap();
    sink.open(false).unwrap();
    for (cycle, (from, to)) in [(0, 11_111), (11_111, 11_112), (11_112, ROWS)].iter().enumerate() {
        let (mut at, mut blocks) = (*from, Vec::new());
        while at < *to {
            let count = sizes(at).clamp(1, to - at);
            blocks.push(block(rows.slice(at, count)));
            at += count;
        }
        let cycle = Cycle(cycle as u64 + 1);
        sink.write(cycle, &blocks).unwrap();
        sink.commit(cycle).unwrap();
    }
    sink.close().unwrap();
    sim.disk.read(Path::new("f")).unwrap()
}

#[test]
fn bytes_do_not_show_how_rows_came() {
    let rows = rows();
    for format in [Format::Arrow, Format::Parquet, Format::Json] {
        let whole = written_in(format, &rows, |_| ROWS);
        for sizes in [|_| 1, |_| 997, |at| at % 613 + 1, |at| if at < 9_000 { 8_192 } else { 5 }] {
            let parts = written_in(format, &rows, sizes);
            assert!(whole == parts, "{format:?}: {} and {} bytes", whole.len(), parts.len());
        }
    }
}

#[test]
fn bytes_do_not_show_what_stands_under_nulls() {
    let nulls = arrow_buffer::NullBuffer::from(vec![true, false, true, false]);
    let rows = |under: i64| {
        let numbers = Int64Array::new(vec![1, under, 3, under].into(), Some(nulls.clone()));
        let field = Arc::new(Field::new("n", DataType::Int64, true));
        let inner: ArrayRef = Arc::new(Int64Array::from(vec![4, under, 5, under]));
        let objects = StructArray::new(vec![field].into(), vec![inner], Some(nulls.clone()));
        let columns: [(_, ArrayRef); 2] = [("n", Arc::new(numbers)), ("o", Arc::new(objects))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, it)| (name, it, true)))
            .unwrap()
    };
    for format in [Format::Arrow, Format::Parquet, Format::Json] {
        let of = |under| {
            let sim = World::simulated(1);
            let mut sink = FileSink::new(&sim.world, "f", format, rows(under).schema()).unwrap();
            sink.open(false).unwrap();
            sink.write(Cycle(1), &[block(rows(under))]).unwrap();
            sink.commit(Cycle(1)).unwrap();
            sink.close().unwrap();
            sim.disk.read(Path::new("f")).unwrap()
        };
        assert!(of(0) == of(-7), "{format:?}");
    }
}
