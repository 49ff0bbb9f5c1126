//! What is compressed comes back; what would not shrink is left alone; damage is an error.

use super::*;
use proptest::prelude::*;

const SELECTIVE: CompressionSpec = CompressionSpec::Selective { coefficient: 0.5 };

/// Bytes that no code can shrink.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let step = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 56) as u8
    };
    (0..length).map(|_| step(&mut state)).collect()
}

#[test]
fn selective_takes_what_shrinks_and_leaves_what_does_not() {
    let mut compressor = Compressor::new(SELECTIVE);
    assert!(compressor.compress(&vec![7; 100_000]).is_some());
    assert!(compressor.compress(&noise(100_000)).is_none());
    assert!(compressor.compress(&noise(100)).is_none());
    assert!(Compressor::new(CompressionSpec::Off).compress(&[7; 1_000]).is_none());
}

#[test]
fn always_never_sends_more_than_it_was_given() {
    assert!(Compressor::new(CompressionSpec::Always).compress(&noise(10_000)).is_none());
}

#[test]
fn a_stated_size_over_the_limit_allocates_nothing() {
    let mut out = Vec::new();
    let error = decompress(&[0], FRAME_BYTES_MAX + 1, &mut out);
    assert_eq!(error, Err(DecompressError::TooLarge(FRAME_BYTES_MAX + 1)));
    assert_eq!(out.capacity(), 0);
}

proptest! {
    #[test]
    fn what_is_compressed_comes_back(words in prop::collection::vec("[a-c]{1,4}", 1..500)) {
        let bytes = words.concat().into_bytes();
        let mut compressor = Compressor::new(CompressionSpec::Always);
        if let Some(packed) = compressor.compress(&bytes) {
            let mut out = Vec::new();
            prop_assert_eq!(decompress(packed, bytes.len(), &mut out), Ok(()));
            prop_assert_eq!(out, bytes);
        }
    }

    #[test]
    fn no_bytes_panic(packed in prop::collection::vec(any::<u8>(), 0..300), plain in 0_usize..5_000) {
        let mut out = Vec::new();
        if decompress(&packed, plain, &mut out).is_ok() {
            prop_assert_eq!(out.len(), plain);
        }
    }
}
