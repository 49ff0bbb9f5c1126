//! Arrow IPC and Parquet: whole files, and damaged ones.

use super::*;
use arrow_array::{ArrayRef, Int32Array, StringArray, TimestampMillisecondArray, cast::AsArray};

/// Two batches of three columns; the time of the second record is missing.
fn batches() -> Vec<RecordBatch> {
    let batch = |from: i32| {
        let numbers = (from..from + 100).map(Some);
        let times = (from..from + 100).map(|it| (it != 1).then_some(i64::from(it) * 1_000));
        let texts = (from..from + 100).map(|it| Some(format!("row {it}")));
        RecordBatch::try_from_iter_with_nullable([
            ("n", Arc::new(numbers.collect::<Int32Array>()) as ArrayRef, true),
            ("t", Arc::new(times.collect::<TimestampMillisecondArray>()), true),
            ("s", Arc::new(texts.collect::<StringArray>()), true),
        ])
        .unwrap()
    };
    vec![batch(0), batch(100)]
}

/// The batches as a file: Arrow file form, Arrow stream form, Parquet.
fn columnar() -> Vec<(Format, Vec<u8>)> {
    let batches = batches();
    let schema = batches[0].schema();
    let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &schema).unwrap();
    let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &schema).unwrap();
    let mut parquet = parquet::arrow::ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    for batch in &batches {
        file.write(batch).unwrap();
        stream.write(batch).unwrap();
        parquet.write(batch).unwrap();
        parquet.flush().unwrap();
    }
    vec![
        (Format::Arrow, file.into_inner().unwrap()),
        (Format::Arrow, stream.into_inner().unwrap()),
        (Format::Parquet, parquet.into_inner().unwrap()),
    ]
}

#[test]
fn columnar_files_are_read_by_record_number() {
    for (format, bytes) in columnar() {
        let spec = typed(format, &[("n", "bigint")]);
        let factory = source(&bytes, &spec, Some(&time("t", 0))).unwrap();
        let (steps, letters) = drain(&*factory, &request(1 << 20, 30));
        let positions: Vec<u64> = steps.iter().map(|step| step.2.0).collect();
        assert_eq!(positions, [30, 60, 90, 100, 130, 160, 190, 200], "{format:?}");
        assert_eq!(letters.len(), 1);
        assert_eq!(letters[0].position, "f:record 1");
        assert_eq!(letters[0].reason, "field `t`: event time is missing");
        assert_eq!(steps[0].0.num_rows(), 29);
        assert_eq!(ints(&steps[7].0, "n")[9], Some(199));
        assert_eq!(moments(&steps[7].0, TIME_COLUMN)[9], Some(199_000_000));
        assert_eq!(steps[7].3, Micros(199_000_000));
        let (small, _) = drain(&*factory, &request(1, 30));
        assert_eq!(small.len(), 200, "one record at least");
        let mut replay = factory.open(SliceId(0)).unwrap();
        let until = Some(Position(45));
        let request = ReadRequest { until, ..request(1 << 20, 1 << 20) };
        let read = replay.read(&request, &mut Vec::new()).unwrap();
        assert!(matches!(read, Read::Rows { .. }) && replay.position() == Position(45));
    }
}

/// An empty batch of numbers has no bytes behind its head, and so has one of nothing but nulls.
#[test]
fn a_batch_without_bytes_costs_no_records() {
    let numbers = |range: std::ops::Range<i32>| {
        let column: ArrayRef = Arc::new(Int32Array::from_iter_values(range));
        RecordBatch::try_from_iter_with_nullable([("n", column, true)]).unwrap()
    };
    let nulls = |count| {
        let column: ArrayRef = Arc::new(arrow_array::NullArray::new(count));
        RecordBatch::try_from_iter_with_nullable([("n", column, true)]).unwrap()
    };
    let numbered = [numbers(0..10), numbers(0..0), numbers(10..20), numbers(0..0)];
    for (batches, rows) in [(&numbered[..], 20), (&[nulls(3), nulls(4)][..], 7)] {
        let schema = batches[0].schema();
        let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &schema).unwrap();
        let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &schema).unwrap();
        for batch in batches {
            file.write(batch).unwrap();
            stream.write(batch).unwrap();
        }
        for bytes in [file.into_inner().unwrap(), stream.into_inner().unwrap()] {
            let factory = source(&bytes, &spec(Format::Arrow), None).unwrap();
            let (batch, letters) = whole(&*factory);
            assert_eq!((batch.num_rows(), letters.len()), (rows, 0));
            let mut late = factory.open(SliceId(0)).unwrap();
            late.seek(Position(rows as u64 - 5), Micros::MIN).unwrap();
            let Read::Rows { payload, .. } =
                late.read(&request(1 << 20, 100), &mut Vec::new()).unwrap()
            else {
                panic!("there are rows")
            };
            let Payload::Arrow(rest) = payload else { panic!("in columns") };
            assert!(rest.num_rows() > 0 && rest.num_rows() <= 5);
        }
    }
}

