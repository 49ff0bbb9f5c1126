//! What a job wrote to a stream is there once, wherever it was cut off.

use super::*;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;
use std::path::PathBuf;
use tidemill_env::{Disk, SimWorld};
use tidemill_flow::Payload;
use tidemill_log::{Fsync, LogOptions};
use tidemill_types::{SliceId, job::Format};
use tidemill_wire::partitioner::streamlet_of;

fn log(sim: &SimWorld) -> Arc<Log> {
    // Without threads: a written chunk counts at once.
    let options = LogOptions { fsync: Fsync::Os, sync_threads: 0, ..LogOptions::default() };
    Arc::new(Log::open(&sim.world, Path::new("/log"), options).unwrap())
}

fn rows(cycle: u64, count: i64) -> Vec<Arc<Block>> {
    let numbers = (0..count).map(|it| cycle as i64 * 1000 + it);
    let keys = (0..count).map(|it| format!("k{}", it % 5));
    let batch = RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef),
        ("k", Arc::new(StringArray::from_iter_values(keys)) as ArrayRef),
    ]);
    vec![Arc::new(Block::whole(Payload::Arrow(batch.unwrap()), SliceId(0)))]
}

fn spec(streamlets: u32) -> StreamSinkSpec {
    StreamSinkSpec {
        name: "out".to_owned(),
        format: Format::Json,
        key: vec!["k".to_owned()],
        streamlets,
    }
}

fn sink(sim: &SimWorld, log: &Arc<Log>, streamlets: u32) -> Box<dyn Sink> {
    let schema = rows(1, 1)[0].batch().schema();
    let notes = PathBuf::from("/job/sink-out.json");
    StreamSink::new(&sim.world, log, &spec(streamlets), schema, Some(&notes)).unwrap()
}

/// All chunks of the stream, as they are, with their streamlets.
fn chunks(log: &Log) -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    for streamlet in log.get("out").map_or_else(Vec::new, |it| it.streamlets()) {
        let (mut cursor, mut offset) = (ReadCursor::default(), 0);
        loop {
            let read = streamlet.read(&mut cursor, offset, ReadLimit::default()).unwrap();
            if read.chunks.is_empty() {
                break;
            }
            offset = read.next_offset;
            all.extend(read.chunks.iter().map(|it| (streamlet.index(), it.to_vec())));
        }
    }
    all
}

/// All records of the stream: streamlet, key, value.
fn records(log: &Log) -> Vec<(u32, String, String)> {
    let text = |it: Option<&[u8]>| String::from_utf8(it.unwrap().to_vec()).unwrap();
    let mut all = Vec::new();
    for (streamlet, chunk) in chunks(log) {
        let head = ChunkHead::check(&chunk).unwrap();
        for record in Records::new(&head, &chunk[61..]) {
            let record = record.unwrap();
            all.push((streamlet, text(record.key), text(record.value)));
        }
    }
    all
}

/// Runs a sink from the cycle after the one it holds, `counts` rows a cycle; commits are of up to
/// `together` cycles.
fn run(sink: &mut dyn Sink, resume: bool, counts: &[i64], together: u64) -> Result<(), SinkError> {
    let held = sink.open(resume)?;
    for cycle in held.0 + 1..=counts.len() as u64 {
        sink.write(Cycle(cycle), &rows(cycle, counts[cycle as usize - 1]))?;
        if cycle % together == 0 || cycle == counts.len() as u64 {
            sink.commit(Cycle(cycle))?;
        }
    }
    sink.close()
}

