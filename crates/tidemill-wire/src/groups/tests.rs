//! Records and keys read back; their bytes are pinned; garbage is refused.

use super::*;
use proptest::prelude::*;

fn group() -> GroupRecord {
    GroupRecord {
        version: GROUP_VERSION,
        generation: 3,
        protocol_type: Some("consumer".into()),
        protocol: Some("range".into()),
        leader: None,
        since_ms: 300,
        members: vec![MemberRecord {
            id: "m".into(),
            instance: Some("i".into()),
            client_id: "c".into(),
            client_host: "h".into(),
            session_ms: 10,
            rebalance_ms: 20,
            protocols: vec![("range".into(), vec![1, 2])],
            assignment: vec![3],
        }],
    }
}

fn offset() -> OffsetRecord {
    OffsetRecord {
        version: OFFSET_VERSION,
        offset: 300,
        leader_epoch: -1,
        topic_id: [7; 16],
        since_ms: 5,
        metadata: "m".into(),
    }
}

fn key() -> OffsetKey {
    OffsetKey { group: "g".into(), topic: "ab".into(), partition: 258 }
}

#[test]
fn the_bytes_of_version_1_are_pinned() {
    let head = b"\x01\x06\x01\x08consumer\x01\x05range\x00\xac\x02".as_slice();
    let member =
        b"\x01\x01m\x01\x01i\x01c\x01h\x0a\x14\x01\x05range\x02\x01\x02\x01\x03".as_slice();
    assert_eq!(group().encode(), [head, member].concat());
    let offset_bytes = [&[1, 0xd8, 4, 1][..], &[7; 16], &[5, 1, b'm']].concat();
    assert_eq!(offset().encode(), offset_bytes);
    assert_eq!(key().encode(), b"\x00\x01gab\x00\x00\x01\x02");
    assert_eq!(key().encode_pending(1), b"\0\0\0\0\0\0\0\x01\x00\x01gab\x00\x00\x01\x02");
}

#[test]
fn other_versions_and_bytes_after_the_end_are_refused() {
    let other = GroupRecord { version: 2, ..group() };
    assert!(GroupRecord::decode(&other.encode()).is_err());
    assert!(GroupRecord::decode(&[&group().encode()[..], &[0]].concat()).is_err());
    let other = OffsetRecord { version: 2, ..offset() };
    assert!(OffsetRecord::decode(&other.encode()).is_err());
    assert!(OffsetRecord::decode(&[&offset().encode()[..], &[0]].concat()).is_err());
}

#[test]
fn offsets_of_one_group_stand_together() {
    let of = |group: &str, topic: &str| {
        OffsetKey { group: group.into(), topic: topic.into(), partition: 1 }.encode()
    };
    let mut keys = [of("a", "z"), of("ab", "a"), of("a", "b"), of("b", "a")];
    keys.sort();
    assert_eq!(keys, [of("a", "b"), of("a", "z"), of("b", "a"), of("ab", "a")]);
}

#[test]
fn topics_of_a_subscription_are_read() {
    let metadata = b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x02bc\xff\xff\xff\xff";
    assert_eq!(subscribed_topics(metadata), Some(vec!["a".to_owned(), "bc".to_owned()]));
    assert_eq!(subscribed_topics(b"\x00\x01\x7f\xff\xff\xff\x00\x01a"), None);
    assert_eq!(subscribed_topics(b"\x00\x01\xff\xff\xff\xff\x00\x01a"), None);
    assert_eq!(subscribed_topics(b"\xff\xff\x00\x00\x00\x00"), None);
    assert_eq!(subscribed_topics(b""), None);
}

/// Metadata of version 3: one topic, the given fields, and what the consumer owned before.
fn metadata(
    user_data: Option<&str>,
    owned: &[i32],
    generation: i32,
    rack: Option<&str>,
) -> Vec<u8> {
    let mut bytes = b"\x00\x03\x00\x00\x00\x01\x00\x01a".to_vec();
    let length = |it: &str| i32::try_from(it.len()).unwrap();
    bytes.extend(user_data.map_or(-1, length).to_be_bytes());
    bytes.extend(user_data.unwrap_or_default().as_bytes());
    bytes.extend(b"\x00\x00\x00\x01\x00\x01a");
    bytes.extend(i32::try_from(owned.len()).unwrap().to_be_bytes());
    owned.iter().for_each(|it| bytes.extend(it.to_be_bytes()));
    bytes.extend(generation.to_be_bytes());
    bytes.extend(rack.map_or(-1i16, |it| i16::try_from(it.len()).unwrap()).to_be_bytes());
    bytes.extend(rack.unwrap_or_default().as_bytes());
    bytes
}

#[test]
fn subscription_leaves_out_the_past_of_its_consumer() {
    let before = metadata(Some("weight=2"), &[0, 1], 7, Some("west"));
    let after = metadata(Some("weight=2"), &[], -1, Some("west"));
    assert_ne!(before, after);
    let subscription = Subscription::read(&before).unwrap();
    assert_eq!(Subscription::read(&after).as_ref(), Some(&subscription));
    assert_eq!(subscription.topics, BTreeSet::from(["a"]));
    assert_eq!(subscription.user_data, Some(&b"weight=2"[..]));
    assert_eq!(subscription.rack, Some("west"));
    assert!(subscription.later_fields.is_empty());
    for other in [
        metadata(Some("weight=3"), &[0, 1], 7, Some("west")),
        metadata(None, &[0, 1], 7, Some("west")),
        metadata(Some("weight=2"), &[0, 1], 7, Some("east")),
        metadata(Some("weight=2"), &[0, 1], 7, None),
        [before.as_slice(), b"more"].concat(),
    ] {
        let other = Subscription::read(&other).unwrap();
        assert_ne!(other, subscription);
    }
    for cut in 0..before.len() {
        assert_eq!(Subscription::read(&before[..cut]), None, "{cut}");
    }
}

#[test]
fn subscription_of_an_older_version_has_no_rack() {
    let oldest = b"\x00\x00\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff";
    let subscription = Subscription::read(oldest).unwrap();
    assert_eq!((subscription.user_data, subscription.rack), (None, None));
    let newest = metadata(None, &[], -1, None);
    assert_eq!(Subscription::read(&newest), Some(subscription));
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        generation: i32, name in ".*", offset in any::<i64>(), bytes: Vec<u8>, partition: u32,
        producer: i64,
    ) {
        let mut group = GroupRecord { generation, leader: Some(name.clone()), ..group() };
        group.members[0].assignment = bytes;
        prop_assert_eq!(GroupRecord::decode(&group.encode()), Ok(group));
        let offset = OffsetRecord { offset, metadata: name.clone(), ..self::offset() };
        prop_assert_eq!(OffsetRecord::decode(&offset.encode()), Ok(offset));
        let key = OffsetKey { group: name.clone(), topic: name, partition };
        prop_assert_eq!(OffsetKey::decode(&key.encode()), Some(key.clone()));
        let pending = OffsetKey::decode_pending(&key.encode_pending(producer));
        prop_assert_eq!(pending, Some((producer, key)));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _outcome = (
            GroupRecord::decode(&bytes),
            OffsetRecord::decode(&bytes),
            OffsetKey::decode(&bytes),
            OffsetKey::decode_pending(&bytes),
            subscribed_topics(&bytes),
            Subscription::read(&bytes),
        );
    }
}
