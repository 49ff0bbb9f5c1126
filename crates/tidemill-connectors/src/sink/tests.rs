//! What a sink has committed is there once, whatever failed when.

mod blocks;
mod check;
mod full;
mod moments;
mod parts;

use super::*;
use crate::FileSource;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;
use std::{
    io,
    path::Path,
    sync::{Mutex, atomic::Ordering},
};
use tidemill_env::{Disk, SimWorld, World};
use tidemill_flow::{Block, DeadLetter, Payload, Read, ReadRequest, Rows, Sink};
use tidemill_types::{
    SliceId, Span,
    job::{FileSourceSpec, Format},
};

fn batch() -> RecordBatch {
    let times = TimestampMicrosecondArray::from(vec![Some(0), Some(1_500_000), None, Some(-1)]);
    let times: ArrayRef = Arc::new(times.with_timezone("UTC"));
    RecordBatch::try_from_iter_with_nullable([
        ("t", Arc::clone(&times), true),
        ("i", Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(-1), Some(0)])), true),
        ("f", Arc::new(Float64Array::from(vec![Some(0.1), Some(f64::NAN), None, Some(2.0)])), true),
        (
            "s",
            Arc::new(StringArray::from(vec![Some("a,\"b\"\n"), Some(""), None, Some("é\t")])),
            true,
        ),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)])), true),
        (TIME_COLUMN, times, true),
    ])
    .unwrap()
}

fn block(batch: RecordBatch) -> Arc<Block> {
    Arc::new(Block::whole(Payload::Arrow(batch), SliceId(0)))
}

/// What a sink of this format writes of the batch.
fn written(format: Format) -> Vec<u8> {
    let sim = World::simulated(1);
    let mut sink = FileSink::new(&sim.world, "out/f", format, batch().schema()).unwrap();
    assert_eq!(sink.open(false).unwrap(), Cycle::NONE);
    sink.write(Cycle(1), &[block(batch())]).unwrap();
    sink.commit(Cycle(1)).unwrap();
    sink.close().unwrap();
    sim.disk.read(Path::new("out/f")).unwrap()
}

#[test]
fn json_is_exact() {
    assert_eq!(
        String::from_utf8(written(Format::Json)).unwrap(),
        r#"{"t":"1970-01-01T00:00:00Z","i":9223372036854775807,"f":0.1,"s":"a,\"b\"\n","b":true}
{"t":"1970-01-01T00:00:01.500Z","i":null,"f":null,"s":"","b":false}
{"t":null,"i":-1,"f":null,"s":null,"b":null}
{"t":"1969-12-31T23:59:59.999999Z","i":0,"f":2.0,"s":"é\t","b":true}
"#
    );
}

#[test]
fn csv_and_text_are_exact() {
    assert_eq!(
        String::from_utf8(written(Format::Csv)).unwrap(),
        "t,i,f,s,b\n\
         1970-01-01T00:00:00Z,9223372036854775807,0.1,\"a,\"\"b\"\"\n\",true\n\
         1970-01-01T00:00:01.500Z,,NaN,\"\",false\n\
         ,-1,,,\n\
         1969-12-31T23:59:59.999999Z,0,2.0,é\t,true\n"
    );
    assert_eq!(
        String::from_utf8(written(Format::Text)).unwrap(),
        "1970-01-01T00:00:00Z\t9223372036854775807\t0.1\ta,\"b\"\\n\ttrue\n\
         1970-01-01T00:00:01.500Z\t\tNaN\t\tfalse\n\
         \t-1\t\t\t\n\
         1969-12-31T23:59:59.999999Z\t0\t2.0\té\\t\ttrue\n"
    );
}

