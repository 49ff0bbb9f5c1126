//! Chunks that Kafka's clients made, byte for byte as a broker of Apache Kafka 4.3.1 stored them:
//! librdkafka 2.16.1, kafka-python 3.0.12, franz-go 1.22.2 and the Java client 4.3.1, each with every
//! codec, and two markers of the broker's. They are in `golden/chunks.txt`, one a line in hex.

use super::{testing::*, *};
use crate::chunk::{CHUNK_HEAD_BYTES, ChunkHead, LeaderEpoch, stamp};

/// Each client, codec or kind of marker, and chunk.
fn golden() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let byte = |pair: &str| u8::from_str_radix(pair, 16).expect("hex");
    let line = |line: &'static str| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("three words");
        let (client, what, hex) = (word(), word(), word());
        let bytes = (0..hex.len() / 2).map(|at| byte(&hex[2 * at..2 * at + 2])).collect();
        (client, what, bytes)
    };
    include_str!("golden/chunks.txt").lines().map(line).collect()
}

/// The records that every client was given. kafka-python has no headers without a value.
fn sent(client: &str) -> Vec<Owned> {
    let no_value = (client == "kafka-python").then(Vec::new);
    let record = |index: i64| Owned {
        timestamp_ms: if index == 9 { 1_600_000_000_000 } else { 1_700_000_000_000 + 7 * index },
        key: (index % 3 != 0).then(|| format!("key-{index}").into_bytes()),
        value: match index {
            5 => None,
            6 => Some(Vec::new()),
            _ => Some(format!("value {index} ").repeat(8).into_bytes()),
        },
        headers: match index % 4 {
            1 => vec![
                (b"trace".to_vec(), Some(format!("id-{index}").into_bytes())),
                (b"trace".to_vec(), no_value.clone()),
            ],
            _ => Vec::new(),
        },
    };
    (0..24).map(record).collect()
}

fn codec(name: &str) -> Option<Codec> {
    CODECS.into_iter().find(|codec| format!("{codec:?}").eq_ignore_ascii_case(name))
}

#[test]
fn what_every_client_sent_is_accepted_and_read() {
    let mut seen = 0;
    for (client, what, chunk) in golden() {
        let Some(codec) = codec(what) else { continue };
        let head = ChunkHead::check(&chunk).unwrap();
        assert_eq!(head.codec(), Ok(codec), "{client}");
        let limit = RecordsLimit { inflated_bytes_max: 2013 - 61, record_bytes_max: 200 };
        let looked = check_records(&chunk, &head, limit).unwrap();
        assert_eq!(looked.plain_bytes, 2013 - 61, "{client} {what}");
        assert_eq!(looked.max_timestamp_ms, head.max_timestamp_ms, "{client} {what}");
        assert_eq!(read(&chunk).unwrap(), sent(client), "{client} {what}");
        seen += 1;
    }
    assert_eq!(seen, 4 * 5);
}

#[test]
fn we_make_the_same_bytes() {
    for (client, _, theirs) in golden().into_iter().filter(|(_, what, _)| *what == "none") {
        let head = ChunkHead::check(&theirs).unwrap();
        let mut builder = ChunkBuilder::new(Compression::NONE);
        builder.set_origin(Origin {
            producer_id: head.producer_id,
            producer_epoch: head.producer_epoch,
            base_sequence: head.base_sequence,
            is_transactional: false,
        });
        sent(client).iter().for_each(|it| assert!(it.append_to(&mut builder) < 24));
        let mut ours = builder.finish().unwrap();
        stamp(&mut ours, head.base_offset, LeaderEpoch(head.leader_epoch));
        assert_eq!(ours, theirs, "{client}");
    }
}

#[test]
fn we_make_the_same_markers() {
    for (_, what, mut theirs) in golden().into_iter().filter(|(client, ..)| *client == "broker") {
        let head = ChunkHead::check(&theirs).unwrap();
        assert!(head.is_control() && head.is_transactional());
        let marker = read_control(&theirs).unwrap();
        assert_eq!(marker.is_commit, what == "commit");
        assert_eq!(marker.producer_id, head.producer_id);
        let ours = control_marker(&marker);
        stamp(&mut theirs, 0, LeaderEpoch(-1));
        assert_eq!(ours, theirs, "{what}");
    }
}

#[test]
fn headers_keep_their_order_and_their_doubles() {
    let headers = vec![
        (b"a".to_vec(), Some(b"1".to_vec())),
        (b"b".to_vec(), None),
        (b"a".to_vec(), Some(Vec::new())),
        (Vec::new(), Some(b"4".to_vec())),
    ];
    let record = Owned { headers: headers.clone(), ..Owned::value(b"v") };
    let chunk = build(Compression::NONE, &[record]);
    let head = ChunkHead::check(&chunk).unwrap();
    let record = Records::new(&head, &chunk[CHUNK_HEAD_BYTES..]).next().unwrap().unwrap();
    assert_eq!(record.headers.len(), 4);
    let keys: Vec<&[u8]> = record.headers.map(|it| it.key).collect();
    assert_eq!(keys, [&b"a"[..], b"b", b"a", b""]);
    assert_eq!(record.headers.last_of(b"a"), Some(Header { key: b"a", value: Some(b"") }));
    assert_eq!(record.headers.last_of(b"b"), Some(Header { key: b"b", value: None }));
    assert_eq!(record.headers.last_of(b"c"), None);
}

#[test]
fn headers_are_the_same_however_their_lengths_are_written() {
    let head = ChunkHead::check(&build(Compression::NONE, &lines(1))).unwrap();
    let read = |bytes| Records::new(&head, bytes).next().unwrap().unwrap();
    let short = read(&[16, 0, 0, 0, 1, 1, 2, 0, 1]);
    let long = read(&[18, 0, 0, 0, 1, 1, 2, 0x80, 0, 1]);
    let other = read(&[16, 0, 0, 0, 1, 1, 2, 0, 0]);
    assert_eq!(short, long);
    assert_ne!(short, other);
}
