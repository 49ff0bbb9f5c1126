//! Which node is asked, and when it is given up.

use super::*;
use crate::testing::{FakeNode, Reply, versions_answer};
use std::sync::atomic::{AtomicUsize, Ordering};
use tidemill_wire::kafka::{
    message::{
        MetadataResponseData,
        metadata_response::{
            MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
        },
    },
    text,
};

/// A node that says it leads streamlet 0 of `events`.
fn node() -> FakeNode {
    let address = Arc::new(Mutex::new(String::new()));
    let said = Arc::clone(&address);
    let node = FakeNode::start(move |head, _| match ApiKey::from_i16(head.key) {
        Some(ApiKey::ApiVersions) => versions_answer(head),
        _ => {
            let (host, port) = {
                let address = said.lock();
                let (host, port) = address.rsplit_once(':').unwrap();
                (text(host), port.parse().unwrap())
            };
            let partition = MetadataResponsePartition::default().with_leader_id(3);
            let topic = MetadataResponseTopic::default().with_name(Some(text("events")));
            let broker = MetadataResponseBroker::default().with_node_id(3);
            let answer = MetadataResponseData::default()
                .with_brokers(vec![broker.with_host(host).with_port(port)])
                .with_topics(vec![topic.with_partitions(vec![partition])]);
            Reply::message(head, &answer)
        }
    });
    *address.lock() = node.address().to_owned();
    node
}

fn quick(bootstrap: &str) -> ClientOptions {
    ClientOptions {
        connect_timeout: Duration::from_millis(500),
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(5),
        ..ClientOptions::at(bootstrap)
    }
}

fn soon(cluster: &Cluster) -> u64 {
    cluster.now_us() + 20_000_000
}

#[test]
fn metadata_come_and_lead_to_the_leader() {
    let node = node();
    let cluster = Cluster::new(&World::real(), &quick(node.address()));
    assert!(matches!(cluster.route_to(NodeId(3), 0), NodeRoute::Unknown));
    cluster.want("events");
    let deadline = soon(&cluster);
    while cluster.metadata().leader("events", 0).is_none() {
        cluster.wait_any(deadline).unwrap();
        cluster.tend(cluster.now_us());
        assert!(cluster.now_us() < deadline);
    }
    assert_eq!(cluster.metadata().leader("events", 0), Some(NodeId(3)));
    let connection = cluster.wait_node(NodeId(3), deadline).unwrap();
    assert_eq!(connection.address(), node.address());
}

#[test]
fn the_second_address_helps_when_nobody_is_at_the_first() {
    let (gone, node) = (node(), node());
    let addresses = format!("{},{}", gone.address(), node.address());
    drop(gone);
    let cluster = Cluster::new(&World::real(), &quick(&addresses));
    let connection = cluster.wait_any(soon(&cluster)).unwrap();
    assert_eq!(connection.address(), node.address());
}

#[test]
fn the_second_address_helps_when_the_first_hangs() {
    // Connections are taken, and nothing is said on them.
    let (hangs, node) = (FakeNode::start(|_, _| Reply::Nothing), node());
    let addresses = format!("{},{}", hangs.address(), node.address());
    let options = ClientOptions { connect_timeout: Duration::from_secs(5), ..quick(&addresses) };
    let cluster = Cluster::new(&World::real(), &options);
    // So long an admin waits.
    let deadline_us = cluster.now_us() + micros(options.connect_timeout);
    let connection = cluster.wait_any(deadline_us).unwrap();
    assert_eq!(connection.address(), node.address());
    // Who asks for metadata and does not wait for them comes back in time.
    let cluster = Cluster::new(&World::real(), &options);
    cluster.want("events");
    let now_us = cluster.now_us();
    let next_us = cluster.tend(now_us).unwrap();
    assert!(next_us <= now_us + micros(options.connect_timeout) / TRIES);
}

#[test]
fn when_nobody_answers_it_is_said_at_once() {
    let gone = node();
    let options = quick(gone.address());
    drop(gone);
    let cluster = Cluster::new(&World::real(), &options);
    for _ in 0..3 {
        let error = cluster.wait_any(u64::MAX).err().unwrap();
        assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    }
    let none = Cluster::new(&World::real(), &quick(""));
    assert!(none.wait_any(u64::MAX).is_err());
}

