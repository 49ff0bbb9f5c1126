//! A consumer against a node in memory, which is well, or is not.

use super::*;
use crate::{
    ClientOptions, ErrorCode,
    testing::log::{FakeLog, Fault},
};
use tidemill_env::{Random, World};
use tidemill_types::{Offset, StreamletIx};
use tidemill_wire::{
    chunk::Codec,
    kafka::ApiKey,
    records::{ChunkBuilder, Compression, Marker, Origin, control_marker},
};

const PATIENCE: Duration = Duration::from_secs(30);

fn client(address: &str) -> Client {
    let options = ClientOptions {
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(5),
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(2),
        ..ClientOptions::at(address)
    };
    Client::new(&World::real(), options)
}

fn chunk(codec: Codec, values: &[String], timestamp_ms: i64) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(Compression::of(codec));
    for value in values {
        builder.append(timestamp_ms, Some(b"k"), Some(value.as_bytes()), Headers::NONE).unwrap();
    }
    builder.finish().unwrap()
}

/// Puts values into a streamlet, a few in each chunk, with the number as timestamp.
fn fill(log: &FakeLog, streamlet: usize, range: std::ops::Range<u32>) {
    let codecs = [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Gzip, Codec::Snappy];
    let numbers: Vec<u32> = range.collect();
    for (index, some) in numbers.chunks(7).enumerate() {
        let values: Vec<String> = some.iter().map(|it| format!("{streamlet}/{it}")).collect();
        log.put("events", streamlet, chunk(codecs[index % 5], &values, i64::from(some[0])));
    }
}

/// Takes so many records: streamlet, offset, value.
fn take(consumer: &mut Consumer, count: usize) -> Vec<(i32, i64, String)> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let Some(batch) = consumer.poll(PATIENCE).unwrap() else {
            panic!("no more: {:?} {:?}", consumer.positions(), consumer.obstacle());
        };
        for record in batch.records() {
            let record = record.unwrap();
            let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
            taken.push((batch.streamlet(), record.offset, value));
        }
        consumer.recycle(batch);
    }
    assert_eq!(taken.len(), count);
    taken
}

fn expected(streamlet: i32, range: std::ops::Range<u32>) -> Vec<(i32, i64, String)> {
    range.map(|it| (streamlet, i64::from(it), format!("{streamlet}/{it}"))).collect()
}

fn sorted(mut taken: Vec<(i32, i64, String)>) -> Vec<(i32, i64, String)> {
    taken.sort_by_key(|it| it.0);
    taken
}

#[test]
fn all_records_of_all_streamlets_come_in_order() {
    // So little room that it fills up and is asked for again many times.
    for options in [
        ConsumerOptions::default(),
        ConsumerOptions {
            fetch_bytes: 2000,
            streamlet_bytes: 700,
            buffer_bytes: 1500,
            ..ConsumerOptions::default()
        },
    ] {
        let log = FakeLog::start(&[("events", 3)]);
        (0..3).for_each(|it| fill(&log, it, 0..500));
        let mut consumer = client(log.address()).consumer(options);
        consumer.assign_stream("events", Start::Earliest).unwrap();
        let taken = sorted(take(&mut consumer, 1500));
        let all: Vec<_> = (0..3).flat_map(|it| expected(it, 0..500)).collect();
        assert!(taken == all);
        let positions = consumer.positions();
        assert!(positions.values().all(|it| *it == Some(500)), "{positions:?}");
        assert!(consumer.ends().values().all(|it| *it == 500));
        assert!(consumer.poll(Duration::from_millis(20)).unwrap().is_none());
        fill(&log, 1, 500..510);
        assert_eq!(take(&mut consumer, 10), expected(1, 500..510));
    }
}

