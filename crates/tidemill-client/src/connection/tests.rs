//! A connection against nodes that behave, that say nothing, and that send garbage.

use super::*;
use crate::testing::{FakeNode, Reply, versions_answer};
use std::sync::mpsc;
use tidemill_wire::kafka::message::{HeartbeatRequestData, HeartbeatResponseData};

fn open(node: &FakeNode, options: ClientOptions) -> Connection {
    let (told, changes) = mpsc::channel();
    let changed = Arc::new(move || {
        let _gone = told.send(());
    });
    let connection =
        Connection::open(&World::real(), node.address(), &options, &Arc::default(), changed);
    while !connection.is_ready() && connection.ended().is_none() {
        changes.recv_timeout(Duration::from_secs(20)).expect("it comes to an end");
    }
    connection
}

fn quick() -> ClientOptions {
    ClientOptions {
        connect_timeout: Duration::from_millis(300),
        request_timeout: Duration::from_millis(200),
        answer_bytes_max: 1 << 20,
        ..ClientOptions::default()
    }
}

fn beat(connection: &Connection) -> Result<HeartbeatResponseData, CallError> {
    connection.call(&HeartbeatRequestData::default(), Duration::ZERO)
}

#[test]
fn a_call_gets_its_answer() {
    let node = FakeNode::start(|head, _| match ApiKey::from_i16(head.key) {
        Some(ApiKey::ApiVersions) => versions_answer(head),
        _ => Reply::message(head, &HeartbeatResponseData::default().with_error_code(27)),
    });
    let connection = open(&node, ClientOptions::default());
    for _ in 0..3 {
        assert_eq!(beat(&connection).unwrap().error_code, 27);
    }
}

#[test]
fn an_old_node_is_asked_for_its_versions_again() {
    let node = FakeNode::start(|head, _| match (ApiKey::from_i16(head.key), head.version) {
        (Some(ApiKey::ApiVersions), 1..) => {
            // UNSUPPORTED_VERSION, and no versions, in the oldest form.
            Reply::content(head, &[0, 35, 0, 0, 0, 0])
        }
        (Some(ApiKey::ApiVersions), _) => versions_answer(head),
        _ => Reply::message(head, &HeartbeatResponseData::default()),
    });
    let connection = open(&node, ClientOptions::default());
    assert_eq!(beat(&connection).unwrap().error_code, 0);
}

#[test]
fn answers_may_come_in_any_order() {
    let mut first: Option<Vec<u8>> = None;
    let node = FakeNode::start(move |head, _| match ApiKey::from_i16(head.key) {
        Some(ApiKey::ApiVersions) => versions_answer(head),
        _ => {
            let code = head.correlation_id as i16;
            let Reply::Send(bytes) =
                Reply::message(head, &HeartbeatResponseData::default().with_error_code(code))
            else {
                unreachable!()
            };
            match first.take() {
                None => {
                    first = Some(bytes);
                    Reply::Nothing
                }
                Some(earlier) => Reply::Send([bytes, earlier].concat()),
            }
        }
    });
    let connection = open(&node, ClientOptions::default());
    let version = connection.version(ApiKey::Heartbeat).unwrap();
    let (tell, told) = mpsc::channel();
    for index in 0..2 {
        let tell = tell.clone();
        connection.send(
            &HeartbeatRequestData::default(),
            &RequestOptions::answered(version, u64::MAX),
            Box::new(move |answer| drop(tell.send((index, answer)))),
        );
    }
    let answers: Vec<(i32, i16)> = (0..2)
        .map(|_| {
            let (index, content) = told.recv_timeout(Duration::from_secs(20)).unwrap();
            let read = connection.read_answer::<HeartbeatRequestData>(version, content.unwrap());
            (index, read.unwrap().error_code)
        })
        .collect();
    // The first request after that for the versions has the correlation id 1.
    assert_eq!(answers, [(1, 2), (0, 1)]);
}

#[test]
fn a_node_that_says_nothing_is_given_up() {
    let node = FakeNode::start(|head, _| match ApiKey::from_i16(head.key) {
        Some(ApiKey::ApiVersions) => versions_answer(head),
        _ => Reply::Nothing,
    });
    let connection = open(&node, quick());
    let error = beat(&connection).unwrap_err();
    assert!(matches!(error, CallError::TimedOut { api: ApiKey::Heartbeat, .. }), "{error:?}");
    assert_eq!(connection.ended(), Some(error), "what follows would be late too");
}

