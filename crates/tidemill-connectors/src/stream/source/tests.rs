//! Records of a stream become rows; what is no record becomes a letter; cuts may be anywhere.

mod added;
mod groups;
mod seek;
mod transactions;

use super::*;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use std::path::{Path, PathBuf};
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tidemill_env::{SimWorld, World};
use tidemill_flow::{DeadLetter, Payload, Position, ReadRequest, Source, TIME_COLUMN};
use tidemill_log::{AppendOptions, Fsync, LogOptions, StreamSpec, Streamlet};
use tidemill_types::job::{Format, MetaSpec, Named, TimeSpec, UntilSpec};
use tidemill_types::{Cycle, Micros, Span};
use tidemill_wire::chunk::Codec;
use tidemill_wire::records::{ChunkBuilder, Compression, Header, Marker, control_marker};

fn log(sim: &SimWorld) -> Log {
    let options = LogOptions { fsync: Fsync::Os, sync_threads: 0, ..LogOptions::default() };
    Log::open(&sim.world, Path::new("/log"), options).unwrap()
}

fn put(streamlet: &Arc<Streamlet>, compression: Compression, values: &[&str]) {
    let timed: Vec<_> = (1000..).zip(values.iter().copied()).collect();
    put_at(streamlet, compression, &timed);
}

/// Values with their timestamps in milliseconds; `-` is no value.
fn put_at(streamlet: &Arc<Streamlet>, compression: Compression, values: &[(i64, &str)]) {
    let mut builder = ChunkBuilder::new(compression);
    for (index, (timestamp_ms, value)) in values.iter().enumerate() {
        let key = format!("k{index}");
        let none: [Header<'_>; 0] = [];
        let value = (*value != "-").then_some(value.as_bytes());
        builder.append(*timestamp_ms, Some(key.as_bytes()), value, none.into_iter()).unwrap();
    }
    let chunk = builder.finish().unwrap();
    streamlet.append(&chunk, AppendOptions::default()).unwrap().wait().unwrap();
}

fn spec(format: Format) -> RecordSourceSpec {
    RecordSourceSpec {
        format,
        schema: Named::new(),
        sample: None,
        start: StartSpec::Earliest,
        until: UntilSpec::Latest,
        isolation: Isolation::Committed,
        meta: MetaSpec::default(),
        time: None,
        note: None,
        resume: false,
        from_checkpoint: false,
    }
}

fn request(records: usize, until: Option<i64>) -> ReadRequest {
    let until = until.map(|it| Position(it as u64));
    ReadRequest { cycle: Cycle(1), bytes: 1 << 20, records, until }
}

/// Reads to the end, so many records at a time: the batches, and the dead letters.
fn read_all(source: &mut dyn Source, records: usize) -> (Vec<RecordBatch>, Vec<DeadLetter>) {
    let (mut batches, mut letters) = (Vec::new(), Vec::new());
    loop {
        match source.read(&request(records, None), &mut letters).unwrap() {
            Read::Rows { payload: Payload::Arrow(batch), .. } => batches.push(batch),
            Read::End => return (batches, letters),
            other => panic!("{other:?}"),
        }
    }
}

fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
    let of = |it: &RecordBatch| it["n"].as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(of).collect()
}

/// How often a source wakes whoever waits for it.
fn wakes(source: &mut dyn Source) -> Arc<AtomicUsize> {
    let woken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&woken);
    source.wake_by(Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    woken
}

