//! What is wrong is said when the job is planned, and rows go where they belong.

mod cluster;

use super::*;
use crate::stream::rows::{CHUNK_BYTES, CycleRows};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use cluster::{Cluster, REFUSED, TOPIC};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};
use tidemill_env::Clock;
use tidemill_flow::Payload;
use tidemill_types::{SliceId, Span, job::Format};
use tidemill_wire::{chunk::ChunkHead, partitioner::streamlet_of, records::Records};

fn batch(numbers: std::ops::Range<i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}

fn spec() -> KafkaSinkSpec {
    KafkaSinkSpec {
        brokers: "127.0.0.1:1".to_owned(),
        topic: "t".to_owned(),
        format: Format::Json,
        key: Vec::new(),
        create: false,
        partitions: None,
        transaction_timeout: Span(60_000_000),
    }
}

fn rows(key: &[String], cycles: u64) -> UncommittedRows {
    let schema = batch(0..1).schema();
    let mut rows = UncommittedRows::new(("topic `t`", "t"), Format::Json, key, &schema).unwrap();
    for cycle in 1..=cycles {
        let first = i64::try_from(cycle).unwrap() * 1000;
        let block = Block::whole(Payload::Arrow(batch(first..first + 300)), SliceId(0));
        rows.write(Cycle(cycle), &[Arc::new(block)]).unwrap();
    }
    rows
}

type KeyAndValue = (Option<Vec<u8>>, String);

/// Keys and values by partition.
fn records(ready: &[CycleRows], partitions: u32) -> BTreeMap<i32, Vec<KeyAndValue>> {
    let chunks = exactly_once::chunks(ready, partitions, 5, CHUNK_BYTES).unwrap();
    let read = |chunk: &Vec<u8>| {
        let head = ChunkHead::check(chunk).unwrap();
        let records = Records::new(&head, &chunk[61..]);
        let read = records.map(|it| it.unwrap());
        let text = |it: &[u8]| String::from_utf8(it.to_vec()).unwrap();
        let read = read.map(|it| (it.key.map(<[u8]>::to_vec), text(it.value.unwrap())));
        read.collect::<Vec<_>>()
    };
    chunks.into_iter().map(|(index, all)| (index, all.iter().flat_map(read).collect())).collect()
}

#[test]
fn rows_of_committed_cycles_are_records_of_their_keys_partitions() {
    let mut rows = rows(&["n".to_owned()], 3);
    let found = records(rows.up_to(Cycle(2)), 4);
    let mut all: Vec<String> = Vec::new();
    for (partition, records) in found {
        for (key, value) in records {
            let key = key.unwrap();
            assert_eq!(streamlet_of(&key, 4), partition.unsigned_abs());
            assert_eq!(value, format!(r#"{{"n":{}}}"#, String::from_utf8(key).unwrap()));
            all.push(value);
        }
    }
    all.sort();
    let mut expected: Vec<String> =
        (1000..1300).chain(2000..2300).map(|it| format!(r#"{{"n":{it}}}"#)).collect();
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!(rows.up_to(Cycle(2)).len(), 2, "they are kept until the commit has come through");
    drop(rows.take(Cycle(2)));
    assert_eq!(rows.up_to(Cycle(9)).len(), 1);
}

#[test]
fn rows_without_a_key_go_to_the_partitions_in_turn() {
    let rows = rows(&[], 3);
    let found = records(rows.up_to(Cycle(3)), 2);
    let firsts: Vec<&str> =
        found.values().map(|records| records.first().unwrap().1.as_str()).collect();
    assert_eq!(firsts, [r#"{"n":2000}"#, r#"{"n":1000}"#]);
    assert_eq!(found[&1].len(), 600);
    assert!(found.values().flatten().all(|(key, _)| key.is_none()));
}

#[test]
fn what_cannot_be_written_is_refused_with_what_to_do() {
    let world = World::real();
    let schema = batch(0..1).schema();
    let refused = |spec: KafkaSinkSpec| {
        KafkaSink::new(&world, &spec, "j-s", &schema, None).err().expect("it is refused")
    };
    let error = refused(spec());
    assert_eq!(error.kind, ConnectorErrorKind::Away);
    assert!(error.message.contains("127.0.0.1:1"), "{error}");
    assert!(
        refused(KafkaSinkSpec { format: Format::Csv, ..spec() }).message.contains("json or text")
    );
    let error = refused(KafkaSinkSpec { key: vec!["m".to_owned()], ..spec() });
    assert!(
        error
            .message
            .contains("there is no column `m` for its `key`; did you mean `n`? The rows have: n"),
        "{error}"
    );
    assert!(
        refused(KafkaSinkSpec { brokers: "x".to_owned(), ..spec() }).message.contains("HOST:PORT")
    );
}

#[test]
fn a_topic_that_cannot_be_made_is_said_before_it_is() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("sink-s.json");
    let schema = batch(0..1).schema();
    let sink = |topic: &str, brokers: &str| {
        let (topic, brokers) = (topic.to_owned(), brokers.to_owned());
        let spec = KafkaSinkSpec { topic, brokers, create: true, ..spec() };
        KafkaSink::new(&World::real(), &spec, "j-s", &schema, Some(&notes)).unwrap()
    };
    let mut good = sink("new", cluster.address());
    good.check().unwrap();
    let error = sink(REFUSED, cluster.address()).check().unwrap_err();
    assert!(error.message.contains("topic `refused` cannot be written"), "{error}");
    assert!(!error.is_retry(), "{error}");
    assert_eq!(cluster.topics(), [("new".to_owned(), true), (REFUSED.to_owned(), true)]);
    assert_eq!((cluster.commits(), notes.exists()), (0, false));
}

/// A clock that can be put forward.
struct Forward {
    clock: Arc<dyn Clock>,
    by_us: AtomicU64,
}

impl Clock for Forward {
    fn monotonic_micros(&self) -> u64 {
        self.clock.monotonic_micros() + self.by_us.load(Ordering::SeqCst)
    }

    fn wall_micros(&self) -> i64 {
        self.clock.wall_micros()
    }

    fn sleep_micros(&self, micros: u64) {
        self.clock.sleep_micros(micros);
    }
}

#[test]
fn an_offset_is_written_again_before_the_cluster_forgets_it() {
    let cluster = Cluster::start();
    let real = World::real();
    let clock = Arc::new(Forward { clock: Arc::clone(&real.clock), by_us: AtomicU64::new(0) });
    let world = World { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..real };
    let client = super::super::cluster::client(&world, cluster.address()).unwrap();
    let spec = KafkaSinkSpec { topic: TOPIC.to_owned(), ..spec() };
    let folder = tempfile::tempdir().unwrap();
    let mut once = ExactlyOnce::new(&world, &client, &spec, "job", &folder.path().join("run"));
    assert_eq!(once.open(false, "topic-id").unwrap(), Cycle::NONE);
    assert_eq!(cluster.commits(), 1, "the life");
    once.commit(Cycle(1), &[], 1).unwrap();
    assert_eq!(cluster.commits(), 1, "nothing to be seen");
    let hour = || clock.by_us.fetch_add(3600 * 1_000_000, Ordering::SeqCst);
    hour();
    once.commit(Cycle(2), &[], 1).unwrap();
    once.commit(Cycle(3), &[], 1).unwrap();
    assert_eq!(cluster.commits(), 2);
    // As brokers do with connections that nothing is sent on; the id is taken over then.
    cluster.hang_up();
    hour();
    once.commit(Cycle(4), &[], 1).unwrap();
    once.commit(Cycle(5), &[], 1).unwrap();
    assert_eq!(cluster.commits(), 3);
}
