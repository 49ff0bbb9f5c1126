//! Going on: what a job in code reads again, and what is refused.

use super::super::*;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use std::sync::mpsc;
use tidemill_node::serve::{self, ServeSettings, Stop};
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
