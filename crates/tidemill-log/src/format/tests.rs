//! Round trips, and that bytes of another place or another life are not accepted.

use super::*;
use crate::testing::batch;

fn key() -> SegmentKey {
    SegmentKey {
        stream: StreamId([7; 16]),
        streamlet: StreamletIx(3),
        group: GroupIx(9),
        index: SegmentIx(1),
        epoch: SegmentEpoch(5),
    }
}

fn reference() -> ChunkRef {
    let head = ChunkHead::check(&batch(4)).unwrap();
    ChunkRef::of(&head, head.base_offset, LeaderEpoch(head.leader_epoch), 1_700_000_000, 4096, 12)
}

#[test]
fn a_head_survives_damage_to_one_of_its_copies() {
    let head = SegmentHead { key: key(), created_us: 77, was_used: true, name: "orders".into() };
    let block = head.block();
    assert_eq!(SegmentHead::decode(&block), Some(head.clone()));
    for at in (0..400).chain(HEAD_COPY..HEAD_COPY + 400) {
        let mut bad = block.clone();
        bad[at] ^= 4;
        assert_eq!(SegmentHead::decode(&bad), Some(head.clone()), "bit flipped at {at}");
        bad[10] ^= 1;
        bad[HEAD_COPY + 10] ^= 1;
        assert!(at == 10 || at == HEAD_COPY + 10 || SegmentHead::decode(&bad).is_none());
    }
    assert_eq!(SegmentHead::decode(&block[..300]), None);
}

#[test]
fn the_later_mark_counts_and_a_torn_one_does_not() {
    let mut block = vec![0; 4096];
    assert_eq!(SegmentMark::decode(&block, &key()), None);
    let mark = |sequence| SegmentMark {
        sequence,
        position: 4096 + sequence * 64,
        first: 1,
        end: 2,
        max_timestamp_ms: 3,
        appended_s: 4,
        floor: 5,
        offsets: 1,
        sealed: sequence == 8,
        cut: sequence == 8,
    };
    for sequence in [7, 8] {
        let (at, bytes) = mark(sequence).encode(&key());
        block[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
    }
    assert_eq!(SegmentMark::decode(&block, &key()), Some(mark(8)));
    block[MARKS[0] + 20] ^= 1;
    assert_eq!(SegmentMark::decode(&block, &key()), Some(mark(7)));
    assert_eq!(
        SegmentMark::decode(&block, &SegmentKey { epoch: SegmentEpoch(6), ..key() }),
        None,
        "an earlier life"
    );
}

#[test]
fn row_21_a_reference_is_good_at_its_own_place_only() {
    let bytes = reference().encode(&key(), 8192);
    assert_eq!(ChunkRef::decode(&bytes, &key(), 8192), Some(reference()));
    assert_eq!(ChunkRef::decode(&bytes, &key(), 8200), None);
    for other in [
        SegmentKey { stream: StreamId([8; 16]), ..key() },
        SegmentKey { streamlet: StreamletIx(4), ..key() },
        SegmentKey { group: GroupIx(8), ..key() },
        SegmentKey { index: SegmentIx(0), ..key() },
        SegmentKey { epoch: SegmentEpoch(4), ..key() },
    ] {
        assert_eq!(ChunkRef::decode(&bytes, &other, 8192), None);
    }
    for bit in 0..REF_BYTES * 8 {
        let mut bad = bytes;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(ChunkRef::decode(&bad, &key(), 8192), None, "bit {bit}");
    }
    assert_eq!(ChunkRef::decode(&bytes[..63], &key(), 8192), None);
}

#[test]
fn a_reference_accepts_its_own_chunk_alone() {
    let chunk = batch(4);
    assert!(reference().accepts(&chunk));
    assert!(!reference().accepts(&batch(5)));
    let mut stamped = chunk.clone();
    tidemill_wire::chunk::stamp(&mut stamped, 1, LeaderEpoch(-1));
    assert!(!reference().accepts(&stamped), "the chunk's checksum does not see this, ours does");
    assert!(!reference().accepts(&chunk[..70]));
}
