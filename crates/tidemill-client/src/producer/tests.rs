//! A producer against a node in memory, which is well, or is not.

use super::*;
use crate::{
    CallError, ClientOptions, ErrorCode,
    testing::log::{FakeLog, Fault},
};
use std::collections::BTreeSet;
use tidemill_env::{Random, World};
use tidemill_wire::kafka::ApiKey;

#[cfg(debug_assertions)]
mod simulation;

const PATIENCE: Duration = Duration::from_secs(30);

fn client(address: &str) -> Client {
    let options = ClientOptions {
        connect_timeout: Duration::from_secs(5),
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(2),
        ..ClientOptions::at(address)
    };
    Client::new(&World::real(), options)
}

fn value(value: &[u8]) -> NewRecord<'_> {
    NewRecord { value: Some(value), ..NewRecord::default() }
}

#[test]
fn records_arrive_in_order_whatever_the_codec() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let log = FakeLog::start(&[("events", 1)]);
        let options = ProducerOptions {
            compression: Compression::of(codec),
            batch_bytes: 2_000,
            ..ProducerOptions::default()
        };
        let producer = client(log.address()).producer(options);
        let events = producer.stream("events").unwrap();
        let expected: Vec<Vec<u8>> =
            (0..1000).map(|it| format!("value {it} {it} {it}").into_bytes()).collect();
        expected.iter().for_each(|it| events.send(&value(it)).unwrap());
        producer.flush(PATIENCE).unwrap();
        assert_eq!(log.values("events", 0), expected, "{codec:?}");
        let stats = producer.stats();
        assert_eq!((stats.delivered_records, stats.failed_records), (1000, 0));
        assert_eq!((stats.buffered_bytes, stats.retries), (0, 0));
        assert!(stats.delivered_chunks >= 10 && stats.requests <= stats.delivered_chunks);
    }
}

#[test]
fn who_waits_is_told_the_offset_and_headers_and_timestamps_go_along() {
    let log = FakeLog::start(&[("events", 3)]);
    let producer = client(log.address()).producer(ProducerOptions::default());
    let events = producer.stream("events").unwrap();
    assert_eq!(events.streamlets(), 3);
    let headers = [Header { key: b"a", value: Some(b"1") }, Header { key: b"b", value: None }];
    let record = NewRecord {
        value: Some(b"v"),
        headers: &headers,
        timestamp_ms: Some(77),
        streamlet: Some(2),
        key: None,
    };
    for offset in 0..3 {
        let delivered = events.send_and_wait(&record).unwrap();
        let expected = Delivered { streamlet: 2, offset: Some(offset), append_time_ms: None };
        assert_eq!(delivered, expected);
    }
    let state = log.state.lock();
    let chunk = &state.streams["events"][2].chunks[0];
    let head = tidemill_wire::chunk::ChunkHead::check(chunk).unwrap();
    let read = tidemill_wire::records::Records::new(&head, &chunk[61..]).next().unwrap().unwrap();
    assert_eq!((read.timestamp_ms, read.value), (77, Some(&b"v"[..])));
    assert_eq!(read.headers.collect::<Vec<_>>(), headers);
}

