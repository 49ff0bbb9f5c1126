//! Behind a keyed stage: which slice a row is of, and where it comes among others, does not depend on
//! the number of threads.

use super::super::*;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use std::collections::BTreeMap;
use tidemill_operators::custom::{
    CycleInfo, Emit, Record, keyed_record, per_batch, per_record, per_record_bytes, state::Value,
};

fn columns(names: &[&str]) -> SchemaRef {
    let field = |name: &&str| Field::new(*name, DataType::Int64, true);
    Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
}

/// The numbers 0 to 1999, one a minute; each third comes two hours late.
fn numbers() -> Generated {
    let of = |number: i64| (number * 60_000 - if number % 3 == 0 { 7_200_000 } else { 0 }, number);
    let batches = move || {
        (0..2_000).step_by(25).map(move |start| {
            let (ts, n): (Vec<i64>, Vec<i64>) = (start..start + 25).map(of).unzip();
            let k = n.iter().map(|n| Some(n * n % 41)).collect::<Int64Array>();
            let all: Vec<ArrayRef> =
                vec![Arc::new(Int64Array::from(ts)), Arc::new(k), Arc::new(Int64Array::from(n))];
            RecordBatch::try_new(columns(&["ts", "k", "n"]), all).expect("three columns")
        })
    };
    Generated::new(columns(&["ts", "k", "n"]), batches).event_time("ts", "1h")
}

/// A job that has all that can stand before a stage without a key, and all that can be one.
fn job(threads: usize) -> (Job, BTreeMap<&'static str, Collected>) {
    let sees = |_: &SchemaRef| -> Result<Arc<dyn OperatorFactory>, String> {
        Ok(Arc::new(per_record(columns(&["k", "slice", "random"]), |record, emit, info| {
            let (k, slice) = (record.i64("k")?, i64::from(info.slice.0));
            emit.row(|row| {
                row.put(k).put(slice).put((info.random(0) >> 1) as i64);
            })
        })))
    };
    let nth = |_: &SchemaRef| -> Result<Arc<dyn OperatorFactory>, String> {
        let count = |n: &mut Value<i64>, _: &Record<'_>, emit: &mut Emit, _: &CycleInfo| {
            *n.get_mut() += 1;
            emit.row(|row| {
                row.put(*n.get());
            })
        };
        Ok(Arc::new(keyed_record(columns(&["nth"]), Value::<i64>::default, count)))
    };
    let batch = |input: &SchemaRef| -> Result<Arc<dyn OperatorFactory>, String> {
        Ok(Arc::new(per_batch(Arc::clone(input), |batch, emit| emit.batch(batch.clone()))))
    };
    let bytes = |_: &SchemaRef| -> Result<Arc<dyn OperatorFactory>, String> {
        Ok(Arc::new(per_record_bytes(|record, output| {
            output.push(record);
            Ok(())
        })))
    };
    let shown = |_: &SchemaRef| -> Result<Arc<dyn OperatorFactory>, String> {
        Ok(Arc::new(per_record(columns(&["k", "slice"]), |record, emit, info| {
            let k = record.str("value")?.and_then(|it| it.parse::<i64>().ok());
            emit.row(|row| {
                row.put(k).put(i64::from(info.slice.0));
            })
        })))
    };
    let mut job = Job::new("threads")
        .threads(threads)
        .slices(16)
        .source("in", numbers())
        .operator("sees", sees)
        .operator("nth", nth)
        .operator("batch", batch)
        .operator("bytes", bytes)
        .operator("shown", shown);
    let by_k = || from("in").key(["k"]);
    let sums = [("n", "sum(n)")];
    for (name, stage) in [
        ("count", by_k().count(3, 2).aggregate(sums)),
        ("tumbling", by_k().tumbling("1h").aggregate(sums).late("late")),
        ("session", by_k().session("10m").aggregate(sums).late("later")),
        ("global", by_k().global().aggregate(sums)),
        ("dedup", from("in").select([("k", "k"), ("n", "n % 100")]).dedup(["n"])),
        (
            "best",
            from("tumbling").top(3, "n").per(["window_start"]).select([
                ("k", "k"),
                ("n", "n"),
                ("window_start", "window_start"),
            ]),
        ),
        ("pairs", join("in", "count").on(["k"]).within("30m").select([("k", "k"), ("n", "n")])),
        (
            "random",
            from("in").partition(tidemill_types::job::PartitionSpec::Random).operator("batch"),
        ),
        ("keyed", by_k().operator("sees")),
        // What reads those.
        ("union", from(["tumbling", "session"]).select([("k", "k"), ("n", "n + 1")])),
        ("letters", from("count").select([("k", "k"), ("n", "100 / (n % 7)")])),
        ("some", from("count").filter("n % 3 = 0").operator("nth")),
        ("flat", from("count").flat_map("make_array(n, k)", "x").filter("x % 2 = 0")),
        ("of_flat", from("flat").operator("sees")),
        ("batched", from("count").operator("batch")),
        ("of_batched", from("batched").operator("sees")),
        ("of_random", from("random").operator("sees")),
        ("of_keyed", from("keyed").operator("nth")),
        ("text", from("count").select([("value", "cast(k AS string)")])),
        ("relayed", from("text").operator("bytes")),
        (
            "of_relayed",
            from("relayed").select([("value", "cast(value AS string)")]).operator("shown"),
        ),
        ("by_bytes", from("text").key(["value"]).operator("bytes")),
        (
            "of_bytes",
            from("by_bytes").select([("value", "cast(value AS string)")]).operator("shown"),
        ),
    ] {
        job = job.stage(name, stage);
    }
    let all = ["tumbling", "session", "global", "dedup", "best", "pairs", "late", "later"];
    for name in all {
        let of: &'static str = Box::leak(format!("of_{name}").into_boxed_str());
        job = job.stage(of, from(name).operator("sees"));
    }
    let mut collections = BTreeMap::new();
    for name in [
        "union",
        "letters",
        "some",
        "of_flat",
        "of_batched",
        "of_random",
        "of_keyed",
        "of_relayed",
        "of_bytes",
        "of_tumbling",
        "of_session",
        "of_global",
        "of_dedup",
        "of_best",
        "of_pairs",
        "of_late",
        "of_later",
        "dead_letter",
    ] {
        let (sink, rows) = collected();
        job = job.sink(format!("out_{name}"), from(name).to(sink));
        collections.insert(name, rows);
    }
    job.spec.cycle.records = 100;
    (job, collections)
}

#[test]
fn what_is_behind_a_keyed_stage_is_the_same_for_any_number_of_threads() {
    let text = |threads: usize| {
        let (job, rows) = job(threads);
        job.run().expect("runs");
        rows.into_iter().map(|(name, rows)| (name, rows.to_string())).collect::<Vec<_>>()
    };
    let one = text(1);
    for (name, text) in &one {
        assert!(text.lines().count() > 3, "{name} has rows: {text}");
    }
    for threads in [2, 3] {
        let others = text(threads);
        let wrong: Vec<&str> =
            one.iter().zip(&others).filter(|(a, b)| a != b).map(|((name, _), _)| *name).collect();
        assert!(wrong.is_empty(), "{threads} threads write otherwise: {wrong:?}");
    }
}
