//! A preview shows the first rows and changes nothing for the sink behind it.

use super::*;
use arrow_array::{ArrayRef, Float64Array, StringArray, TimestampMicrosecondArray};
use arrow_schema::{Field, Schema, TimeUnit};
use tidemill_flow::Payload;
use tidemill_types::SliceId;

fn block(rows: &[(Option<&str>, f64)]) -> Arc<Block> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("mean", DataType::Float64, true),
        Field::new("start", time.clone(), true),
        Field::new(TIME_COLUMN, time, true),
    ]);
    let times = || -> ArrayRef {
        let values = vec![1_000_000; rows.len()];
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter(rows.iter().map(|row| row.0))),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1))),
        times(),
        times(),
    ];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).expect("columns as the schema");
    Arc::new(Block::whole(Payload::Arrow(batch), SliceId(0)))
}

struct Counts(Arc<Mutex<Vec<String>>>);

impl Sink for Counts {
    fn check(&mut self) -> Result<(), SinkError> {
        self.0.lock().expect("no panic").push("check".to_owned());
        Ok(())
    }
    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        self.0.lock().expect("no panic").push(format!("open {resume}"));
        Ok(Cycle(3))
    }
    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let rows: usize = blocks.iter().map(|block| block.len()).sum();
        self.0.lock().expect("no panic").push(format!("write {cycle} {rows}"));
        Ok(())
    }
    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        self.0.lock().expect("no panic").push(format!("commit {cycle}"));
        Err(SinkError::new("full"))
    }
    fn begins_anew(&self) -> bool {
        true
    }
    fn close(&mut self) -> Result<(), SinkError> {
        self.0.lock().expect("no panic").push("close".to_owned());
        Ok(())
    }
}

#[test]
fn keeps_the_first_rows_and_passes_everything_on() {
    let first = block(&[(Some("a"), 1.0 / 3.0), (None, 2.0)]);
    let second = block(&[(Some("tab\there"), -0.5), (Some("d"), 4.0)]);
    let Payload::Arrow(batch) = &first.payload else { panic!("a batch") };
    let preview = Preview::new("out", "out.csv", &batch.schema(), 3);
    assert_eq!(preview.columns, ["name", "mean", "start"]);
    assert_eq!(preview.numeric, [false, true, false]);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let mut sink = preview.sink(Some(Box::new(Counts(Arc::clone(&calls)))));
    assert!(sink.begins_anew() && !preview.sink(None).begins_anew());
    sink.check().expect("it can be opened");
    assert_eq!(sink.open(true).expect("opens"), Cycle(3));
    sink.write(Cycle(4), &[first]).expect("writes");
    sink.write(Cycle(5), &[second]).expect("writes");
    assert_eq!(sink.commit(Cycle(5)).expect_err("the sink's own error").message, "full");
    sink.close().expect("closes");
    let calls = calls.lock().expect("no panic").clone();
    assert_eq!(calls, ["check", "open true", "write 4 2", "write 5 2", "commit 5", "close"]);
    let text = |cells: [Option<&str>; 3]| cells.map(|it| it.map(str::to_owned)).to_vec();
    assert_eq!(
        preview.rows(),
        [
            text([Some("a"), Some("0.333"), Some("1970-01-01T00:00:01Z")]),
            text([None, Some("2.000"), Some("1970-01-01T00:00:01Z")]),
            text([Some("tab here"), Some("-0.500"), Some("1970-01-01T00:00:01Z")]),
        ]
    );
}
