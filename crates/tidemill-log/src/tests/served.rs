//! Chunks that are sent out of their files, on a real disk.

use super::*;
use tempfile::TempDir;

/// A log that keeps nothing in memory, and small and long chunks in it.
fn filled() -> (TempDir, Log, Arc<Streamlet>, Vec<Vec<u8>>) {
    filled_with(&World::real(), LogOptions { memory_bytes: ByteSize(0), ..LogOptions::default() })
}

fn filled_with(world: &World, options: LogOptions) -> (TempDir, Log, Arc<Streamlet>, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(world, folder.path(), options).unwrap();
    let spec = StreamSpec { segment_bytes: ByteSize(512 << 10), ..spec() };
    let streamlet = log.create("s", spec).unwrap().streamlet(0).unwrap();
    let values: Vec<Vec<u8>> = (0..40u8)
        .map(|index| vec![index; if index % 5 == 4 { 100 } else { 40_000 + usize::from(index) }])
        .collect();
    values.iter().for_each(|value| put(&streamlet, value).unwrap().wait().unwrap());
    (folder, log, streamlet, values)
}

fn bytes_of(served: &Served) -> Vec<u8> {
    match served {
        Served::Memory(bytes) => bytes.to_vec(),
        Served::File(chunk) => {
            assert!(chunk.place().is_some() && chunk.bytes() > 40_000);
            chunk.read().unwrap().to_vec()
        }
    }
}

/// Chunks below an offset, by a read to send.
fn all_served_to(streamlet: &Streamlet, below: i64) -> Vec<Served> {
    let limit = ReadLimit { max_bytes: usize::MAX, below, ..ReadLimit::default() };
    streamlet.read_to_send(&mut ReadCursor::default(), 0, limit).unwrap().chunks
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
    for max_bytes in [1, 60_000, 200_000, 1 << 20] {
        let served = all_served(&streamlet, max_bytes);
        let found: Vec<Vec<u8>> = served.iter().map(|it| value(&bytes_of(it)).to_vec()).collect();
        assert_eq!(found, values, "{max_bytes} bytes at once");
        let files = served.iter().filter(|it| matches!(it, Served::File(_))).count();
        assert_eq!(files, 32, "long chunks, and no others");
    }
}

#[test]
fn row_38_a_file_that_was_sent_is_not_used_again() {
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
        put(&other, &[0xee; 40_000]).unwrap().wait().unwrap();
    }
    for (served, expected) in served.iter().zip(&values) {
        assert_eq!(value(&bytes_of(served)), expected);
    }
    let others = log.get("other").unwrap();
    drop(all_served_to(&other, 20));
    others.delete_records(&other, 20).unwrap();
    assert_eq!(pooled(), 0, "nobody has them, but the system may still have them on their way");
    others.delete_records(&other, 40).unwrap();
    assert!(pooled() > 0, "of these nothing was ever sent");
}

/// Flips a bit in the middle of the third chunk.
fn damage_the_third(folder: &TempDir) {
    let mut segments: Vec<PathBuf> = std::fs::read_dir(folder.path().join("streams"))
        .unwrap()
        .flat_map(|it| std::fs::read_dir(it.unwrap().path()).unwrap())
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "seg"))
        .collect();
    segments.sort();
    let bytes = std::fs::read(&segments[0]).unwrap();
    let place = bytes.windows(64).position(|it| it == [2; 64]).unwrap() + 9_000;
    let file = std::fs::OpenOptions::new().write(true).open(&segments[0]).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[bytes[place] ^ 1], place as u64).unwrap();
}

fn is_refused(streamlet: &Streamlet) -> bool {
    let mut cursor = ReadCursor::default();
    let good = streamlet.read_to_send(&mut cursor, 0, ReadLimit::default()).unwrap();
    if good.next_offset > 2 {
        assert!(matches!(good.chunks[2], Served::File(_)), "it is not in memory");
        return false;
    }
    assert_eq!((good.chunks.len(), good.next_offset), (2, 2), "what stands before it");
    let refused = streamlet.read_to_send(&mut cursor, 2, ReadLimit::default());
    assert!(matches!(refused, Err(ReadError::Corrupt { offset: 2, .. })), "{refused:?}");
    true
}

