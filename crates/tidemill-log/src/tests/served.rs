//! Chunks that are sent out of their files, on a real disk.

use super::*;
use crate::format::DATA_START;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

/// A log that keeps nothing in memory, and small and long chunks in it.
fn filled() -> (TempDir, Log, Arc<Streamlet>, Vec<Vec<u8>>) {
    filled_with(&World::real(), LogOptions { memory_bytes: ByteSize(0), ..LogOptions::default() })
}

fn filled_with(world: &World, options: LogOptions) -> (TempDir, Log, Arc<Streamlet>, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let (log, streamlet, values) = filled_in(world, folder.path(), options);
    (folder, log, streamlet, values)
}

fn filled_in(
    world: &World,
    folder: &Path,
    options: LogOptions,
) -> (Log, Arc<Streamlet>, Vec<Vec<u8>>) {
    let log = Log::open(world, folder, options).unwrap();
    let spec = StreamSpec { segment_bytes: ByteSize(512 << 10), ..spec() };
    let streamlet = log.create("s", spec).unwrap().streamlet(0).unwrap();
    let values: Vec<Vec<u8>> = (0..40u8)
        .map(|index| vec![index; if index % 5 == 4 { 100 } else { 40_000 + usize::from(index) }])
        .collect();
    values.iter().for_each(|value| put(&streamlet, value).unwrap().wait().unwrap());
    (log, streamlet, values)
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

/// The first file of a log's one stream.
fn first_file(folder: &TempDir) -> PathBuf {
    let folders = std::fs::read_dir(folder.path().join("streams")).unwrap();
    let files = folders.flat_map(|it| std::fs::read_dir(it.unwrap().path()).unwrap());
    let paths = files.map(|it| it.unwrap().path());
    paths.filter(|it| it.extension().is_some_and(|it| it == "seg")).min().unwrap()
}

/// A place in the middle of the third chunk, and the byte there.
fn place_in_the_third(path: &Path) -> (u64, u8) {
    let bytes = std::fs::read(path).unwrap();
    let place = bytes.windows(64).position(|it| it == [2; 64]).unwrap() + 9_000;
    (place as u64, bytes[place])
}

/// Flips a bit in the middle of the third chunk, and later than now as the file system counts.
fn damage_the_third(folder: &TempDir) {
    let path = first_file(folder);
    let (place, byte) = place_in_the_third(&path);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let write = |byte| FileExt::write_all_at(&file, &[byte], place).unwrap();
    let (now, reader) = (World::real().clock.wall_micros(), World::real().disk.open_read(&path));
    let changed = || reader.as_ref().unwrap().changed_micros().unwrap();
    while changed() <= now {
        write(byte);
    }
    write(byte ^ 1);
}

/// Whether the system says what it has in its memory.
fn system_says(folder: &TempDir) -> bool {
    let file = World::real().disk.open_read(&first_file(folder)).unwrap();
    file.read_at(0, &mut [0; 8]).unwrap();
    file.is_cached(0, 8)
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
fn row_20_what_somebody_else_wrote_to_is_not_sent_unread() {
    let (folder, log, streamlet, values) = filled();
    damage_the_third(&folder);
    assert!(is_refused(&streamlet), "it was good when it was written");
    damage_the_third(&folder);
    let found = |all: &[Served]| -> Vec<Vec<u8>> {
        all.iter().map(|it| value(&bytes_of(it)).to_vec()).collect()
    };
    assert_eq!(found(&all_served(&streamlet, 1 << 20)), values, "mended, and read");
    let sent = all_served(&streamlet, 1 << 20);
    let Served::File(third) = &sent[2] else { panic!("it is not in memory") };
    assert_eq!(third.is_as_found(), system_says(&folder));
    assert_eq!(third.read_checked().unwrap(), third.read().unwrap());
    damage_the_third(&folder);
    assert!(!third.is_as_found(), "who has it and has not sent it yet, asks again");
    let error = third.read_checked().unwrap_err();
    let path = first_file(&folder).display().to_string();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    assert!(error.to_string().contains(&path), "{error}");
    assert!(is_refused(&streamlet), "it was good when it was read");
    log.close();
}

#[test]
fn row_20_what_left_the_systems_memory_is_not_sent_unread() {
    // A folder that is on a disk.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let options = LogOptions { memory_bytes: ByteSize(0), ..LogOptions::default() };
    let (log, streamlet, _) = filled_in(&World::real(), folder.path(), options);
    let segment = streamlet.segments().values().next().map(Arc::clone).unwrap();
    let place = DATA_START + (512 << 10) / 2;
    let is_trusted = || segment.state().checked.may_cover(place, streamlet.shared.lately());
    let sent = all_served_to(&streamlet, 3);
    assert!(is_trusted(), "this life wrote it");
    assert!(!is_refused(&streamlet));
    let file = std::fs::File::open(first_file(&folder)).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let Served::File(third) = &sent[2] else { panic!("it is not in memory") };
    assert!(!third.is_as_found(), "who has it and has not sent it yet, asks again");
    assert_eq!(all_served_to(&streamlet, 1).len(), 1);
    assert!(!is_trusted(), "what follows may have been read ahead, from a disk that changed it");
    log.close();
}

/// A real disk, and a clock that can be moved and is ahead of it: then who else writes to a file
/// seems to have done it before.
fn ahead() -> (SimWorld, World) {
    let sim = World::simulated(1);
    let real = World::real();
    let hour_us = 3_600_000_000;
    sim.clock.jump_wall(real.clock.wall_micros() - sim.world.clock.wall_micros() + hour_us);
    let world = World { clock: Arc::clone(&sim.world.clock), ..real };
    (sim, world)
}

#[test]
fn a_chunk_is_checked_again_after_a_while() {
    let (sim, world) = ahead();
    let options = LogOptions {
        memory_bytes: ByteSize(0),
        recheck: Span(60_000_000),
        ..LogOptions::default()
    };
    let (folder, log, streamlet, values) = filled_with(&world, options.clone());
    damage_the_third(&folder);
    let is_unread = system_says(&folder);
    assert_eq!(is_refused(&streamlet), !is_unread, "it was good when it was written");
    sim.clock.advance(60_000_000);
    assert!(is_refused(&streamlet));
    log.close();

    // Of what an earlier life wrote nothing is known.
    damage_the_third(&folder);
    let log = Log::open(&world, folder.path(), options).unwrap();
    let streamlet = log.get("s").unwrap().streamlet(0).unwrap();
    let path = first_file(&folder);
    let (place, byte) = place_in_the_third(&path);
    let mapped = World::real().disk.open_mapped(&path).unwrap();
    mapped.reserve(mapped.length().unwrap()).unwrap();
    // From now on, and until it is on the disk, the file system does not see what changes there.
    mapped.write_at(place, &[byte]).unwrap();
    let served = all_served(&streamlet, 1 << 20);
    let found: Vec<Vec<u8>> = served.iter().map(|it| value(&bytes_of(it)).to_vec()).collect();
    assert_eq!(found, values, "mended, and read");
    mapped.write_at(place, &[byte ^ 1]).unwrap();
    assert_eq!(is_refused(&streamlet), !is_unread, "it was good when it was read");
    sim.clock.advance(60_000_000);
    assert!(is_refused(&streamlet));
    log.close();
}

#[test]
fn young_chunks_are_sent_from_memory_once_they_were_written_long_ago() {
    let (sim, world) = ahead();
    let (folder, _log, streamlet, values) = filled_with(&world, LogOptions::default());
    let in_files = || {
        let served = all_served(&streamlet, 1 << 20);
        let found: Vec<Vec<u8>> = served.iter().map(|it| value(&bytes_of(it)).to_vec()).collect();
        assert_eq!(found, values);
        served.iter().filter(|it| matches!(it, Served::File(_))).count()
    };
    let long = if system_says(&folder) { 32 } else { 0 };
    assert_eq!(in_files(), long, "long ones, though they are in memory");
    sim.clock.advance(LogOptions::default().recheck.0.cast_unsigned());
    assert_eq!(in_files(), 0, "the file would have to be read first");
}

#[test]
fn young_chunks_are_sent_from_memory_if_somebody_else_wrote_to_the_file() {
    let (folder, _log, streamlet, values) = filled_with(&World::real(), LogOptions::default());
    damage_the_third(&folder);
    let served = all_served(&streamlet, 1 << 20);
    let found: Vec<Vec<u8>> = served.iter().map(|it| value(&bytes_of(it)).to_vec()).collect();
    assert_eq!(found, values);
    assert!(matches!(served[2], Served::Memory(_)));
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
