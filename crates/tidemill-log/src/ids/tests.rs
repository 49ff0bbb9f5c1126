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
    let key = SegmentKey { stream, streamlet: 70_000, group: 1 << 40, index: 70_000, epoch: 1 };
    let name = key.file_name();
    let parsed = SegmentKey::parse_file_name(name.to_str().unwrap());
    assert_eq!(parsed, Some((70_000, 1 << 40, 70_000)));
    let last = SegmentKey { group: first_group(u32::MAX) + 9, ..key };
    let parsed = SegmentKey::parse_file_name(last.file_name().to_str().unwrap());
    assert_eq!(parsed, Some((70_000, last.group, 70_000)), "in any life");
    assert_eq!(SegmentKey::parse_file_name("0-ffffffffffffffff-0.seg"), None);
    assert_eq!(SegmentKey::parse_file_name("186a0-0-0.seg"), None, "no stream has so many");
    assert_eq!(SegmentKey::parse_file_name("x.seg"), None);
    assert_eq!(SegmentKey::parse_file_name("1-2-3-4.seg"), None);
}
