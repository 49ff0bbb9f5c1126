//! Both machines against each other, and against records that were changed on the way.

use super::*;
use proptest::prelude::*;
use tidemill_wire::cluster::{HandshakeHead, RECORD_HEAD_BYTES};

fn identity(node: i32, cluster: &str) -> Identity {
    Identity {
        cluster: cluster.parse().expect("it is an id"),
        node: NodeId(node),
        incarnation: Incarnation(10 + node.unsigned_abs()),
        version: "test".to_owned(),
    }
}

fn key() -> ClusterKey {
    ClusterKey::parse(b"correct horse battery staple").expect("it is a key")
}

/// A record as a socket would deliver it.
fn received(bytes: &[u8]) -> Option<ReceivedRecord> {
    let head = HandshakeHead::decode(bytes.first_chunk::<RECORD_HEAD_BYTES>()?).ok()?;
    let end = RECORD_HEAD_BYTES + head.body_bytes;
    Some(ReceivedRecord { kind: head.kind, bytes: bytes.get(..end)?.to_vec() })
}

/// The outcome of a handshake on both sides; none of a side that waits for ever.
struct Shaken {
    caller: Option<Result<ProvenConnection, HandshakeError>>,
    port: Option<Result<ProvenConnection, PortRefusal>>,
}

impl Shaken {
    fn caller_is_proven(&self) -> bool {
        matches!(self.caller, Some(Ok(_)))
    }
}

/// A whole handshake. `change` gets each record before it arrives, numbered from 0.
fn shake(
    nonces: (u8, u8),
    keys: (&ClusterKey, &ClusterKey),
    change: impl Fn(usize, Vec<u8>) -> Vec<u8>,
) -> Shaken {
    let deliver = |number, bytes| received(&change(number, bytes));
    let (mut caller, hello) =
        CallerHandshake::begin(identity(1, "a"), NodeId(2), [nonces.0; NONCE_BYTES]);
    let Some(hello) = deliver(0, hello) else { return Shaken { caller: None, port: None } };
    let (port, answer) =
        match PortHandshake::on_hello(identity(2, "a"), [nonces.1; NONCE_BYTES], &hello) {
            Ok(both) => both,
            Err(refusal) => {
                let record = refusal.record.clone().and_then(|it| deliver(1, it));
                let caller = record.map(|it| caller.on_hello(keys.0, &it).map(|_| ()));
                let caller = caller.and_then(Result::err).map(Err);
                return Shaken { caller, port: Some(Err(refusal)) };
            }
        };
    let Some(answer) = deliver(1, answer) else { return Shaken { caller: None, port: None } };
    let proof = match caller.on_hello(keys.0, &answer) {
        Ok(proof) => proof,
        Err(error) => return Shaken { caller: Some(Err(error)), port: None },
    };
    let Some(proof) = deliver(2, proof) else { return Shaken { caller: None, port: None } };
    let (port, verdict) = match port.on_proof(keys.1, &proof, |_, _| Ok(())) {
        Ok((proven, verdict)) => (Ok(proven), Some(verdict)),
        Err(refusal) => {
            let record = refusal.record.clone();
            (Err(refusal), record)
        }
    };
    let verdict = verdict.and_then(|it| deliver(3, it));
    let caller = verdict.map(|it| caller.on_verdict(keys.0, &it));
    Shaken { caller, port: Some(port) }
}

#[test]
fn both_sides_end_with_the_same_keys() {
    let shaken = shake((1, 2), (&key(), &key()), |_, record| record);
    let caller = shaken.caller.expect("there is a verdict").expect("it is a welcome");
    let port = shaken.port.expect("it decides").expect("it lets the caller in");
    assert_eq!((caller.peer.node, port.peer.node), (NodeId(2), NodeId(1)));
    assert_eq!((caller.version, port.version), (1, 1));
    let head = tidemill_wire::cluster::ClusterFrameHead::bare(
        tidemill_wire::cluster::ClusterFrame::Heartbeat,
        Incarnation(1),
    );
    let (sealed, _) = caller.sealer().seal(&head, &mut []);
    assert_eq!(port.opener().open_head(&sealed), Ok(head));
    // The frame of one side is not one of the other.
    assert!(caller.opener().open_head(&sealed).is_err());
}

#[test]
fn a_recorded_handshake_is_of_no_use() {
    let mut records = Vec::new();
    {
        let keep = std::cell::RefCell::new(&mut records);
        shake((1, 2), (&key(), &key()), |_, record| {
            keep.borrow_mut().push(record.clone());
            record
        });
    }
    // The same caller's records against a port that draws another number.
    let replayed = shake((1, 3), (&key(), &key()), |number, record| match number {
        0 | 2 => records[number].clone(),
        _ => record,
    });
    let refusal = replayed.port.expect("it decides").expect_err("the proof is old");
    assert_eq!(refusal.error, HandshakeError::Refuses(Refusal::Key));
}

