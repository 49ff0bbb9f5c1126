//! Round trips, golden bytes, and bytes that are no message.

use super::*;
use proptest::prelude::*;
use tidemill_types::{ClusterId, Incarnation, NodeId};

fn cluster() -> ClusterId {
    "tide-pool".parse().expect("it is an id")
}

fn hello() -> ClusterHello {
    ClusterHello {
        versions: VersionRange { oldest: 1, newest: 3 },
        node: NodeId(2),
        expected: NodeId(3),
        incarnation: Incarnation(258),
        nonce: [0xab; NONCE_BYTES],
        cluster: cluster(),
        build: "0.1.0".to_owned(),
    }
}

#[test]
fn a_hello_has_its_golden_bytes() {
    let mut expected = b"TMCP\x01\x00\x3e\x00\x01\x03\x02\0\0\0\x03\0\0\0\x02\x01\0\0".to_vec();
    expected.extend([0xab; 32]);
    expected.extend(b"\x09tide-pool\x050.1.0");
    assert_eq!(HandshakeRecord::CallerHello.encode(&hello().encode()), expected);
}

#[test]
fn a_frame_head_has_its_golden_bytes() {
    let head = ClusterFrameHead {
        frame: ClusterFrame::Request,
        kind: 0x0102,
        correlation: 7,
        incarnation: Incarnation(9),
        timeout_ms: 1_000,
        body_bytes: 0x0304,
    };
    let expected = b"\x04\x03\0\0\x01\0\x02\x01\x07\0\0\0\0\0\0\0\x09\0\0\0\xe8\x03\0\0";
    assert_eq!(&head.encode(), expected);
    assert_eq!(ClusterFrameHead::decode(expected), Ok(head));
}

#[test]
fn later_versions_may_add_fields_to_a_hello() {
    let mut body = hello().encode();
    body.extend(b"more");
    assert_eq!(ClusterHello::decode(&body), Ok(hello()));
    for end in 0..hello().encode().len() {
        assert!(ClusterHello::decode(&body[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn the_newest_common_version_is_spoken() {
    let range = |oldest, newest| VersionRange { oldest, newest };
    assert_eq!(range(1, 3).common(range(2, 5)), Some(3));
    assert_eq!(range(2, 5).common(range(1, 3)), Some(3));
    assert_eq!(range(1, 1).common(range(1, 1)), Some(1));
    assert_eq!(range(1, 2).common(range(3, 4)), None);
}

#[test]
fn other_protocols_and_long_records_are_refused() {
    let error = HandshakeHead::decode(b"GET / HT");
    assert_eq!(error, Err(ClusterDecodeError::Magic(*b"GET ")));
    let error = HandshakeHead::decode(b"TMCP\x01\x00\x01\x04");
    assert_eq!(error, Err(ClusterDecodeError::TooLarge { bytes: 1_025, bytes_max: 1_024 }));
}

#[test]
fn texts_from_outside_carry_no_control_characters() {
    let build = "1.0\r\nforged line\u{1b}[31m".to_owned();
    let read = ClusterHello::decode(&ClusterHello { build, ..hello() }.encode());
    assert_eq!(read.expect("it is one").build, "1.0forged line[31m");
    let long = Refusal::Failed("ä".repeat(1_000));
    assert_eq!(Refusal::decode(&long.encode()), Ok(Refusal::Failed("ä".repeat(127))));
}

fn any_refusal() -> impl Strategy<Value = Refusal> {
    let incarnation = any::<u32>().prop_map(Incarnation);
    prop_oneof![
        (0..9_u8, 9..20_u8)
            .prop_map(|(oldest, newest)| Refusal::Version(VersionRange { oldest, newest })),
        Just(Refusal::Cluster(cluster())),
        Just(Refusal::Key),
        Just(Refusal::Busy),
        incarnation.clone().prop_map(|newest| Refusal::Fenced { newest }),
        Just(Refusal::Unknown),
        Just(Refusal::LeaseEnded),
        incarnation.prop_map(|incarnation| Refusal::IdInUse { incarnation }),
        Just(Refusal::OwnAddress),
        any::<i32>().prop_map(|node| Refusal::WrongNode(NodeId(node))),
        any::<u16>().prop_map(Refusal::Kind),
        any::<u32>().prop_map(|bytes_max| Refusal::TooLarge { bytes_max }),
        Just(Refusal::Expired),
        "[a-z ]{0,80}".prop_map(Refusal::Failed),
        Just(Refusal::Stopping),
    ]
}

proptest! {
    #[test]
    fn refusals_and_verdicts_are_read_as_they_were_written(
        refusal in any_refusal(),
        tag in any::<[u8; TAG_BYTES]>(),
        is_welcome in any::<bool>(),
    ) {
        prop_assert_eq!(Refusal::decode(&refusal.encode()), Ok(refusal.clone()));
        prop_assert!(usize::from(refusal.code()) < Refusal::CODES);
        let refusal = (!is_welcome).then_some(refusal);
        let verdict = ClusterVerdict { tag, refusal };
        prop_assert_eq!(ClusterVerdict::decode(&verdict.encode()), Ok(verdict));
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(ClusterHello::decode(&bytes));
        drop(ClusterVerdict::decode(&bytes));
        drop(Refusal::decode(&bytes));
        if let Some(head) = bytes.first_chunk::<RECORD_HEAD_BYTES>()
            && let Ok(read) = HandshakeHead::decode(head)
        {
            prop_assert!(read.body_bytes <= HELLO_BYTES_MAX);
        }
        if let Some(head) = bytes.first_chunk::<FRAME_HEAD_BYTES>()
            && let Ok(read) = ClusterFrameHead::decode(head)
        {
            prop_assert_eq!(&read.encode(), head);
        }
    }
}