#[test]
fn each_start_begins_where_it_says() {
    let log = FakeLog::start(&[("events", 1)]);
    fill(&log, 0, 0..100);
    let from = |start| {
        let consumer = client(log.address()).consumer(ConsumerOptions::default());
        consumer.assign("events", &BTreeMap::from([(0, start)])).unwrap();
        consumer
    };
    assert_eq!(take(&mut from(Start::Offset(50)), 50), expected(0, 50..100), "within a chunk");
    assert_eq!(take(&mut from(Start::Time(60)), 37), expected(0, 63..100));
    let mut latest = from(Start::Latest);
    let mut later = from(Start::Time(1_000_000));
    for consumer in [&mut latest, &mut later] {
        while consumer.positions().values().any(Option::is_none) {
            assert!(consumer.poll(Duration::from_millis(1)).unwrap().is_none());
        }
    }
    fill(&log, 0, 100..105);
    for mut consumer in [latest, later] {
        assert_eq!(take(&mut consumer, 5), expected(0, 100..105));
    }
}

#[test]
fn whatever_fails_in_between_no_record_is_twice_or_missing() {
    for seed in 0..5 {
        let log = FakeLog::start(&[("events", 2)]);
        (0..2).for_each(|it| fill(&log, it, 0..700));
        let mut random = Random::new(seed);
        log.on_request(move |key| match (key, random.below(10)) {
            (ApiKey::Fetch, 0) => Fault::CloseBefore,
            (ApiKey::Fetch, 1) => Fault::CloseAfter,
            (ApiKey::Fetch, 2) => Fault::Code(ErrorCode::NotLeaderOrFollower),
            (ApiKey::Fetch, 3) => Fault::Code(ErrorCode::UnknownTopicId),
            (ApiKey::ListOffsets, 0) => Fault::CloseBefore,
            _ => Fault::None,
        });
        let options = ConsumerOptions {
            fetch_bytes: 1000,
            streamlet_bytes: 500,
            ..ConsumerOptions::default()
        };
        let mut consumer = client(log.address()).consumer(options);
        while consumer.assign_stream("events", Start::Earliest).is_err() {}
        let taken = sorted(take(&mut consumer, 1400));
        let all: Vec<_> = (0..2).flat_map(|it| expected(it, 0..700)).collect();
        assert!(taken == all, "seed {seed}");
    }
}

#[test]
fn an_offset_that_is_not_there_is_told_or_mended() {
    let log = FakeLog::start(&[("events", 1)]);
    fill(&log, 0, 0..70);
    log.state.lock().streams.get_mut("events").unwrap()[0].start = 35;
    let with = |out_of_range| {
        let options = ConsumerOptions { out_of_range, ..ConsumerOptions::default() };
        let mut consumer = client(log.address()).consumer(options);
        consumer.assign_stream("events", Start::Offset(3)).unwrap();
        consumer
    };
    assert_eq!(take(&mut with(OutOfRange::Earliest), 35), expected(0, 35..70));
    let mut stopped = with(OutOfRange::Stop);
    let error = stopped.poll(PATIENCE).err().unwrap();
    assert!(matches!(error, ConsumeError::OutOfRange { offset: 3, .. }), "{error:?}");
    assert!(stopped.poll(Duration::from_millis(5)).unwrap().is_none(), "it is told once");
    stopped.assign_stream("events", Start::Earliest).unwrap();
    assert_eq!(take(&mut stopped, 35), expected(0, 35..70));
    let mut latest = with(OutOfRange::Latest);
    while latest.positions().values().any(|it| *it != Some(70)) {
        assert!(latest.poll(Duration::from_millis(1)).unwrap().is_none());
    }
}

