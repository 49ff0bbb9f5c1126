//! Records that the program makes: cut anywhere, replayed, refused; and results read row by row.

use super::super::*;
use arrow_array::{
    ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, types::Int8Type,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_operators::custom::{self, CycleInfo, Emit, Record, state::Map};
use tidemill_types::Micros;

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![field("ts"), field("n")]))
}

/// The numbers 0 to 999, one a minute, in batches of this size.
fn numbers(size: i64) -> impl Iterator<Item = RecordBatch> + Send {
    (0..1_000).step_by(size as usize).map(move |start| {
        let n: Vec<i64> = (start..1_000.min(start + size)).collect();
        let ts: ArrayRef = Arc::new(n.iter().map(|n| Some(n * 60_000)).collect::<Int64Array>());
        RecordBatch::try_new(schema(), vec![ts, Arc::new(Int64Array::from(n))])
            .expect("two columns")
    })
}

fn hourly(source: Generated) -> (Job, Collected) {
    let (sink, rows) = collected();
    let job = Job::new("hourly")
        .source("numbers", source)
        .stage("sums", from("numbers").tumbling("1h").aggregate([("s", "sum(n)")]))
        .sink("out", from("sums").to(sink));
    (job, rows)
}

fn sums(rows: &Collected) -> Vec<(Micros, i64)> {
    let row = rows.read(|row| {
        let start = row.timestamp("window_start")?.expect("a start");
        Ok((start, row.i64("s")?.expect("a sum")))
    });
    row.expect("the columns are there")
}

#[test]
fn windows_follow_the_time_of_records_whatever_the_batches() {
    let hour = |hour: i64| (hour * 60..1_000.min(hour * 60 + 60)).sum::<i64>();
    let expected: Vec<_> = (0..17).map(|it| (Micros(it * 3_600_000_000), hour(it))).collect();
    for size in [1, 7, 60, 999, 5_000] {
        let source = Generated::new(schema(), move || numbers(size)).event_time("ts", "0s");
        let (mut job, rows) = hourly(source);
        // Cycles that end in the middle of a batch.
        job.spec.cycle.records = 13;
        let progress = job.run().expect("runs");
        assert_eq!(progress.sources[0].records, 1_000);
        assert_eq!(sums(&rows), expected, "batches of {size}");
    }
    let (sink, rows) = collected();
    let same = Generated::new(schema(), || numbers(10));
    Job::new("same").source("a", same).sink("b", from("a").to(sink)).run().expect("runs");
    assert_eq!(rows.rows(), 1_000, "without event time too");
}

#[test]
fn a_resumed_job_makes_its_records_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = |count: i64| {
        let make = move || numbers(50).take(count as usize);
        let source = Generated::new(schema(), make).event_time("ts", "0s");
        let (mut job, rows) = hourly(source);
        job.spec.cycle.records = 30;
        (job.data(folder.path()), rows)
    };
    job(20).0.run().expect("runs");
    let (again, rows) = job(20);
    again.resume().run().expect("goes on");
    assert_eq!(sums(&rows).len(), 17, "a sink in memory had nothing yet");
    let text = job(3).0.resume().run().expect_err("records are missing").to_string();
    assert!(text.contains("it makes 150 records, fewer than the ledger says"), "{text}");
}

#[test]
fn mistakes_are_told_with_their_place() {
    let refused = |source: Generated| hourly(source).0.run().expect_err("refused").to_string();
    let make = || numbers(10);
    assert_eq!(
        refused(Generated::new(schema(), make).event_time("t", "0s")),
        "job `hourly`: sources.numbers.time.field: error: there is no column `t`, only ts, n"
    );
    let text = Arc::new(Schema::new(vec![Field::new("ts", DataType::Utf8, false)]));
    let refusal = refused(Generated::new(text, make).event_time("ts", "1 hour"));
    assert!(refusal.contains("`ts` is of type Utf8, which is not a time"), "{refusal}");
    assert!(refusal.contains("`1 hour` is not a duration"), "{refusal}");
    let refusal = refused(Generated::new(schema(), make));
    assert!(refusal.contains("it needs event time, which `numbers` does not have"), "{refusal}");
}

