//! Dates and times of day that lie far out.

use super::*;
use arrow_array::{
    Array, Date32Array, Date64Array, ListArray, StructArray, Time32MillisecondArray,
    Time32SecondArray, TimestampSecondArray,
};
use arrow_buffer::OffsetBuffer;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

/// What a sink of this format writes of one column, or why it does not.
fn written(format: Format, column: ArrayRef) -> Result<String, String> {
    let batch = RecordBatch::try_from_iter_with_nullable([("d", column, true)]).unwrap();
    let sim = World::simulated(1);
    let mut sink = FileSink::new(&sim.world, "f", format, batch.schema()).unwrap();
    assert_eq!(sink.open(false).unwrap(), Cycle::NONE);
    sink.write(Cycle(1), &[block(batch)]).map_err(|error| error.to_string())?;
    sink.commit(Cycle(1)).unwrap();
    sink.close().unwrap();
    Ok(String::from_utf8(sim.disk.read(Path::new("f")).unwrap()).unwrap())
}

#[test]
fn every_day_that_a_date_can_hold_is_written() {
    let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(19_782), None, Some(i32::MAX)]));
    let json = written(Format::Json, Arc::clone(&days)).unwrap();
    assert_eq!(json, "{\"d\":\"2024-02-29\"}\n{\"d\":null}\n{\"d\":\"+5881580-07-11\"}\n");
    assert_eq!(
        written(Format::Csv, Arc::clone(&days)).unwrap(),
        "d\n2024-02-29\nNULL\n+5881580-07-11\n"
    );
    assert_eq!(written(Format::Text, days).unwrap(), "2024-02-29\n\n+5881580-07-11\n");
    let millis = Date64Array::from(vec![1_709_208_000_500, i64::MIN]);
    let text = written(Format::Csv, Arc::new(millis)).unwrap();
    assert_eq!(text, "d\n2024-02-29T12:00:00.500Z\n-292275055-05-16T16:47:04.192Z\n");
}

#[test]
fn a_date_within_a_list_is_written_as_json() {
    let days: ArrayRef = Arc::new(Date32Array::from(vec![0, i32::MIN]));
    let item = Arc::new(Field::new("item", DataType::Date32, true));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths([2]), days, None);
    let json = written(Format::Json, Arc::new(lists)).unwrap();
    assert_eq!(json, "{\"d\":[\"1970-01-01\",\"-5877641-06-23\"]}\n");
}

/// There is no text for it, and one about the error would be taken for the value.
#[test]
fn a_time_of_day_beyond_the_day_fails_the_job_and_is_not_written() {
    let times: ArrayRef = Arc::new(Time32MillisecondArray::from(vec![86_399_999, 86_400_000]));
    for format in [Format::Json, Format::Csv, Format::Text] {
        let good = written(format, times.slice(0, 1)).unwrap();
        assert!(good.contains("23:59:59.999"), "{good}");
        let why = written(format, Arc::clone(&times)).unwrap_err();
        assert!(why.contains("column `d`: Failed to convert 86400000"), "{format:?}: {why}");
    }
}

/// What a reader of Parquet takes a time for that knows nothing of Arrow.
#[test]
fn a_time_in_seconds_is_a_time_in_parquet() {
    let seconds = TimestampSecondArray::from(vec![Some(1_700_000_000), None]);
    let instants: ArrayRef = Arc::new(seconds.clone().with_timezone("UTC"));
    let seconds: ArrayRef = Arc::new(seconds);
    let item = Arc::new(Field::new("item", seconds.data_type().clone(), true));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths([2, 0]), seconds.clone(), None);
    let part = Arc::new(Field::new("at", seconds.data_type().clone(), true));
    let objects = StructArray::new(vec![part].into(), vec![Arc::clone(&seconds)], None);
    let columns: [(_, ArrayRef); 6] = [
        ("plain", seconds),
        ("instant", instants),
        ("day", Arc::new(Date64Array::from(vec![Some(1_709_208_000_500), None]))),
        ("time", Arc::new(Time32SecondArray::from(vec![Some(86_399), None]))),
        ("list", Arc::new(lists)),
        ("object", Arc::new(objects)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let sim = World::simulated(1);
    let mut sink = FileSink::new(&sim.world, "f", Format::Parquet, batch.schema()).unwrap();
    sink.open(false).unwrap();
    sink.write(Cycle(1), &[block(batch.clone())]).unwrap();
    sink.commit(Cycle(1)).unwrap();
    sink.close().unwrap();
    let bytes = bytes::Bytes::from(sim.disk.read(Path::new("f")).unwrap());
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).unwrap();
    let read = reader.build().unwrap().next().unwrap().unwrap();
    let texts = |batch: &RecordBatch| {
        let rows = rows_as(Format::Json, &batch.schema(), std::slice::from_ref(batch)).unwrap();
        String::from_utf8(rows).unwrap()
    };
    let expected = texts(&batch);
    assert_eq!(texts(&read), expected);
    assert!(expected.starts_with("{\"plain\":\"2023-11-14T22:13:20Z\""), "{expected}");

    let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
    let batch = RecordBatch::try_from_iter([("at", far)]).unwrap();
    let mut sink = FileSink::new(&sim.world, "g", Format::Parquet, batch.schema()).unwrap();
    sink.open(false).unwrap();
    sink.write(Cycle(1), &[block(batch)]).unwrap();
    assert!(sink.commit(Cycle(1)).unwrap_err().message.contains("verflow"));
}
