//! Heads read back, their bytes are pinned, and any damage is noticed.

use super::*;
use proptest::prelude::*;

fn head() -> FrameHead {
    FrameHead {
        kind: FrameKind::Block,
        packed: true,
        payload: PayloadKind::Arrow,
        link: 1,
        lane: 2,
        input: 3,
        layout: 4,
        cycle: Cycle(5),
        body: 6,
        plain: 7,
        rows: 8,
        slices: 9,
        share: 10,
        body_crc: Some(11),
    }
}

#[test]
fn the_bytes_of_version_2_are_pinned() {
    let bytes = head().encode();
    assert_eq!(HEAD_BYTES, 72);
    assert_eq!(bytes[..8], [b'T', b'M', b'L', b'K', 2, 1, 1, 1]);
    let words: Vec<u32> = bytes[8..68]
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
        .collect();
    assert_eq!(words, [1, 2, 3, 6, 5, 0, 7, 8, 9, 4, 10, 0, 0, 0, 11]);
    let unchecked = FrameHead { body_crc: None, ..head() }.encode();
    assert_eq!(unchecked[56..68], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_head_reads_back() {
    assert_eq!(FrameHead::decode(&head().encode()), Ok(head()));
    for kind in
        [FrameKind::Hello, FrameKind::Block, FrameKind::End, FrameKind::Credit, FrameKind::Bye]
    {
        let bare = FrameHead::bare(kind);
        assert_eq!(FrameHead::decode(&bare.encode()), Ok(bare));
        let unchecked = FrameHead { body_crc: None, ..bare };
        assert_eq!(FrameHead::decode(&unchecked.encode()), Ok(unchecked));
    }
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let large = FrameHead { plain: u32::MAX, ..head() };
    assert_eq!(FrameHead::decode(&large.encode()), Err(HeadError::TooLarge(u32::MAX)));
}

proptest! {
    #[test]
    fn any_flipped_bit_is_noticed(bit in 0_usize..HEAD_BYTES * 8) {
        let mut bytes = head().encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(FrameHead::decode(&bytes).is_err());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::array::uniform32(any::<u8>())) {
        let mut head = [0; HEAD_BYTES];
        head[..32].copy_from_slice(&bytes);
        prop_assert!(FrameHead::decode(&head).is_err());
    }
}
