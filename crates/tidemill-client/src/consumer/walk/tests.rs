//! What a reader sees of bytes: whole, cut, damaged, aborted.

use super::*;
use proptest::prelude::*;
use tidemill_wire::{
    chunk::{LeaderEpoch, seal, stamp},
    records::{ChunkBuilder, Compression, Headers, Marker, Origin, control_marker},
};

/// A chunk of so many records at an offset; of a transaction, or of nobody.
fn chunk(base: i64, records: i32, producer_id: Option<i64>) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    if let Some(producer_id) = producer_id {
        builder.set_origin(Origin {
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            is_transactional: true,
        });
    }
    for _ in 0..records {
        builder.append(5, None, Some(b"value"), Headers::NONE).unwrap();
    }
    let mut chunk = builder.finish().unwrap();
    stamp(&mut chunk, base, LeaderEpoch(0));
    chunk
}

fn marker(base: i64, producer_id: i64, is_commit: bool) -> Vec<u8> {
    let mut chunk = control_marker(&Marker {
        producer_id,
        producer_epoch: 0,
        is_commit,
        coordinator_epoch: 0,
        timestamp_ms: 5,
    });
    stamp(&mut chunk, base, LeaderEpoch(0));
    chunk
}

fn aborted(producer_id: i64, first_offset: i64) -> AbortedTransaction {
    AbortedTransaction { first_offset, producer_id: ProducerId(producer_id) }
}

fn offsets(walked: &Walked) -> Vec<i64> {
    walked.chunks.iter().map(|it| it.head.base_offset).collect()
}

#[test]
fn chunks_are_seen_in_order_and_a_cut_one_is_asked_for_again() {
    let whole = [chunk(10, 3, None), chunk(13, 2, None)].concat();
    let walked = walk(&whole.clone().into(), 11, None);
    assert_eq!((offsets(&walked), walked.next, &walked.end), (vec![10, 13], 15, &WalkEnd::Done));
    let cut = Bytes::from(whole).slice(..whole_len(&walked) - 1);
    let walked = walk(&cut, 11, None);
    assert_eq!((offsets(&walked), walked.next, &walked.end), (vec![10], 13, &WalkEnd::Done));
    let first = cut.slice(..70);
    let walked = walk(&first, 11, None);
    assert_eq!((walked.next, &walked.end), (11, &WalkEnd::Longer(chunk(10, 3, None).len())));
    assert_eq!(walk(&cut.slice(..20), 11, None).end, WalkEnd::Longer(61));
    assert_eq!(walk(&Bytes::new(), 11, None), Walked { next: 11, ..Walked::default() });
}

fn whole_len(walked: &Walked) -> usize {
    walked.chunks.iter().map(|it| it.bytes.len()).sum()
}

#[test]
fn damage_is_told_and_what_stands_before_it_is_seen() {
    let mut second = chunk(13, 2, None);
    let at = second.len() - 2;
    second[at] ^= 1;
    let walked = walk(&[chunk(10, 3, None), second].concat().into(), 10, None);
    assert_eq!((offsets(&walked), walked.next), (vec![10], 13));
    assert!(
        matches!(&walked.end, WalkEnd::Damaged(reason) if reason.contains("CRC")),
        "{walked:?}"
    );
    let old = walk(&vec![0; 100].into(), 10, None);
    assert!(matches!(&old.end, WalkEnd::Damaged(reason) if reason.contains("format version 0")));
    for base in [-1, i64::MIN, i64::MAX, i64::MAX - 1] {
        let walked = walk(&chunk(base, 2, None).into(), 0, None);
        assert!(matches!(walked.end, WalkEnd::Damaged(_)), "{base}");
    }
    let before = walk(&chunk(3, 2, None).into(), 10, None);
    assert!(matches!(before.end, WalkEnd::Damaged(_)), "else it would be asked for for ever");
}

#[test]
fn aborted_transactions_and_markers_are_not_seen() {
    let bytes: Bytes = [
        chunk(0, 1, Some(7)),
        chunk(1, 1, Some(8)),
        chunk(2, 1, None),
        marker(3, 7, false),
        chunk(4, 1, Some(7)),
        marker(5, 8, true),
        marker(6, 7, true),
    ]
    .concat()
    .into();
    let all = walk(&bytes, 0, None);
    assert_eq!((offsets(&all), all.next), (vec![0, 1, 2, 4], 7));
    let committed = walk(&bytes, 0, Some(&[aborted(7, 0)]));
    assert_eq!((offsets(&committed), committed.next), (vec![1, 2, 4], 7));
    // The same producer twice: the second transaction begins at 4.
    let both = walk(&bytes, 0, Some(&[aborted(7, 4), aborted(7, 0)]));
    assert_eq!(offsets(&both), [1, 2]);
    let none = walk(&bytes, 0, Some(&[]));
    assert_eq!(offsets(&none), [0, 1, 2, 4]);
    // A marker of another kind changes nothing.
    let mut odd = marker(3, 7, false);
    let head = ChunkHead::read(&odd).unwrap();
    let length = odd.len();
    odd[length - 12] = 9;
    seal(&mut odd, &head);
    let walked = walk(
        &[chunk(0, 1, Some(7)), odd, chunk(4, 1, Some(7))].concat().into(),
        0,
        Some(&[aborted(7, 0)]),
    );
    assert_eq!(walked.next, 5);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, from: i64) {
        let walked = walk(&bytes.into(), from, Some(&[aborted(1, from)]));
        prop_assert!(walked.next >= from);
    }

    /// Wherever a good answer is damaged, what is seen is a prefix of what was written.
    #[test]
    fn damage_hides_nothing_but_itself(at in 0usize..10_000, bit in 0u8..8) {
        let chunks: Vec<Vec<u8>> = (0..5).map(|it| chunk(it * 3, 3, None)).collect();
        let good = walk(&chunks.concat().into(), 0, None);
        let mut bytes = chunks.concat();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let walked = walk(&bytes.into(), 0, None);
        let in_chunk = at % chunks[0].len();
        // The checksum covers neither base offset, nor leader epoch; the length is what it says.
        if in_chunk >= 16 {
            let damaged = at / chunks[0].len();
            prop_assert_eq!(&walked.chunks[..], &good.chunks[..damaged]);
        }
    }
}