/// Written as they are they could not be read again, and with signs for what is no text they would be
/// lost.
#[test]
fn bytes_that_are_no_text_are_written_in_digits() {
    let bytes =
        arrow_array::BinaryArray::from(vec![Some(&b"\xff\x00a"[..]), Some(b"a\xc3\xa9"), None]);
    let bytes: ArrayRef = Arc::new(bytes);
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let both = [("b", Arc::clone(&bytes), true), ("n", number, true)];
    let both = RecordBatch::try_from_iter_with_nullable(both).unwrap();
    let written = |format, batch: &RecordBatch| {
        rows_as(format, &batch.schema(), std::slice::from_ref(batch)).unwrap()
    };
    for (format, expected) in [
        (
            Format::Json,
            "{\"b\":\"\\\\xff0061\",\"n\":1}\n{\"b\":\"aé\",\"n\":2}\n{\"b\":null,\"n\":3}\n",
        ),
        (Format::Csv, "b,n\n\\xff0061,1\naé,2\n,3\n"),
        (Format::Text, "\\xff0061\t1\naé\t2\n\t3\n"),
    ] {
        assert_eq!(String::from_utf8(written(format, &both)).unwrap(), expected);
    }
    // As records of bytes that nobody took for columns.
    let alone = RecordBatch::try_from_iter_with_nullable([("b", bytes, true)]).unwrap();
    assert_eq!(written(Format::Text, &alone), b"\xff\x00a\na\xc3\xa9\n\n");
}

