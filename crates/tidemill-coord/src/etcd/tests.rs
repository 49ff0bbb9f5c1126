//! The contract against a real etcd, whose address is in `TIDEMILL_ETCD`: `tests/coord/run.sh`.

use super::*;
use crate::contract::{Harness, contract};

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
