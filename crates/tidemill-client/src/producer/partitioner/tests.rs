//! The values of Kafka's own client. The first ones are those of its unit test of `Utils.murmur2`;
//! the last were computed with it.

use super::*;

#[test]
fn hashes_are_those_of_kafkas_client() {
    let golden: &[(&[u8], i32)] = &[
        (b"21", -973_932_308),
        (b"foobar", -790_332_482),
        (b"a-little-bit-long-string", -985_981_536),
        (b"a-little-bit-longer-string", -1_486_304_829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        (b"abc", 479_470_107),
    ];
    for (key, hash) in golden {
        assert_eq!(murmur2(key).cast_signed(), *hash, "{key:?}");
    }
}

#[test]
fn a_streamlet_is_one_of_those_there_are() {
    for count in 1..20 {
        for key in 0..100u32 {
            assert!(streamlet_of(&key.to_be_bytes(), count) < count);
        }
    }
}
