//! Any bytes as a value under any key of the coordinator: a record that encodes to what it was read
//! from, or a refusal; a view, a registration and an election that end; and bounded memory.

#![no_main]

use tidemill_coord::{
    Key, KeyValue, LeaseId, Listing, Revision,
    membership::{
        NodeAddresses, NodeProfile, NodeRecord, NodeRole,
        controller::elect,
        record::{
            ClusterRecord, ControllerRecord, IncarnationsRecord, LiveRecord, RECORD_BYTES_MAX,
            RecordKey, decode, encode,
        },
        registration::{RegistrationLease, RegistrationTerms, leave, next_step},
        view::ViewFold,
    },
};
use tidemill_types::{ClusterId, Incarnation, NodeId};

/// The memory that reading one listing may take: a few copies of its values, parsed.
const BYTES_MAX: usize = 64 * RECORD_BYTES_MAX;

macro_rules! round {
    ($bytes:ident: $($record:ident)*) => {$(
        if let Ok(record) = decode::<$record>($bytes) {
            assert_eq!(decode::<$record>(&encode(&record)), Ok(record));
        }
    )*};
}

fn cluster() -> ClusterId {
    "orders".parse().expect("an id")
}

fn key(choice: u8) -> Key {
    let node = NodeId(1);
    match choice % 6 {
        0 => RecordKey::Cluster.key(),
        1 => RecordKey::Incarnations.key(),
        2 => RecordKey::Controller.key(),
        3 => RecordKey::Node(node).key(),
        4 => RecordKey::Live(node).key(),
        _ => Key::new("other").expect("a short name"),
    }
}

/// A table of a cluster with one node, with one value replaced.
fn listing(choice: u8, value: &[u8]) -> Listing {
    let record = NodeRecord {
        incarnation: Incarnation(1),
        addresses: NodeAddresses::default(),
        roles: [NodeRole::Broker].into(),
        rack: None,
        build: "fuzz".into(),
        desired: Default::default(),
        is_stopped: false,
    };
    let (node, incarnation) = (NodeId(1), Incarnation(1));
    let values = [
        encode(&ClusterRecord { id: cluster() }),
        encode(&IncarnationsRecord { last: incarnation }),
        encode(&ControllerRecord { node, incarnation }),
        encode(&record),
        encode(&LiveRecord { incarnation }),
        Vec::new(),
    ];
    let entry = |(at, known): (usize, Vec<u8>)| KeyValue {
        key: key(at as u8),
        value: if usize::from(choice % 6) == at { value.to_vec() } else { known },
        modified: Revision(1),
        lease: (at == 4).then_some(LeaseId(1)),
    };
    let entries = values.into_iter().enumerate().map(entry).collect();
    Listing { revision: Revision(1), entries }
}

fn read(choice: u8, value: &[u8]) {
    round!(value: ClusterRecord IncarnationsRecord NodeRecord LiveRecord ControllerRecord);
    let listing = listing(choice, value);
    let mut fold = ViewFold::new(cluster());
    if fold.reset(&listing).is_ok() {
        let view = fold.view();
        let _checked = view.check(NodeId(1), Incarnation(1));
        let _elected = elect(view, NodeId(1), Incarnation(1), LeaseId(1));
    }
    let profile = NodeProfile {
        node: NodeId(1),
        addresses: NodeAddresses::default(),
        roles: [NodeRole::Broker].into(),
        rack: None,
        build: "fuzz".into(),
        cluster: None,
        last_incarnation: Incarnation(1),
        can_create: true,
    };
    let new_cluster = cluster();
    for lease in [
        RegistrationLease::Alone,
        RegistrationLease::Wanted,
        RegistrationLease::Granted(LeaseId(2)),
    ] {
        let known = Revision(1);
        let terms =
            RegistrationTerms { profile: &profile, lease, known, new_cluster: &new_cluster };
        if let Err(error) = next_step(&listing, &terms) {
            assert!(!error.to_string().is_empty());
        }
    }
    let _left = leave(&listing, NodeId(1), Incarnation(1));
}

fn seeds() -> Vec<Vec<u8>> {
    let values = listing(5, b"").entries.into_iter().enumerate();
    values.map(|(at, entry)| [&[at as u8], entry.value.as_slice()].concat()).collect()
}

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("membership", seeds()),
    |bytes: &[u8]| {
        let Some((choice, value)) = bytes.split_first() else { return };
        tidemill_fuzz::within(BYTES_MAX.max(64 * value.len()), || read(*choice, value));
    }
);
