//! What a broker refuses, and that it refuses the same whether records are compressed or not.

use super::*;
use crate::{
    chunk::{seal, verify},
    records::{
        ChunkBuilder, Compression, Headers, Records, codec::Deflater, inflate,
        inflater::kept_bytes, testing::*,
    },
};
use proptest::prelude::*;

/// A chunk with its head changed and its checksum mended.
fn with_head(chunk: &[u8], change: impl FnOnce(&mut ChunkHead)) -> Vec<u8> {
    let mut head = ChunkHead::read(chunk).unwrap();
    change(&mut head);
    sealed(chunk.to_vec(), &head)
}

/// A chunk with this after its head.
fn with_body(codec: Codec, count: i32, body: &[u8]) -> Vec<u8> {
    let head = ChunkHead::read(&build(Compression::NONE, &lines(1))).unwrap();
    let chunk = [&[0; CHUNK_HEAD_BYTES], body].concat();
    let head = ChunkHead {
        attributes: codec as i16,
        record_count: count,
        last_offset_delta: count.wrapping_sub(1),
        ..head
    };
    sealed(chunk, &head)
}

fn sealed(mut chunk: Vec<u8>, head: &ChunkHead) -> Vec<u8> {
    seal(&mut chunk, head);
    chunk
}

/// A chunk whose records are these bytes, compressed by this codec.
fn packed(codec: Codec, count: i32, plain: &[u8]) -> Vec<u8> {
    let mut body = plain.to_vec();
    if let Some(mut deflater) = Deflater::new(codec, None) {
        body.clear();
        deflater.deflate(plain, &mut body).unwrap();
    }
    with_body(codec, count, &body)
}

fn check(chunk: &[u8]) -> Result<RecordsSeen, RecordsError> {
    check_within(chunk, ROOMY)
}

fn check_within(chunk: &[u8], limit: RecordsLimit) -> Result<RecordsSeen, RecordsError> {
    check_records(chunk, &verify(chunk).unwrap(), limit)
}

/// The records of a chunk as bytes.
fn plain(records: &[Owned]) -> Vec<u8> {
    build(Compression::NONE, records).split_off(CHUNK_HEAD_BYTES)
}

#[test]
fn counts_that_lie_are_refused_in_every_codec() {
    let bytes = plain(&lines(700));
    for codec in CODECS {
        assert!(check(&packed(codec, 700, &bytes)).is_ok());
        for said in [701, 1400, i32::MAX] {
            let wanted = RecordsError::Miscounted { said, found: 700 };
            assert_eq!(check(&packed(codec, said, &bytes)), Err(wanted), "{codec:?}");
        }
        for said in [699, 1, 0, -1] {
            let wanted = RecordsError::Trailing { said };
            assert_eq!(check(&packed(codec, said, &bytes)), Err(wanted), "{codec:?}");
        }
        let longer = [&bytes[..], &[7]].concat();
        let wanted = RecordsError::Trailing { said: 700 };
        assert_eq!(check(&packed(codec, 700, &longer)), Err(wanted), "{codec:?}");
        let shorter = &bytes[..bytes.len() - 1];
        let wanted = RecordsError::Damaged { record: 699, fault: RecordFault::Cut };
        assert_eq!(check(&packed(codec, 700, shorter)), Err(wanted), "{codec:?}");
    }
}

#[test]
fn offsets_out_of_order_are_refused_in_every_codec() {
    let mut bytes = plain(&vec![Owned::value(b""); 60]);
    let at = 7 * 40 + 3;
    assert_eq!(bytes[at], 2 * 40, "the offset delta of record 40");
    bytes[at] = 2 * 41;
    for codec in CODECS {
        let wanted = RecordsError::OutOfOrder { record: 40, delta: 41 };
        assert_eq!(check(&packed(codec, 60, &bytes)), Err(wanted), "{codec:?}");
    }
    bytes[at] = 2 * 40 - 1;
    let wanted = RecordsError::OutOfOrder { record: 40, delta: -40 };
    assert_eq!(check(&packed(Codec::None, 60, &bytes)), Err(wanted));
}