#[test]
fn values_are_rows_and_what_is_none_is_a_letter() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    put(&streamlet, Compression::NONE, &[r#"{"n":1}"#, "nonsense", r#"{"n":2}"#]);
    let marker = control_marker(&Marker {
        producer_id: 7,
        producer_epoch: 0,
        is_commit: true,
        coordinator_epoch: 0,
        timestamp_ms: 5,
    });
    streamlet.append(&marker, AppendOptions::default()).unwrap().wait().unwrap();
    let lz4 = Compression { codec: Codec::Lz4, level: None };
    put(&streamlet, lz4, &[r#"{"n":3}"#, "-", r#"{"n":4}"#]);
    for records in [1, 2, 3, 100] {
        let source =
            RecordSource::of_stream(&sim.world, &log, None, "s", spec(Format::Json)).unwrap();
        assert_eq!(source.total(), Some(7));
        let (batches, letters) = read_all(&mut *source.open(SliceId(0)).unwrap(), records);
        assert_eq!(numbers(&batches), [1, 2, 3, 4], "{records} at a time");
        let told: Vec<_> = letters.iter().map(|it| it.position.as_str()).collect();
        assert_eq!(told, ["s streamlet 0, offset 1", "s streamlet 0, offset 5"]);
        assert_eq!(letters[0].record, b"nonsense");
        assert_eq!(letters[1].reason, "it has no value");
    }
}

/// A value is one record, as it is of a file: producers may leave the end of its line there.
#[test]
fn a_value_of_lines_is_one_line() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    let good = ["1,abc\n", "2,\"a\nb\"\r\n", "3,\"\"\"\""];
    let bad = ["4,\"a\"b", "5,\"abc", "6,a\n7,b", "\"8\",a,\"b\""];
    put(&streamlet, Compression::NONE, &good);
    put(&streamlet, Compression::NONE, &bad);
    let csv = RecordSourceSpec {
        schema: [("n", "bigint"), ("s", "text")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        ..spec(Format::Csv)
    };
    let source = RecordSource::of_stream(&sim.world, &log, None, "s", csv).unwrap();
    let (batches, letters) = read_all(&mut *source.open(SliceId(0)).unwrap(), 100);
    assert_eq!(numbers(&batches), [1, 2, 3]);
    let texts = |it: &RecordBatch| {
        it["s"].as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(batches.iter().flat_map(texts).collect::<Vec<_>>(), ["abc", "a\nb", "\""]);
    let reasons: Vec<_> = letters.iter().map(|it| it.reason.as_str()).collect();
    let quotes = crate::frame::OPEN_QUOTE;
    let lines = "it has more than one line, and is read as one record";
    assert_eq!(reasons[..3], [quotes, quotes, lines]);
    assert_eq!(letters.len(), bad.len(), "{reasons:?}");

    let streamlet = log.create("t", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    put(&streamlet, Compression::NONE, &["a n=1i\n", "a n=2i 7\n", "a n=3i\na n=4i\n"]);
    let source =
        RecordSource::of_stream(&sim.world, &log, None, "t", spec(Format::Influx)).unwrap();
    let (batches, letters) = read_all(&mut *source.open(SliceId(0)).unwrap(), 100);
    assert_eq!(numbers(&batches), [1, 2]);
    assert_eq!((letters.len(), letters[0].reason.as_str()), (1, lines));
}

#[test]
fn a_replay_cuts_where_the_ledger_says() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    let values: Vec<String> = (0..10).map(|it| format!(r#"{{"n":{it}}}"#)).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    put(&streamlet, Compression::NONE, &values);
    put(&streamlet, Compression::NONE, &values);
    let source = RecordSource::of_stream(&sim.world, &log, None, "s", spec(Format::Json)).unwrap();
    let mut slice = source.open(SliceId(0)).unwrap();
    let mut letters = Vec::new();
    for (until, rows) in [(3, 3), (13, 10), (14, 1)] {
        let mut seen = 0;
        while slice.position() < Position(until) {
            match slice.read(&request(100, Some(until as i64)), &mut letters).unwrap() {
                Read::Rows { payload: Payload::Arrow(batch), .. } => seen += batch.num_rows(),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((slice.position(), seen), (Position(until), rows));
        let more = slice.read(&request(100, Some(until as i64)), &mut letters).unwrap();
        assert!(matches!(more, Read::Idle { .. }), "{more:?}");
    }
}

#[test]
fn what_stands_beside_a_value_can_be_columns_and_event_time() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let stream = log.create("s", StreamSpec { streamlets: 2, ..StreamSpec::default() }).unwrap();
    put(&stream.streamlet(1).unwrap(), Compression::NONE, &["a", "b"]);
    let name = |it: &str| Some(it.to_owned());
    let meta = MetaSpec {
        key: name("key"),
        timestamp: name("at"),
        streamlet: name("part"),
        offset: name("offset"),
    };
    let time = Some(TimeSpec { field: "at".to_owned(), lateness: Span(1_000) });
    let source = RecordSource::of_stream(
        &sim.world,
        &log,
        None,
        "s",
        RecordSourceSpec { meta, time, ..spec(Format::Text) },
    );
    let source = source.unwrap();
    let mut slice = source.open(SliceId(1)).unwrap();
    let (batches, letters) = read_all(&mut *slice, 10);
    assert!(letters.is_empty());
    let batch = &batches[0];
    assert_eq!(batch.schema(), source.schema());
    assert_eq!(batch["key"].as_string::<i32>().value(1), "k1");
    assert_eq!(batch["part"].as_primitive::<Int64Type>().values(), &[1, 1]);
    assert_eq!(batch["offset"].as_primitive::<Int64Type>().values(), &[0, 1]);
    let times = batch[TIME_COLUMN].as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.values(), &[1_000_000, 1_001_000]);
    assert_eq!(slice.watermark(), Micros(1_000_000));
    let (none, _) = read_all(&mut *source.open(SliceId(0)).unwrap(), 10);
    assert!(none.is_empty());
}

#[test]
fn a_timestamp_that_is_no_event_time_makes_a_letter() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let stream = log.create("s", StreamSpec::default()).unwrap();
    let values = [
        (5, "a"),
        (-1, "none"),
        (300_000_000_000_000, "after"),
        (-70_000_000_000_000, "before"),
        (6, "b"),
        (i64::MAX / 1_000 + 1, "beyond"),
    ];
    put_at(&stream.streamlet(0).unwrap(), Compression::NONE, &values);
    let meta = MetaSpec { timestamp: Some("at".to_owned()), ..MetaSpec::default() };
    let time = Some(TimeSpec { field: "at".to_owned(), lateness: Span(0) });
    let letters_of = |spec| {
        let source = RecordSource::of_stream(&sim.world, &log, None, "s", spec).unwrap();
        let mut slice = source.open(SliceId(0)).unwrap();
        let (batches, letters) = read_all(&mut *slice, 10);
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let times = batches.iter().filter_map(|it| it.column_by_name("at"));
        let times = times.flat_map(|it| it.as_primitive::<TimestampMicrosecondType>().iter());
        (rows, letters, slice.watermark(), times.collect::<Vec<_>>())
    };
    let plain = spec(Format::Text);
    let (rows, letters, ..) = letters_of(plain.clone());
    assert_eq!((rows, letters.len()), (6, 0), "nobody asks for times");
    let spec = RecordSourceSpec { meta, ..plain };
    // As long as it is a column only, any that it holds will do, and -1 is null.
    let (rows, letters, _, times) = letters_of(spec.clone());
    assert_eq!((rows, letters.len()), (5, 1));
    assert!(letters[0].reason.contains("too far away for a column"), "{letters:?}");
    let of_ms = |it: i64| Some(it * 1_000);
    let shown = [5, 300_000_000_000_000, -70_000_000_000_000, 6].map(of_ms);
    assert_eq!(times, [shown[0], None, shown[1], shown[2], shown[3]]);
    let (rows, letters, watermark, _) = letters_of(RecordSourceSpec { time, ..spec });
    assert_eq!((rows, watermark), (2, Micros(6_000)));
    let reasons: Vec<&str> = letters.iter().map(|it| it.reason.as_str()).collect();
    let outside = "event time, which is its timestamp, is not within the years 0000 to 9999";
    assert_eq!(reasons, ["event time is missing: it has no timestamp", outside, outside, outside]);
}

#[test]
fn a_source_that_waits_is_woken_by_a_record() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    put(&streamlet, Compression::NONE, &["old"]);
    let never = RecordSourceSpec {
        until: UntilSpec::Never,
        start: StartSpec::Latest,
        ..spec(Format::Text)
    };
    let source = RecordSource::of_stream(&sim.world, &log, None, "s", never).unwrap();
    assert!(source.live());
    let mut slice = source.open(SliceId(0)).unwrap();
    let woken = wakes(&mut *slice);
    let mut letters = Vec::new();
    for _ in 0..3 {
        let idle = slice.read(&request(10, None), &mut letters).unwrap();
        assert!(matches!(idle, Read::Idle { until: Some(u64::MAX) }), "{idle:?}");
    }
    assert_eq!(woken.load(Ordering::SeqCst), 0);
    put(&streamlet, Compression::NONE, &["new"]);
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    let rows = slice.read(&request(10, None), &mut letters).unwrap();
    assert!(matches!(rows, Read::Rows { payload: Payload::Arrow(it), .. } if it.num_rows() == 1));
}

#[test]
fn a_source_that_waits_for_a_stream_that_is_deleted_fails_and_does_not_wait_on() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    put(&streamlet, Compression::NONE, &["old"]);
    let never = RecordSourceSpec { until: UntilSpec::Never, ..spec(Format::Text) };
    let source = RecordSource::of_stream(&sim.world, &log, None, "s", never).unwrap();
    let mut slice = source.open(SliceId(0)).unwrap();
    let woken = wakes(&mut *slice);
    let mut letters = Vec::new();
    let rows = slice.read(&request(10, None), &mut letters).unwrap();
    assert!(matches!(rows, Read::Rows { .. }), "{rows:?}");
    let idle = slice.read(&request(10, None), &mut letters).unwrap();
    assert!(matches!(idle, Read::Idle { until: Some(u64::MAX) }), "{idle:?}");
    log.delete("s").unwrap();
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    let error = slice.read(&request(10, None), &mut letters).unwrap_err().to_string();
    assert!(error.contains("stream s streamlet 0: it was deleted"), "{error}");
}

#[test]
fn a_stream_without_columns_is_refused_with_what_to_do() {
    let sim = World::simulated(1);
    let log = log(&sim);
    log.create("s", StreamSpec::default()).unwrap();
    let refused = |name: &str, spec: RecordSourceSpec| {
        RecordSource::of_stream(&sim.world, &log, None, name, spec)
            .err()
            .expect("it is impossible")
            .message
    };
    assert!(refused("t", spec(Format::Json)).contains("there is no stream `t`"));
    assert!(refused("s", spec(Format::Json)).contains("under `schema`"));
    assert!(refused("s", spec(Format::Csv)).contains("under `schema`"));
    assert!(refused("s", spec(Format::Parquet)).contains("its format must be one"));
    let schema = Named::from([("n".to_owned(), "bigint".to_owned())]);
    assert!(
        RecordSource::of_stream(
            &sim.world,
            &log,
            None,
            "s",
            RecordSourceSpec { schema, ..spec(Format::Json) }
        )
        .is_ok()
    );
}

#[test]
fn a_job_that_resumes_reads_from_where_it_began() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    put(&streamlet, Compression::NONE, &["old"]);
    let latest = |resume| RecordSourceSpec {
        until: UntilSpec::Never,
        start: StartSpec::Latest,
        note: Some(PathBuf::from("/job/source.json")),
        resume,
        ..spec(Format::Text)
    };
    let source = |resume| RecordSource::of_stream(&sim.world, &log, None, "s", latest(resume));
    let open = |resume| {
        let source = source(resume)?;
        let position = source.open(SliceId(0)).unwrap().position();
        source.begin().unwrap();
        Ok::<_, ConnectorError>(position)
    };
    assert_eq!(open(true).unwrap(), Position(1), "there is no note yet");
    put(&streamlet, Compression::NONE, &["new", "newer"]);
    assert_eq!(open(true).unwrap(), Position(1));
    assert_eq!(source(false).unwrap().open(SliceId(0)).unwrap().position(), Position(3));
    assert_eq!(open(true).unwrap(), Position(1), "the new run was refused and did not begin");
    assert_eq!(open(false).unwrap(), Position(3), "a new run begins anew");
    log.delete("s").unwrap();
    log.create("s", StreamSpec::default()).unwrap();
    let message = open(true).expect_err("it is another stream").message;
    assert!(message.contains("a later one of that name"), "{message}");
}
