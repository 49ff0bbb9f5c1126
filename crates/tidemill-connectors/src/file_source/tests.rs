//! Files in, batches and dead letters out.

use super::*;
use crate::column_type::moment_type;
use crate::error::{ConnectorErrorKind, SchemaPlace};
use arrow_array::{
    RecordBatch,
    cast::AsArray,
    types::{Float64Type, Int64Type, TimestampMicrosecondType},
};
use arrow_schema::DataType;
use tidemill_flow::TIME_COLUMN;

use tidemill_env::{SimWorld, World};
use tidemill_flow::{DeadLetter, Payload, Position, Read, ReadRequest};
use tidemill_types::{Cycle, Micros, SliceId};

mod columnar;
mod formats;
mod seek;
mod soup;

fn spec(format: Format) -> FileSourceSpec {
    FileSourceSpec::new("f", format)
}

fn typed(format: Format, schema: &[(&str, &str)]) -> FileSourceSpec {
    let schema = schema.iter().map(|(name, it)| ((*name).to_owned(), (*it).to_owned()));
    FileSourceSpec { schema: schema.collect(), ..spec(format) }
}

fn time(field: &str, lateness_us: i64) -> TimeSpec {
    TimeSpec { field: field.to_owned(), lateness: Span(lateness_us) }
}

fn world_with(bytes: &[u8]) -> SimWorld {
    let sim = World::simulated(1);
    sim.disk.put("f", bytes);
    sim
}

fn source(
    bytes: &[u8],
    spec: &FileSourceSpec,
    time: Option<&TimeSpec>,
) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
    FileSource::new(&world_with(bytes).world, "f", spec, time)
}

/// What a read gave: batch, input bytes, position, watermark.
type Step = (RecordBatch, usize, Position, Micros);

fn request(bytes: usize, records: usize) -> ReadRequest {
    ReadRequest { cycle: Cycle(1), bytes, records, until: None }
}

fn drain(factory: &dyn SourceFactory, request: &ReadRequest) -> (Vec<Step>, Vec<DeadLetter>) {
    let mut source = factory.open(SliceId(0)).unwrap();
    let (mut steps, mut letters) = (Vec::new(), Vec::new());
    loop {
        match source.read(request, &mut letters).unwrap() {
            Read::Rows { payload: Payload::Arrow(batch), bytes } => {
                assert_eq!(batch.schema(), factory.schema());
                assert!(bytes > 0, "a read moves on");
                steps.push((batch, bytes, source.position(), source.watermark()));
            }
            Read::End => return (steps, letters),
            other => panic!("{other:?}"),
        }
    }
}

/// The whole file as one batch, and its dead letters.
fn whole(factory: &dyn SourceFactory) -> (RecordBatch, Vec<DeadLetter>) {
    let (steps, letters) = drain(factory, &request(1 << 20, 1_000));
    let batches: Vec<RecordBatch> = steps.into_iter().map(|step| step.0).collect();
    (arrow_select::concat::concat_batches(&factory.schema(), &batches).unwrap(), letters)
}

fn types(factory: &dyn SourceFactory) -> Vec<(String, DataType)> {
    let schema = factory.schema();
    schema.fields().iter().map(|it| (it.name().clone(), it.data_type().clone())).collect()
}

fn named(pairs: &[(&str, DataType)]) -> Vec<(String, DataType)> {
    pairs.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect()
}

fn ints(batch: &RecordBatch, column: &str) -> Vec<Option<i64>> {
    batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().iter().collect()
}

fn floats(batch: &RecordBatch, column: &str) -> Vec<Option<f64>> {
    batch.column_by_name(column).unwrap().as_primitive::<Float64Type>().iter().collect()
}

fn texts(batch: &RecordBatch, column: &str) -> Vec<Option<String>> {
    let column = batch.column_by_name(column).unwrap();
    column.as_string::<i32>().iter().map(|it| it.map(str::to_owned)).collect()
}

fn moments(batch: &RecordBatch, column: &str) -> Vec<Option<i64>> {
    let column = batch.column_by_name(column).unwrap();
    column.as_primitive::<TimestampMicrosecondType>().iter().collect()
}