#[test]
fn a_streamlet_goes_on_where_it_is_told_to() {
    let log = FakeLog::start(&[("events", 2)]);
    fill(&log, 0, 0..70);
    fill(&log, 1, 0..70);
    let mut consumer = client(log.address()).consumer(ConsumerOptions::default());
    assert!(!consumer.seek("events", StreamletIx(0), Offset(5)), "it is not consumed");
    consumer.assign_stream("events", Start::Earliest).unwrap();
    assert!(consumer.seek("events", StreamletIx(0), Offset(67)));
    let taken = sorted(take(&mut consumer, 73));
    assert_eq!(taken, [expected(0, 67..70), expected(1, 0..70)].concat());
    for offset in [3, 7, 69] {
        assert!(consumer.seek("events", StreamletIx(1), Offset(offset)));
        let first = u32::try_from(offset).unwrap();
        assert_eq!(take(&mut consumer, 70 - offset as usize), expected(1, first..70));
    }
    log.state.lock().streams.get_mut("events").unwrap()[1].start = 35;
    assert!(consumer.seek("events", StreamletIx(1), Offset(34)));
    let error = consumer.poll(PATIENCE).err().unwrap();
    assert!(matches!(error, ConsumeError::OutOfRange { offset: 34, .. }), "{error:?}");
    assert!(consumer.seek("events", StreamletIx(1), Offset(35)), "it begins again");
    assert_eq!(take(&mut consumer, 35), expected(1, 35..70));
}

#[test]
fn damage_stops_its_streamlet_and_no_other() {
    let log = FakeLog::start(&[("events", 2)]);
    fill(&log, 0, 0..70);
    fill(&log, 1, 0..70);
    let at = log.state.lock().streams["events"][0].chunks[5].len() - 3;
    log.state.lock().streams.get_mut("events").unwrap()[0].chunks[5][at] ^= 0x20;
    let mut consumer = client(log.address()).consumer(ConsumerOptions::default());
    consumer.assign_stream("events", Start::Earliest).unwrap();
    let mut taken = Vec::new();
    let mut errors = Vec::new();
    while taken.len() < 105 || errors.is_empty() {
        match consumer.poll(PATIENCE) {
            Ok(batch) => {
                taken.extend(batch.expect("more comes").records().map(|it| it.unwrap().offset))
            }
            Err(error) => errors.push(error),
        }
    }
    assert_eq!(taken.len(), 105);
    let [ConsumeError::Damaged { streamlet: 0, offset: 35, .. }] = &errors[..] else {
        panic!("{errors:?}");
    };
}

#[test]
fn records_that_lie_behind_a_good_checksum_are_told() {
    let log = FakeLog::start(&[("events", 1)]);
    let mut lying = chunk(Codec::None, &["a".to_owned(), "b".to_owned()], 1);
    let head = tidemill_wire::chunk::ChunkHead::read(&lying).unwrap();
    lying.truncate(lying.len() - 4);
    tidemill_wire::chunk::seal(&mut lying, &head);
    let packed = chunk(Codec::Zstd, &["c".repeat(1000)], 1);
    let mut bomb = packed.clone();
    let head = tidemill_wire::chunk::ChunkHead::read(&bomb).unwrap();
    bomb.truncate(packed.len() - 5);
    tidemill_wire::chunk::seal(&mut bomb, &head);
    log.put("events", 0, lying);
    log.put("events", 0, bomb);
    let mut consumer = client(log.address()).consumer(ConsumerOptions::default());
    consumer.assign_stream("events", Start::Earliest).unwrap();
    let batch = consumer.poll(PATIENCE).unwrap().unwrap();
    let outcomes: Vec<bool> = batch.records().map(|it| it.is_ok()).collect();
    assert_eq!(outcomes, [true, false]);
    let error = consumer.poll(PATIENCE).err().unwrap();
    assert!(matches!(error, ConsumeError::Damaged { offset: 2, .. }), "{error:?}");
}

#[test]
fn a_chunk_longer_than_what_is_asked_for_comes_all_the_same() {
    let log = FakeLog::start(&[("events", 1)]);
    log.put("events", 0, chunk(Codec::None, &["x".repeat(100_000)], 1));
    log.put("events", 0, chunk(Codec::None, &["y".repeat(50_000)], 1));
    let options = ConsumerOptions {
        fetch_bytes: 1000,
        streamlet_bytes: 1000,
        buffer_bytes: 1000,
        ..ConsumerOptions::default()
    };
    let mut consumer = client(log.address()).consumer(options);
    consumer.assign_stream("events", Start::Earliest).unwrap();
    let lengths: Vec<usize> = take(&mut consumer, 2).iter().map(|it| it.2.len()).collect();
    assert_eq!(lengths, [100_000, 50_000]);
}

