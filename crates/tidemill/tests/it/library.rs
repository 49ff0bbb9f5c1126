//! What `docs/library.md` shows, compiled and run: each of its pieces of Rust stands here, line by line.

use crate::house::{House, flights};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidemill::arrow::array::{Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use tidemill::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill::custom::state::{Map, State, Structure, Value};
use tidemill::custom::{self, CycleInfo, Emit, Record};
use tidemill::flow::{Block, Sink, SinkError};
use tidemill::{
    Collected, Cycle, File, Format, Generated, Job, JobHandle, OperatorError, collected, from,
    query_state,
};

type Outcome = Result<(), Box<dyn Error>>;

fn columns(all: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), false);
    Arc::new(Schema::new(all.iter().map(field).collect::<Vec<_>>()))
}

#[test]
fn a_job_in_code() -> Outcome {
    let house = House::new();
    house.write("flights.csv", &flights(3_000));
    let folder = house.path("");
    let (sink, rows) = collected();
    let late = from("flights").filter("delay > 15");
    let by_carrier = from("late").key(["carrier"]).tumbling("1d");
    let job = Job::new("delays")
        .source("flights", File::csv("flights.csv").event_time("ts", "1h"))
        .stage("late", late)
        .stage("by_carrier", by_carrier.aggregate([("n", "count(*)"), ("worst", "max(delay)")]))
        .sink("out", from("by_carrier").to(sink))
        .sink("file", from("by_carrier").to_file("out.ndjson", Format::Json))
        .base_dir(folder);
    let progress = job.run()?;
    println!("{} flights, {} rows", progress.sources[0].records, rows.rows());
    println!("{rows}");
    let late = rows.read(|row| row.i64("n"))?.into_iter().flatten().sum::<i64>();
    assert_eq!(late, 2_040);
    assert_eq!(house.read("out.ndjson").lines().count(), rows.rows());
    Ok(())
}

/// Words of lines, and how long each is.
fn words(job: Job) -> Job {
    let word = columns(&[("word", DataType::Utf8)]);
    let length = columns(&[("length", DataType::Int64)]);
    job.operator("words", move |_| {
        let split = |line: &Record<'_>, emit: &mut Emit, _: &CycleInfo| {
            let text = line.str("text")?.unwrap_or_default();
            text.split_whitespace().try_for_each(|word| {
                emit.row(|row| {
                    row.put(word);
                })
            })
        };
        Ok(Arc::new(custom::per_record(Arc::clone(&word), split)))
    })
    .operator("lengths", move |_| {
        let schema = Arc::clone(&length);
        let lengths = move |rows: &RecordBatch, emit: &mut Emit| {
            let words = rows.column(0).as_string::<i32>();
            let lengths = words.iter().map(|it| it.map_or(0, |it| it.chars().count() as i64));
            let lengths = Arc::new(Int64Array::from_iter_values(lengths));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![lengths]);
            emit.batch(batch.map_err(|error| OperatorError::new(error.to_string()))?)
        };
        Ok(Arc::new(custom::per_batch(Arc::clone(&length), lengths)))
    })
}

/// How often each word came, and the one that came last.
#[derive(Default)]
struct Seen {
    counts: Map<String, i64>,
    last: Value<Option<String>>,
}

impl State for Seen {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![&mut self.counts, &mut self.last]
    }

    fn names(&self) -> Vec<&'static str> {
        vec!["counts", "last"]
    }
}

fn see(seen: &mut Seen, record: &Record<'_>, emit: &mut Emit) -> Result<(), OperatorError> {
    let word = record.str("word")?.unwrap_or_default();
    let count = seen.counts.get_or_default(word.to_owned());
    *count += 1;
    seen.last.set(Some(word.to_owned()));
    emit.row(|row| {
        row.put(word).put(*count);
    })
}

fn counting(job: Job) -> Job {
    let counted = columns(&[("word", DataType::Utf8), ("n", DataType::Int64)]);
    job.operator("count", move |_| {
        let run = |seen: &mut Seen, record: &Record<'_>, emit: &mut Emit, _: &CycleInfo| {
            see(seen, record, emit)
        };
        Ok(Arc::new(custom::keyed_record(Arc::clone(&counted), Seen::default, run)))
    })
}

#[test]
fn operators_of_the_program() -> Outcome {
    let house = House::new();
    house.write("lines.txt", "to be or\nnot to be\n");
    let ((lengths, long), (counts, counted)) = (collected(), collected());
    let job = counting(words(Job::new("words")))
        .source("lines", File::text("lines.txt"))
        .stage("words", from("lines").operator("words"))
        .stage("lengths", from("words").operator("lengths"))
        .stage("count", from("words").key(["word"]).operator("count"))
        .sink("long", from("lengths").to(lengths))
        .sink("counted", from("count").to(counts))
        .base_dir(house.path(""));
    job.run()?;
    let numbers = |rows: &Collected, name| {
        let mut all = rows.read(|row| row.i64(name)).expect("numbers");
        all.sort_unstable();
        all.into_iter().flatten().collect::<Vec<_>>()
    };
    assert_eq!(numbers(&long, "length"), [2, 2, 2, 2, 2, 3]);
    assert_eq!(numbers(&counted, "n"), [1, 1, 1, 1, 2, 2]);
    Ok(())
}

