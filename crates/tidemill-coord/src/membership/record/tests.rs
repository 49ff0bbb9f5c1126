//! Records: golden bytes, bounds, versions and keys.

use super::*;

fn record() -> NodeRecord {
    NodeRecord {
        incarnation: Incarnation(17),
        addresses: NodeAddresses {
            kafka: Some("10.0.0.3:9092".into()),
            http: None,
            cluster: Some("[2001:db8::3]:7088".into()),
        },
        roles: [NodeRole::Worker, NodeRole::Broker].into(),
        rack: Some("b".into()),
        build: "0.1.0".into(),
        desired: DesiredState::Draining,
        is_stopped: false,
    }
}

#[test]
fn records_have_the_bytes_of_version_1() {
    let golden = r#"{"version":1,"incarnation":17,"addresses":{"kafka":"10.0.0.3:9092","http":null,"cluster":"[2001:db8::3]:7088"},"roles":["broker","worker"],"rack":"b","build":"0.1.0","desired":"draining","is_stopped":false}"#;
    assert_eq!(String::from_utf8(encode(&record())).expect("text"), golden);
    assert_eq!(decode::<NodeRecord>(golden.as_bytes()), Ok(record()));
    let live = encode(&LiveRecord { incarnation: Incarnation(17) });
    assert_eq!(live, br#"{"version":1,"incarnation":17}"#);
    let counter = encode(&IncarnationsRecord { last: Incarnation(17) });
    assert_eq!(counter, br#"{"version":1,"last":17}"#);
    let controller = ControllerRecord { node: NodeId(3), incarnation: Incarnation(17) };
    assert_eq!(encode(&controller), br#"{"version":1,"node":3,"incarnation":17}"#);
    let cluster = ClusterRecord { id: "q1pXk0mBT7Wc3nRzVw5uYg".parse().expect("an id") };
    assert_eq!(encode(&cluster), br#"{"version":1,"id":"q1pXk0mBT7Wc3nRzVw5uYg"}"#);
}

#[test]
fn a_later_version_is_refused_whatever_it_holds() {
    let error = decode::<LiveRecord>(br#"{"version":2,"leases":[1,2]}"#);
    assert_eq!(error, Err(RecordError::Version(2)));
    assert!(RecordError::Version(2).to_string().contains("upgrade"));
}

#[test]
fn texts_and_lengths_have_bounds() {
    let refused = |change: fn(&mut NodeRecord)| {
        let mut record = record();
        change(&mut record);
        assert!(decode::<NodeRecord>(&encode(&record)).is_err(), "{record:?}");
    };
    refused(|it| it.rack = Some(String::new()));
    refused(|it| it.rack = Some("a\nb".into()));
    refused(|it| it.build = "x".repeat(TEXT_BYTES_MAX + 1));
    refused(|it| it.addresses.kafka = Some("somewhere".into()));
    refused(|it| it.addresses.cluster = Some(":7088".into()));
    let long = vec![b' '; RECORD_BYTES_MAX + 1];
    assert_eq!(decode::<LiveRecord>(&long), Err(RecordError::TooLong(long.len())));
    let deep = format!("{{\"version\":{}", "[".repeat(RECORD_BYTES_MAX - 20));
    assert!(decode::<LiveRecord>(deep.as_bytes()).is_err());
    assert!(decode::<ControllerRecord>(br#"{"version":1,"node":-1,"incarnation":1}"#).is_err());
}

#[test]
fn a_place_has_one_key() {
    let places = [
        RecordKey::Cluster,
        RecordKey::Incarnations,
        RecordKey::Controller,
        RecordKey::Node(NodeId(0)),
        RecordKey::Live(NodeId(i32::MAX)),
    ];
    for place in places {
        assert_eq!(RecordKey::of(&place.key()), Some(place));
    }
    for other in ["nodes/", "nodes/01", "nodes/+1", "nodes/-1", "nodes/1/x", "live/a", "clusters"] {
        let key = Key::new(other).expect("a short name");
        assert_eq!(RecordKey::of(&key), None, "{other}");
    }
}