#[test]
fn aborted_transactions_are_not_seen_by_those_who_ask_for_committed() {
    let log = FakeLog::start(&[("events", 1)]);
    let of = |producer_id, value: &str| {
        let mut builder = ChunkBuilder::new(Compression::NONE);
        builder.set_origin(Origin {
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            is_transactional: true,
        });
        builder.append(1, None, Some(value.as_bytes()), Headers::NONE).unwrap();
        builder.finish().unwrap()
    };
    log.put("events", 0, of(1, "0/0"));
    log.put("events", 0, of(2, "0/1"));
    log.put(
        "events",
        0,
        control_marker(&Marker {
            producer_id: 1,
            producer_epoch: 0,
            is_commit: false,
            coordinator_epoch: 0,
            timestamp_ms: 1,
        }),
    );
    log.put(
        "events",
        0,
        control_marker(&Marker {
            producer_id: 2,
            producer_epoch: 0,
            is_commit: true,
            coordinator_epoch: 0,
            timestamp_ms: 1,
        }),
    );
    log.state.lock().streams.get_mut("events").unwrap()[0].aborted = vec![(1, 0)];
    let with = |isolation| {
        let options = ConsumerOptions { isolation, ..ConsumerOptions::default() };
        let mut consumer = client(log.address()).consumer(options);
        consumer.assign_stream("events", Start::Earliest).unwrap();
        consumer
    };
    assert_eq!(take(&mut with(Isolation::Uncommitted), 2), expected(0, 0..2));
    let mut committed = with(Isolation::Committed);
    assert_eq!(take(&mut committed, 1), expected(0, 1..2));
    while committed.positions().values().any(|it| *it != Some(4)) {
        assert!(committed.poll(Duration::from_millis(1)).unwrap().is_none());
    }
}

#[test]
fn streamlets_are_taken_from_apart_and_one_that_is_left_holds_up_no_other() {
    let log = FakeLog::start(&[("events", 3)]);
    (0..3).for_each(|it| fill(&log, it, 0..500));
    let options = ConsumerOptions {
        fetch_bytes: 2000,
        streamlet_bytes: 400,
        buffer_bytes: 1200,
        apart: true,
        ..ConsumerOptions::default()
    };
    let mut consumer = client(log.address()).consumer(options);
    let (tell, told) = std::sync::mpsc::channel();
    consumer.on_arrival(Arc::new(move |arrived| {
        for (_, index) in arrived {
            let _ = tell.send(*index);
        }
    }));
    consumer.assign_stream("events", Start::Earliest).unwrap();
    let stream: Arc<str> = "events".into();
    // Nobody takes from streamlet 0 until the others have come to their ends.
    for index in [2, 1, 0] {
        let (mut taken, mut memory) = (Vec::new(), Vec::new());
        while taken.len() < 500 {
            match consumer.take_of(&stream, index, std::mem::take(&mut memory)).unwrap() {
                Taken::Batch(mut batch) => {
                    assert_eq!(batch.streamlet(), index);
                    let next = batch.next_offset();
                    // In parts, none of them behind an offset.
                    for below in [next - 3, next - 1, i64::MAX, i64::MAX] {
                        let more = batch.each(2, below, |record| {
                            assert!(record.offset < below);
                            let value = String::from_utf8(record.value.unwrap().to_vec());
                            taken.push((index, record.offset, value.unwrap()));
                        });
                        more.unwrap();
                    }
                    assert!(
                        !batch
                            .each(100, i64::MAX, |record| {
                                let value = String::from_utf8(record.value.unwrap().to_vec());
                                taken.push((index, record.offset, value.unwrap()));
                            })
                            .unwrap()
                    );
                    memory = batch.into_memory();
                }
                Taken::Nothing { .. } => {
                    while told.recv_timeout(PATIENCE).expect("it is told of more") != index {}
                }
            }
            let waiting = consumer.shared.lock().waiting_bytes;
            assert!(waiting < 3 * (400 + 2000), "a share and an answer each: {waiting}");
        }
        assert!(taken == expected(index, 0..500));
        let nothing = consumer.take_of(&stream, index, Vec::new()).unwrap();
        assert!(matches!(nothing, Taken::Nothing { next: Some(500) }));
    }
}