/// Numbers for ever, a hundred in a batch.
fn numbers() -> Generated {
    let schema = columns(&[("n", DataType::Int64)]);
    let of_batches = Arc::clone(&schema);
    Generated::new(schema, move || {
        let schema = Arc::clone(&of_batches);
        (0_i64..).step_by(100).map(move |start| {
            let numbers = Arc::new(Int64Array::from_iter_values(start..start + 100));
            RecordBatch::try_new(Arc::clone(&schema), vec![numbers]).expect("a column of numbers")
        })
    })
}

/// A sink that counts the rows that are committed.
#[derive(Default)]
struct Counting {
    waiting: Vec<(Cycle, usize)>,
    rows: Arc<AtomicUsize>,
}

impl Sink for Counting {
    fn open(&mut self, _resume: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        self.waiting.push((cycle, blocks.iter().map(|block| block.len()).sum()));
        Ok(())
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        let due = self.waiting.partition_point(|(it, _)| *it <= cycle);
        let rows: usize = self.waiting.drain(..due).map(|(_, rows)| rows).sum();
        self.rows.fetch_add(rows, Ordering::Relaxed);
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn endless(folder: &std::path::Path) -> Job {
    Job::new("endless")
        .source("numbers", numbers())
        .stage("odd", from("numbers").select([("odd", "n % 2")]))
        .stage("sums", from("odd").key(["odd"]).global().aggregate([("n", "count(*)")]))
        .sink("out", from("sums").to_file("out.ndjson", Format::Json))
        .base_dir(folder)
        .data(folder.join("data"))
        .checkpoint("10ms")
}

fn wait_for(handle: &JobHandle, checkpoints: u64) {
    while handle.progress().checkpoints.completed < checkpoints && !handle.is_over() {
        std::thread::yield_now();
    }
}

fn total(answer: &tidemill::Answer) -> i64 {
    let counts = answer.batches.iter().map(|it| it.column(0).as_primitive::<Int64Type>().value(0));
    counts.sum()
}

#[test]
fn a_job_that_runs_is_watched_and_asked_and_goes_on_later() -> Outcome {
    let house = House::new();
    let folder = house.path("");
    let handle = endless(&folder).start()?;
    wait_for(&handle, 1);
    let progress = handle.progress();
    println!("{} records", progress.sources[0].records);
    handle.rescale(1)?;
    let answer = query_state(&handle, "sums", "SELECT count(*) FROM state")?;
    println!("{:?}", answer.batches);
    let kept = handle.keep_checkpoint("before the change")?;
    handle.stop();
    let last = handle.wait()?;
    let sql = "SELECT count(*) FROM state WHERE n > 0";
    let answer = endless(&folder).query_checkpoint(Some(kept.number), "sums", sql)?;
    assert_eq!(total(&answer), 2);
    let handle = endless(&folder).resume().start()?;
    // It does again what was behind the newest checkpoint, and then goes on.
    while handle.progress().cycle_committed <= last.cycle_committed && !handle.is_over() {
        std::thread::yield_now();
    }
    assert!(handle.progress().cycle_committed > last.cycle_committed);
    handle.stop();
    handle.wait()?;
    Ok(())
}

#[test]
fn a_sink_of_the_program() -> Outcome {
    let house = House::new();
    house.write("flights.csv", &flights(1_000));
    let counted = Counting::default();
    let rows = Arc::clone(&counted.rows);
    let job = Job::new("counting")
        .source("flights", File::csv("flights.csv"))
        .sink("out", from("flights").to(counted))
        .base_dir(house.path(""));
    job.run()?;
    assert_eq!(rows.load(Ordering::Relaxed), 1_000);
    Ok(())
}

#[test]
fn the_sink_of_the_page_shows_no_row_before_its_cycle_is_committed() -> Outcome {
    let mut sink = Counting::default();
    let rows = Arc::clone(&sink.rows);
    let block = |count: i64| {
        let numbers = Arc::new(Int64Array::from_iter_values(0..count));
        let schema = columns(&[("n", DataType::Int64)]);
        let batch = RecordBatch::try_new(schema, vec![numbers]).expect("a column of numbers");
        Arc::new(Block::whole(tidemill::flow::Payload::Arrow(batch), tidemill::SliceId(0)))
    };
    sink.write(Cycle(1), &[block(1)])?;
    sink.write(Cycle(2), &[block(2)])?;
    sink.commit(Cycle(1))?;
    assert_eq!(rows.load(Ordering::Relaxed), 1);
    sink.commit(Cycle(2))?;
    assert_eq!(rows.load(Ordering::Relaxed), 3);
    Ok(())
}

/// Lines without what is only layout.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|it| !it.is_empty()).collect()
}

#[test]
fn the_page_shows_what_is_compiled_here() {
    let page = include_str!("../../../../docs/library.md");
    let here = lines(include_str!("library.rs"));
    let pieces: Vec<_> = page.split("```rust\n").skip(1).collect();
    assert!(pieces.len() > 5, "the pieces were found");
    for piece in pieces {
        let shown = lines(piece.split("```").next().unwrap_or_default());
        let is_here = here.windows(shown.len()).any(|it| it == shown);
        assert!(is_here, "this is not in library.rs:\n{}", shown.join("\n"));
    }
}
