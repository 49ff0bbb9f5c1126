//! What a job says of its state's memory, beside what the allocator gave out for it.
//!
//! One test, in a program of its own: the allocator counts for all threads.

#![expect(clippy::disallowed_methods, reason = "it waits for a job on the real clock")]

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::{
    alloc::System,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tidemill::{
    Generated, Job, Stage,
    arrow::{
        array::{ArrayRef, Int64Array, RecordBatch, StringArray},
        schema::{DataType, Field, Schema},
    },
    from, join,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROWS: i64 = 400_000;
const BATCH: i64 = 1_000;
const POLL: Duration = Duration::from_millis(10);
/// A stage has taken in what it will when nothing changes for so many polls.
const STILL_POLLS: u32 = 100;
/// What a job without state takes: rows on their way.
const BUFFERS: usize = 5 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that are allocated now.
fn live() -> usize {
    let all = ALLOCATOR.stats();
    all.bytes_allocated - all.bytes_deallocated
}

/// The source has given all its rows; and it may end.
type Signals = (Arc<AtomicBool>, Arc<AtomicBool>);

/// Rows with a key, a text of about 40 bytes, a number and a time. Their end comes with `stop`.
fn rows(keys: i64, (given, stop): &Signals) -> Generated {
    let fields = [
        ("key", DataType::Int64),
        ("text", DataType::Utf8),
        ("x", DataType::Int64),
        ("at", DataType::Int64),
    ];
    let fields: Vec<Field> =
        fields.into_iter().map(|(name, kind)| Field::new(name, kind, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let of_batches = Arc::clone(&schema);
    let (given, stop) = (Arc::clone(given), Arc::clone(stop));
    let batch = move |rows: std::ops::Range<i64>| {
        let text = |key| format!("a text that is the key of a row: {key:08}");
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.clone().map(|row| row % keys).collect::<Int64Array>()),
            Arc::new(rows.clone().map(|row| Some(text(row % keys))).collect::<StringArray>()),
            Arc::new(rows.clone().collect::<Int64Array>()),
            Arc::new(rows.map(|row| row * 10).collect::<Int64Array>()),
        ];
        RecordBatch::try_new(Arc::clone(&of_batches), columns).expect("columns of the schema")
    };
    let made = move || {
        let (batch, given, stop) = (batch.clone(), Arc::clone(&given), Arc::clone(&stop));
        let all = (0..ROWS / BATCH).map(move |nth| batch(nth * BATCH..(nth + 1) * BATCH));
        let end = std::iter::from_fn(move || {
            given.store(true, Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(POLL);
            }
            None
        });
        all.chain(end)
    };
    Generated::new(schema, made).event_time("at", "0s")
}

/// Estimated and allocated bytes of a job whose stage `it` has taken everything in.
fn measured(keys: i64, stage: Stage) -> (u64, usize) {
    let signals = Signals::default();
    let before = live();
    let job = Job::new("memory").threads(1).slices(8);
    let job = job.source("a", rows(keys, &signals)).stage("b", from("a").filter("x >= 0"));
    let job = job.stage("it", stage).sink("out", from("it").to_blackhole());
    let job = job.sink("none", from("b").to_blackhole());
    let handle = job.start().expect("the job starts");
    let end = Instant::now() + PATIENCE;
    let (mut last, mut same) = ((0, 0), 0);
    while same < STILL_POLLS {
        let progress = handle.progress();
        let it = progress.stages.iter().find(|it| it.name == "it").expect("the stage");
        let now = (it.rows_in, it.state_bytes);
        let is_over = signals.0.load(Ordering::Relaxed);
        same = if is_over && now == last { same + 1 } else { 0 };
        last = now;
        assert!(Instant::now() < end, "{it:?}");
        std::thread::sleep(POLL);
    }
    let found = (last.1, (live() - before).saturating_sub(BUFFERS));
    signals.1.store(true, Ordering::Relaxed);
    handle.wait().expect("the job ends well");
    found
}

#[test]
fn the_memory_of_a_state_is_about_what_the_allocator_gave_out() {
    let totals = [("n", "count(*)"), ("mean", "avg(x)"), ("most", "max(x)")];
    let cases: [(&str, i64, Stage); 7] = [
        ("aggregates by number", ROWS, from("a").key(["key"]).global().aggregate(totals)),
        ("aggregates by text", ROWS, from("a").key(["text"]).global().aggregate(totals)),
        (
            "distinct values",
            2_000,
            from("a").key(["key"]).global().aggregate([("n", "count(distinct x)")]),
        ),
        (
            "sketches",
            2_000,
            from("a").key(["key"]).global().aggregate([("n", "approx_distinct(x)")]),
        ),
        ("texts", ROWS, from("a").key(["key"]).global().aggregate([("last", "max(text)")])),
        ("sessions", ROWS, from("a").key(["text"]).session("10h").aggregate(totals)),
        ("both sides of a join", ROWS, join("a", "b").on(["key"]).within("10h")),
    ];
    for (what, keys, stage) in cases {
        let (said, given) = measured(keys, stage);
        let ratio = said as f64 / given as f64;
        println!("{what}: {said} said, {given} allocated, {ratio:.2}");
        // A count may be one cycle old, which is a third of all here.
        assert!((0.6..1.3).contains(&ratio), "{what}: {said} of {given}");
    }
}