#[test]
fn rows_are_records_with_keys_where_kafka_clients_look_for_them() {
    let sim = World::simulated(1);
    let log = log(&sim);
    run(&mut *sink(&sim, &log, 4), false, &[10, 0, 3], 2).unwrap();
    let all = records(&log);
    assert_eq!(all.len(), 13);
    assert_eq!(all.iter().filter(|it| it.2 == r#"{"n":1007,"k":"k2"}"#).count(), 1);
    for (streamlet, key, value) in all {
        assert_eq!(streamlet, streamlet_of(key.as_bytes(), 4));
        assert!(value.contains(&format!(r#""k":"{key}""#)));
    }
}

#[test]
fn a_stream_that_cannot_be_made_is_said_before_it_is() {
    let sim = World::simulated(1);
    let options = LogOptions { sync_threads: 0, streamlets_max: 3, ..LogOptions::default() };
    let log = Arc::new(Log::open(&sim.world, Path::new("/log"), options).unwrap());
    let error = sink(&sim, &log, 4).check().unwrap_err();
    assert!(error.message.contains("at most 3"), "{error}");
    sink(&sim, &log, 3).check().unwrap();
    assert!(log.get("out").is_none() && !sim.disk.exists(Path::new("/job")).unwrap());
    sink(&sim, &log, 3).open(false).unwrap();
    // One that is there needs no more room in the log.
    let note = sim.disk.read(Path::new("/job/sink-out.json")).unwrap();
    sink(&sim, &log, 3).check().unwrap();
    assert_eq!(sim.disk.read(Path::new("/job/sink-out.json")).unwrap(), note);
}

#[test]
fn a_stream_that_cannot_be_written_so_is_refused_before_it_is_made() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let schema = rows(1, 1)[0].batch().schema();
    let refused = |spec: StreamSinkSpec| {
        let sink = StreamSink::new(&sim.world, &log, &spec, Arc::clone(&schema), None);
        sink.err().expect("it is impossible").message
    };
    assert!(refused(StreamSinkSpec { name: "../x".into(), ..spec(1) }).contains("a name has"));
    assert!(
        refused(StreamSinkSpec { format: Format::Parquet, ..spec(1) }).contains("json or text")
    );
    let message = refused(StreamSinkSpec { key: vec!["nn".into()], ..spec(1) });
    assert!(
        message.contains("`nn` for its `key`; did you mean `n`? The rows have: n, k"),
        "{message}"
    );
    assert!(log.list().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The disk fails at some operation, the process ends, and the job resumes: the records are
    /// those of a run that nothing disturbed.
    #[test]
    fn a_job_that_is_cut_off_and_resumes_writes_each_row_once(
        counts in proptest::collection::vec(prop_oneof![Just(0i64), 1i64..20, 4000i64..5000], 1..12),
        cuts in proptest::collection::vec((1u64..60, 1u64..6), 1..4),
        streamlets in 1u32..4,
    ) {
        let calm = World::simulated(1);
        let calm_log = log(&calm);
        run(&mut *sink(&calm, &calm_log, streamlets), false, &counts, 1).unwrap();

        let sim = World::simulated(2);
        let mut resume = false;
        for (cut, together) in cuts {
            let log = log(&sim);
            sim.disk.fail_after(cut);
            let done = run(&mut *sink(&sim, &log, streamlets), resume, &counts, together);
            sim.disk.kill();
            // The engine resumes a job only if it got so far that its sinks were opened.
            resume = sim.disk.exists(Path::new("/job/sink-out.json")).unwrap();
            if done.is_ok() {
                break;
            }
        }
        let last = log(&sim);
        run(&mut *sink(&sim, &last, streamlets), resume, &counts, 1).unwrap();
        prop_assert_eq!(records(&last), records(&calm_log));
    }

    /// As that, of a stream that gets streamlets while it is written and between the lives: rows may
    /// be elsewhere, and are there once.
    #[test]
    fn a_job_whose_stream_gets_streamlets_writes_each_row_once(
        counts in proptest::collection::vec(prop_oneof![Just(0i64), 1i64..20, 4000i64..5000], 1..12),
        cuts in proptest::collection::vec((1u64..60, 1u64..6, any::<bool>(), 0usize..14), 1..5),
    ) {
        let grow = |log: &Log| {
            if let Some(stream) = log.get("out") {
                let spec = stream.spec();
                let more = StreamSpec { streamlets: spec.streamlets + 1, ..spec };
                let _failed = log.alter("out", more);
            }
        };
        let sim = World::simulated(2);
        let mut resume = false;
        for (cut, together, grows, at) in cuts {
            let log = log(&sim);
            if grows {
                grow(&log);
            }
            sim.disk.fail_after(cut);
            let mut sink = sink(&sim, &log, 1);
            let mut life = || -> Result<(), SinkError> {
                let held = sink.open(resume)?;
                for cycle in held.0 + 1..=counts.len() as u64 {
                    sink.write(Cycle(cycle), &rows(cycle, counts[cycle as usize - 1]))?;
                    if cycle % together == 0 || cycle == counts.len() as u64 {
                        sink.commit(Cycle(cycle))?;
                        sink.sync()?;
                    }
                    if cycle == at as u64 {
                        grow(&log);
                    }
                }
                sink.close()
            };
            let done = life();
            sim.disk.kill();
            resume = sim.disk.exists(Path::new("/job/sink-out.json")).unwrap();
            if done.is_ok() {
                break;
            }
        }
        let last = log(&sim);
        grow(&last);
        run(&mut *sink(&sim, &last, 1), resume, &counts, 1).unwrap();
        let mut found: Vec<String> = records(&last).into_iter().map(|it| it.2).collect();
        let mut wanted: Vec<String> = (1..=counts.len() as u64)
            .flat_map(|cycle| (0..counts[cycle as usize - 1]).map(move |it| (cycle, it)))
            .map(|(cycle, it)| format!(r#"{{"n":{},"k":"k{}"}}"#, cycle as i64 * 1000 + it, it % 5))
            .collect();
        found.sort_unstable();
        wanted.sort_unstable();
        prop_assert_eq!(found, wanted);
    }
}

/// The disk is full in the middle of commits, more than once; then there is room.
#[test]
fn row_14_a_stream_is_the_same_byte_for_byte_whenever_its_disk_was_full() {
    let counts = [4_800, 30, 0, 4_500, 7, 4_800, 12];
    let mut refused = 0;
    for seed in 0..40 {
        let calm = World::simulated(seed);
        let calm_log = log(&calm);
        run(&mut *sink(&calm, &calm_log, 3), false, &counts, 3).unwrap();
        let sim = World::simulated(seed);
        let log = log(&sim);
        let mut sink = sink(&sim, &log, 3);
        sink.open(false).unwrap();
        let mut capacity = sim.disk.used() + (seed << 14);
        sim.disk.set_capacity(capacity);
        let mut persist = |attempt: &mut dyn FnMut() -> Result<(), SinkError>| {
            while let Err(error) = attempt() {
                assert!(error.is_retry(), "{error}");
                refused += 1;
                capacity += 64 << 10;
                sim.disk.set_capacity(capacity);
            }
        };
        for cycle in 1..=counts.len() as u64 {
            sink.write(Cycle(cycle), &rows(cycle, counts[cycle as usize - 1])).unwrap();
            if cycle % 3 == 0 || cycle == counts.len() as u64 {
                persist(&mut || sink.commit(Cycle(cycle)));
            }
        }
        persist(&mut || sink.close());
        assert_eq!(chunks(&log), chunks(&calm_log), "seed {seed}");
    }
    assert!(refused > 100, "{refused}");
}

/// A commit fails at some operation, the disk works again and the job ends in order: what the sink
/// notes then must not hide the chunks that are there.
#[test]
fn a_sink_that_is_closed_after_a_failed_commit_writes_each_row_once() {
    let counts = [30, 0, 4_500, 7, 4_800, 12];
    let calm = World::simulated(1);
    let calm_log = log(&calm);
    run(&mut *sink(&calm, &calm_log, 2), false, &counts, 3).unwrap();
    let mut failed = 0;
    for cut in 0..200 {
        let sim = World::simulated(2);
        let log = log(&sim);
        let mut first = sink(&sim, &log, 2);
        assert_eq!(first.open(false).unwrap(), Cycle::NONE);
        let write = |sink: &mut dyn Sink, cycle: u64| {
            sink.write(Cycle(cycle), &rows(cycle, counts[cycle as usize - 1])).unwrap();
        };
        (1..=3).for_each(|cycle| write(&mut *first, cycle));
        first.commit(Cycle(3)).unwrap();
        (4..=6).for_each(|cycle| write(&mut *first, cycle));
        sim.disk.fail_after(cut);
        if first.commit(Cycle(6)).is_ok() {
            break;
        }
        failed += 1;
        first.close().unwrap();
        drop(first);
        run(&mut *sink(&sim, &log, 2), true, &counts, 3).unwrap();
        assert_eq!(records(&log), records(&calm_log), "operation {cut} failed");
    }
    assert!(failed > 1, "some of it was there each time");
}
