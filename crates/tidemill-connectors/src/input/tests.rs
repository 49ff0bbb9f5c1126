//! Chunks depend on the file and the request alone.

use super::*;
use proptest::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use tidemill_env::{Disk, SimDisk};

fn input(bytes: &[u8], framing: Framing, read_ahead: usize) -> Input {
    let disk = SimDisk::new(0);
    disk.put("f", bytes);
    let file = disk.open_read(Path::new("f")).unwrap();
    Input::new(file, framing, bytes.len() as u64).with_read_ahead(read_ahead)
}

/// Every chunk: where it starts, its line, and its records.
type Cut = (u64, u64, Vec<(Vec<u8>, u32, bool)>);

fn cuts(input: &mut Input, bytes: usize, records: usize) -> Vec<Cut> {
    let mut all = Vec::new();
    while let Some(chunk) = input.next(bytes, records, None).unwrap() {
        let record =
            |it: &RecordRange| (chunk.bytes[it.start..it.end].to_vec(), it.line, it.bad.is_some());
        all.push((chunk.offset, chunk.line, chunk.records.iter().map(record).collect()));
        assert!(all.len() < 10_000);
    }
    all
}

#[test]
fn chunks_are_cut_by_bytes_and_by_records() {
    let text = b"aa\nbb\n\ncc\r\ndd";
    let mut one = input(text, Framing::Json, 4);
    assert_eq!(
        cuts(&mut one, 4, 100).iter().map(|it| (it.0, it.1, it.2.len())).collect::<Vec<_>>(),
        [(0, 1, 2), (6, 3, 1), (11, 5, 1)]
    );
    assert_eq!((one.offset(), one.line()), (13, 5));
    let by_record = cuts(&mut input(text, Framing::Json, 100), 1_000, 3);
    assert_eq!(by_record.iter().map(|it| it.2.len()).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(cuts(&mut input(b"", Framing::Text, 4), 4, 4), []);
}

#[test]
fn a_replay_reads_up_to_its_position_and_not_further() {
    let text = b"aa\nbb\ncc\ndd\n";
    let mut replayed = input(text, Framing::Text, 5);
    assert_eq!(replayed.next(100, 100, Some(9)).unwrap().unwrap().records.len(), 3);
    assert_eq!(replayed.offset(), 9);
    assert!(replayed.next(100, 100, Some(9)).unwrap().is_none());
    let error = input(text, Framing::Text, 5).next(100, 100, Some(4)).err().unwrap();
    assert!(error.message.contains("the file has changed"), "{}", error.message);
    assert!(input(text, Framing::Text, 5).next(100, 100, Some(13)).is_err());
}

#[test]
fn a_line_that_is_too_long_is_passed_over_and_its_neighbours_are_kept() {
    let mut text = b"first\n".to_vec();
    text.resize(text.len() + RECORD_BYTES_MAX + 5, b'x');
    text.extend_from_slice(b"\nlast\n");
    let mut outcomes = Vec::new();
    for read_ahead in [READ_AHEAD_BYTES, 700_001] {
        for framing in [Framing::Text, Framing::Csv { fields: 1, delimiter: b',' }] {
            let mut long = input(&text, framing, read_ahead);
            let found = cuts(&mut long, 1 << 30, 100);
            assert!(long.buffer.len() <= RECORD_BYTES_MAX + 2 * READ_AHEAD_BYTES);
            outcomes.push(found);
        }
    }
    assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]));
    let [(_, _, first), (6, 2, long), (_, 3, last)] = &outcomes[0][..] else { panic!() };
    assert_eq!(first[0].0, b"first");
    assert!(long[0].2 && long[0].0.len() == DEAD_LETTER_BYTES_MAX);
    assert_eq!(last[0].0, b"last");
}

#[test]
fn the_longest_record_is_still_read() {
    for (length, bad) in [(RECORD_BYTES_MAX, false), (RECORD_BYTES_MAX + 1, true)] {
        let mut text = vec![b'x'; length];
        text.push(b'\n');
        let found = cuts(&mut input(&text, Framing::Text, READ_AHEAD_BYTES), 1 << 30, 9);
        assert_eq!((found.len(), found[0].2[0].2), (1, bad), "{length}");
    }
}

/// Counts the bytes that are read of a file.
struct Counted(Arc<dyn DiskRead>, AtomicU64);

impl DiskRead for Counted {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read_at(offset, into)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}

#[test]
fn what_is_before_a_place_is_read_only_to_count_its_lines() {
    let text = "a line\n".repeat(500_000);
    let size = text.len() as u64;
    let disk = SimDisk::new(0);
    disk.put("f", text.as_bytes());
    let file = disk.open_read(Path::new("f")).unwrap();
    let file = Arc::new(Counted(file, AtomicU64::new(0)));
    let mut input = Input::new(Arc::clone(&file) as Arc<dyn DiskRead>, Framing::Text, size);
    let mut passed = input.pass_to(size - 14).unwrap();
    assert_eq!(input.next(100, 100, None).unwrap().unwrap().records.len(), 2);
    assert!(input.next(100, 100, None).unwrap().is_none());
    assert_eq!(file.1.load(Ordering::Relaxed), 15);
    assert_eq!((passed.lines().unwrap(), input.line()), (499_998, 3));
    assert_eq!(passed.lines().unwrap(), 499_998);
    assert_eq!(file.1.load(Ordering::Relaxed), size + 1, "they are counted once");
}

#[test]
fn a_file_that_became_shorter_is_an_error() {
    let disk = SimDisk::new(0);
    disk.put("f", b"abc\n");
    let file = disk.open_read(Path::new("f")).unwrap();
    let mut short = Input::new(file, Framing::Text, 100);
    let error = short.next(100, 100, None).err().unwrap();
    assert!(error.message.contains("shorter"), "{}", error.message);
}

#[test]
fn a_byte_order_mark_is_no_data() {
    let mut marked = input(b"\xef\xbb\xbfa\n", Framing::Text, 1);
    marked.skip_mark().unwrap();
    assert_eq!(marked.offset(), 3);
    assert_eq!(cuts(&mut marked, 9, 9)[0].2[0].0, b"a");
    let mut plain = input(b"\xef\xbb", Framing::Text, 1);
    plain.skip_mark().unwrap();
    assert_eq!(plain.offset(), 0);
}

proptest! {
    #[test]
    fn read_ahead_does_not_move_a_cut(
        text in "[ab\",;\r\n#{} ]{0,120}",
        bytes in 1_usize..40,
        records in 1_usize..6,
        read_ahead in 1_usize..20,
    ) {
        for framing in [Framing::Text, Framing::Json, Framing::Influx, Framing::Csv { fields: 2, delimiter: b',' }, Framing::Csv { fields: 2, delimiter: b';' }] {
            let all_at_once = cuts(&mut input(text.as_bytes(), framing, 1_000), bytes, records);
            let in_pieces = cuts(&mut input(text.as_bytes(), framing, read_ahead), bytes, records);
            prop_assert_eq!(all_at_once, in_pieces);
        }
    }
}
