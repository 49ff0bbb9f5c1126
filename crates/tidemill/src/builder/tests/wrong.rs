//! Programs that do not do what they say: their jobs are refused, or fail with what is wrong and where.

use super::*;
use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use tidemill_flow::{
    Block, OperatorError, Payload, Position, Read, ReadRequest, Sink, SinkError, Source,
    SourceError, SourceFactory,
};
use tidemill_operators::custom::{self, CycleInfo, Emit, Record, state::Map};
use tidemill_types::{Cycle, Micros, SliceId};

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn numbers() -> Generated {
    let said = schema(&[("n", DataType::Int64)]);
    let schema = Arc::clone(&said);
    Generated::new(said, move || {
        let numbers = Int64Array::from_iter_values(0..10);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)]);
        std::iter::once(batch.expect("a column of numbers"))
    })
}

/// A job in which an operator reads the numbers.
fn with(make: impl Fn() -> Arc<dyn OperatorFactory> + Send + Sync + 'static) -> (Job, Collected) {
    let (sink, rows) = collected();
    let job = Job::new("j")
        .slices(4)
        .source("numbers", numbers())
        .operator("mine", move |_| Ok(make()))
        .stage("s", from("numbers").key(["n"]).operator("mine"))
        .sink("out", from("s").to(sink));
    (job, rows)
}

fn failure(job: Job) -> String {
    job.run().expect_err("it is wrong").to_string()
}

#[test]
fn columns_that_cannot_be_told_apart_are_refused() {
    let nothing = |_: &Record<'_>, _: &mut Emit, _: &CycleInfo| Ok(());
    let writes = |columns: &[(&str, DataType)]| {
        let schema = schema(columns);
        failure(with(move || Arc::new(custom::per_record(Arc::clone(&schema), nothing))).0)
    };
    assert_eq!(
        writes(&[("a", DataType::Int64), ("b", DataType::Int64), ("a", DataType::Utf8)]),
        "job `j`: stages.s.operator: error: its schema has the column `a` twice"
    );
    assert_eq!(
        writes(&[("a", DataType::Int64), ("__time", DataType::Int64)]),
        "job `j`: stages.s.operator: error: its column `__time`, the event time, is of type Int64, \
         expected a timestamp in microseconds, or another name"
    );
    let timed = schema(&[("__time", DataType::Int64)]);
    let source = Generated::new(timed, std::iter::empty).event_time("__time", "0s");
    let job = Job::new("j").source("a", source).sink("out", from("a").to_blackhole());
    let text = failure(job);
    assert!(text.starts_with("job `j`: sources.a: error: its column `__time`"), "{text}");
}

#[test]
fn a_key_of_a_type_that_is_none_is_refused() {
    let list = DataType::new_list(DataType::Int64, true);
    let source = Generated::new(schema(&[("n", DataType::Int64), ("l", list)]), std::iter::empty);
    let nothing = |_: &Record<'_>, _: &mut Emit, _: &CycleInfo| Ok(());
    let job = Job::new("j")
        .source("lists", source)
        .operator("mine", move |input| Ok(Arc::new(custom::per_record(Arc::clone(input), nothing))))
        .stage("s", from("lists").key(["n", "l"]).operator("mine"))
        .sink("out", from("s").to_blackhole());
    assert_eq!(
        failure(job),
        "job `j`: stages.s.key.1: error: a column of type List(Int64) cannot be a key"
    );
}

/// Says that it has numbers, and gives words.
struct Words(bool);

impl SourceFactory for Words {
    fn schema(&self) -> SchemaRef {
        schema(&[("n", DataType::Int64)])
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(Self(false)))
    }
}

impl Source for Words {
    fn read(
        &mut self,
        _: &ReadRequest,
        _: &mut Vec<tidemill_flow::DeadLetter>,
    ) -> Result<Read, SourceError> {
        if std::mem::replace(&mut self.0, true) {
            return Ok(Read::End);
        }
        let words = Arc::new(StringArray::from(vec!["a", "b"]));
        let batch = RecordBatch::try_new(schema(&[("n", DataType::Utf8)]), vec![words]);
        let payload = Payload::Arrow(batch.expect("a column of words"));
        Ok(Read::Rows { payload, bytes: 2 })
    }
    fn position(&self) -> Position {
        Position(u64::from(self.0))
    }
    fn watermark(&self) -> Micros {
        Micros::MIN
    }
}

#[test]
fn a_source_gives_the_records_that_it_says() {
    let source: Arc<dyn SourceFactory> = Arc::new(Words(false));
    let (sink, rows) = collected();
    let job = Job::new("j")
        .source("words", source)
        .stage("s", from("words").filter("n > 0"))
        .sink("out", from("s").to(sink));
    assert_eq!(
        failure(job),
        "`words` failed in cycle 1: it gave records with `n` of type Utf8, where its schema says \
         `n` of type Int64"
    );
    assert_eq!(rows.rows(), 0);
}

