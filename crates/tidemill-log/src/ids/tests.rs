//! Names of files and streams.

use super::*;

#[test]
fn names_that_could_be_paths_are_refused() {
    for good in ["a", "A.b_c-9", "...", &"x".repeat(249)] {
        assert!(is_stream_name(good), "{good}");
    }
    for bad in ["", ".", "..", "a/b", "../x", "a\0", "ä", "a b", "a\n", &"x".repeat(250)] {
        assert!(!is_stream_name(bad), "{bad:?}");
    }
}

#[test]
fn ids_and_file_names_read_as_they_are_written() {
    let stream = StreamId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 250, 251, 252, 253, 254, 255]);
    assert_eq!(StreamId::parse(&stream.to_string()), Some(stream));
    assert_eq!(StreamId::parse("+0"), None);
    assert_eq!(StreamId::parse(&"A".repeat(32)), None);
    let key = SegmentKey {
        stream,
        streamlet: StreamletIx(70_000),
        group: GroupIx(1 << 40),
        index: SegmentIx(70_000),
        epoch: SegmentEpoch(1),
    };
    let name = key.file_name();
    let parsed = SegmentName::parse(name.to_str().unwrap());
    assert_eq!(parsed, Some(key.name()));
    let last = SegmentKey { group: GroupIx(first_group(Incarnation(u32::MAX)).0 + 9), ..key };
    let parsed = SegmentName::parse(last.file_name().to_str().unwrap());
    assert_eq!(parsed, Some(last.name()), "in any incarnation");
    assert_eq!(SegmentName::parse("0-ffffffffffffffff-0.seg"), None);
    assert_eq!(SegmentName::parse("186a0-0-0.seg"), None, "no stream has so many");
    assert_eq!(SegmentName::parse("x.seg"), None);
    assert_eq!(SegmentName::parse("1-2-3-4.seg"), None);
}
