//! What is said of a broker that is not there.

use super::*;

#[test]
fn a_broker_that_is_not_where_its_cluster_says_is_no_matter_of_those_that_are_named() {
    let refused = |address: &str| {
        let (address, reason) = (address.to_owned(), "not found".to_owned());
        let error = AdminError::Call(CallError::Unreachable { address, reason });
        refused("kafka-1:9092, kafka-2:9092", "t", &error)
    };
    for error in ["kafka-2:9092", "kafka-1:9092,kafka-2:9092"].map(refused) {
        let said = "no broker of the cluster of topic `t` answers (kafka-";
        assert!(error.message.starts_with(said), "{error}");
    }
    let error = refused("inside:9092");
    assert_eq!(error.kind, ConnectorErrorKind::Away);
    assert!(error.message.contains("`inside:9092`: not found"), "{error}");
    assert!(error.message.contains("`advertised.listeners`"), "{error}");
    assert!(!error.message.contains("no broker"), "{error}");
}