#[test]
fn wrong_batches_fail_the_job() {
    let failed = |batch: RecordBatch| {
        let make = move || numbers(10).take(2).chain(std::iter::once(batch.clone()));
        let source = Generated::new(schema(), make).event_time("ts", "0s");
        hourly(source).0.run().expect_err("failed").to_string()
    };
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let batch = RecordBatch::try_new(schema(), vec![Arc::clone(&nulls), nulls]);
    let text = failed(batch.expect("two columns"));
    assert!(text.contains("record 21 has no event time"), "{text}");
    let word: ArrayRef = Arc::new(StringArray::from(vec!["word"]));
    let text = failed(RecordBatch::try_from_iter([("ts", word)]).expect("a column"));
    assert!(text.contains("the batch at record 20 has other columns than said"), "{text}");
}

#[test]
fn results_are_shown_and_read() {
    let (sink, rows) = collected();
    assert_eq!(rows.to_string(), "no rows");
    let source = Generated::new(schema(), || numbers(400));
    let few = from("a").filter("n >= 998").select([
        ("n", "n"),
        ("half", "n / 2.0"),
        ("no", "nullif(n, n)"),
    ]);
    Job::new("few")
        .source("a", source)
        .stage("b", few)
        .sink("out", from("b").to(sink))
        .run()
        .expect("runs");
    let text = rows.to_string();
    let lines: Vec<String> = text.lines().map(|line| line.replace(' ', "")).collect();
    assert_eq!(lines[1], "│n┆half┆no│");
    assert_eq!(lines[3], "│998┆499.000┆null│");
    assert_eq!(lines.len(), 6);
    let error = rows.read(|row| row.i64("m")).expect_err("no such column");
    assert!(error.message.contains('m'), "{error}");
    assert_eq!(rows.read(|row| row.f64("half")).expect("a column"), [Some(499.0), Some(499.5)]);
}

#[test]
fn text_in_dictionaries_is_grouped_and_read_as_text() {
    let folded = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("k", folded, true)]));
    let counted: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("n", DataType::Int64, false),
    ]));
    let of = Arc::clone(&schema);
    let source = Generated::new(schema, move || {
        // The same word is at another place each time.
        let batches = [[Some("a"), Some("b"), None], [Some("b"), None, Some("a")]];
        let of = Arc::clone(&of);
        batches.into_iter().map(move |words| {
            let words: DictionaryArray<Int8Type> = words.into_iter().collect();
            RecordBatch::try_new(Arc::clone(&of), vec![Arc::new(words)]).expect("a column")
        })
    });
    let (sink, rows) = collected();
    let count = |counts: &mut Map<Option<String>, i64>,
                 record: &Record<'_>,
                 emit: &mut Emit,
                 _: &CycleInfo| {
        let word = record.str("k")?;
        let n = counts.get_or_default(word.map(str::to_owned));
        *n += 1;
        emit.row(|row| {
            row.put(word).put(*n);
        })
    };
    Job::new("j")
        .slices(8)
        .threads(2)
        .source("words", source)
        .operator("count", move |_| {
            Ok(Arc::new(custom::keyed_record(Arc::clone(&counted), Map::default, count)))
        })
        .stage("counts", from("words").key(["k"]).operator("count"))
        .sink("out", from("counts").to(sink))
        .run()
        .expect("runs");
    let counts = rows.read(|row| Ok((row.str("k")?.map(str::to_owned), row.i64("n")?)));
    let mut counts = counts.expect("two columns");
    counts.sort();
    let word = |it: &str| Some(it.to_owned());
    let wanted = [None, word("a"), word("b")].map(|it| [(it.clone(), Some(1)), (it, Some(2))]);
    assert_eq!(counts, wanted.concat());
}
