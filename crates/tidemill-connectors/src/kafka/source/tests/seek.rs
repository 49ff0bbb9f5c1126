//! A slice that is told where to go on reads what one that read all of its partition reads from there.

use super::cluster::{Cluster, Partition, TOPIC};
use super::*;
use crate::seek_contract::{Step, check, gone_to, place, refused, rest};
use crate::{notes::Notes, record_source::Began};
use tidemill_flow::{Position, ReadRequest};
use tidemill_types::{Cycle, Micros, Span, job::TimeSpec};
use tidemill_wire::{
    chunk::Codec,
    records::{ChunkBuilder, Compression, Header, Marker, control_marker},
};

fn chunk(values: &[String], codec: Codec) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(Compression { codec, level: None });
    let none: [Header<'_>; 0] = [];
    for value in values {
        let time_ms = (value.len() as i64 * 7919) % 1_000;
        builder.append(time_ms, None, Some(value.as_bytes()), none.into_iter()).unwrap();
    }
    builder.finish().unwrap()
}

/// Good and bad records, in chunks, with a marker of a transaction and a gap between.
fn partition(format: Format) -> Partition {
    let value = |n: i64| match (format, n % 5) {
        (Format::Json, 1) => format!("{{\"n\":{n},\"l\":[\"x\"]}}"),
        (Format::Json, 3) => "nonsense".to_owned(),
        (Format::Json, _) => format!("{{\"n\":{n},\"l\":[{n}]}}"),
        (Format::Influx, 1) => "m n=".to_owned(),
        (Format::Influx, _) => format!("m n={n}i"),
        (_, 1) => format!("{n},x,y"),
        _ => format!("{n},{}", "x".repeat(n as usize)),
    };
    let values = |range: std::ops::Range<i64>| range.map(value).collect::<Vec<_>>();
    let mut partition = Partition::default();
    partition.put(chunk(&values(0..4), Codec::None), 0);
    partition.put(chunk(&values(4..9), Codec::Lz4), 0);
    partition.put(
        control_marker(&Marker {
            producer_id: 7,
            producer_epoch: 0,
            is_commit: true,
            coordinator_epoch: 0,
            timestamp_ms: 5,
        }),
        0,
    );
    partition.put(chunk(&values(9..15), Codec::None), 3);
    partition.put(chunk(&values(15..17), Codec::Zstd), 0);
    partition
}

fn typed(format: Format, until: UntilSpec) -> RecordSourceSpec {
    let types: &[(&str, &str)] = match format {
        Format::Json => &[("n", "bigint"), ("l", "bigint[]")],
        Format::Csv => &[("n", "bigint"), ("s", "text")],
        Format::Influx => &[("n", "bigint")],
        _ => &[],
    };
    let name = |it: &str| Some(it.to_owned());
    RecordSourceSpec {
        schema: types.iter().map(|(name, it)| ((*name).to_owned(), (*it).to_owned())).collect(),
        meta: MetaSpec { timestamp: name("at"), offset: name("offset"), ..MetaSpec::default() },
        time: Some(TimeSpec { field: "at".to_owned(), lateness: Span(1_500) }),
        until,
        ..spec(format)
    }
}

fn open(cluster: &Cluster, format: Format, until: UntilSpec) -> Arc<dyn SourceFactory> {
    let spec = typed(format, until);
    RecordSource::of_topic(&World::real(), cluster.address(), TOPIC, spec).unwrap()
}

fn request(records: usize) -> ReadRequest {
    ReadRequest { cycle: Cycle(1), bytes: 1 << 20, records, until: None }
}

fn count(steps: &[Step]) -> usize {
    steps.iter().map(|it| it.batch.num_rows() + it.letters.len()).sum()
}

