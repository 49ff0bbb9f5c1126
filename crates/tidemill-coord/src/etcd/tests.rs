//! The contract against a real etcd, whose address is in `TIDEMILL_ETCD`: `tests/coord/run.sh`.

use super::*;
use crate::{
    contract::{Harness, contract},
    membership::{
        ClusterMember, FenceError, MemberOptions, MemberStatus, NodeAddresses, NodeProfile,
        record::RecordKey,
    },
};
use tidemill_types::{Incarnation, NodeId};

fn coordinator() -> EtcdCoordinator {
    let addresses = std::env::var("TIDEMILL_ETCD").expect("TIDEMILL_ETCD names a running etcd");
    let options = EtcdOptions::new(&addresses).expect("an address");
    EtcdCoordinator::new(&World::real(), options).expect("no TLS")
}

fn harness(name: &str) -> Harness {
    let world = World::real();
    let compacting = coordinator();
    let prefix = format!("{name}-{:x}/", world.seed);
    Harness {
        coordinator: Box::new(coordinator()),
        other: Box::new(coordinator()),
        pass: Box::new(move |span| world.clock.sleep_micros(span.as_micros() as u64)),
        compact: Box::new(move |revision| {
            let request = serde_json::json!({"revision": revision.0.to_string(), "physical": true});
            let _answer: serde_json::Value =
                compacting.gateway.change("kv/compaction", &request, None).expect("etcd compacts");
        }),
        prefix,
    }
}

contract!(harness);

#[test]
fn an_address_without_etcd_is_passed_over() {
    let addresses = std::env::var("TIDEMILL_ETCD").expect("TIDEMILL_ETCD names a running etcd");
    let options = EtcdOptions::new(&format!("http://127.0.0.1:1,{addresses}")).expect("addresses");
    let coordinator = EtcdCoordinator::new(&World::real(), options).expect("no TLS");
    coordinator.list("").expect("the second address answers");
}

#[test]
fn no_etcd_is_unavailable_with_every_address() {
    let options = EtcdOptions::new("http://127.0.0.1:1,http://127.0.0.1:2").expect("addresses");
    let coordinator = EtcdCoordinator::new(&World::real(), options).expect("no TLS");
    let error = coordinator.list("").expect_err("nobody is there");
    assert!(error.is_retriable());
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1") && text.contains("127.0.0.1:2"), "{text}");
}

/// A node of a cluster in etcd, with a lease that is short enough to wait for.
fn join(node: i32) -> ClusterMember {
    let profile = NodeProfile {
        node: NodeId(node),
        addresses: NodeAddresses::default(),
        roles: [].into(),
        rack: None,
        build: "test".into(),
        cluster: None,
        last_incarnation: Incarnation(0),
        can_create: true,
    };
    let options = MemberOptions { lease: Duration::from_secs(3), ..MemberOptions::new(profile) };
    ClusterMember::start(&World::real(), Arc::new(coordinator()), options).expect("joins")
}

/// Waits for a view in which a condition holds.
fn wait_for(member: &ClusterMember, expected: &str, holds: impl Fn() -> bool) {
    for _ in 0..60 {
        if holds() {
            return;
        }
        let seen = member.view().expect("it has joined").revision;
        let _newer = member.wait_for_view(seen, Duration::from_millis(500));
    }
    panic!("never: {expected}");
}

/// Other tests compact this etcd meanwhile, so watches have to begin anew now and then.
#[test]
fn nodes_join_are_fenced_and_leave() {
    let (one, two) = (join(1), join(2));
    let registered = |member: &ClusterMember| {
        member.wait_joined(Duration::from_secs(30)).expect("may join").expect("has joined")
    };
    let (first, second) = (registered(&one), registered(&two));
    assert_eq!(first.cluster, second.cluster);
    wait_for(&two, "both are live and one leads", || {
        let view = two.view().expect("it has joined");
        view.live().count() == 2 && view.controller.is_some()
    });
    // Its lease ends behind its back.
    let live = RecordKey::Live(NodeId(1)).key();
    let holder = coordinator().get(&live).expect("answers").expect("it is live");
    coordinator().revoke_lease(holder.lease.expect("it has a lease")).expect("answers");
    wait_for(&two, "it is there as another incarnation", || {
        let newer = registered(&one).incarnation;
        newer > first.incarnation && two.check(NodeId(1), newer).is_ok()
    });
    let refused = two.check(NodeId(1), first.incarnation);
    assert!(matches!(refused, Err(FenceError::Superseded { .. })), "{refused:?}");
    let before = registered(&one).incarnation;
    one.leave();
    assert_eq!(one.status(), MemberStatus::Left);
    wait_for(&two, "it has left", || {
        matches!(two.check(NodeId(1), before), Err(FenceError::LeaseEnded { .. }))
    });
    two.leave();
}