#[test]
fn a_damaged_columnar_file_is_an_error_and_never_a_panic() {
    for (format, bytes) in columnar() {
        for cut in (0..bytes.len()).step_by(97) {
            read_damaged(format, &bytes[..cut]);
        }
        for at in (0..bytes.len()).step_by(13) {
            for flip in [0xff, 0x01, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                read_damaged(format, &damaged);
            }
        }
    }
}

fn read_damaged(format: Format, bytes: &[u8]) {
    let Ok(factory) = source(bytes, &spec(format), None) else { return };
    for to in [0, 50, 100, 199] {
        let Ok(mut source) = factory.open(SliceId(0)) else { return };
        match source.seek(Position(to), Micros::MIN) {
            Ok(()) => drop(source.read(&request(1 << 20, 1_000), &mut Vec::new())),
            Err(error) => assert!(error.message.starts_with("`f`: "), "{error}"),
        }
    }
    let Ok(mut source) = factory.open(SliceId(0)) else { return };
    for _ in 0..100 {
        match source.read(&request(1 << 20, 1_000), &mut Vec::new()) {
            Ok(Read::Rows { .. }) => {}
            Ok(_) => return,
            Err(error) => {
                let message = error.message;
                assert!(message.starts_with("`f`: ") && message.len() > 8, "{message}");
                return;
            }
        }
    }
    panic!("a damaged file has no end");
}

/// Made by pyarrow: 100 numbers by ZSTD, and 100 texts of a dictionary by LZ4.
const COMPRESSED: [(&str, &[u8]); 2] = [
    ("ZSTD", include_bytes!("../../../../tidemill-wire/src/arrow/compressed-zstd.arrows")),
    ("LZ4", include_bytes!("../../../../tidemill-wire/src/arrow/compressed-lz4.arrows")),
];

/// Its decoder would take memory for what such a body says of itself, and memory that is not there
/// ends the process. So nothing of it may be decoded, whatever this program is built with.
#[test]
fn a_compressed_arrow_file_is_refused_before_the_job_runs() {
    for (codec, bytes) in COMPRESSED {
        let why = format!("it is compressed by {codec}: write the file without compression");
        let error = source(bytes, &spec(Format::Arrow), None).err().unwrap();
        assert!(error.message.contains(&format!("batch 0: {why}")), "{}", error.message);
    }
}

/// What is behind the first batch is looked at when it comes.
#[test]
fn a_compressed_batch_in_the_middle_is_refused_whatever_length_it_claims() {
    let schema_bytes = |bytes: &[u8]| 8 + usize::from(bytes[4]) + usize::from(bytes[5]) * 256;
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let plain = RecordBatch::try_from_iter_with_nullable([("n", numbers, true)]).unwrap();
    let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &plain.schema()).unwrap();
    stream.write(&plain).unwrap();
    let mut bytes = stream.into_inner().unwrap();
    bytes.truncate(bytes.len() - 8);
    let (_, compressed) = COMPRESSED[0];
    let mut batch = compressed[schema_bytes(compressed)..].to_vec();
    // 400 bytes, says the body of itself.
    let at = batch.windows(8).position(|it| *it == 400_u64.to_le_bytes()).unwrap();
    batch[at..at + 8].copy_from_slice(&i64::MAX.to_le_bytes());
    bytes.extend(batch);
    let factory = source(&bytes, &spec(Format::Arrow), None).unwrap();
    let mut source = factory.open(SliceId(0)).unwrap();
    let read = source.read(&request(1 << 20, 100), &mut Vec::new());
    assert!(matches!(read, Ok(Read::Rows { .. })), "{read:?}");
    let error = source.read(&request(1 << 20, 100), &mut Vec::new()).unwrap_err();
    assert!(error.message.starts_with("`f`: batch 1: it is compressed by ZSTD"), "{error}");
}

/// One batch as a file: Arrow file form, Parquet.
fn both(batch: &RecordBatch) -> [(Format, Vec<u8>); 2] {
    let schema = batch.schema();
    let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &schema).unwrap();
    let mut parquet = parquet::arrow::ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    file.write(batch).unwrap();
    parquet.write(batch).unwrap();
    [(Format::Arrow, file.into_inner().unwrap()), (Format::Parquet, parquet.into_inner().unwrap())]
}

#[test]
fn a_value_that_does_not_fit_the_type_that_the_job_names_is_a_dead_letter() {
    let text = StringArray::from(vec![Some("12"), Some("x"), None, Some("13"), Some("14")]);
    let millis = [0, 1_000, 2_000, 3_000, i64::MAX].map(Some);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("s", Arc::new(text) as ArrayRef, true),
        ("m", Arc::new(millis.into_iter().collect::<arrow_array::Int64Array>()), true),
    ])
    .unwrap();
    for (format, bytes) in both(&batch) {
        let spec = typed(format, &[("s", "bigint"), ("m", "timestamp")]);
        let factory = source(&bytes, &spec, None).unwrap();
        for step in [1, 100] {
            let (steps, letters) = drain(&*factory, &request(1 << 20, step));
            let rows: Vec<_> = steps.iter().flat_map(|step| ints(&step.0, "s")).collect();
            assert_eq!(rows, [Some(12), None, Some(13)], "{format:?}");
            let times: Vec<_> = steps.iter().flat_map(|step| moments(&step.0, "m")).collect();
            assert_eq!(times, [Some(0), Some(2_000_000), Some(3_000_000)]);
            assert_eq!(steps.last().unwrap().2, Position(5), "bad records are passed too");
            let letters: Vec<_> =
                letters.iter().map(|it| (it.position.as_str(), it.record.as_slice())).collect();
            let far = i64::MAX.to_string();
            assert_eq!(letters, [("f:record 1", &b"x"[..]), ("f:record 4", far.as_bytes())]);
        }
    }
}