#[test]
fn a_proof_sent_back_proves_nothing() {
    // An impostor without the key sends the caller's own records back.
    let (mut caller, hello) = CallerHandshake::begin(identity(1, "a"), NodeId(1), [1; 32]);
    let mut echo = hello.clone();
    echo[4] = 2;
    let proof = caller.on_hello(&key(), &received(&echo).expect("a record")).expect("a hello");
    let tag = &proof[RECORD_HEAD_BYTES..];
    let verdict = HandshakeRecord::Verdict.encode(&[tag, &[0]].concat());
    let outcome = caller.on_verdict(&key(), &received(&verdict).expect("a record"));
    assert!(matches!(outcome, Err(HandshakeError::Unproven)));
}

#[test]
fn a_fence_without_a_proof_is_not_believed() {
    let newest = Incarnation(99);
    for refusal in [Refusal::Fenced { newest }, Refusal::LeaseEnded, Refusal::Unknown] {
        let forged = PortRefusal::public(refusal).record.expect("a record");
        // In place of the port's hello, and in place of its verdict.
        for place in [1, 3] {
            let shaken = shake((1, 2), (&key(), &key()), |number, record| {
                if number == place { forged.clone() } else { record }
            });
            let error = shaken.caller.expect("it decides").expect_err("it is forged");
            assert_eq!(error, HandshakeError::Unproven);
        }
    }
}

#[test]
fn a_key_that_differs_is_told_to_both() {
    let other = ClusterKey::parse(b"another key of sixteen bytes").expect("it is a key");
    let shaken = shake((1, 2), (&other, &key()), |_, record| record);
    let refusal = shaken.port.expect("it decides").expect_err("the keys differ");
    assert_eq!(refusal.error, HandshakeError::Refuses(Refusal::Key));
    let error = shaken.caller.expect("it is told").expect_err("the keys differ");
    assert_eq!(error, HandshakeError::Refused(Refusal::Key));
}

#[test]
fn a_node_of_another_version_is_told_which_are_spoken() {
    let shaken = shake((1, 2), (&key(), &key()), |number, mut record| {
        if number == 0 {
            record[RECORD_HEAD_BYTES..][..2].copy_from_slice(&[200, 201]);
        }
        record
    });
    let refusal = Refusal::Version(VersionRange::OWN);
    let port = shaken.port.expect("it decides").expect_err("no version is common");
    assert_eq!(port.error, HandshakeError::Refuses(refusal.clone()));
    let caller = shaken.caller.expect("it is told").expect_err("no version is common");
    assert_eq!(caller, HandshakeError::Refused(refusal));
    assert!(caller.to_string().contains("version 1"), "{caller}");
}

#[test]
fn records_out_of_turn_are_refused() {
    for (place, kind) in [(0, 2), (0, 3), (0, 4), (1, 1), (1, 3), (2, 1), (2, 4), (3, 2), (3, 3)] {
        let shaken = shake((1, 2), (&key(), &key()), |number, mut record| {
            if number == place {
                record[4] = kind;
            }
            record
        });
        assert!(!shaken.caller_is_proven(), "record {place} as kind {kind}");
    }
}

proptest! {
    #[test]
    fn a_caller_trusts_no_handshake_that_was_changed(
        place in 0..4_usize,
        at in any::<prop::sample::Index>(),
        bits in 1..=255_u8,
        is_cut in any::<bool>(),
    ) {
        let shaken = shake((1, 2), (&key(), &key()), |number, mut record| {
            if number == place {
                let at = at.index(record.len());
                if is_cut { record.truncate(at) } else { record[at] ^= bits }
            }
            record
        });
        prop_assert!(!shaken.caller_is_proven());
        // A port lets the caller in only if everything was as the caller sent and saw it.
        if place < 3 {
            prop_assert!(!matches!(shaken.port, Some(Ok(_))));
        }
    }

    #[test]
    fn any_bytes_are_refused_by_both_sides(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for kind in 1..=4 {
            let body = &bytes[..bytes.len().min(1_000)];
            let mut bytes = HandshakeRecord::CallerHello.encode(body);
            bytes[4] = kind;
            let record = received(&bytes).expect("it has a head");
            drop(PortHandshake::on_hello(identity(2, "a"), [2; 32], &record));
            let (mut caller, _) = CallerHandshake::begin(identity(1, "a"), NodeId(2), [1; 32]);
            drop(caller.on_hello(&key(), &record));
            prop_assert!(caller.on_verdict(&key(), &record).is_err());
        }
    }
}