#[test]
fn a_topic_is_read_from_any_offset_on() {
    for format in [Format::Json, Format::Csv, Format::Text, Format::Influx] {
        let cluster = Cluster::start(vec![Partition::default(), partition(format)]);
        for records in [1, 3, 100] {
            // The slices of a source share what was fetched: only the first one is undisturbed.
            let source = open(&cluster, format, UntilSpec::Latest);
            assert_eq!(count(&check(&*source, SliceId(1), &request(records))), 17, "{format:?}");
            assert_eq!(count(&check(&*source, SliceId(0), &request(records))), 0);
        }
    }
}

#[test]
fn nothing_before_the_place_is_asked_for_again() {
    let cluster = Cluster::start(vec![partition(Format::Text), partition(Format::Text)]);
    let all = open(&cluster, Format::Text, UntilSpec::Latest);
    let steps = rest(&mut *all.open(SliceId(0)).unwrap(), &request(1), false);
    let to = steps[10].place;
    let live = open(&cluster, Format::Text, UntilSpec::Never);
    let mut slice = gone_to(&*live, SliceId(0), to);
    cluster.fetched.lock().unwrap().clear();
    let mut after: Vec<Step> = Vec::new();
    while after.len() < steps.len() - 11 {
        after.extend(rest(&mut *slice, &request(1), true));
        std::thread::yield_now();
    }
    assert_eq!(after, steps[11..]);
    assert_eq!(place(&*slice), steps.last().unwrap().place);
    // What was under way when the slice was told may come before.
    let fetched = cluster.fetched.lock().unwrap();
    let to = to.0.0.cast_signed();
    let mut asked = fetched[&0].iter().skip_while(|it| **it < to).peekable();
    assert!(asked.peek().is_some() && asked.all(|it| *it >= to));
}

#[test]
fn an_offset_that_is_not_there_is_an_error() {
    let cluster = Cluster::start(vec![partition(Format::Text)]);
    let end = cluster.partitions.lock().unwrap()[0].end.unsigned_abs();
    let source = open(&cluster, Format::Text, UntilSpec::Latest);
    let mut at_end = gone_to(&*source, SliceId(0), (Position(end), Micros(5)));
    assert_eq!(count(&rest(&mut *at_end, &request(9), false)), 0);
    let told = |source: &dyn SourceFactory, to| {
        let mut slice = gone_to(source, SliceId(0), (Position(to), Micros::MIN));
        loop {
            match slice.read(&request(9), &mut Vec::new()) {
                Ok(read) => assert!(matches!(read, tidemill_flow::Read::Idle { .. }), "{read:?}"),
                Err(error) => return error.message,
            }
            std::thread::yield_now();
        }
    };
    let message = told(&*open(&cluster, Format::Text, UntilSpec::Never), end + 1);
    assert!(message.starts_with("topic t partition 0: "), "{message}");
    assert!(message.contains(&format!("offset {} is not there", end + 1)), "{message}");

    cluster.partitions.lock().unwrap()[0].start = 6;
    // Its start moved after the job was planned, or before.
    assert!(told(&*source, 5).contains("offset 5 is not there"));
    let moved = open(&cluster, Format::Text, UntilSpec::Latest);
    assert!(refused(&*moved, SliceId(0), 5).contains("it begins at 6"));
    let began = Began::new(
        &"0".repeat(32),
        &Reach::begins(vec![(0, Some(end.cast_signed()))], None, |_| 0),
        None,
    );
    let world = World::real();
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("source.json");
    Notes::new(&world, &note).write(&began).unwrap();
    let spec = RecordSourceSpec {
        note: Some(note),
        resume: true,
        from_checkpoint: false,
        ..typed(Format::Text, UntilSpec::Latest)
    };
    let resumed = RecordSource::of_topic(&world, cluster.address(), TOPIC, spec).unwrap();
    let message = refused(&*resumed, SliceId(0), 5);
    assert!(message.contains("offset 5, which is no longer stored"), "{message}");
    assert!(message.contains("the first that is there is 6"), "{message}");
    let mut from_7 = gone_to(&*resumed, SliceId(0), (Position(7), Micros::MIN));
    assert_eq!(count(&rest(&mut *from_7, &request(9), false)), 10);
}
