//! Chunks that are sent out of their files, on a real disk.

use super::*;
use tempfile::TempDir;

/// A log that keeps nothing in memory, and small and long chunks in it.
fn filled() -> (TempDir, Log, Arc<Streamlet>, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let options = LogOptions { memory_bytes: ByteSize(0), ..LogOptions::default() };
    let log = Log::open(&World::real(), folder.path(), options).unwrap();
    let spec = StreamSpec { segment_bytes: ByteSize(256 << 10), ..spec() };
    let streamlet = log.create("s", spec).unwrap().streamlet(0).unwrap();
    let values: Vec<Vec<u8>> = (0..40u8)
        .map(|index| vec![index; if index % 5 == 4 { 100 } else { 20_000 + usize::from(index) }])
        .collect();
    values.iter().for_each(|value| put(&streamlet, value).unwrap().wait().unwrap());
    (folder, log, streamlet, values)
}

fn bytes_of(served: &Served) -> Vec<u8> {
    match served {
        Served::Memory(bytes) => bytes.to_vec(),
        Served::File(chunk) => {
            assert!(chunk.place().is_some() && chunk.bytes() > 20_000);
            chunk.read().unwrap().to_vec()
        }
    }
}

/// All chunks, by reads to send of at most `max_bytes`.
fn all_served(streamlet: &Streamlet, max_bytes: usize) -> Vec<Served> {
    let (mut cursor, mut all) = (ReadCursor::default(), Vec::new());
    let mut offset = streamlet.start_offset();
    loop {
        let limit = ReadLimit { max_bytes, ..ReadLimit::default() };
        let found = streamlet.read_to_send(&mut cursor, offset, limit).unwrap();
        if found.chunks.is_empty() {
            return all;
        }
        offset = found.next_offset;
        all.extend(found.chunks);
    }
}

#[test]
fn what_is_sent_from_files_is_what_was_written() {
    let (_folder, _log, streamlet, values) = filled();
    for max_bytes in [1, 30_000, 100_000, 1 << 20] {
        let served = all_served(&streamlet, max_bytes);
        let found: Vec<Vec<u8>> = served.iter().map(|it| value(&bytes_of(it)).to_vec()).collect();
        assert_eq!(found, values, "{max_bytes} bytes at once");
        let files = served.iter().filter(|it| matches!(it, Served::File(_))).count();
        assert_eq!(files, 32, "long chunks, and no others");
    }
}

#[test]
fn row_38_a_file_is_not_used_again_while_it_is_sent() {
    let (folder, log, streamlet, values) = filled();
    let served = all_served(&streamlet, 1 << 20);
    let stream = log.get("s").unwrap();
    stream.delete_records(&streamlet, 40).unwrap();
    log.maintain(Micros(World::real().clock.wall_micros())).unwrap();
    let pooled = || std::fs::read_dir(folder.path().join("pool")).map_or(0, Iterator::count);
    assert_eq!(pooled(), 0, "somebody still sends them");
    // Files of another stream, where the old ones would be used again.
    let other = log.create("other", spec()).unwrap().streamlet(0).unwrap();
    for _ in 0..40 {
        put(&other, &[0xee; 20_000]).unwrap().wait().unwrap();
    }
    for (served, expected) in served.iter().zip(&values) {
        assert_eq!(value(&bytes_of(served)), expected);
    }
    drop(served);
    log.get("other").unwrap().delete_records(&other, 40).unwrap();
    assert!(pooled() > 0, "nobody sends these");
}

#[test]
fn damage_is_found_before_a_chunk_is_sent_from_its_file() {
    let (folder, _log, streamlet, _) = filled();
    let mut segments: Vec<PathBuf> = std::fs::read_dir(folder.path().join("streams"))
        .unwrap()
        .flat_map(|it| std::fs::read_dir(it.unwrap().path()).unwrap())
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "seg"))
        .collect();
    segments.sort();
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    let place = bytes.windows(64).position(|it| it == [2; 64]).unwrap() + 9_000;
    bytes[place] ^= 1;
    std::fs::write(&segments[0], &bytes).unwrap();
    let mut cursor = ReadCursor::default();
    let good = streamlet.read_to_send(&mut cursor, 0, ReadLimit::default()).unwrap();
    assert_eq!((good.chunks.len(), good.next_offset), (2, 2), "what stands before it");
    let refused = streamlet.read_to_send(&mut cursor, 2, ReadLimit::default());
    assert!(matches!(refused, Err(ReadError::Corrupt { offset: 2, .. })), "{refused:?}");
}