#[test]
fn what_is_taken_can_be_committed_and_gone_on_from() {
    let log = FakeLog::start(&[("events", 1)]);
    fill(&log, 0, 0..70);
    let client = client(log.address());
    let mut consumer = client.consumer(ConsumerOptions::default());
    consumer.assign_stream("events", Start::Earliest).unwrap();
    take(&mut consumer, 14);
    consumer.commit("mine").unwrap();
    let offsets = client.admin().group_offsets("mine").unwrap();
    assert_eq!(offsets["events"][&0].offset, 14);
    take(&mut consumer, 7);
    log.on_request(|key| match key {
        ApiKey::OffsetCommit => Fault::LeaveOut,
        _ => Fault::None,
    });
    assert!(consumer.commit("mine").is_err(), "nobody has said that it is there");
}

#[test]
fn what_is_not_there_is_said_at_once() {
    let log = FakeLog::start(&[("events", 1)]);
    let mut consumer = client(log.address()).consumer(ConsumerOptions::default());
    let error = consumer.assign_stream("nothing", Start::Earliest).unwrap_err();
    assert!(error.to_string().contains("there is no such stream"), "{error}");
    let error = consumer.assign("events", &BTreeMap::from([(4, Start::Latest)])).unwrap_err();
    assert!(matches!(error, ConsumeError::NoStreamlet { streamlet: 4, count: 1, .. }));
    let address = log.address().to_owned();
    drop(log);
    let mut consumer = client(&address).consumer(ConsumerOptions::default());
    let error = consumer.assign_stream("events", Start::Earliest).unwrap_err();
    assert!(error.to_string().starts_with("no node at "), "{error}");
}

#[test]
fn a_node_that_goes_away_is_an_obstacle_and_what_comes_back_goes_on() {
    let log = FakeLog::start(&[("events", 1)]);
    fill(&log, 0, 0..7);
    let mut consumer = client(log.address()).consumer(ConsumerOptions::default());
    consumer.assign_stream("events", Start::Earliest).unwrap();
    take(&mut consumer, 7);
    log.on_request(|_| Fault::CloseBefore);
    log.hang_up();
    while consumer.obstacle().is_none() {
        assert!(consumer.poll(Duration::from_millis(1)).unwrap().is_none());
    }
    log.on_request(|_| Fault::None);
    fill(&log, 0, 7..14);
    assert_eq!(take(&mut consumer, 7), expected(0, 7..14));
    assert_eq!(consumer.obstacle(), None);
}

/// With so short a patience a stream that is gone is given up soon.
fn impatient(address: &str) -> Client {
    let options = ClientOptions {
        request_timeout: Duration::from_millis(300),
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(2),
        ..ClientOptions::at(address)
    };
    Client::new(&World::real(), options)
}