#[test]
fn a_lost_connection_is_opened_again() {
    let node = node();
    let cluster = Cluster::new(&World::real(), &quick(node.address()));
    let changes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&changes);
    cluster.on_change(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    let first = cluster.wait_any(soon(&cluster)).unwrap();
    node.hang_up();
    while first.ended().is_none() {
        cluster.world().clock.sleep_micros(1000);
    }
    let second = cluster.wait_any(soon(&cluster)).unwrap();
    assert!(second.is_ready() && first.ended().is_some());
    assert!(changes.load(Ordering::SeqCst) >= 2, "ready and lost are told");
    cluster.close();
    assert_eq!(second.ended(), Some(CallError::Closed));
    assert!(matches!(cluster.route_to_any(0), NodeRoute::Unknown));
}

/// The connection to where it was ends, and says so to a cluster that must not be locked then.
#[test]
fn a_node_that_has_moved_to_another_address_is_left_without_holding_anybody_up() {
    let node = node();
    let cluster = Cluster::new(&World::real(), &quick(node.address()));
    cluster.want("events");
    let deadline = soon(&cluster);
    cluster.wait_any(deadline).unwrap();
    while cluster.metadata().leader("events", 0).is_none() {
        cluster.tend(cluster.now_us());
        std::thread::yield_now();
        assert!(cluster.now_us() < deadline);
    }
    // Nobody else has this connection.
    drop(cluster.wait_node(NodeId(3), deadline).unwrap());
    let broker = MetadataResponseBroker::default().with_node_id(3).with_port(1);
    let answer =
        MetadataResponseData::default().with_brokers(vec![broker.with_host(text("moved"))]);
    let (done, is_done) = std::sync::mpsc::channel();
    let take = move || {
        cluster.take_metadata(Metadata::read(&answer, &Metadata::default(), 1));
        drop(done.send(cluster.metadata().nodes.get(&NodeId(3)).cloned()));
    };
    drop(World::real().spawn.spawn("moves", Box::new(take)));
    let address = is_done.recv_timeout(Duration::from_secs(20)).expect("it is not held up");
    assert_eq!(address.as_deref(), Some("moved:1"));
}

/// What was known of it is from before: nothing else would correct it.
#[test]
fn a_coordinator_that_has_moved_is_looked_for_where_it_is_now() {
    let (before, now) = (node(), node());
    let cluster = Cluster::new(&World::real(), &quick(now.address()));
    let learn = |at: &FakeNode| {
        let (host, port) = at.address().rsplit_once(':').unwrap();
        cluster.learn(NodeId(3), host, port.parse().unwrap());
    };
    learn(&before);
    let first = cluster.wait_node(NodeId(3), soon(&cluster)).unwrap();
    learn(&before);
    assert_eq!(first.ended(), None, "it is where it was");
    learn(&now);
    assert_eq!(first.ended(), Some(CallError::Closed));
    let second = cluster.wait_node(NodeId(3), soon(&cluster)).unwrap();
    assert_eq!(second.address(), now.address());
    // Nor is the rest of an address that nobody is at waited for.
    drop(before);
    cluster.learn(NodeId(3), "127.0.0.1", 1);
    cluster.wait_node(NodeId(3), soon(&cluster)).err().unwrap();
    learn(&now);
    assert!(cluster.wait_node(NodeId(3), soon(&cluster)).is_ok());
}

#[test]
fn a_node_that_does_not_answer_in_time_is_named_with_its_own_address() {
    let node = node();
    let silent = FakeNode::start(|_, _| Reply::Nothing);
    let cluster = Cluster::new(&World::real(), &quick(node.address()));
    let (host, port) = silent.address().rsplit_once(':').unwrap();
    cluster.learn(NodeId(5), host, port.parse().unwrap());
    let error = cluster.wait_node(NodeId(5), cluster.now_us() + 50_000).err().unwrap();
    let CallError::Unreachable { address, .. } = error else { panic!("{error:?}") };
    assert_eq!(address, silent.address());
    let error = cluster.wait_node(NodeId(6), cluster.now_us()).err().unwrap();
    let CallError::Unreachable { address, .. } = error else { panic!("{error:?}") };
    assert_eq!(address, node.address(), "nothing is known of it");
}
