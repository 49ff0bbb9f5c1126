//! Calls between nodes that trust each other.

use super::*;
use crate::CallError;

fn pair() -> (TestNode, TestNode) {
    (TestSettings::of(1).start(), TestSettings::of(2).start())
}

#[test]
fn a_call_brings_the_answer_of_its_request() {
    let (one, two) = pair();
    for body in [&b""[..], b"x", &[9; 100_000], &[3; 1 << 20]] {
        assert_eq!(one.call(&two, ECHO, body).as_deref(), Ok(body));
        assert_eq!(two.call(&one, ECHO, body).as_deref(), Ok(body));
    }
    let metrics = &one.options.metrics;
    assert_eq!((metrics.connects.get(), metrics.accepted.get()), (1, 1));
    assert_eq!(two.handler.seen.lock()[0].0, NodeId(1));
    assert_eq!(two.handler.seen.lock()[0].1, Incarnation(11));
}

#[test]
fn answers_go_in_any_order_and_belong_to_their_requests() {
    let (one, two) = pair();
    let start = |number: u8| {
        let body = vec![number; usize::from(number)];
        one.peers.start(two.port.address(), two.node(), KEEP, body, PATIENCE).expect("it is sent")
    };
    let calls: Vec<_> = (0..100).map(start).collect();
    one.until(|| two.handler.kept.lock().len() == 100);
    let kept = std::mem::take(&mut *two.handler.kept.lock());
    // They were handed over in the order in which they were started.
    let order: Vec<usize> = kept.iter().map(|(body, _)| body.len()).collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
    for (body, reply) in kept.into_iter().rev() {
        reply.send(body);
    }
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait(), Ok(vec![number as u8; number]));
    }
    assert_eq!(one.options.metrics.connects.get(), 1);
}

#[test]
fn bodies_over_the_limit_are_refused_before_they_are_sent() {
    let (one, two) = pair();
    let body = vec![0; (1 << 20) + 1];
    let error = one.call(&two, ECHO, &body).expect_err("it is too large");
    assert_eq!(error, CallError::TooLarge { bytes: body.len(), bytes_max: 1 << 20 });
    // An answer over the limit is an error of that call, and not of the connection.
    let small = TestSettings {
        limits: ClusterLimits { body_bytes_max: 1_000, ..TestSettings::of(3).limits },
        ..TestSettings::of(3)
    };
    let three = small.start();
    let error = one.call(&three, GROW, b"").expect_err("it is too large");
    assert!(matches!(error.refusal(), Some(Refusal::Failed(_))), "{error}");
    assert_eq!(one.call(&three, ECHO, b"y").as_deref(), Ok(&b"y"[..]));
}

#[test]
fn a_handler_that_fails_fails_its_request_alone() {
    let (one, two) = pair();
    for kind in [DROP, PANIC] {
        let error = one.call(&two, kind, b"").expect_err("there is no answer");
        assert!(matches!(error.refusal(), Some(Refusal::Failed(_))), "{error}");
        assert!(error.may_have_been_handled());
    }
    let error = one.call(&two, 999, b"").expect_err("no handler knows it");
    assert_eq!(error.refusal(), Some(&Refusal::Kind(999)));
    assert!(!error.may_have_been_handled());
    assert_eq!(one.call(&two, ECHO, b"x").as_deref(), Ok(&b"x"[..]));
    assert_eq!(one.options.metrics.connects.get(), 1);
}

#[test]
fn a_call_ends_by_its_deadline_and_its_late_answer_goes_nowhere() {
    let (one, two) = pair();
    let (address, node) = (two.port.address(), two.node());
    let short = Duration::from_millis(20);
    let error = one.peers.call(address, node, KEEP, b"late".to_vec(), short);
    let error = error.expect_err("nobody answers");
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    // Whether the request arrived in its short time depends on the machine; it may have expired.
    assert_eq!(one.call(&two, ECHO, b"x").as_deref(), Ok(&b"x"[..]));
    let kept = std::mem::take(&mut *two.handler.kept.lock());
    let late = kept.len() as u64;
    kept.into_iter().for_each(|(body, reply)| reply.send(body));
    assert_eq!(one.call(&two, ECHO, b"y").as_deref(), Ok(&b"y"[..]));
    let refused = two.options.metrics.requests_refused.of(&Refusal::Expired);
    one.until(|| one.options.metrics.answers_late.get() >= late);
    assert!(late + refused <= 1);
}