fn lines(letters: &[DeadLetter]) -> Vec<u64> {
    let line = |it: &DeadLetter| it.position.rsplit(' ').next().unwrap().parse().unwrap();
    letters.iter().map(line).collect()
}

#[test]
fn what_is_missing_or_wrong_is_said_before_anything_starts() {
    let sim = World::simulated(1);
    let error = FileSource::new(&sim.world, "none", &spec(Format::Json), None).err().unwrap();
    assert_eq!(error.kind, ConnectorErrorKind::NotFound);
    assert_eq!(error.message, "there is no file `none`");

    let json = b"{\"carrier\":\"AA\",\"delay\":1}\n";
    let wrong = typed(Format::Json, &[("delay", "bigit")]);
    let ConnectorErrorKind::Schema { place, field, nearest, expected } =
        source(json, &wrong, None).err().unwrap().kind
    else {
        panic!()
    };
    assert_eq!((place, field.as_str()), (SchemaPlace::Type, "delay"));
    assert_eq!(nearest.as_deref(), Some("bigint"));
    assert!(expected.contains("timestamp"));

    let error = source(json, &spec(Format::Json), Some(&time("dely", 0))).err().unwrap();
    let ConnectorErrorKind::Schema { place: SchemaPlace::Time, nearest, .. } = error.kind else {
        panic!("{error:?}")
    };
    assert_eq!(nearest.as_deref(), Some("delay"));
    assert!(error.message.contains("did you mean `delay`?"), "{}", error.message);

    let wrong = typed(Format::Csv, &[("b", "int")]);
    let error = source(b"a\n1\n", &wrong, None).err().unwrap();
    assert!(matches!(error.kind, ConnectorErrorKind::Schema { place: SchemaPlace::Column, .. }));
    for (format, bytes) in [
        (Format::Csv, &b""[..]),
        (Format::Csv, b"a,b,a\n"),
        (Format::Csv, b"a,\"b\n"),
        (Format::Parquet, b""),
        (Format::Parquet, b"PAR1 is not enough PAR1"),
        (Format::Arrow, b""),
        (Format::Arrow, b"ARROW1\0\0 cut off"),
        (Format::Arrow, b"\xff\xff\xff\xff\xff\xff\xff\x7f"),
        (Format::Json, b"{\"__time\":1}\n"),
    ] {
        let error = source(bytes, &spec(format), None).err().unwrap();
        assert_eq!(error.kind, ConnectorErrorKind::Unreadable, "{format:?} {bytes:?}");
        assert!(error.message.starts_with("`f` cannot be read: "), "{}", error.message);
    }
    let sim = World::simulated(1);
    sim.world.disk.create_dir_all(Path::new("f")).unwrap();
    let error = FileSource::new(&sim.world, "f", &spec(Format::Text), None).err().unwrap();
    assert_eq!(error.kind, ConnectorErrorKind::Unreadable);
}

#[test]
fn a_column_that_cannot_be_event_time_is_refused() {
    let error = source(b"{\"t\":true}\n", &spec(Format::Json), Some(&time("t", 0))).err().unwrap();
    assert!(error.message.contains("epoch milliseconds"), "{}", error.message);
}

#[test]
fn the_watermark_trails_the_largest_time_seen() {
    let text = b"{\"t\":1000}\n{\"t\":5000}\n{\"t\":2000}\n{\"t\":\"1970-01-01T00:00:09Z\"}\n";
    let factory = source(text, &spec(Format::Json), Some(&time("t", 1_000_000))).unwrap();
    assert_eq!(factory.open(SliceId(0)).unwrap().watermark(), Micros::MIN);
    let (steps, letters) = drain(&*factory, &request(1_000, 1));
    assert!(letters.is_empty());
    let watermarks: Vec<i64> = steps.iter().map(|step| step.3.0).collect();
    assert_eq!(watermarks, [0, 4_000_000, 4_000_000, 8_000_000]);
    assert_eq!(moments(&steps[3].0, TIME_COLUMN), [Some(9_000_000)]);
    assert_eq!(moments(&steps[3].0, "t"), [Some(9_000_000)]);
    let last = factory.schema().fields().last().unwrap().clone();
    assert_eq!((last.name().as_str(), last.data_type()), (TIME_COLUMN, &moment_type()));
}