#[test]
fn a_record_over_the_limit_is_refused_before_it_is_inflated() {
    let limit = RecordsLimit { inflated_bytes_max: usize::MAX, record_bytes_max: 1000 };
    for codec in CODECS {
        let whole = build(Compression::of(codec), &[Owned::value(&[7; 980])]);
        assert!(check_within(&whole, limit).is_ok(), "{codec:?}");
        let long = build(Compression::of(codec), &[Owned::value(b"x"), Owned::value(&[7; 1000])]);
        let error = check_within(&long, limit).unwrap_err();
        assert!(
            matches!(error, RecordsError::RecordTooLarge { record: 1, limit_bytes: 1000, .. }),
            "{codec:?}: {error}"
        );
        // The length alone is there, and it is enough.
        let begun = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        let wanted =
            RecordsError::RecordTooLarge { record: 0, bytes: i32::MAX as usize, limit_bytes: 1000 };
        assert_eq!(check_within(&packed(codec, 1, &begun), limit), Err(wanted), "{codec:?}");
    }
}

#[test]
fn what_is_inflated_is_bound_to_the_byte() {
    for codec in CODECS.into_iter().skip(1) {
        for count in [1, 900, 9000] {
            let records = lines(count);
            let chunk = build(Compression::of(codec), &records);
            let head = ChunkHead::check(&chunk).unwrap();
            let bytes = check(&chunk).unwrap().plain_bytes;
            if head.codec() == Ok(Codec::None) {
                continue;
            }
            let limit = |inflated_bytes_max| RecordsLimit { inflated_bytes_max, ..ROOMY };
            assert!(check_within(&chunk, limit(bytes)).is_ok(), "{codec:?}");
            for most in [0, 1, bytes / 2, bytes - 1] {
                let wanted = RecordsError::TooLarge { limit_bytes: most };
                assert_eq!(check_within(&chunk, limit(most)), Err(wanted), "{codec:?} {bytes}");
            }
        }
    }
}

#[test]
fn attributes_are_those_of_a_producers_chunk() {
    let chunk = build(Compression::NONE, &lines(2));
    for good in [0x08, 0x10, 0x20, 0x38] {
        assert!(check(&with_head(&chunk, |head| head.attributes = good)).is_ok());
    }
    for bad in [0x40, 0x80, 0x4000, i16::MIN] {
        let changed = with_head(&chunk, |head| head.attributes = bad);
        assert_eq!(check(&changed), Err(RecordsError::Attributes(bad)));
    }
    for unknown in [5, 6, 7] {
        let changed = with_head(&chunk, |head| head.attributes = unknown);
        assert_eq!(check(&changed), Err(RecordsError::Codec(unknown)));
    }
    // Records that are not what the head says.
    for other in [1, 2, 3, 4] {
        let changed = with_head(&chunk, |head| head.attributes = other);
        assert!(matches!(check(&changed), Err(RecordsError::Packed { .. })), "{other}");
    }
}

#[test]
fn what_was_seen_is_told() {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    for (index, timestamp_ms) in [50, 90, -3].into_iter().enumerate() {
        let appended = builder.append(timestamp_ms, Some(b"k"), None, Headers::NONE);
        assert_eq!(appended, Ok(index as i32));
    }
    let chunk = builder.finish().unwrap();
    // A head that says otherwise is seen through.
    let lie = with_head(&chunk, |head| head.max_timestamp_ms = 1 << 50);
    let plain_bytes = chunk.len() - CHUNK_HEAD_BYTES;
    let wanted = RecordsSeen { plain_bytes, max_timestamp_ms: 90, has_keyless: false };
    assert_eq!(check(&lie), Ok(wanted));
}

