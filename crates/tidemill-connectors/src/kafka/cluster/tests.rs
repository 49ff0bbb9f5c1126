//! What is said of a broker that is not there.

use super::*;

#[test]
fn a_broker_that_is_not_where_its_cluster_says_is_told_from_a_cluster_that_is_away() {
    let (address, reason) = ("kafka-2:9092".to_owned(), "refused".to_owned());
    let refused = |error| refused("kafka-1:9092, kafka-2:9092", "t", &AdminError::Call(error));
    let (at, why) = (address.clone(), reason.clone());
    let error = refused(CallError::Unreachable { address: at, reason: why });
    let said = "no broker of the cluster of topic `t` answers (kafka-2:9092: refused)";
    assert!(error.message.starts_with(said), "{error}");
    assert_eq!(error.kind, ConnectorErrorKind::Away);
    // That another one answers is known, also of one that the job names.
    let error = refused(CallError::NodeAway { address, reason });
    assert_eq!(error.kind, ConnectorErrorKind::Away);
    assert!(error.message.contains("`kafka-2:9092`: refused"), "{error}");
    assert!(error.message.contains("`advertised.listeners`"), "{error}");
    assert!(!error.message.contains("no broker"), "{error}");
}

#[test]
fn an_ipv6_address_stands_in_brackets() {
    let sim = World::simulated(1);
    for good in ["[::1]:9092", "kafka-1:9092, [2001:db8::7]:9093"] {
        assert!(client(&sim.world, good).is_ok(), "{good}");
    }
    for bad in ["::1:9092", "[::1]", "kafka-1:9092,2001:db8::7:9093", "kafka-1", "kafka-1:0"] {
        let error = client(&sim.world, bad).err().unwrap_or_else(|| panic!("{bad} is taken"));
        assert!(error.message.contains("IPv6 address in brackets (`[::1]:9092`)"), "{error}");
    }
}
