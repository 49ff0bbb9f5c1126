//! The doors of the fuzz target, with what `cargo test` has time for.

use super::*;
use proptest::prelude::*;

#[test]
fn untouched_frames_all_arrive() {
    let script = b"\x01\x05\0a\x02\0\x01b\x01\0\0c\x07\xff\xffd";
    assert_eq!(frames(script), (4, 4));
    assert_eq!(frames(b""), (0, 0));
    seeds().iter().for_each(|seed| cluster(seed));
}

proptest! {
    #[test]
    fn row_34_any_bytes_are_no_handshake(
        seed in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = seeds()[seed.index(2)].clone();
        for (at, bits) in changes {
            let at = at.index(bytes.len() - 1);
            bytes[at] ^= bits;
        }
        // The last byte is left as it is: it was changed already.
        let end = end.index(bytes.len());
        handshake(&bytes[1..=end.max(1)]);
    }

    #[test]
    fn row_34_changed_frames_never_arrive(
        lengths in prop::collection::vec(0..600_u16, 1..6),
        changes in prop::collection::vec(any::<[u8; 4]>(), 0..4),
    ) {
        let frame = |it: &u16| {
            let [low, high] = it.to_le_bytes();
            [1, low, high, 9]
        };
        let mut script: Vec<u8> = lengths.iter().flat_map(frame).collect();
        script.extend([0; 4]);
        script.extend(changes.concat());
        let (sent, arrived) = frames(&script);
        prop_assert_eq!(sent, lengths.len());
        prop_assert!(arrived <= sent);
    }
}