proptest! {
    #[test]
    fn what_is_accepted_is_read_and_the_other_way_round(
        records in any_records(),
        codec in any_codec(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        count in prop_oneof![3 => Just(None), 1 => (0i32..41).prop_map(Some)],
    ) {
        let mut bytes = plain(&records);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let chunk = packed(codec, count.unwrap_or(records.len() as i32), &bytes);
        let head = ChunkHead::read(&chunk).unwrap();
        let mut scratch = Vec::new();
        let inflated = inflate(&head, &chunk[CHUNK_HEAD_BYTES..], 1 << 20, &mut scratch).unwrap();
        prop_assert_eq!(inflated, &bytes[..]);
        let items: Result<Vec<_>, _> = Records::new(&head, inflated).collect();
        let in_order = items.as_ref().is_ok_and(|items| {
            items.iter().map(|it| it.offset_delta).eq(0..head.record_count)
        });
        let seen = check(&chunk);
        prop_assert_eq!(seen.is_ok(), in_order, "{:?} {:?}", seen, items);
    }

    #[test]
    fn any_cut_of_the_body_is_refused(
        records in any_records(),
        codec in any_codec(),
        cut in any::<prop::sample::Index>(),
    ) {
        let chunk = packed(codec, records.len() as i32, &plain(&records));
        let body = &chunk[CHUNK_HEAD_BYTES..];
        let shorter = with_body(codec, records.len() as i32, &body[..cut.index(body.len())]);
        prop_assert!(check(&shorter).is_err());
    }

    #[test]
    fn any_body_of_any_codec_is_no_panic(
        mut body in proptest::collection::vec(any::<u8>(), 0..300),
        codec in any_codec(),
        begins_well in any::<bool>(),
    ) {
        if begins_well {
            let good = packed(codec, 3, &plain(&lines(3)));
            let keep = good.len().min(CHUNK_HEAD_BYTES + 25);
            body.splice(..0, good[CHUNK_HEAD_BYTES..keep].iter().copied());
        }
        let chunk = with_body(codec, 3, &body);
        let head = ChunkHead::read(&chunk).unwrap();
        let limit = RecordsLimit { inflated_bytes_max: 5000, record_bytes_max: 5000 };
        let seen = check_records(&chunk, &head, limit);
        let mut scratch = Vec::new();
        let inflated = inflate(&head, &chunk[CHUNK_HEAD_BYTES..], 5000, &mut scratch);
        if let Ok(seen) = seen {
            prop_assert_eq!(inflated.map(<[u8]>::len), Ok(seen.plain_bytes));
        }
        prop_assert!(scratch.capacity() <= 5001);
    }

    #[test]
    fn pieces_of_any_size_are_walked_as_the_whole(
        records in any_records(),
        sizes in proptest::collection::vec(1usize..400, 1..20),
        change in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let chunk = build(Compression::NONE, &records);
        let head = ChunkHead::check(&chunk).unwrap();
        let mut bytes = chunk[CHUNK_HEAD_BYTES..].to_vec();
        if let Some((place, byte)) = change {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let run = |long_bytes: usize, sizes: &mut dyn Iterator<Item = usize>| {
            let mut walk = Walk { long_bytes, ..Walk::new(&head, 1 << 20) };
            let (mut done, mut shown) = (0, 0);
            while shown < bytes.len() {
                shown = bytes.len().min(shown + sizes.next().unwrap_or(usize::MAX / 2));
                done += walk.feed(&bytes[done..shown])?;
            }
            walk.finish(bytes.len() - done)?;
            Ok::<_, RecordsError>((walk.found, walk.max_timestamp_ms, walk.has_keyless))
        };
        let whole = run(usize::MAX, &mut std::iter::empty());
        for long_bytes in [usize::MAX, 100, 12, 1] {
            let pieces = run(long_bytes, &mut sizes.iter().copied().cycle());
            // A record that is cut may be found to be wrong before its end is missed.
            let cut = matches!(whole, Err(RecordsError::Damaged { fault: RecordFault::Cut, .. }));
            if pieces != whole && !(cut && matches!(pieces, Err(RecordsError::Damaged { .. }))) {
                prop_assert_eq!(&pieces, &whole, "long from {}", long_bytes);
            }
        }
    }
}

#[test]
fn long_records_leave_nothing_behind() {
    let record = Owned::value(&vec![7; 40 << 20]);
    for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
        let chunk = build(Compression::of(codec), &[record.clone(), record.clone()]);
        let head = ChunkHead::check(&chunk).unwrap();
        let limit = RecordsLimit { inflated_bytes_max: 128 << 20, record_bytes_max: usize::MAX };
        let seen = check_records(&chunk, &head, limit).unwrap();
        assert!(seen.plain_bytes > 80 << 20 && seen.has_keyless, "{codec:?}");
        // A buffer that became longer would not be kept.
        assert!((1..=1 << 20).contains(&kept_bytes()), "{codec:?}: {}", kept_bytes());
    }
}

#[test]
fn blocks_that_need_those_before_them_are_refused_as_java_cannot_read_them() {
    use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};
    use std::io::Write;
    let bytes = plain(&lines(700));
    for (mode, expected) in
        [(BlockMode::Linked, Some(RecordsError::Linked)), (BlockMode::Independent, None)]
    {
        let mut encoder =
            FrameEncoder::with_frame_info(FrameInfo::new().block_mode(mode), Vec::new());
        encoder.write_all(&bytes).unwrap();
        let chunk = with_body(Codec::Lz4, 700, &encoder.finish().unwrap());
        assert_eq!(check(&chunk).err(), expected, "{mode:?}");
        // Who reads them takes both.
        let head = ChunkHead::read(&chunk).unwrap();
        let mut scratch = Vec::new();
        let read = inflate(&head, &chunk[CHUNK_HEAD_BYTES..], usize::MAX, &mut scratch);
        assert_eq!(read.map(<[u8]>::to_vec), Ok(bytes.clone()));
    }
}
