//! Each codec in all its forms, the limit, and bombs: what they cost is looked at.

use super::*;
use crate::{
    chunk::{CHUNK_HEAD_BYTES, ChunkHead, seal},
    records::{Compression, RecordsLimit, check_records, codec::Deflater, inflate, testing::*},
};
use ::zstd::stream::{Encoder as ZstdEncoder, raw::CParameter};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use proptest::prelude::*;
use std::io::Write;

const MEGABYTE: usize = 1 << 20;

/// A chunk with this body, and its head.
fn chunk_of(codec: Codec, count: i32, body: &[u8]) -> (ChunkHead, Vec<u8>) {
    let head = ChunkHead::read(&build(Compression::NONE, &lines(1))).unwrap();
    let (record_count, last_offset_delta) = (count, count - 1);
    let head = ChunkHead { attributes: codec as i16, record_count, last_offset_delta, ..head };
    let mut chunk = [&[0; CHUNK_HEAD_BYTES], body].concat();
    seal(&mut chunk, &head);
    (ChunkHead::check(&chunk).unwrap(), chunk)
}

fn deflated(codec: Codec, plain: &[u8]) -> Vec<u8> {
    let mut into = Vec::new();
    Deflater::new(codec, None).unwrap().deflate(plain, &mut into).unwrap();
    into
}

/// Inflates a body in both ways that there are, and returns what it is; or an error if either way
/// refuses it. Where only the records in it are damaged, only the walk does.
fn both_ways(codec: Codec, count: usize, body: &[u8]) -> Result<Vec<u8>, RecordsError> {
    let (head, chunk) = chunk_of(codec, count as i32, body);
    let mut scratch = Vec::new();
    let plain = inflate(&head, body, ROOMY.inflated_bytes_max, &mut scratch);
    let seen = check_records(&chunk, &head, ROOMY);
    match plain {
        // A broker takes no blocks that are linked.
        Ok(plain) if seen == Err(RecordsError::Linked) => Ok(plain.to_vec()),
        Ok(plain) => {
            assert_eq!(seen?.plain_bytes, plain.len(), "{codec:?}");
            Ok(plain.to_vec())
        }
        Err(error) => {
            assert!(seen.is_err(), "{codec:?}: {error}");
            Err(error)
        }
    }
}

/// The bytes of so many records of 100 bytes.
fn plain(count: usize) -> Vec<u8> {
    build(Compression::NONE, &lines(count)).split_off(CHUNK_HEAD_BYTES)
}

/// One record with as many zeros as make its bytes `length`, for a bomb that is also a good chunk.
fn long_record(length: usize) -> Vec<u8> {
    let value = vec![0; length - 12];
    let mut bytes = build(Compression::NONE, &[Owned::value(&value)]).split_off(CHUNK_HEAD_BYTES);
    bytes.resize(length, 0);
    bytes
}

#[test]
fn streams_one_after_the_other_are_one() {
    let all = plain(900);
    let (first, second) = all.split_at(33_333);
    for codec in CODECS.into_iter().skip(1) {
        let body = [deflated(codec, first), deflated(codec, second)].concat();
        assert_eq!(both_ways(codec, 900, &body).unwrap(), all, "{codec:?}");
        let body = [deflated(codec, &all), deflated(codec, b"")].concat();
        assert_eq!(both_ways(codec, 900, &body).unwrap(), all, "{codec:?}: an empty one follows");
        let body = [&deflated(codec, &all)[..], b"rest"].concat();
        assert!(both_ways(codec, 900, &body).is_err(), "{codec:?}: something else follows");
        assert!(both_ways(codec, 1, b"").is_err(), "{codec:?}: nothing at all");
    }
}

#[test]
fn snappy_without_frames_is_read() {
    let all = plain(900);
    let body = snap::raw::Encoder::new().compress_vec(&all).unwrap();
    assert_eq!(both_ways(Codec::Snappy, 900, &body).unwrap(), all);
    let cut = both_ways(Codec::Snappy, 900, &body[..body.len() - 1]);
    assert!(matches!(cut, Err(RecordsError::Packed { codec: Codec::Snappy, .. })), "{cut:?}");
}

