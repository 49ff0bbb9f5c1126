//! The state of a function of the program, asked with SQL while the job runs and in a checkpoint.

use super::super::*;
use crate::{CheckpointSpec, Delivery, Every, Recovery};
use arrow_array::{Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use tidemill_node::state_query::Answer;
use tidemill_operators::custom::{keyed_record, state::Map};

/// Numbers that come for ever, of seven keys; each is counted by its key.
fn job(folder: &std::path::Path) -> Job {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let (of_source, of_output) = (Arc::clone(&schema), Arc::clone(&schema));
    let numbers = move || {
        let schema = Arc::clone(&of_source);
        (0_i64..).step_by(100).map(move |start| {
            let keys = Int64Array::from_iter_values((start..start + 100).map(|n| n % 7));
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys)]).expect("a column")
        })
    };
    let mut job = Job::new("counts")
        .source("numbers", Generated::new(schema, numbers))
        .operator("count", move |_| {
            let count = keyed_record(
                Arc::clone(&of_output),
                Map::<i64, i64>::default,
                |counts, record, _, _| {
                    *counts.get_or_default(record.i64("n")?.unwrap_or_default()) += 1;
                    Ok(())
                },
            );
            Ok(Arc::new(count))
        })
        .stage("counts", from("numbers").key(["n"]).operator("count"))
        .sink("none", from("counts").to(collected().0))
        .data(folder)
        .checkpoint("1ms");
    job.spec.cycle.records = 70;
    job
}

/// Cycle, sum of the counts, and how many keys there are.
fn total(answer: &Answer) -> (i64, i64, i64) {
    let cycle = answer.schema.metadata()["tidemill.cycle"].parse().expect("a number");
    let [batch] = answer.batches.as_slice() else { panic!("one row") };
    let value = |column: usize| batch.column(column).as_primitive::<Int64Type>().value(0);
    (cycle, value(0), value(1))
}

const SQL: &str = "SELECT sum(value) AS n, count(*) AS keys FROM state WHERE value > 0";

#[test]
fn a_program_asks_the_states_of_its_own_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let handle = job(folder.path()).start().expect("it starts");
    while handle.progress().checkpoints.completed < 3 {
        std::thread::yield_now();
    }
    let (cycle, sum, keys) = total(&query_state(&handle, "counts", SQL).expect("it runs"));
    assert_eq!((sum, keys), (cycle * 70, 7), "each cycle has 70 numbers");
    assert!(query_state(&handle, "none", SQL).is_err());
    handle.stop();
    handle.wait().expect("it ends well");
    drop(handle);

    let answer = job(folder.path()).query_checkpoint(None, "counts", SQL).expect("it is there");
    let (cycle, sum, keys) = total(&answer);
    assert_eq!((sum, keys), (cycle * 70, 7));
    let number = answer.schema.metadata()["tidemill.checkpoint"].parse().map(CheckpointNumber);
    let by_number =
        job(folder.path()).query_checkpoint(Some(number.expect("a number")), "counts", SQL);
    assert_eq!(total(&by_number.expect("it is there")), (cycle, sum, keys));
    let refused = |error: Result<Answer, StateFailure>| error.expect_err("refused").to_string();
    let text = refused(job(folder.path()).query_checkpoint(None, "counts", "SELECT k FROM state"));
    assert!(text.contains("line 1, column 8: No field named k"), "{text}");
    let text = refused(Job::new("bare").query_checkpoint(None, "counts", SQL));
    assert!(text.contains("job `bare`"), "{text}");
}

#[test]
fn a_program_saves_each_slice_by_its_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let by = |records| {
        let every = Every::Bounds { time: None, records };
        let checkpoint = CheckpointSpec { every, recovery: Recovery::Lazy, ..Default::default() };
        job(folder.path()).delivery(Delivery::AtMostOnce).checkpoint_with(checkpoint)
    };
    let Err(JobFailure::Refused(refused)) = by(None).start() else { panic!("refused") };
    assert!(refused.to_string().contains("neither `time` nor `records`"), "{refused}");
    let handle = by(Some(500)).start().expect("it starts");
    while handle.progress().checkpoints.completed < 3 {
        std::thread::yield_now();
    }
    handle.stop();
    handle.wait().expect("it ends well");
    drop(handle);
    let answer = by(Some(500)).query_checkpoint(None, "counts", SQL).expect("it is there");
    let (_, sum, keys) = total(&answer);
    assert!(keys == 7 && sum >= 1_500, "{sum} of {keys}");
}
