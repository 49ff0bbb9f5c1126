//! Paged bytes against a `Vec`.

use super::*;
use crate::Random;

#[test]
fn paged_bytes_are_those_of_a_vec_and_begin_at_a_block() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (mut paged, mut model) = (AlignedBuffer::default(), Vec::new());
        assert!(paged.is_empty());
        for _ in 0..40 {
            let most = [10, 5_000, 100_000][random.below(3) as usize];
            let bytes = random.below(most) as usize;
            match random.below(6) {
                0 => {
                    let zeros = bytes.min(9_000);
                    paged.extend_zeros(zeros);
                    model.resize(model.len() + zeros, 0);
                }
                1 => {
                    let left = random.below(model.len() as u64 + 10) as usize;
                    paged.truncate(left);
                    model.truncate(left);
                }
                2 => {
                    let grown = paged.grow(bytes);
                    assert_eq!(grown, model.len()..model.len() + bytes);
                    paged[grown].fill(7);
                    model.resize(model.len() + bytes, 7);
                }
                3 => paged = paged.clone(),
                _ => {
                    let more: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
                    paged.extend_from_slice(&more);
                    model.extend_from_slice(&more);
                }
            }
            assert!(paged[..] == model[..], "seed {seed}");
            assert!(paged.capacity() >= paged.len());
            if paged.capacity() > 0 {
                assert!(paged.as_ptr().addr().is_multiple_of(BLOCK_BYTES), "seed {seed}");
            }
        }
    }
}

#[test]
fn what_comes_bit_by_bit_is_seldom_moved() {
    let (mut paged, mut moves, mut at) = (AlignedBuffer::default(), 0, std::ptr::null());
    for byte in 0..1_000_000_u32 {
        paged.extend_from_slice(&[byte as u8]);
        moves += u32::from(at != paged.as_ptr());
        at = paged.as_ptr();
    }
    assert!(moves <= 21, "{moves}");
    paged.truncate(0);
    paged.extend_zeros(1_000_000);
    assert_eq!(at, paged.as_ptr(), "its memory is used again");
    assert!(paged.iter().all(|byte| *byte == 0));
}