#[test]
fn what_is_called_for_a_slice_fails_without_a_record() {
    let none = || schema(&[("n", DataType::Int64)]);
    let last = |info: &CycleInfo| match info.slice.0 {
        3 => Err(OperatorError::new("no")),
        _ => Ok(()),
    };
    let record = move || {
        custom::keyed_record(none(), Map::<i64, i64>::default, |_: &mut Map<_, _>, _, _, _| Ok(()))
    };
    let text = failure(with(move || Arc::new(record().on_end(move |_, _, it| last(it)))).0);
    assert_eq!(text, "`s` failed in cycle 1, slice 3: no");
    let text = failure(with(move || Arc::new(record().on_cycle(move |_, _, it| last(it)))).0);
    assert_eq!(text, "`s` failed in cycle 1, slice 3: no");
    let slice = move || custom::keyed(none(), || (), move |(): &mut (), _, _, it| last(it));
    let text = failure(with(move || Arc::new(slice().every_cycle())).0);
    assert_eq!(text, "`s` failed in cycle 1, slice 3: no");
}

/// Panics in one of its calls.
struct Panics(&'static str);

impl Panics {
    fn called(&self, call: &str) -> Result<(), SinkError> {
        assert!(self.0 != call, "in {call}");
        Ok(())
    }
}

impl Sink for Panics {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }
    fn write(&mut self, _: Cycle, _: &[Arc<Block>]) -> Result<(), SinkError> {
        self.called("write")
    }
    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        self.called("commit")
    }
    fn close(&mut self) -> Result<(), SinkError> {
        self.called("close")
    }
}

#[test]
fn a_sink_that_panics_is_named_with_its_cycle() {
    for call in ["write", "commit", "close"] {
        let job = Job::new("j").source("numbers", numbers());
        let text = failure(job.sink("mine", from("numbers").to(Panics(call))));
        assert_eq!(text, format!("`mine` failed in cycle 1: it panicked: in {call}"));
    }
}

/// Says that it panics, and does so when it is asked for that.
struct Unmade(&'static str);

impl Unmade {
    fn called(&self, call: &str) {
        assert!(self.0 != call, "in {call}");
    }
}

impl SourceFactory for Unmade {
    fn schema(&self) -> SchemaRef {
        self.called("schema");
        schema(&[("n", DataType::Int64)])
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        self.called("open");
        Ok(Box::new(Words(true)))
    }
    fn live(&self) -> bool {
        self.called("live");
        false
    }
}

#[test]
fn what_a_program_makes_its_parts_with_may_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = || schema(&[("n", DataType::Int64)]);
    let nothing = |_: &mut Map<i64, i64>, _: &Record<'_>, _: &mut Emit, _: &CycleInfo| Ok(());
    let panics = || -> Map<i64, i64> { panic!("no state") };
    let stateless = || {
        let make = move || -> Arc<dyn OperatorFactory> {
            Arc::new(custom::keyed_record(none(), panics, nothing))
        };
        with(make).0.data(folder.path())
    };
    assert_eq!(
        failure(with(|| panic!("no operator")).0),
        "job `j`: stages.s.operator: error: it panicked: no operator"
    );
    for _ in 0..2 {
        assert_eq!(failure(stateless()), "`s`: slice 0 panicked: no state");
    }
    let (sink, _) = collected();
    let kept = from("numbers").key(["n"]).operator("mine").ttl("1h");
    let job = Job::new("j")
        .source("numbers", numbers())
        .operator("mine", move |_| Ok(Arc::new(custom::keyed_record(none(), panics, nothing))))
        .stage("s", kept)
        .sink("out", from("s").to(sink))
        .data(folder.path())
        .checkpoint("1h");
    assert_eq!(failure(job), "job `j`: stages.s.operator: error: it panicked: no state");
    let source = |call| {
        let source: Arc<dyn SourceFactory> = Arc::new(Unmade(call));
        failure(Job::new("j").source("mine", source).sink("out", from("mine").to_blackhole()))
    };
    for call in ["schema", "live"] {
        assert_eq!(source(call), format!("job `j`: sources.mine: error: it panicked: in {call}"));
    }
    assert_eq!(source("open"), "`mine`: slice 0 panicked: in open");
    let none = Generated::new(none(), || -> std::iter::Empty<RecordBatch> { panic!("no records") });
    let job = Job::new("j").source("mine", none).sink("out", from("mine").to_blackhole());
    assert_eq!(failure(job), "`mine`: slice 0 panicked: no records");
}

#[test]
fn rows_without_columns_are_rows() {
    let row = |_: &Record<'_>, emit: &mut Emit, _: &CycleInfo| emit.row(|_| {});
    let (job, rows) = with(move || Arc::new(custom::per_record(schema(&[]), row)));
    job.run().expect("it runs");
    assert_eq!(rows.rows(), 10);
}