#[test]
fn a_row_group_of_long_values_is_bounded_by_its_bytes() {
    const LONG_BYTES: usize = 4 << 20;
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, false)]));
    let sim = World::simulated(1);
    let mut sink = FileSink::new(&sim.world, "f", Format::Parquet, Arc::clone(&schema)).unwrap();
    sink.open(false).unwrap();
    let mut random = sim.world.random(1);
    for cycle in 1..=20 {
        // Nothing that could be packed.
        let mut letters = || random.next().to_le_bytes().map(|it| char::from(b'0' + it % 64));
        let long: String = (0..LONG_BYTES / 8).flat_map(|_| letters()).collect();
        let column: ArrayRef = Arc::new(StringArray::from(vec![long]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
        sink.write(Cycle(cycle), &[block(batch)]).unwrap();
        sink.commit(Cycle(cycle)).unwrap();
    }
    sink.close().unwrap();
    let bytes = bytes::Bytes::from(sim.disk.read(Path::new("f")).unwrap());
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new();
    let metadata = metadata.parse_and_finish(&bytes).unwrap();
    let groups = metadata.row_groups();
    assert!(groups.len() > 1 && groups.iter().map(|it| it.num_rows()).sum::<i64>() == 20);
    let longest = groups.iter().map(|it| it.total_byte_size()).max().unwrap();
    assert!(longest < 100 << 20, "{longest}");
}

#[test]
fn lists_and_objects_are_json_in_csv_and_text() {
    let texts = ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    let name: ArrayRef = Arc::new(StringArray::from(vec![Some("a,\"b\""), None, Some("x")]));
    let field = Arc::new(Field::new("p", DataType::Utf8, true));
    let objects = StructArray::new(vec![field].into(), vec![name], None);
    let columns: [(_, ArrayRef, _); 2] =
        [("l", Arc::new(texts), true), ("o", Arc::new(objects), true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let written = |format| {
        let rows = rows_as(format, &batch.schema(), std::slice::from_ref(&batch)).unwrap();
        String::from_utf8(rows).unwrap()
    };
    assert_eq!(
        written(Format::Csv),
        "l,o\n\"[1,null]\",\"{\"\"p\"\":\"\"a,\\\"\"b\\\"\"\"\"}\"\n,\"{\"\"p\"\":null}\"\n[],\"{\"\"p\"\":\"\"x\"\"}\"\n"
    );
    assert_eq!(
        written(Format::Text),
        "[1,null]\t{\"p\":\"a,\\\"b\\\"\"}\n\t{\"p\":null}\n[]\t{\"p\":\"x\"}\n"
    );
}

#[test]
fn every_format_comes_back_through_its_source() {
    for format in [Format::Json, Format::Csv, Format::Arrow, Format::Parquet] {
        let sim = World::simulated(1);
        sim.disk.put("f", &written(format));
        let schema = [("t".to_owned(), "timestamp".to_owned())].into_iter().collect();
        let spec = FileSourceSpec { schema, ..FileSourceSpec::new("", format) };
        let source = FileSource::new(&sim.world, "f", &spec, None).unwrap();
        let mut letters: Vec<DeadLetter> = Vec::new();
        let request = ReadRequest { cycle: Cycle(1), bytes: 1 << 20, records: 100, until: None };
        let read = source.open(SliceId(0)).unwrap().read(&request, &mut letters).unwrap();
        let Read::Rows { payload: Payload::Arrow(read), .. } = read else { panic!("{format:?}") };
        assert_eq!(letters, []);
        let mut expected = batch().project(&[0, 1, 2, 3, 4]).unwrap();
        if format == Format::Json {
            // JSON has no NaN.
            let mut columns = expected.columns().to_vec();
            columns[2] = Arc::new(Float64Array::from(vec![Some(0.1), None, None, Some(2.0)]));
            expected = RecordBatch::try_new(expected.schema(), columns).unwrap();
        }
        // NaN is not equal to itself: bits are compared.
        assert_eq!(format!("{read:?}"), format!("{expected:?}"), "{format:?}");
    }
}

/// An empty line is no record.
#[test]
fn a_csv_file_of_one_column_has_nulls() {
    let texts: ArrayRef =
        Arc::new(StringArray::from(vec![Some("NULL"), None, Some(""), Some("NA"), Some("null")]));
    let rows = RecordBatch::try_from_iter_with_nullable([("s", texts, true)]).unwrap();
    let sim = World::simulated(1);
    let mut sink = FileSink::new(&sim.world, "f", Format::Csv, rows.schema()).unwrap();
    sink.open(false).unwrap();
    sink.write(Cycle(1), &[block(rows.clone())]).unwrap();
    sink.commit(Cycle(1)).unwrap();
    sink.close().unwrap();
    let written = sim.disk.read(Path::new("f")).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), "s\n\"NULL\"\nNULL\n\"\"\nNA\nnull\n");
    let spec = FileSourceSpec {
        schema: [("s".to_owned(), "text".to_owned())].into_iter().collect(),
        ..FileSourceSpec::new("", Format::Csv)
    };
    let source = FileSource::new(&sim.world, "f", &spec, None).unwrap();
    let mut letters: Vec<DeadLetter> = Vec::new();
    let request = ReadRequest { cycle: Cycle(1), bytes: 1 << 20, records: 100, until: None };
    let read = source.open(SliceId(0)).unwrap().read(&request, &mut letters).unwrap();
    let Read::Rows { payload: Payload::Arrow(read), .. } = read else { panic!("no rows") };
    assert_eq!((read.column(0), letters), (rows.column(0), Vec::new()));
}

#[test]
fn byte_records_are_text() {
    let mut rows = Rows::default();
    rows.push(b"one");
    rows.push(b"two\nlines");
    let block = Arc::new(Block::whole(Payload::Rows(rows), SliceId(0)));
    let schema = tidemill_flow::rows_schema();
    for (format, expected) in [
        (Format::Text, "one\ntwo\\nlines\n"),
        (Format::Json, "{\"value\":\"one\"}\n{\"value\":\"two\\nlines\"}\n"),
        (Format::Csv, "value\none\n\"two\nlines\"\n"),
    ] {
        let (shared, writer) = shared_bytes();
        let mut sink = WriterSink::new("test", writer, format, Arc::clone(&schema)).unwrap();
        sink.open(false).unwrap();
        sink.write(Cycle(1), &[Arc::clone(&block)]).unwrap();
        assert!(shared.lock().unwrap().is_empty(), "nothing before the commit");
        sink.commit(Cycle(1)).unwrap();
        sink.close().unwrap();
        assert_eq!(String::from_utf8_lossy(&shared.lock().unwrap()), expected);
    }
}

type SharedBytes = Arc<Mutex<Vec<u8>>>;

fn shared_bytes() -> (SharedBytes, Box<dyn io::Write + Send>) {
    struct Shared(SharedBytes);
    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let bytes = SharedBytes::default();
    (Arc::clone(&bytes), Box::new(Shared(bytes)))
}

#[test]
fn a_blackhole_counts() {
    let mut sink = BlackholeSink::new();
    let rows = sink.rows();
    sink.open(false).unwrap();
    sink.write(Cycle(1), &[block(batch()), block(batch())]).unwrap();
    sink.commit(Cycle(1)).unwrap();
    sink.close().unwrap();
    assert_eq!(rows.load(Ordering::Relaxed), 8);
}

#[test]
fn an_empty_result_is_an_empty_file_with_its_header() {
    for (format, expected) in [(Format::Json, ""), (Format::Csv, "t,i,f,s,b\n"), (Format::Text, "")]
    {
        let sim = World::simulated(1);
        let mut sink = FileSink::new(&sim.world, "f", format, batch().schema()).unwrap();
        sink.open(false).unwrap();
        sink.write(Cycle(1), &[]).unwrap();
        sink.commit(Cycle(1)).unwrap();
        sink.close().unwrap();
        assert_eq!(sim.disk.read(Path::new("f")).unwrap(), expected.as_bytes());
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_starts() {
    let sim = World::simulated(1);
    let refused = |path: &str, format, schema| {
        FileSink::new(&sim.world, path, format, schema).err().unwrap().message
    };
    assert!(refused("f", Format::Influx, batch().schema()).contains("json, csv or text"));
    assert!(refused("", Format::Json, batch().schema()).contains("names no file"));
    sim.world.disk.create_dir_all(Path::new("folder")).unwrap();
    assert!(refused("folder", Format::Json, batch().schema()).contains("is a folder"));
    let device = FileSink::new(&World::real(), "/dev/null", Format::Json, batch().schema());
    assert!(device.err().unwrap().message.contains("a device"));
    let union = DataType::Union(arrow_schema::UnionFields::empty(), arrow_schema::UnionMode::Dense);
    for odd in [union, DataType::Struct(arrow_schema::Fields::empty())] {
        let odd = Arc::new(Schema::new(vec![Field::new("odd", odd, true)]));
        assert!(refused("f", Format::Parquet, odd).starts_with("`f` cannot be written: "));
    }
    // What only shows when a row is written.
    let either = [Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)];
    let either = arrow_schema::UnionFields::try_new([0, 1], either).unwrap();
    let either = DataType::Union(either, arrow_schema::UnionMode::Sparse);
    let span = DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano);
    let nothing =
        DataType::Union(arrow_schema::UnionFields::empty(), arrow_schema::UnionMode::Sparse);
    let large = Arc::new(Field::new("x", DataType::FixedSizeBinary(i32::MAX), true));
    let large = DataType::FixedSizeList(large, i32::MAX);
    let odd = [
        (Format::Json, either),
        (Format::Parquet, span),
        (Format::Json, nothing),
        (Format::Json, large.clone()),
        (Format::Parquet, large.clone()),
        (Format::Csv, large),
    ];
    for (format, odd) in odd {
        let odd = Arc::new(Schema::new(vec![Field::new("odd", odd, false)]));
        assert!(refused("f", format, odd).starts_with("`f` cannot be written: "), "{format:?}");
    }
}

#[test]
fn a_columnar_file_takes_its_name_at_the_end() {
    let sim = World::simulated(1);
    sim.disk.put("f", b"old");
    let mut sink = FileSink::new(&sim.world, "f", Format::Parquet, batch().schema()).unwrap();
    sink.open(true).unwrap();
    sink.write(Cycle(1), &[block(batch())]).unwrap();
    sink.commit(Cycle(1)).unwrap();
    assert_eq!(sim.disk.read(Path::new("f")).unwrap(), b"old");
    sink.close().unwrap();
    assert!(sim.disk.read(Path::new("f")).unwrap().starts_with(b"PAR1"));
    assert!(!sim.disk.exists(Path::new("f.partial")).unwrap());
}

fn number_block(numbers: &[i64]) -> Arc<Block> {
    let column: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    block(RecordBatch::try_from_iter([("n", column)]).unwrap())
}

fn number_sink(sim: &SimWorld, format: Format) -> Box<dyn Sink> {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    FileSink::with_sync_every(&sim.world, "f", format, schema, Span(1_000)).unwrap()
}

#[test]
fn a_file_without_its_journal_or_shorter_than_it_is_left_alone() {
    let sim = World::simulated(1);
    sim.disk.put("f", b"somebody's\n");
    let error = number_sink(&sim, Format::Text).open(true).unwrap_err();
    assert!(error.message.contains("f.tidemill`, which says"), "{}", error.message);
    assert_eq!(sim.disk.read(Path::new("f")).unwrap(), b"somebody's\n");

    let mut sink = number_sink(&sim, Format::Text);
    sink.open(false).unwrap();
    sink.write(Cycle(1), &[number_block(&[1, 2, 3])]).unwrap();
    sink.commit(Cycle(1)).unwrap();
    sink.close().unwrap();
    sim.disk.put("f", b"1\n");
    let error = number_sink(&sim, Format::Text).open(true).unwrap_err();
    assert!(error.message.contains("it has 2 bytes, but 6 were committed"), "{}", error.message);
    assert_eq!(sim.disk.read(Path::new("f")).unwrap(), b"1\n");
    let journal = sim.disk.read(Path::new("f.tidemill")).unwrap();
    sim.disk.put("f.tidemill", &journal[1..]);
    let error = number_sink(&sim, Format::Text).open(true).unwrap_err();
    assert!(error.message.contains("is damaged"), "{}", error.message);
}

/// A file has rows of one kind.
#[test]
fn rows_of_another_kind_are_not_written_behind_those_that_are_there() {
    let schema = |names: &[&str]| {
        let fields = names.iter().map(|it| Field::new(*it, DataType::Int64, true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    };
    let sim = World::simulated(1);
    let path = Path::new("out/f");
    let sink = |format, names: &[&str]| {
        FileSink::new(&sim.world, path, format, schema(names)).expect("it can hold them")
    };
    let row = |names: &[&str]| {
        let columns = names.iter().map(|_| Arc::new(Int64Array::from(vec![7])) as ArrayRef);
        block(RecordBatch::try_new(schema(names), columns.collect()).unwrap())
    };
    let mut cycle = 0;
    let mut write = |mut sink: Box<dyn Sink>, names: &[&str], resume: bool| {
        let held = sink.open(resume)?;
        assert_eq!(held, if resume { Cycle(cycle) } else { Cycle::NONE });
        cycle += 1;
        sink.write(Cycle(cycle), &[row(names)])?;
        sink.commit(Cycle(cycle))?;
        sink.close()
    };
    let all = [
        (Format::Csv, &["a", "b"][..]),
        (Format::Csv, &["b", "a"]),
        (Format::Csv, &["a"]),
        (Format::Text, &["a", "b"]),
        (Format::Text, &["a"]),
        (Format::Json, &["a", "b"]),
    ];
    for (format, names) in all {
        write(sink(format, names), names, false).expect("a file of its own");
        write(sink(format, names), names, true).expect("the same");
        let before = sim.disk.read(path).unwrap();
        for (other, others) in all.iter().filter(|it| **it != (format, names)) {
            let error = write(sink(*other, others), others, true).expect_err("other rows").message;
            assert!(error.contains("and the job writes rows in"), "{error}");
            assert_eq!(sim.disk.read(path).unwrap(), before);
        }
    }
    // Objects may have other fields, and text other names.
    write(sink(Format::Json, &["c"]), &["c"], true).expect("objects of another kind");
    write(sink(Format::Text, &["a"]), &["a"], false).expect("a file of its own");
    write(sink(Format::Text, &["b"]), &["b"], true).expect("another name");
    // Nothing is there yet.
    let mut empty = sink(Format::Csv, &["a"]);
    empty.open(false).unwrap();
    drop(empty);
    sink(Format::Json, &["b"]).open(true).expect("a file without rows");
}

#[test]
fn uncommitted_rows_are_not_in_the_file() {
    let sim = World::simulated(1);
    let mut sink = number_sink(&sim, Format::Text);
    sink.open(false).unwrap();
    sink.write(Cycle(1), &[number_block(&[1])]).unwrap();
    sink.write(Cycle(2), &[number_block(&[2])]).unwrap();
    sink.write(Cycle(3), &[number_block(&[3])]).unwrap();
    sink.commit(Cycle(2)).unwrap();
    assert_eq!(sim.disk.read(Path::new("f")).unwrap(), b"1\n2\n");
    drop(sink);
    sim.disk.kill();
    let mut again = number_sink(&sim, Format::Text);
    assert_eq!(again.open(true).unwrap(), Cycle(2));
    again.write(Cycle(3), &[number_block(&[3])]).unwrap();
    again.commit(Cycle(3)).unwrap();
    again.close().unwrap();
    assert_eq!(sim.disk.read(Path::new("f")).unwrap(), b"1\n2\n3\n");
}

/// What happens between two lives of a job.
#[derive(Clone, Copy, Debug)]
enum End {
    Kill,
    PowerCut,
    /// The disk fails at the nth operation, then power is cut.
    Failure(u64),
    /// The nth sync fails, then the process ends.
    FailedSync(u64),
    Close,
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![
        Just(End::Kill),
        Just(End::PowerCut),
        (0_u64..12).prop_map(End::Failure),
        (0_u64..12).prop_map(End::FailedSync),
        Just(End::Close)
    ]
}

/// Rows of a cycle: a function of its number, some of them none.
fn rows_of(cycle: u64) -> Vec<i64> {
    (0..cycle % 4).map(|row| (cycle * 10 + row) as i64).collect()
}

const CYCLES: u64 = 40;

/// Runs cycles from the last one held up to `last`; gives back the last one committed.
fn live(sim: &SimWorld, format: Format, last: u64, ahead: u64) -> Result<u64, SinkError> {
    let mut sink = number_sink(sim, format);
    let held = sink.open(true)?.0;
    let mut committed = held;
    for cycle in held + 1..=last {
        sink.write(Cycle(cycle), &[number_block(&rows_of(cycle))])?;
        if cycle % (ahead + 1) == 0 {
            sink.commit(Cycle(cycle))?;
            committed = cycle;
        }
        sim.clock.advance(300);
    }
    if last == CYCLES {
        sink.commit(Cycle(last))?;
        sink.close()?;
        committed = last;
    }
    Ok(committed)
}

proptest! {
    #[test]
    fn every_row_is_there_once_after_any_ends(
        seed: u64,
        csv: bool,
        ahead in 0_u64..3,
        lives in prop::collection::vec((1_u64..CYCLES, ends()), 0..6),
    ) {
        let format = if csv { Format::Csv } else { Format::Text };
        let sim = World::simulated(seed);
        let mut held_at_least = 0;
        for (last, end) in lives {
            match end {
                End::Failure(operations) => sim.disk.fail_after(operations),
                End::FailedSync(syncs) => sim.disk.fail_sync_after(syncs),
                _ => {}
            }
            let outcome = live(&sim, format, last, ahead);
            match end {
                End::Kill => {
                    sim.disk.kill();
                    held_at_least = outcome.unwrap().max(held_at_least);
                }
                // The job ends with the sync that failed; what it wrote can be read.
                End::FailedSync(_) => sim.disk.kill(),
                End::Close => held_at_least = outcome.unwrap().max(held_at_least),
                End::PowerCut | End::Failure(_) => {
                    sim.disk.power_cut();
                    held_at_least = 0;
                }
            }
            // A kill loses no committed rows: cycles without rows do not count.
            let left = sim.disk.read(Path::new("f")).unwrap_or_default();
            let rows: usize = (1..=held_at_least).map(|cycle| rows_of(cycle).len()).sum();
            let found = left.iter().filter(|byte| **byte == b'\n').count();
            prop_assert!(found >= rows, "{found} {rows}");
        }
        live(&sim, format, CYCLES, ahead).unwrap();
        let mut expected = String::from(if csv { "n\n" } else { "" });
        for row in (1..=CYCLES).flat_map(rows_of) {
            expected.push_str(&format!("{row}\n"));
        }
        let left = sim.disk.read(Path::new("f")).unwrap();
        prop_assert_eq!(String::from_utf8(left).unwrap(), expected);
    }
}

#[test]
fn a_file_that_is_replaced_is_old_or_new_and_never_both() {
    for operations in 0..24 {
        let sim = World::simulated(operations);
        live(&sim, Format::Text, CYCLES, 0).unwrap();
        let old = sim.disk.read(Path::new("f")).unwrap();
        sim.disk.fail_after(operations);
        let mut sink = number_sink(&sim, Format::Text);
        let outcome = sink.open(false).and_then(|_| {
            sink.write(Cycle(1), &[number_block(&[777])])?;
            sink.commit(Cycle(1))
        });
        sim.disk.power_cut();
        let mut again = number_sink(&sim, Format::Text);
        let held = again.open(true).unwrap();
        let found = sim.disk.read(Path::new("f")).unwrap();
        match held.0 {
            0 => assert_eq!(found, b"", "{operations}"),
            1 => assert_eq!(found, b"777\n", "{operations}"),
            _ => {
                assert!(outcome.is_err());
                assert_eq!((held.0, &found), (CYCLES, &old), "{operations}");
            }
        }
    }
}

#[test]
fn a_real_disk_does_it_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/on/the/way/out.ndjson");
    let world = World::real();
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let open = || {
        let schema = Arc::clone(&schema);
        FileSink::with_sync_every(&world, &path, Format::Json, schema, Span(0)).unwrap()
    };
    let mut sink = open();
    sink.open(false).unwrap();
    sink.write(Cycle(1), &[number_block(&[1])]).unwrap();
    sink.write(Cycle(2), &[number_block(&[2])]).unwrap();
    sink.commit(Cycle(1)).unwrap();
    drop(sink);
    let mut tail = world.disk.open_append(&path).unwrap();
    tail.append(b"{\"n\":").unwrap();
    let mut sink = open();
    assert_eq!(sink.open(true).unwrap(), Cycle(1));
    sink.write(Cycle(2), &[number_block(&[2])]).unwrap();
    sink.commit(Cycle(2)).unwrap();
    sink.close().unwrap();
    assert_eq!(world.disk.read(&path).unwrap(), b"{\"n\":1}\n{\"n\":2}\n");
    let names = world.disk.list(path.parent().unwrap()).unwrap();
    assert_eq!(names.len(), 2, "the file and its journal: {names:?}");
}

#[test]
fn the_journal_stays_small() {
    let sim = World::simulated(1);
    let mut sink = number_sink(&sim, Format::Text);
    sink.open(false).unwrap();
    for cycle in 1..100_000 {
        sink.write(Cycle(cycle), &[number_block(&[1])]).unwrap();
        sink.commit(Cycle(cycle)).unwrap();
        sim.clock.advance(100);
    }
    let journal = sim.disk.read(Path::new("f.tidemill")).unwrap().len();
    assert!(journal < (1 << 20) + 1_000, "{journal}");
    sink.close().unwrap();
    assert!(sim.disk.read(Path::new("f.tidemill")).unwrap().len() < 64);
}