#[test]
fn keys_decide_and_the_rest_goes_round() {
    let log = FakeLog::start(&[("events", 4)]);
    let options = ProducerOptions { batch_bytes: 500, ..ProducerOptions::default() };
    let producer = client(log.address()).producer(options);
    let events = producer.stream("events").unwrap();
    for round in 0..3 {
        for key in 0..50u32 {
            let key = key.to_be_bytes();
            let record = NewRecord { key: Some(&key), value: Some(&key), ..NewRecord::default() };
            events.send(&record).unwrap();
        }
        assert!(producer.flush(PATIENCE).is_ok(), "round {round}");
    }
    for index in 0..4 {
        let found: BTreeSet<Vec<u8>> = log.values("events", index).into_iter().collect();
        for key in &found {
            assert_eq!(partitioner::streamlet_of(key, 4), index);
        }
        assert!(!found.is_empty());
    }
    let before: Vec<usize> = (0..4).map(|it| log.values("events", it).len()).collect();
    for _ in 0..400 {
        events.send(&value(&[1; 40])).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    for (index, before) in before.into_iter().enumerate() {
        let more = log.values("events", index).len() - before;
        assert!(more >= 80, "streamlet {index} got {more} of 400");
    }
}

/// Sends `count` records to two streamlets under faults. Returns what was delivered of each.
fn under_faults(
    log: &FakeLog,
    options: ProducerOptions,
    count: u32,
) -> (Vec<Vec<u32>>, Vec<ProduceError>) {
    let producer = client(log.address()).producer(options);
    let events = producer.stream("events").unwrap();
    let delivered = Arc::new(Mutex::new((vec![Vec::new(); 2], Vec::new())));
    for number in 0..count {
        let bytes = number.to_be_bytes();
        let streamlet = (number % 2) as i32;
        let record = NewRecord { streamlet: Some(streamlet), ..value(&bytes) };
        let noted = Arc::clone(&delivered);
        let done = move |outcome: Result<Delivered, ProduceError>| {
            let mut noted = noted.lock();
            match outcome {
                Ok(_) => noted.0[streamlet as usize].push(number),
                Err(error) => noted.1.push(error),
            }
        };
        events.send_then(&record, done).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    drop(producer);
    drop(events);
    Arc::into_inner(delivered).expect("all are told").into_inner()
}

fn numbers(values: Vec<Vec<u8>>) -> Vec<u32> {
    values.into_iter().map(|it| u32::from_be_bytes(it.try_into().unwrap())).collect()
}

#[test]
fn whatever_fails_in_between_each_record_is_there_once_and_in_order() {
    for seed in 0..6 {
        let log = FakeLog::start(&[("events", 2)]);
        let mut random = Random::new(seed);
        log.on_request(move |key| match (key, random.below(20)) {
            (ApiKey::Produce, 0) => Fault::CloseBefore,
            (ApiKey::Produce, 1) => Fault::CloseAfter,
            (ApiKey::Produce, 2) => Fault::Code(ErrorCode::NotLeaderOrFollower),
            (ApiKey::Produce, 3) => Fault::Code(ErrorCode::RequestTimedOut),
            (ApiKey::Metadata | ApiKey::InitProducerId, 0) => Fault::CloseBefore,
            _ => Fault::None,
        });
        let options = ProducerOptions {
            batch_bytes: 300,
            request_bytes: 500,
            linger: Duration::ZERO,
            ..ProducerOptions::default()
        };
        let (delivered, errors) = under_faults(&log, options, 1000);
        assert_eq!(errors, [], "seed {seed}");
        for streamlet in 0..2u32 {
            let expected: Vec<u32> = (0..1000).filter(|it| it % 2 == streamlet).collect();
            let index = streamlet as usize;
            assert!(numbers(log.values("events", index)) == expected, "seed {seed}");
            assert_eq!(delivered[index], expected, "they are told in order");
        }
    }
}

#[test]
fn a_log_that_forgot_the_producer_gets_a_new_one() {
    let log = FakeLog::start(&[("events", 1)]);
    let producer = client(log.address()).producer(ProducerOptions::default());
    let events = producer.stream("events").unwrap();
    for number in 0..20u8 {
        events.send_and_wait(&value(&[number])).unwrap();
        if number % 5 == 0 {
            let mut state = log.state.lock();
            state.streams.get_mut("events").unwrap()[0].forget_producers();
        }
    }
    let expected: Vec<Vec<u8>> = (0..20).map(|it| vec![it]).collect();
    assert_eq!(log.values("events", 0), expected);
}

#[test]
fn a_refusal_for_good_is_told_and_what_follows_goes_on() {
    let log = FakeLog::start(&[("events", 1)]);
    let producer = client(log.address()).producer(ProducerOptions::default());
    let events = producer.stream("events").unwrap();
    events.send_and_wait(&value(b"1")).unwrap();
    log.on_request(|key| match key {
        ApiKey::Produce => Fault::Code(ErrorCode::MessageTooLarge),
        _ => Fault::None,
    });
    let error = events.send_and_wait(&value(b"2")).unwrap_err();
    assert!(error.to_string().contains("max.message.bytes"), "{error}");
    events.send(&value(b"3")).unwrap();
    let error = producer.flush(PATIENCE).unwrap_err();
    assert!(matches!(error, FlushError::Lost { records: 1, .. }), "{error:?}");
    log.on_request(|_| Fault::None);
    producer.flush(PATIENCE).unwrap();
    events.send_and_wait(&value(b"4")).unwrap();
    assert_eq!(log.values("events", 0), [b"1", b"4"]);
}

#[test]
fn without_acks_records_are_gone_as_soon_as_they_are_written() {
    let log = FakeLog::start(&[("events", 1)]);
    let options = ProducerOptions { acks: Acks::None, ..ProducerOptions::default() };
    let producer = client(log.address()).producer(options);
    let events = producer.stream("events").unwrap();
    let delivered = events.send_and_wait(&value(b"1")).unwrap();
    assert_eq!(delivered.offset, None);
    while log.values("events", 0).is_empty() {
        World::real().clock.sleep_micros(1000);
    }
    assert_eq!(log.values("events", 0), [b"1"]);
}

#[test]
fn what_cannot_be_sent_is_said_at_once() {
    let log = FakeLog::start(&[("events", 1)]);
    let options = ProducerOptions { buffer_bytes: 1000, ..ProducerOptions::default() };
    let producer = client(log.address()).producer(options);
    let error = producer.stream("nothing").err().unwrap();
    assert!(error.to_string().starts_with("stream `nothing`: there is no such stream"), "{error}");
    let events = producer.stream("events").unwrap();
    let error = events.send(&NewRecord { streamlet: Some(1), ..value(b"1") }).unwrap_err();
    assert!(matches!(error, ProduceError::NoStreamlet { streamlet: 1, count: 1, .. }));
    assert!(events.send(&NewRecord { streamlet: Some(-1), ..value(b"1") }).is_err());
    let error = events.send(&value(&[0; 1001])).unwrap_err();
    assert!(matches!(error, ProduceError::TooLarge { max: 1000, .. }), "{error:?}");

    let gone = FakeLog::start(&[]);
    let address = gone.address().to_owned();
    drop(gone);
    let producer = client(&address).producer(ProducerOptions::default());
    let error = producer.stream("events").err().unwrap();
    assert!(error.to_string().starts_with("no node at "), "{error}");
}

#[test]
fn when_the_buffer_is_full_send_waits_and_then_gives_up() {
    let log = FakeLog::start(&[("events", 1)]);
    let options = ProducerOptions {
        buffer_bytes: 4000,
        batch_bytes: 1000,
        block_timeout: Duration::from_millis(500),
        linger: Duration::from_secs(100),
        ..ProducerOptions::default()
    };
    let producer = client(log.address()).producer(options);
    let events = producer.stream("events").unwrap();
    // With a node that answers, many times the buffer comes through.
    for _ in 0..200 {
        events.send(&value(&[1; 300])).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    assert_eq!(log.values("events", 0).len(), 200);
    log.on_request(|_| Fault::CloseBefore);
    let refused = (0..100).find_map(|_| events.send(&value(&[1; 300])).err());
    let error = refused.expect("nothing leaves, and the buffer holds ten");
    assert!(matches!(error, ProduceError::Full { buffer_bytes: 4000, .. }), "{error:?}");
    assert!(producer.stats().buffered_bytes <= 4000);
    log.on_request(|_| Fault::None);
    producer.flush(PATIENCE).unwrap();
    assert_eq!(producer.stats().buffered_bytes, 0);
}

#[test]
fn what_waits_for_too_long_is_given_up_with_the_reason() {
    let log = FakeLog::start(&[("events", 1)]);
    let options = ProducerOptions {
        delivery_timeout: Duration::from_millis(150),
        ..ProducerOptions::default()
    };
    let producer = client(log.address()).producer(options);
    let events = producer.stream("events").unwrap();
    events.send_and_wait(&value(b"1")).unwrap();
    log.on_request(|_| Fault::CloseBefore);
    let error = events.send_and_wait(&value(b"2")).unwrap_err();
    let ProduceError::TimedOut { last, .. } = &error else { panic!("{error:?}") };
    assert!(last.contains("lost") || last.contains("closed"), "{last}");
    log.on_request(|_| Fault::None);
    events.send_and_wait(&value(b"3")).unwrap();
    assert_eq!(log.values("events", 0), [b"1", b"3"]);
}

#[test]
fn a_flush_that_ends_too_early_says_what_stands_in_the_way() {
    let log = FakeLog::start(&[("events", 1)]);
    let producer = client(log.address()).producer(ProducerOptions::default());
    let events = producer.stream("events").unwrap();
    events.send_and_wait(&value(b"1")).unwrap();
    let address = log.address().to_owned();
    drop(log);
    events.send(&value(b"2")).unwrap();
    let late = producer.flush(Duration::from_millis(500)).unwrap_err();
    let said = late.to_string();
    assert!(
        said.starts_with("1 chunks were not delivered within ") && said.contains(&address),
        "{said}"
    );
}

#[test]
fn an_end_tells_what_was_not_delivered() {
    let log = FakeLog::start(&[("events", 1)]);
    let producer = client(log.address()).producer(ProducerOptions::default());
    let events = producer.stream("events").unwrap();
    log.on_request(|_| Fault::CloseBefore);
    let (tell, told) = mpsc::channel();
    events.send_then(&value(b"1"), move |outcome| drop(tell.send(outcome))).unwrap();
    let late = producer.flush(Duration::from_millis(30)).unwrap_err();
    assert!(matches!(late, FlushError::TimedOut { chunks: 1, .. }), "{late:?}");
    drop(producer);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Err(ProduceError::Closed));
    assert_eq!(events.send(&value(b"2")), Err(ProduceError::Closed));
}

#[test]
fn no_producer_id_is_told() {
    let log = FakeLog::start(&[("events", 1)]);
    log.on_request(|key| match key {
        ApiKey::InitProducerId => Fault::Code(ErrorCode::ClusterAuthorizationFailed),
        _ => Fault::None,
    });
    let producer = client(log.address()).producer(ProducerOptions::default());
    let outcome = producer.stream("events").and_then(|it| it.send_and_wait(&value(b"1")));
    let error = outcome.unwrap_err();
    assert!(matches!(error, ProduceError::NoProducerId(_)), "{error:?}");
}

#[test]
fn many_threads_may_write_one_stream() {
    let log = FakeLog::start(&[("events", 3)]);
    let options = ProducerOptions { batch_bytes: 1000, ..ProducerOptions::default() };
    let producer = client(log.address()).producer(options);
    let world = World::real();
    let threads: Vec<_> = (0..4u8)
        .map(|thread| {
            let events = producer.stream("events").unwrap();
            let body = move || {
                for number in 0..500u16 {
                    let [high, low] = number.to_be_bytes();
                    let key = [thread];
                    let bytes = [thread, high, low];
                    let record = NewRecord { key: Some(&key), ..value(&bytes) };
                    events.send(&record).unwrap();
                }
            };
            world.spawn.spawn("test", Box::new(body))
        })
        .collect();
    threads.into_iter().for_each(|it| it.join());
    producer.flush(PATIENCE).unwrap();
    let all: Vec<Vec<u8>> = (0..3).flat_map(|it| log.values("events", it)).collect();
    for thread in 0..4u8 {
        let of_thread: Vec<u16> = all
            .iter()
            .filter(|it| it[0] == thread)
            .map(|it| u16::from_be_bytes([it[1], it[2]]))
            .collect();
        assert_eq!(of_thread, (0..500).collect::<Vec<u16>>(), "thread {thread}");
    }
}

#[test]
fn garbage_in_place_of_an_answer_is_survived() {
    use crate::testing::{FakeNode, Reply, versions_answer};
    let node = FakeNode::start(|head, _| match ApiKey::from_i16(head.key) {
        Some(ApiKey::ApiVersions) => versions_answer(head),
        _ => Reply::content(head, &[0x7f; 40]),
    });
    let producer = client(node.address()).producer(ProducerOptions::default());
    let error = producer.stream("events").err().unwrap();
    let ProduceError::Lookup(crate::AdminError::Call(error)) = error else { panic!("{error:?}") };
    assert!(matches!(error, CallError::BadAnswer { .. }), "{error:?}");
}