#[test]
fn damage_is_found_before_a_chunk_is_sent_from_its_file() {
    let options =
        LogOptions { memory_bytes: ByteSize(0), recheck: Span(0), ..LogOptions::default() };
    let (folder, _log, streamlet, _) = filled_with(&World::real(), options);
    assert!(!is_refused(&streamlet));
    damage_the_third(&folder);
    assert!(is_refused(&streamlet));
}

#[test]
fn a_chunk_is_checked_again_after_a_while() {
    let sim = World::simulated(1);
    let world = World { clock: Arc::clone(&sim.world.clock), ..World::real() };
    let options = LogOptions {
        memory_bytes: ByteSize(0),
        recheck: Span(60_000_000),
        ..LogOptions::default()
    };
    let (folder, log, streamlet, values) = filled_with(&world, options.clone());
    damage_the_third(&folder);
    assert!(!is_refused(&streamlet), "it was good when it was written");
    sim.clock.advance(60_000_000);
    assert!(is_refused(&streamlet));
    log.close();

    // Of what an earlier life wrote nothing is known.
    damage_the_third(&folder);
    let log = Log::open(&world, folder.path(), options).unwrap();
    let streamlet = log.get("s").unwrap().streamlet(0).unwrap();
    let served = all_served(&streamlet, 1 << 20);
    let found: Vec<Vec<u8>> = served.iter().map(|it| value(&bytes_of(it)).to_vec()).collect();
    assert_eq!(found, values, "mended, and read");
    damage_the_third(&folder);
    assert!(!is_refused(&streamlet), "it was good when it was read");
    sim.clock.advance(60_000_000);
    assert!(is_refused(&streamlet));
}

#[test]
fn young_chunks_are_sent_from_memory_once_they_were_written_long_ago() {
    let sim = World::simulated(1);
    let world = World { clock: Arc::clone(&sim.world.clock), ..World::real() };
    let (_folder, _log, streamlet, values) = filled_with(&world, LogOptions::default());
    let in_files = || {
        let served = all_served(&streamlet, 1 << 20);
        let found: Vec<Vec<u8>> = served.iter().map(|it| value(&bytes_of(it)).to_vec()).collect();
        assert_eq!(found, values);
        served.iter().filter(|it| matches!(it, Served::File(_))).count()
    };
    assert_eq!(in_files(), 32, "long ones, though they are in memory");
    sim.clock.advance(LogOptions::default().recheck.0.cast_unsigned());
    assert_eq!(in_files(), 0, "the file would have to be read first");
}

#[test]
fn one_cursor_reads_and_sends_in_turn() {
    let (_folder, _log, streamlet, values) = filled();
    let mut cursor = ReadCursor::default();
    let one = ReadLimit { max_bytes: 1, ..ReadLimit::default() };
    for (offset, expected) in values.iter().enumerate() {
        let offset = offset as i64;
        let sent = streamlet.read_to_send(&mut cursor, offset, one).unwrap();
        assert_eq!(value(&bytes_of(&sent.chunks[0])), expected);
        // The next one is looked at, and left; then somebody wants its bytes.
        let none = ReadLimit { max_bytes: 0, at_least_one: false, ..one };
        assert!(streamlet.read_to_send(&mut cursor, offset + 1, none).unwrap().chunks.is_empty());
        let read = streamlet.read(&mut cursor, offset + 1, none).unwrap();
        assert!(read.chunks.is_empty());
        if offset % 2 == 0 && offset + 1 < values.len() as i64 {
            let read = streamlet.read(&mut cursor, offset + 1, one).unwrap();
            assert_eq!(value(&read.chunks[0]), &values[offset as usize + 1]);
        }
    }
}