#[test]
fn lz4_frames_of_every_kind_are_read() {
    let all = plain(3_000);
    for bits in 0..16 {
        let flag = |bit: u32| bits & (1 << bit) != 0;
        for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB]
        {
            let info = FrameInfo::new()
                .block_mode(if flag(0) { BlockMode::Linked } else { BlockMode::Independent })
                .block_checksums(flag(1))
                .content_checksum(flag(2))
                .content_size(flag(3).then_some(all.len() as u64))
                .block_size(size);
            let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(&all).unwrap();
            let body = encoder.finish().unwrap();
            assert_eq!(both_ways(Codec::Lz4, 3_000, &body).unwrap(), all, "{bits:04b}");
            let checked = flag(1) || flag(2);
            for place in [4, 5, body.len() / 2, body.len() - 1] {
                let mut flipped = body.clone();
                flipped[place] ^= 0x10;
                let read = both_ways(Codec::Lz4, 3_000, &flipped);
                let seen = read.is_err() || (!checked && place == body.len() / 2);
                assert!(seen, "{bits:04b}: byte {place} is flipped");
            }
        }
    }
    let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9], &deflated(Codec::Lz4, &all)[..]];
    assert_eq!(both_ways(Codec::Lz4, 3_000, &skipped.concat()).unwrap(), all);
}

#[test]
fn zstd_frames_of_every_kind_are_read() {
    let all = plain(3_000);
    // Windows from 64 KiB to 128 MiB: beyond 8 MiB they are not taken memory for.
    for window_log in [16, 20, 23, 24, 27] {
        for has_checksum in [false, true] {
            let mut encoder = ZstdEncoder::new(Vec::new(), 3).unwrap();
            encoder.set_parameter(CParameter::WindowLog(window_log)).unwrap();
            encoder.include_checksum(has_checksum).unwrap();
            encoder.write_all(&all).unwrap();
            let body = encoder.finish().unwrap();
            assert_eq!(both_ways(Codec::Zstd, 3_000, &body).unwrap(), all, "{window_log}");
            assert!(both_ways(Codec::Zstd, 3_000, &body[..body.len() - 1]).is_err());
            let mut flipped = body.clone();
            flipped[body.len() / 2] ^= 0x10;
            let read = both_ways(Codec::Zstd, 3_000, &flipped);
            assert!(!has_checksum || read.is_err(), "{window_log}");
        }
    }
    let (_, chunk) = chunk_of(Codec::Zstd, 3_000, &deflated(Codec::Zstd, &all));
    assert!(chunk.len() < all.len() / 4);
    let kept = KEPT.with_borrow(|kept| (kept.zstd.bytes(), kept.walked.capacity()));
    assert!(kept.0 <= 4 * MEGABYTE && kept.1 <= MEGABYTE, "{kept:?} are kept");
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let lies: [(Codec, &[u8]); 4] = [
        // A plain block that says it becomes 4 GiB.
        (Codec::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]),
        // A frame with a block that says so.
        (Codec::Snappy, b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\0\0\0\x07\xff\xff\xff\xff\x0f\0\0"),
        // A frame of blocks of 4 MiB with a block of three bytes.
        (Codec::Lz4, &[4, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73, 3, 0, 0, 0, 1, 2, 3]),
        // A frame that says that it becomes 64 MiB, and begins with a block of another kind.
        (Codec::Zstd, &[0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 4, 0xff, 0xff]),
    ];
    for (codec, body) in lies {
        let (head, chunk) = chunk_of(codec, 1, body);
        let mut scratch = Vec::new();
        let error = inflate(&head, body, 256 * MEGABYTE, &mut scratch).unwrap_err();
        assert!(matches!(error, RecordsError::Packed { .. }), "{codec:?}: {error}");
        assert!(scratch.capacity() <= MEGABYTE, "{codec:?}: {}", scratch.capacity());
        assert!(check_records(&chunk, &head, ROOMY).is_err());
    }
    // One that says it becomes more than the limit is refused for that.
    let body = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0];
    let (head, _) = chunk_of(Codec::Zstd, 1, &body);
    let refused = inflate(&head, &body, MEGABYTE, &mut Vec::new()).unwrap_err();
    assert_eq!(refused, RecordsError::TooLarge { limit_bytes: MEGABYTE });
}

#[test]
fn a_small_chunk_in_large_blocks_takes_little_memory() {
    // As franz-go sends them: blocks of 4 MiB, however little is in them.
    let all = plain(600);
    let info = FrameInfo::new().block_size(BlockSize::Max4MB).content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(&all).unwrap();
    let body = encoder.finish().unwrap();
    let (head, _) = chunk_of(Codec::Lz4, 600, &body);
    let mut scratch = Vec::new();
    assert_eq!(inflate(&head, &body, 16 * MEGABYTE, &mut scratch).unwrap(), all);
    assert!(scratch.capacity() <= MEGABYTE, "{}", scratch.capacity());
}

/// Walks a body as [`check_records`] does; returns how much memory the output took at its largest.
fn walked_memory(
    codec: Codec,
    body: &[u8],
    limit: RecordsLimit,
) -> (usize, Result<(), RecordsError>) {
    let (head, _) = chunk_of(codec, 1, body);
    let (mut bytes, mut walk) = (Vec::new(), Walk::new(&head, limit.record_bytes_max));
    let mut output = InflateOutput {
        bytes: &mut bytes,
        used: 0,
        total: 0,
        limit_bytes: limit.inflated_bytes_max,
        walk: Some(&mut walk),
        walked: 0,
    };
    let mut kept = zstd::Decompressor::default();
    let done = run(codec, body, &mut output, &mut kept);
    assert!(kept.bytes() <= 9 * MEGABYTE, "{codec:?}");
    (bytes.capacity(), done)
}

