//! Records read back; their bytes are pinned; garbage is refused.

use super::*;
use proptest::prelude::*;

fn snapshot() -> ProducersSnapshot {
    let taken = TakenRecord { first: 5, last: 6, base_offset: 300, last_offset: 301 };
    let producer = ProducerRecord {
        id: 1,
        epoch: 2,
        timestamp_ms: -1,
        idle_ms: 4,
        open: Some(300),
        taken: vec![taken],
    };
    ProducersSnapshot {
        version: PRODUCERS_VERSION,
        upto: 302,
        last_base: 300,
        last_crc: 0x1234,
        producers: vec![producer],
        ended: vec![1],
    }
}

#[test]
fn the_bytes_of_version_2_are_pinned_and_those_of_version_1_read() {
    let head = [2, 0xdc, 4, 0xd8, 4, 0xb4, 0x24];
    let producer = [1, 2, 4, 1, 4, 1, 0xd8, 4];
    let taken = [1, 10, 12, 0xd8, 4, 0xda, 4];
    let bytes = [&head[..], &producer, &taken].concat();
    assert_eq!(snapshot().encode(), [&bytes[..], &[1, 2]].concat());
    let version_1 = [&[1], &bytes[1..]].concat();
    let without = ProducersSnapshot { ended: vec![], ..snapshot() };
    assert_eq!(ProducersSnapshot::decode(&version_1), Ok(without));
    assert!(ProducersSnapshot::decode(&[&version_1[..], &[0]].concat()).is_err());
    let aborted = AbortedRecord { producer_id: 1, first: 2, stable: 300 };
    assert_eq!(aborted.encode(), [2, 4, 0xd8, 4]);
}

#[test]
fn other_versions_and_bytes_after_the_end_are_refused() {
    for version in [0, 3] {
        let other = ProducersSnapshot { version, ..snapshot() };
        assert!(ProducersSnapshot::decode(&other.encode()).is_err());
    }
    let long = [&snapshot().encode()[..], &[0]].concat();
    assert!(ProducersSnapshot::decode(&long).is_err());
}

#[test]
fn the_end_of_reserved_ids_has_nine_bytes() {
    assert_eq!(encode_ids_end(0x0102), [1, 0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(decode_ids_end(&encode_ids_end(77)), Some(77));
    assert_eq!(decode_ids_end(&encode_ids_end(-1)), None);
    assert_eq!(decode_ids_end(&[2, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    assert_eq!(decode_ids_end(&[1]), None);
}

proptest! {
    #[test]
    fn what_is_written_reads_back(upto: i64, id: i64, epoch: i16, open: Option<i64>, first: i32) {
        let mut snapshot = ProducersSnapshot { upto, ..snapshot() };
        snapshot.producers[0].id = id;
        snapshot.ended[0] = id;
        snapshot.producers[0].epoch = epoch;
        snapshot.producers[0].open = open;
        snapshot.producers[0].taken[0].first = first;
        prop_assert_eq!(ProducersSnapshot::decode(&snapshot.encode()), Ok(snapshot));
        let aborted = AbortedRecord { producer_id: id, first: upto, stable: upto };
        prop_assert_eq!(AbortedRecord::decode(&aborted.encode()), Ok(aborted));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _outcome = (ProducersSnapshot::decode(&bytes), AbortedRecord::decode(&bytes));
    }
}