#[test]
fn an_empty_file_has_its_time_column() {
    for format in [Format::Json, Format::Influx] {
        let factory = source(b"", &spec(format), Some(&time("at", 0))).unwrap();
        assert!(factory.schema().column_with_name("at").is_some());
        assert!(drain(&*factory, &request(10, 10)).0.is_empty());
    }
}

#[test]
fn records_of_very_many_columns_come_in_batches_of_few() {
    let record = |number: usize| format!("{{\"n\":{number},\"f{}\":{number}}}\n", number % 4_000);
    let text: String = (0..9_000).map(record).collect();
    let factory = source(text.as_bytes(), &spec(Format::Json), None).unwrap();
    let (steps, letters) = drain(&*factory, &request(1 << 20, 1 << 20));
    assert!(letters.is_empty());
    let columns = factory.schema().fields().len();
    assert_eq!(columns, 4_001);
    assert!(steps.iter().all(|step| step.0.num_rows() * columns <= 2 << 20), "memory is bounded");
    let numbers: Vec<_> = steps.iter().flat_map(|step| ints(&step.0, "n")).collect();
    assert_eq!(numbers, (0..9_000).map(Some).collect::<Vec<_>>());
    let seven: Vec<_> = steps.iter().flat_map(|step| ints(&step.0, "f7")).flatten().collect();
    assert_eq!(seven, [7, 4_007, 8_007]);
}

#[test]
fn the_sample_decides_and_what_does_not_fit_later_is_a_dead_letter() {
    let text = b"{\"a\":1}\n{\"a\":2}\n{\"a\":2.5}\n{\"a\":\"x\"}\n{\"a\":3,\"b\":9}\n";
    let few = FileSourceSpec { sample: Some(2), ..spec(Format::Json) };
    let factory = source(text, &few, None).unwrap();
    assert_eq!(types(&*factory), named(&[("a", DataType::Int64)]));
    let (batch, letters) = whole(&*factory);
    assert_eq!(ints(&batch, "a"), [Some(1), Some(2), Some(3)]);
    assert_eq!(lines(&letters), [3, 4]);
    assert_eq!(letters[0].position, "f:byte 16, line 3");
    assert_eq!(letters[0].reason, "field `a`: 2.5 is not a bigint");
    assert_eq!(letters[0].record, b"{\"a\":2.5}");
    let factory = source(text, &spec(Format::Json), None).unwrap();
    assert_eq!(types(&*factory), named(&[("a", DataType::Utf8), ("b", DataType::Int64)]));
}

#[test]
fn a_replay_gives_the_same_batches() {
    let text: String = (0..50).map(|row| format!("{{\"a\":{row}}}\n")).collect();
    let factory = source(text.as_bytes(), &spec(Format::Json), None).unwrap();
    let (steps, _) = drain(&*factory, &request(64, 1_000));
    assert!(steps.len() > 5);
    let mut replay = factory.open(SliceId(0)).unwrap();
    let mut letters = Vec::new();
    for (batch, bytes, position, _) in &steps {
        let until = Some(*position);
        let request = ReadRequest { until, ..request(1 << 20, 1 << 20) };
        let Read::Rows { payload: Payload::Arrow(again), bytes: taken } =
            replay.read(&request, &mut letters).unwrap()
        else {
            panic!()
        };
        assert_eq!((&again, taken), (batch, *bytes));
        assert_eq!(replay.position(), *position);
        assert!(matches!(replay.read(&request, &mut letters), Ok(Read::Idle { .. })));
    }
    assert_eq!(factory.total(), Some(steps.last().unwrap().2.0));
}

#[test]
fn a_disk_that_fails_ends_the_source_with_the_files_name() {
    let sim = world_with(b"a\nb\n");
    let factory = FileSource::new(&sim.world, "f", &spec(Format::Text), None).unwrap();
    let mut source = factory.open(SliceId(0)).unwrap();
    sim.disk.kill();
    let error = source.read(&request(10, 10), &mut Vec::new()).unwrap_err();
    assert!(error.message.starts_with("`f`: "), "{}", error.message);
}