#[test]
fn a_node_that_does_not_read_is_given_up() {
    // The versions are answered, then nothing is read any more: what is sent fills every buffer.
    let node = FakeNode::start(|head, _| match ApiKey::from_i16(head.key) {
        Some(ApiKey::ApiVersions) => versions_answer(head),
        _ => Reply::Stall,
    });
    let connection = open(&node, quick());
    let version = connection.version(ApiKey::Heartbeat).unwrap();
    let big = HeartbeatRequestData::default()
        .with_group_id(tidemill_wire::kafka::text(&"x".repeat(1 << 20)));
    let deadline_us = World::real().clock.monotonic_micros() + 200_000;
    let (tell, told) = mpsc::channel();
    for _ in 0..32 {
        let tell = tell.clone();
        let asking = RequestOptions::answered(version, deadline_us);
        connection.send(&big, &asking, Box::new(move |answer| drop(tell.send(answer))));
    }
    let world = World::real();
    while connection.expire(world.clock.monotonic_micros()).is_some() {
        world.clock.sleep_micros(10_000);
    }
    for _ in 0..32 {
        let answer = told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(matches!(answer, Err(CallError::TimedOut { .. })), "{answer:?}");
    }
}

#[test]
fn nobody_there_is_told() {
    let node = FakeNode::start(|_, _| Reply::Nothing);
    let address = node.address().to_owned();
    drop(node);
    let options = quick();
    let (tell, told) = mpsc::channel();
    let changed = Arc::new(move || {
        let _gone = tell.send(());
    });
    let connection = Connection::open(&World::real(), &address, &options, &Arc::default(), changed);
    told.recv_timeout(Duration::from_secs(20)).unwrap();
    let error = connection.ended().unwrap();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    assert_eq!(beat(&connection).unwrap_err(), error);
}

/// What a node sends in place of an answer, and what is said of it.
fn hostile(reply: impl Fn(i32) -> Reply + Send + 'static) -> CallError {
    let node = FakeNode::start(move |head, _| match ApiKey::from_i16(head.key) {
        Some(ApiKey::ApiVersions) => versions_answer(head),
        _ => reply(head.correlation_id),
    });
    beat(&open(&node, quick())).unwrap_err()
}

fn frame(length: i32, id: i32, rest: &[u8]) -> Reply {
    Reply::Send([&length.to_be_bytes()[..], &id.to_be_bytes(), rest].concat())
}

#[test]
fn lengths_and_ids_that_lie_end_the_connection() {
    for length in [i32::MIN, -1, 0, 3, (1 << 20) + 5, i32::MAX] {
        let error = hostile(move |id| frame(length, id, b""));
        assert!(matches!(error, CallError::BadAnswer { .. }), "{length}: {error:?}");
    }
    let error = hostile(|id| frame(20, id + 1, &[0; 16]));
    assert!(error.to_string().contains("nobody asked for"), "{error}");
    let error = hostile(|_| Reply::Send(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()));
    assert!(matches!(error, CallError::BadAnswer { .. }), "{error:?}");
    // Less than it says, then nothing: the deadline holds. Less, then the end: it is lost.
    let error = hostile(|id| frame(1 << 19, id, &[0; 100]));
    assert!(matches!(error, CallError::TimedOut { .. }), "{error:?}");
    let error = hostile(|_| Reply::Close);
    assert!(matches!(error, CallError::Lost { .. }), "{error:?}");
    let error = hostile(|id| frame(5, id, &[0xff]));
    assert!(matches!(error, CallError::BadAnswer { .. }), "{error:?}");
}

#[test]
fn what_closes_the_connection_at_once_may_want_tls_or_sasl() {
    let node = FakeNode::start(|_, _| Reply::Close);
    let error = open(&node, quick()).ended().unwrap();
    assert!(matches!(error, CallError::ClosedAtOnce { .. }), "{error:?}");
    assert!(error.to_string().contains("does it ask for TLS?"), "{error}");
    // It is not tried for as long as one that was there before.
    let options = ClientOptions {
        request_timeout: Duration::from_secs(600),
        ..ClientOptions::at(node.address())
    };
    let admin = crate::Client::new(&World::real(), options).admin();
    assert_eq!(admin.list().unwrap_err(), crate::AdminError::Call(error));
    let error = hostile(|_| Reply::Close);
    assert!(error.to_string().contains("does it ask for SASL?"), "{error}");
    // One that has answered something asks for nothing.
    let mut answered = false;
    let node = FakeNode::start(move |head, _| match ApiKey::from_i16(head.key) {
        Some(ApiKey::ApiVersions) => versions_answer(head),
        _ if std::mem::replace(&mut answered, true) => Reply::Close,
        _ => Reply::message(head, &HeartbeatResponseData::default()),
    });
    let connection = open(&node, quick());
    beat(&connection).unwrap();
    let error = beat(&connection).unwrap_err();
    assert!(!error.to_string().contains("SASL"), "{error}");
}

#[test]
fn garbage_in_place_of_the_versions_is_told() {
    for garbage in [vec![], vec![0xff; 40], vec![0, 0, 0x7f, 0xff, 0xff, 0xff]] {
        let node = FakeNode::start(move |head, _| Reply::content(head, &garbage));
        let error = open(&node, quick()).ended().unwrap();
        assert!(matches!(error, CallError::BadAnswer { .. }), "{error:?}");
    }
}
