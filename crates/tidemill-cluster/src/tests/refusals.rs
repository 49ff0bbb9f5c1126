//! Nodes that are refused, with a reason on both sides.

use super::*;
use crate::CallError;

/// The refusal that the caller is told, after a call that cannot work.
fn refusal(error: &CallError) -> &Refusal {
    error.refusal().unwrap_or_else(|| panic!("the other side should refuse: {error}"))
}

#[test]
fn a_node_without_the_key_is_refused_on_both_sides() {
    let one = TestSettings { key: "a key of another cluster", ..TestSettings::of(1) }.start();
    let two = TestSettings::of(2).start();
    let error = one.call(&two, ECHO, b"x").expect_err("the keys differ");
    assert_eq!(refusal(&error), &Refusal::Key);
    assert!(error.to_string().contains("--cluster-key-file"), "{error}");
    assert_eq!(two.options.metrics.refused.of(&Refusal::Key), 1);
    assert_eq!(two.options.metrics.accepted.get(), 0);
    // And the other way.
    let error = two.call(&one, ECHO, b"x").expect_err("the keys differ");
    assert_eq!(refusal(&error), &Refusal::Key);
    assert!(two.handler.seen.lock().is_empty() && one.handler.seen.lock().is_empty());
}

#[test]
fn a_node_of_another_cluster_is_refused_with_both_names() {
    let one = TestSettings { cluster: "rock-pool", ..TestSettings::of(1) }.start();
    let two = TestSettings::of(2).start();
    let error = one.call(&two, ECHO, b"x").expect_err("the clusters differ");
    assert!(matches!(refusal(&error), Refusal::Cluster(id) if id.as_str() == "tide-pool"));
    let cluster = Refusal::Cluster("tide-pool".parse().expect("it is an id"));
    two.until(|| two.options.metrics.refused.of(&cluster) == 1);
}

#[test]
fn an_id_in_use_is_refused_and_the_first_node_is_unhurt() {
    let first = TestSettings::of(1).start();
    let second = TestSettings { incarnation: 99, ..TestSettings::of(1) }.start();
    let two = TestSettings::of(2).start();
    assert!(first.call(&two, ECHO, b"x").is_ok());
    // The second process with id 1 looks for node 2 and finds node 1.
    let error = second.peers.call(first.port.address(), NodeId(2), ECHO, Vec::new(), PATIENCE);
    let error = error.expect_err("its id is in use");
    assert_eq!(refusal(&error), &Refusal::IdInUse { incarnation: Incarnation(11) });
    assert!(error.to_string().contains("--node-id"), "{error}");
    assert!(first.call(&two, ECHO, b"y").is_ok());
}

#[test]
fn an_address_of_the_node_itself_and_of_another_node_are_refused() {
    let one = TestSettings::of(1).start();
    let two = TestSettings::of(2).start();
    let own = one.peers.call(one.port.address(), NodeId(2), ECHO, Vec::new(), PATIENCE);
    assert_eq!(refusal(&own.expect_err("it is its own")), &Refusal::OwnAddress);
    let own = one.peers.call(one.port.address(), NodeId(1), ECHO, Vec::new(), PATIENCE);
    assert!(matches!(own, Err(CallError::Disbelieved { refusal: Refusal::OwnAddress, .. })));
    let wrong = one.peers.call(two.port.address(), NodeId(3), ECHO, Vec::new(), PATIENCE);
    assert_eq!(refusal(&wrong.expect_err("it is node 2")), &Refusal::WrongNode(NodeId(2)));
    assert!(one.call(&two, ECHO, b"x").is_ok());
}

#[test]
fn a_fenced_node_is_refused_at_the_door_and_at_each_request() {
    let one = TestSettings::of(1).start();
    let two = TestSettings::of(2).start();
    assert!(one.call(&two, ECHO, b"first").is_ok());
    // Node 1 was thought dead, and its successor is known. Its connection is still there.
    two.fence.0.lock().insert(NodeId(1), Incarnation(30));
    let fenced = Refusal::Fenced { newest: Incarnation(30) };
    for _ in 0..5 {
        let error = one.call(&two, ECHO, b"zombie").expect_err("its incarnation is over");
        assert_eq!(refusal(&error), &fenced);
        assert!(!error.may_have_been_handled());
    }
    assert_eq!(two.options.metrics.fenced.get(), 5);
    assert_eq!(two.options.metrics.requests_refused.of(&fenced), 5);
    // A new connection of the old incarnation is not let in at all.
    let other = TestSettings::of(1).start();
    let error = other.call(&two, ECHO, b"zombie").expect_err("its incarnation is over");
    assert_eq!(refusal(&error), &fenced);
    assert_eq!(two.options.metrics.refused.of(&fenced), 1);
    assert_eq!(two.options.metrics.fenced.get(), 6);
    // With a new incarnation the same connection is good again.
    assert!(one.identity.renew(Incarnation(31)));
    assert!(!one.identity.renew(Incarnation(31)));
    assert!(one.call(&two, ECHO, b"second").is_ok());
    assert_eq!(one.options.metrics.connects.get(), 1);
    let seen: Vec<_> = two.handler.seen.lock().iter().map(|it| (it.1, it.2.clone())).collect();
    let expected = [(Incarnation(11), b"first".to_vec()), (Incarnation(31), b"second".to_vec())];
    assert_eq!(seen, expected);
}

#[test]
fn an_older_incarnation_is_refused_even_if_the_view_lags() {
    let two = TestSettings::of(2).start();
    let old = TestSettings::of(1).start();
    let new = TestSettings { incarnation: 40, ..TestSettings::of(1) }.start();
    assert!(old.call(&two, ECHO, b"x").is_ok());
    assert!(new.call(&two, ECHO, b"x").is_ok());
    let error = old.call(&two, ECHO, b"x").expect_err("a newer one was here");
    assert_eq!(refusal(&error), &Refusal::Fenced { newest: Incarnation(40) });
}

#[test]
fn answers_of_an_older_incarnation_are_not_believed() {
    let one = TestSettings::of(1).start();
    let two = TestSettings::of(2).start();
    assert!(one.call(&two, ECHO, b"x").is_ok());
    one.fence.0.lock().insert(NodeId(2), Incarnation(50));
    let error = one.call(&two, ECHO, b"x").expect_err("the answer is of an old incarnation");
    let newest = Refusal::Fenced { newest: Incarnation(50) };
    assert!(
        matches!(&error, CallError::Disbelieved { refusal, was_sent: true, .. } if *refusal == newest)
    );
    assert!(error.may_have_been_handled());
    assert_eq!(one.options.metrics.fenced.get(), 1);
}

#[test]
fn a_request_of_an_earlier_life_is_not_sent_in_a_later_one() {
    let one = TestSettings::of(1).start();
    let two = TestSettings::of(2).start();
    let made_in = one.identity.incarnation();
    one.identity.renew(Incarnation(60));
    let (address, node) = (two.port.address(), two.node());
    let error = one.peers.start_as(made_in, address, node, ECHO, Vec::new(), PATIENCE);
    assert!(matches!(error, Err(CallError::Outdated { now: Incarnation(60), .. })));
    assert!(two.handler.seen.lock().is_empty());
}