#[test]
fn requests_that_are_not_answered_hold_the_others_back() {
    let limits = ClusterLimits { in_flight_max: 2, queue_max: 2, ..TestSettings::of(1).limits };
    let one = TestSettings { limits, ..TestSettings::of(1) }.start();
    let two = TestSettings { limits, ..TestSettings::of(2) }.start();
    let start =
        |timeout| one.peers.start(two.port.address(), two.node(), KEEP, vec![1; 200_000], timeout);
    // Requests fill the handler, then the socket, then the queue; then a caller waits in vain.
    let mut calls = Vec::new();
    let error = loop {
        match start(if calls.len() < 2 { PATIENCE } else { Duration::from_millis(300) }) {
            Ok(call) => calls.push(call),
            Err(error) => break error,
        }
        assert!(calls.len() < 1_000, "nothing holds the caller back");
    };
    assert!(matches!(error, CallError::TimedOut { was_sent: false, .. }), "{error}");
    assert_eq!(two.handler.seen.lock().len(), 2);
    // Once the two are answered, the connection goes on.
    one.until(|| two.handler.kept.lock().len() == 2);
    let kept = std::mem::take(&mut *two.handler.kept.lock());
    kept.into_iter().for_each(|(_, reply)| reply.send(Vec::new()));
    for call in calls.drain(..2) {
        assert_eq!(call.wait(), Ok(Vec::new()));
    }
    drop(calls);
    // What is left in the socket has expired, or is kept, as its time was short.
    let last = std::thread::scope(|scope| {
        let last = scope.spawn(|| one.call(&two, ECHO, b"x"));
        one.until(|| {
            two.handler.kept.lock().clear();
            last.is_finished()
        });
        last.join().expect("it ends")
    });
    assert_eq!(last.as_deref(), Ok(&b"x"[..]));
}

#[test]
fn a_node_that_comes_back_is_connected_to_again() {
    let (one, two) = pair();
    assert!(one.call(&two, ECHO, b"x").is_ok());
    let address = two.port.address().to_owned();
    let pending = one
        .peers
        .start(&address, two.node(), KEEP, b"lost".to_vec(), PATIENCE)
        .expect("it is sent");
    one.until(|| two.handler.kept.lock().len() == 1);
    // The handler still has the request when its node stops.
    two.port.stop();
    let error = pending.wait().expect_err("the node is gone");
    assert!(error.may_have_been_handled(), "{error}");
    let error = one.peers.call(&address, two.node(), ECHO, b"y".to_vec(), PATIENCE);
    assert!(!error.expect_err("nobody listens").may_have_been_handled());
    drop(two);
    let again = TestSettings { address, incarnation: 20, ..TestSettings::of(2) }.start();
    one.until(|| one.call(&again, ECHO, b"z").as_deref() == Ok(&b"z"[..]));
}

#[test]
fn a_silence_is_filled_with_heartbeats() {
    let limits = ClusterLimits {
        heartbeat: Duration::from_millis(10),
        silence_max: Duration::from_secs(5),
        ..TestSettings::of(1).limits
    };
    let one = TestSettings { limits, ..TestSettings::of(1) }.start();
    let two = TestSettings { limits, ..TestSettings::of(2) }.start();
    assert!(one.call(&two, ECHO, b"x").is_ok());
    one.until(|| {
        one.options.metrics.frames_in.get() > 20 && two.options.metrics.frames_in.get() > 20
    });
    assert!(one.call(&two, ECHO, b"x").is_ok());
    assert_eq!(one.options.metrics.connects.get(), 1);
}

#[test]
fn stopped_links_end_all_calls() {
    let (one, two) = pair();
    let pending = one
        .peers
        .start(two.port.address(), two.node(), KEEP, b"x".to_vec(), PATIENCE)
        .expect("it is sent");
    one.until(|| two.handler.kept.lock().len() == 1);
    one.peers.stop();
    assert!(pending.wait().expect_err("it is stopped").may_have_been_handled());
    assert_eq!(one.call(&two, ECHO, b""), Err(CallError::Stopped));
}

#[test]
fn an_idle_link_is_closed_until_the_next_call() {
    let limits = ClusterLimits {
        heartbeat: Duration::from_millis(5),
        idle_max: Duration::from_millis(20),
        ..TestSettings::of(1).limits
    };
    let one = TestSettings { limits, ..TestSettings::of(1) }.start();
    let two = TestSettings::of(2).start();
    assert!(one.call(&two, ECHO, b"x").is_ok());
    one.until(|| one.options.metrics.connections.get() == 0);
    one.until(|| two.options.metrics.connections.get() == 0);
    assert!(one.call(&two, ECHO, b"y").is_ok());
    assert!(one.options.metrics.connects.get() >= 2);
}