#[test]
fn a_type_that_no_value_of_the_column_fits_is_refused_with_the_job() {
    for (format, bytes) in columnar() {
        let error = source(&bytes, &typed(format, &[("n", "date")]), None).err().unwrap();
        let ConnectorErrorKind::Schema { place: SchemaPlace::Type, field, expected, .. } =
            error.kind
        else {
            panic!("{error:?}")
        };
        assert_eq!(field, "n");
        assert_eq!(expected, "a type such as bigint, double, text, timestamp");
        let message = "column `n` of `f` is Int32, which cannot be read as `date`";
        assert_eq!(error.message, message);
    }
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let column = |number| Arc::new(Int32Array::from(vec![number])) as ArrayRef;
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("a", column(1), true),
        ("b", column(2), true),
        ("a", column(3), true),
    ])
    .unwrap();
    for (format, bytes) in both(&batch) {
        let error = source(&bytes, &spec(format), None).err().unwrap();
        assert_eq!(error.message, "`f` cannot be read: it has two columns `a`");
    }
}

/// As an event time it would have become one near 1970.
#[test]
fn a_day_beyond_all_moments_is_no_event_time() {
    let days = arrow_array::Date32Array::from(vec![1, i32::MAX]);
    let days: ArrayRef = Arc::new(days);
    let batch = RecordBatch::try_from_iter_with_nullable([("d", days, true)]).unwrap();
    for (format, bytes) in both(&batch) {
        let factory = source(&bytes, &spec(format), Some(&time("d", 0))).unwrap();
        let (rows, letters) = whole(&*factory);
        assert_eq!(moments(&rows, "d"), [Some(86_400_000_000)]);
        let reason = "field `d`: event time is not within the years 0000 to 9999";
        assert_eq!(letters[0].reason, reason);
    }
}

#[test]
fn a_parquet_file_that_is_packed_otherwise_is_refused_with_the_job() {
    let bytes = include_bytes!("packed-gzip.parquet");
    let error = source(bytes, &spec(Format::Parquet), None).err().unwrap();
    let why = "is packed by GZIP; by Snappy, ZSTD or not at all is read: write the file again";
    let message = &error.message;
    assert!(message.starts_with("`f` cannot be read: its column `"), "{message}");
    assert!(message.contains(why), "{message}");
}

/// Parquet with one column of INT96: days since noon of the 1st of January 4713 BC, and nanoseconds.
fn old_times(times: &[(u32, u64)]) -> Vec<u8> {
    use parquet::data_type::{Int96, Int96Type};
    let schema = "message m { optional int96 t; optional group s { optional int96 u; } }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let values: Vec<Int96> = times
        .iter()
        .map(|(day, nanos)| Int96::from(vec![*nanos as u32, (*nanos >> 32) as u32, *day]))
        .collect();
    let properties = Arc::default();
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)
            .unwrap();
    let mut group = writer.next_row_group().unwrap();
    for level in [1, 2] {
        let mut column = group.next_column().unwrap().unwrap();
        let levels = vec![level; values.len()];
        column.typed::<Int96Type>().write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn old_times_of_parquet_are_those_that_were_written_in_any_year() {
    const EPOCH: u32 = 2_440_588;
    let day_us = 86_400_000_000_i64;
    let times =
        [(EPOCH, 1_999), (EPOCH - 1, 0), (EPOCH + 2_932_896, 86_399_999_999_999), (0, 5_000)];
    let bytes = old_times(&times);
    let factory = source(&bytes, &spec(Format::Parquet), None).unwrap();
    let (steps, letters) = drain(&*factory, &request(1 << 20, 30));
    assert!(letters.is_empty());
    // The last moment of the year 9999, and a day before all history.
    let expected = [
        Some(1),
        Some(-day_us),
        Some(253_402_300_799_999_999),
        Some(5 - i64::from(EPOCH) * day_us),
    ];
    assert_eq!(moments(&steps[0].0, "t"), expected);
    let nested = steps[0].0.column_by_name("s").unwrap().as_struct().column(0).clone();
    let nested = nested.as_primitive::<TimestampMicrosecondType>();
    assert_eq!(nested.iter().collect::<Vec<_>>(), expected);
    // No event time is before the year 0.
    let factory = source(&bytes, &spec(Format::Parquet), Some(&time("t", 0))).unwrap();
    let (_, letters) = drain(&*factory, &request(1 << 20, 30));
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].reason, "field `t`: event time is not within the years 0000 to 9999");
}
