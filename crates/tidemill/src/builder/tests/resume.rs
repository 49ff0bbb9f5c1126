//! Going on: what a job in code reads again, and what is refused.

use super::super::*;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use std::sync::mpsc;
use tidemill_node::serve::{self, ServeSettings, Stop};
use tidemill_operators::custom::{CycleInfo, Emit, Record, keyed_record, state::Value};
use tidemill_types::job::Format;

fn numbers(count: i64) -> Generated {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let of = Arc::clone(&schema);
    Generated::new(schema, move || {
        let numbers = Int64Array::from_iter_values(0..count);
        let batch = RecordBatch::try_new(Arc::clone(&of), vec![Arc::new(numbers)]);
        std::iter::once(batch.expect("a column"))
    })
}

/// Calls `with` with the address of a node that serves meanwhile.
fn served(folder: &std::path::Path, with: impl FnOnce(&str)) {
    let stop = Stop::default();
    let mut settings = ServeSettings { data: folder.join("node"), ..ServeSettings::default() };
    settings.broker.listen.set_port(0);
    settings.http.listen.set_port(0);
    std::thread::scope(|scope| {
        let (to, ready) = mpsc::channel();
        let asked = stop.clone();
        scope.spawn(move || {
            let tell = |ready: &serve::Ready| to.send(ready.kafka).expect("somebody waits");
            serve::run(&World::real(), settings, &asked, tell).expect("it serves");
        });
        with(&ready.recv().expect("it serves").to_string());
        stop.now();
    });
}

#[test]
fn a_resumed_job_ends_where_its_topic_ended_when_it_began() {
    let folder = tempfile::tempdir().expect("a folder");
    served(folder.path(), |brokers| {
        let write = |count| {
            let sink = from("numbers").to_kafka(brokers, "t", []);
            let job = Job::new("write").source("numbers", numbers(count)).sink("out", sink);
            job.run().expect("writes");
        };
        let job = || {
            let source = Kafka::new(brokers, "t", Format::Json).until_latest();
            let mut job = Job::new("read")
                .source("in", source)
                .sink("out", from("in").to_file("out.ndjson", Format::Json))
                .base_dir(folder.path())
                .data(folder.path().join("data"));
            job.spec.cycle.records = 1;
            job
        };
        write(3_000);
        let handle = job().start().expect("it starts");
        handle.stop();
        assert!(!handle.wait().expect("it stops").finished, "before its end");
        drop(handle);
        write(10);
        assert!(job().resume().run().expect("it goes on").finished);
    });
    let written = std::fs::read_to_string(folder.path().join("out.ndjson")).expect("its file");
    assert_eq!(written.lines().count(), 3_000);
}

#[test]
fn a_job_that_cannot_go_on_is_refused_and_its_file_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = || {
        Job::new("j")
            .source("numbers", numbers(5))
            .sink("out", from("numbers").to_file("out.ndjson", Format::Json))
            .base_dir(folder.path())
    };
    job().run().expect("runs");
    let data = folder.path().join("data");
    for (job, wanted) in [
        (job(), "a job without a data folder cannot resume"),
        (job().data(&data).delivery(Delivery::AtLeastOnce), "a job without a ledger cannot resume"),
        (job().data(&data).delivery(Delivery::AtMostOnce), "a job without a ledger cannot resume"),
    ] {
        let Err(JobFailure::Refused(refused)) = job.resume().start() else { panic!("refused") };
        assert!(refused.to_string().contains(wanted), "{refused}");
    }
    let written = std::fs::read_to_string(folder.path().join("out.ndjson")).expect("its file");
    assert_eq!(written.lines().count(), 5);
    let handle = job().data(&data).checkpoint("1h").delivery(Delivery::AtMostOnce).resume().start();
    handle.expect("goes on").wait().expect("runs");
}

/// Writes the number of each record, counted over all lives.
fn counting(input: &SchemaRef) -> Result<Arc<dyn OperatorFactory>, String> {
    let count = |n: &mut Value<i64>, _: &Record<'_>, emit: &mut Emit, _: &CycleInfo| {
        *n.get_mut() += 1;
        emit.row(|row| {
            row.put(*n.get());
        })
    };
    Ok(Arc::new(keyed_record(Arc::clone(input), Value::<i64>::default, count)))
}

#[test]
fn a_job_goes_on_from_the_checkpoint_that_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = || {
        let cycle = CycleSpec { records: 10, ..CycleSpec::default() };
        let (sink, rows) = collected();
        let job = Job::new("sums")
            .cycle_with(cycle)
            .source("numbers", numbers(1_000_000))
            .operator("count", counting)
            .stage("sum", from("numbers").operator("count"))
            .sink("out", from("sum").to(sink))
            .data(folder.path())
            .checkpoint("1h");
        (job, rows)
    };
    let handle = job().0.start().expect("it starts");
    let records = || handle.progress().sources[0].records;
    while records() < 100 {
        std::thread::yield_now();
    }
    let kept = handle.keep_checkpoint("first").expect("it is kept");
    let then = records();
    while records() < then + 100 {
        std::thread::yield_now();
    }
    let last = handle.keep_checkpoint("last").expect("it is kept");
    handle.stop();
    handle.wait().expect("it ends well");
    drop(handle);
    // The first count that each life writes is one more than those of its checkpoint.
    let first = |from: &dyn Fn(Job) -> Job| {
        let (job, rows) = job();
        let handle = from(job).start().expect("it goes on");
        while rows.rows() == 0 && !handle.is_over() {
            std::thread::yield_now();
        }
        handle.stop();
        handle.wait().expect("it ends well");
        rows.read(|row| row.i64("n")).expect("a column")[0].expect("a count")
    };
    let of = |cycle: tidemill_types::Cycle| cycle.0 as i64 * 10 + 1;
    assert_eq!(first(&|job| job.resume_from(last.number)), of(last.cycle));
    assert_eq!(first(&|job| job.resume_from(kept.number)), of(kept.cycle));
    assert_eq!(first(&|job| job.begin_from(kept.number)), of(kept.cycle));
    let (job, _) = job();
    let Err(error) = job.resume_from(CheckpointNumber(1_000)).start() else {
        panic!("there is none")
    };
    assert!(error.to_string().contains("1000"), "{error}");
}

#[test]
fn the_bounds_of_a_job_in_code_are_those_of_its_file() {
    let cycle = CycleSpec { records: 7, ..CycleSpec::default() };
    let buffer = BufferSpec { output: tidemill_types::ByteSize(1 << 20), ..BufferSpec::default() };
    let job = Job::new("j").cycle_with(cycle).cycle("5ms").buffer(buffer);
    let wanted = CycleSpec { time: tidemill_types::Span(5_000), ..cycle };
    assert_eq!((job.spec().cycle, job.spec().buffer), (wanted, buffer));
}