#[test]
fn a_stream_that_is_deleted_while_it_is_read_is_waited_for_and_then_given_up() {
    for start in [Start::Earliest, Start::Offset(7)] {
        let log = FakeLog::start(&[("events", 2), ("others", 1)]);
        fill(&log, 0, 0..7);
        let mut consumer = impatient(log.address()).consumer(ConsumerOptions::default());
        consumer.assign_stream("events", Start::Earliest).unwrap();
        take(&mut consumer, 7);
        let streamlets = log.state.lock().streams.remove("events").unwrap();
        while consumer.obstacle().is_none_or(|it| !it.why.contains("[UnknownTopicOrPartition]")) {
            assert!(consumer.poll(Duration::from_millis(1)).unwrap().is_none());
        }
        // It is there again, with what it had.
        log.state.lock().streams.insert("events".to_owned(), streamlets);
        fill(&log, 0, 7..14);
        assert_eq!(take(&mut consumer, 7), expected(0, 7..14));
        assert_eq!(consumer.obstacle(), None);
        // One may wait to learn where to begin.
        log.state.lock().streams.remove("events");
        let starts = BTreeMap::from([(0, start), (1, start)]);
        let meta = consumer.shared.cluster.metadata();
        let clock = Arc::clone(&World::real().clock);
        let began_us = clock.monotonic_micros();
        let waited = || Duration::from_micros(clock.monotonic_micros() - began_us);
        consumer.assign_known("events", &meta.streams["events"], &starts);
        let mut stopped = Vec::new();
        while stopped.len() < 2 {
            if let Err(error) = consumer.poll(Duration::from_millis(5)) {
                stopped.push(error.to_string());
            }
            assert!(waited() < PATIENCE, "{start:?} {:?}", consumer.obstacle());
        }
        stopped.sort();
        let said = [
            "stream `events` streamlet 0: there is no",
            "stream `events` streamlet 1: there is no",
        ];
        assert!(stopped.iter().zip(said).all(|(it, said)| it.starts_with(said)), "{stopped:?}");
        assert!(waited() >= Duration::from_millis(250), "it was waited for");
    }
}

/// Nobody says that it is gone while nobody answers.
#[test]
fn a_stream_of_a_cluster_that_is_away_is_waited_for() {
    let log = FakeLog::start(&[("events", 1)]);
    fill(&log, 0, 0..7);
    let mut consumer = impatient(log.address()).consumer(ConsumerOptions::default());
    consumer.assign_stream("events", Start::Earliest).unwrap();
    take(&mut consumer, 7);
    let streamlets = log.state.lock().streams.remove("events").unwrap();
    while consumer.obstacle().is_none_or(|it| !it.why.contains("[UnknownTopicOrPartition]")) {
        assert!(consumer.poll(Duration::from_millis(1)).unwrap().is_none());
    }
    log.on_request(|_| Fault::CloseBefore);
    log.hang_up();
    assert!(consumer.poll(Duration::from_millis(900)).unwrap().is_none());
    // It is not told at once by a node that has just come back.
    let asked_us = consumer.shared.cluster.metadata().at_us;
    log.on_request(|_| Fault::None);
    while consumer.shared.cluster.metadata().at_us == asked_us {
        assert!(consumer.poll(Duration::from_millis(1)).unwrap().is_none());
    }
    log.state.lock().streams.insert("events".to_owned(), streamlets);
    fill(&log, 0, 7..14);
    assert_eq!(take(&mut consumer, 7), expected(0, 7..14));
}

#[test]
fn a_node_that_fails_at_a_fetch_is_asked_again() {
    let log = FakeLog::start(&[("events", 1)]);
    fill(&log, 0, 0..70);
    let mut left = 5;
    log.on_request(move |key| match key {
        ApiKey::Fetch if left > 0 => {
            left -= 1;
            Fault::Code(ErrorCode::UnknownServerError)
        }
        _ => Fault::None,
    });
    let mut consumer = client(log.address()).consumer(ConsumerOptions::default());
    consumer.assign_stream("events", Start::Earliest).unwrap();
    assert_eq!(take(&mut consumer, 70), expected(0, 0..70));
    // One that does nothing else is given up.
    log.on_request(|key| match key {
        ApiKey::Fetch => Fault::Code(ErrorCode::UnknownServerError),
        _ => Fault::None,
    });
    let mut consumer = impatient(log.address()).consumer(ConsumerOptions::default());
    consumer.assign_stream("events", Start::Earliest).unwrap();
    let error = consumer.poll(PATIENCE).err().unwrap();
    assert!(error.to_string().contains("the node failed at it"), "{error}");
}