#[test]
fn a_bomb_costs_no_more_than_its_limit() {
    let bomb = long_record(12 * MEGABYTE);
    for codec in CODECS.into_iter().skip(1) {
        let body = deflated(codec, &bomb);
        assert!(body.len() < bomb.len() / 20, "{codec:?}");
        let (head, chunk) = chunk_of(codec, 1, &body);
        for limit in [100, 64 * 1024, MEGABYTE, 5 * MEGABYTE] {
            let refused = Err(RecordsError::TooLarge { limit_bytes: limit });
            let mut scratch = Vec::new();
            assert_eq!(inflate(&head, &body, limit, &mut scratch).map(<[u8]>::len), refused);
            assert!(scratch.capacity() <= limit + 1, "{codec:?}: {}", scratch.capacity());
            let within = RecordsLimit { inflated_bytes_max: limit, record_bytes_max: usize::MAX };
            assert_eq!(check_records(&chunk, &head, within).map(|_| 0), refused, "{codec:?}");
        }
        // Records have a limit too: then the bomb is not inflated beyond its first piece.
        let within = RecordsLimit { inflated_bytes_max: usize::MAX, record_bytes_max: MEGABYTE };
        let (taken, done) = walked_memory(codec, &body, within);
        assert!(matches!(done, Err(RecordsError::RecordTooLarge { .. })), "{codec:?}: {done:?}");
        assert!(taken <= MEGABYTE, "{codec:?}: {taken} bytes for a bomb");
    }
}

#[test]
fn many_records_are_walked_in_little_memory() {
    let all = plain(70_000);
    assert!(all.len() > 6 * MEGABYTE);
    for codec in CODECS.into_iter().skip(1) {
        let body = deflated(codec, &all);
        assert_eq!(both_ways(codec, 70_000, &body).unwrap().len(), all.len());
        let (head, _) = chunk_of(codec, 70_000, &body);
        let (mut bytes, mut walk) = (Vec::new(), Walk::new(&head, MEGABYTE));
        let mut output = InflateOutput {
            bytes: &mut bytes,
            used: 0,
            total: 0,
            limit_bytes: usize::MAX,
            walk: Some(&mut walk),
            walked: 0,
        };
        run(codec, &body, &mut output, &mut zstd::Decompressor::default()).unwrap();
        assert!(bytes.capacity() <= MEGABYTE, "{codec:?}: {}", bytes.capacity());
    }
}

#[test]
fn scratch_is_used_again() {
    let (small, large) = (plain(10), plain(5000));
    let mut scratch = Vec::new();
    for codec in CODECS.into_iter().skip(1) {
        for all in [&small, &large, &small] {
            let body = deflated(codec, all);
            let (head, _) = chunk_of(codec, 1, &body);
            assert_eq!(
                inflate(&head, &body, 1 << 30, &mut scratch).unwrap(),
                &all[..],
                "{codec:?}"
            );
        }
    }
    let (head, chunk) = chunk_of(Codec::None, 10, &small);
    let body = &chunk[CHUNK_HEAD_BYTES..];
    let same = inflate(&head, body, 0, &mut scratch).expect("no limit binds what is not inflated");
    assert_eq!(same.as_ptr(), body.as_ptr(), "nothing is copied");
}

proptest! {
    #[test]
    fn flips_and_cuts_are_no_panic_and_no_leak_of_what_was_there_before(
        codec in any_codec().prop_filter("compressed", |it| *it != Codec::None),
        records in any_records(),
        place in any::<prop::sample::Index>(),
        bit in 0u8..8,
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let all = build(Compression::NONE, &records).split_off(CHUNK_HEAD_BYTES);
        let mut body = deflated(codec, &all);
        let length = body.len();
        match cut {
            Some(cut) => body.truncate(cut.index(length)),
            None => body[place.index(length)] ^= 1 << bit,
        }
        let (head, _) = chunk_of(codec, 1, &body);
        let limit = all.len() * 2;
        let inflate_over = |fill: u8| {
            let mut scratch = vec![fill; limit + 1];
            inflate(&head, &body, limit, &mut scratch).map(<[u8]>::to_vec)
        };
        let read = inflate_over(0);
        prop_assert_eq!(&read, &inflate_over(0xaa), "what was in the scratch does not show");
        if codec == Codec::Gzip {
            // A gzip has a checksum; its head has bytes that mean nothing here.
            prop_assert!(read.is_err() || read == Ok(all) );
        }
    }
}
