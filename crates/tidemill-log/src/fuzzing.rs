//! Arbitrary bytes as changes to the files of a log, for tests and for the fuzz target `log`.
//!
//! A change is eight bytes: an operation, a file, a position (2 bytes, big-endian) and a value (4
//! bytes). An operation can also repair the checksums of heads, marks, references and metadata, so
//! that the code behind the checksum is reached.

use crate::format::{ChunkRef, DATA_START, HEAD_COPY, MARKS, REF_BYTES, SegmentHead, SegmentMark};
use crate::ids::SegmentKey;
use crate::{
    AppendOptions, ChunkHead, Fsync, Landing, LeaderEpoch, Log, LogOptions, Offset, ReadCursor,
    ReadError, ReadLimit, StreamSpec, crc32c, epoch_journal,
    records::{ChunkBuilder, Compression, Records},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use tidemill_env::{Disk, SimWorld, World};
use tidemill_types::{ByteSize, Micros};

const FOLDER: &str = "/log";
/// Chunks that are written, each with one record that says its number.
const CHUNKS: i64 = 9;
/// Bytes of a head with its name and checksum, as it is written here.
const HEAD_BYTES: usize = 64 + 1 + 4;
/// A log that says otherwise in its metadata has more streamlets than are gone through here.
const STREAMLETS_MAX: u32 = 1000;

/// By path.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn open(sim: &SimWorld) -> Result<Log, crate::LogError> {
    let options = LogOptions {
        sync_threads: 0,
        streamlets_max: STREAMLETS_MAX,
        read_ahead_bytes: ByteSize(8192),
        ..LogOptions::default()
    };
    Log::open(&sim.world, Path::new(FOLDER), options)
}

fn chunk(number: i64) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    let value = format!("{number} {}", "v".repeat(number as usize * 40));
    drop(builder.append(number, None, Some(value.as_bytes()), std::iter::empty()));
    builder.finish().expect("it has a record").to_vec()
}

fn files_under(disk: &dyn Disk, folder: &Path, files: &mut Files) {
    for path in disk.list(folder).expect("it is there") {
        match disk.read(&path) {
            Ok(bytes) => drop(files.insert(path, bytes)),
            Err(_) => files_under(disk, &path, files),
        }
    }
}

/// The files of a log with a stream of two segments, the second of them open, and of two epochs.
fn written() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(|| {
        let sim = World::simulated(3);
        let log = open(&sim).expect("an empty disk");
        let spec = StreamSpec {
            segment_bytes: ByteSize(64 << 10),
            fsync: Some(Fsync::Os),
            ..StreamSpec::default()
        };
        let stream = log.create("s", spec).expect("there is room");
        let streamlet = stream.streamlet(0).expect("it has one");
        for number in 0..CHUNKS {
            if number == CHUNKS / 2 {
                let led = streamlet.become_leader(LeaderEpoch(3), Landing::Local);
                led.expect("there is room");
            }
            let append = streamlet.append(&chunk(number), AppendOptions::default());
            append.expect("there is room").on_durable(Box::new(|it| it.expect("there is room")));
            log.sync();
        }
        log.close();
        let mut files = Files::new();
        files_under(&*sim.world.disk, Path::new(FOLDER), &mut files);
        files.retain(|path, _| path.file_name().is_some_and(|it| it != "lock"));
        files
    })
}

/// Sets the checksum of JSON metadata right.
fn seal_meta(bytes: &mut Vec<u8>) {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let json = bytes.split_off(end + 1);
    *bytes = format!("tidemill-meta 1 crc32c={:08x}\n", crc32c(&json)).into_bytes();
    bytes.extend_from_slice(&json);
}

/// Sets the checksums of a segment's heads, marks and first references right.
fn seal_segment(bytes: &mut [u8], key: &SegmentKey) {
    for at in [0, HEAD_COPY] {
        let Some(head) = bytes.get_mut(at..at + HEAD_BYTES) else { continue };
        let crc = crc32c(&head[..HEAD_BYTES - 4]);
        head[HEAD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    }
    for at in MARKS {
        if let Some(mark) = bytes.get_mut(at..) {
            SegmentMark::seal(mark, key);
        }
    }
    let mut at = DATA_START as usize;
    while let Some(reference) = bytes.get_mut(at..at + REF_BYTES) {
        ChunkRef::seal(reference, key, at as u64);
        let Some(found) = ChunkRef::decode(reference, key, at as u64) else { break };
        let Some(next) = at.checked_add(found.entry_bytes() as usize) else { break };
        at = next;
    }
}

fn change(files: &mut Files, change: &[u8; 8]) -> bool {
    let [what, which, at @ .., a, b, c, d] = *change;
    let paths: Vec<PathBuf> = files.keys().cloned().collect();
    let path = paths[usize::from(which) % paths.len()].clone();
    let is_segment = path.extension().is_some_and(|it| it == "seg");
    let bytes = files.get_mut(&path).expect("it is one of them");
    if bytes.is_empty() {
        return false;
    }
    let at = usize::from(u16::from_be_bytes(at)) % bytes.len();
    // Who it was meant to be: checksums cover that.
    let key = SegmentHead::decode(bytes).map(|it| it.key);
    match what % 4 {
        0 => bytes[at] ^= a.max(1),
        1 => bytes.truncate(at),
        2 => {
            let end = bytes.len().min(at + 4);
            bytes[at..end].copy_from_slice(&[a, b, c, d][..end - at]);
        }
        // Lengths and offsets that are as large as they can be.
        _ => {
            let end = bytes.len().min(at + 8);
            bytes[at..end].fill(a);
        }
    }
    let seals = what & 4 != 0;
    match key {
        Some(key) if seals && is_segment => seal_segment(bytes, &key),
        _ if seals && path.ends_with("epochs") => epoch_journal::seal(bytes),
        _ if seals && !is_segment => seal_meta(bytes),
        _ => {}
    }
    if what & 8 != 0 && is_segment {
        let bytes = files.remove(&path).expect("it is one of them");
        let group = u64::from_be_bytes([a, b, c, d, a, b, c, d]);
        let name = format!("{:08x}-{group:012x}-{:04x}.seg", which % 4, d);
        files.insert(path.with_file_name(name), bytes);
    }
    seals
}

/// Opens a log whose files were changed by these bytes, and reads all of it. Each chunk that is
/// served must be whole and in order; if no checksum was repaired, it must be the one that was
/// written.
///
/// # Panics
/// A chunk that is served is not so.
pub fn log(bytes: &[u8]) {
    let mut files = written().clone();
    let mut is_damage = true;
    for it in bytes.as_chunks().0.iter().take(8) {
        is_damage &= !change(&mut files, it);
    }
    let sim = World::simulated(4);
    for (path, bytes) in &files {
        sim.disk.put(path, bytes);
    }
    let Ok(log) = open(&sim) else { return };
    for stream in log.list() {
        for streamlet in stream.streamlets() {
            let _latest = streamlet.max_timestamp(i64::MAX);
            let _found = streamlet.offset_for_time(3);
            let (mut cursor, mut offset) = (ReadCursor::default(), streamlet.start_offset());
            for _ in 0..4 * CHUNKS {
                match streamlet.read(&mut cursor, offset, ReadLimit::default()) {
                    Ok(found) if found.next_offset <= offset => break,
                    Ok(found) => {
                        for chunk in &found.chunks {
                            let head = ChunkHead::check(chunk).expect("what is served is whole");
                            if is_damage {
                                check(&head, chunk);
                            }
                        }
                        offset = found.next_offset;
                    }
                    Err(ReadError::Corrupt { next: Some(next), .. })
                    | Err(ReadError::Missing { next, .. })
                        if next > offset =>
                    {
                        offset = next;
                    }
                    Err(_) => break,
                }
            }
            let newest = streamlet.leader_epoch();
            let end = Offset(streamlet.end_offset());
            for epoch in [LeaderEpoch(0), LeaderEpoch(3), newest] {
                let _end = streamlet.end_of_epoch(epoch, end);
            }
            let _epoch = streamlet.epoch_at(Offset(streamlet.start_offset()));
            let next = LeaderEpoch(newest.0.saturating_add(1));
            let _led = streamlet.become_leader(next, Landing::Local);
            let append = streamlet.append(&chunk(1), AppendOptions::default());
            if let Ok(append) = append {
                append.on_durable(Box::new(|_| ()));
            }
        }
    }
    log.sync();
    let _removed = log.maintain(Micros(1));
    log.close();
}

/// The chunk is the one that was written with this offset.
fn check(head: &ChunkHead, chunk: &[u8]) {
    let mut records = Records::new(head, &chunk[crate::CHUNK_HEAD_BYTES..]);
    let record = records.next().expect("one").expect("it is whole");
    let value = record.value.expect("it has one");
    let number = format!("{} ", head.base_offset);
    assert!(value.starts_with(number.as_bytes()), "offset {} has {value:?}", head.base_offset);
}

/// Changes of each kind.
#[must_use]
pub fn log_seeds() -> Vec<Vec<u8>> {
    let files = written().len() as u8;
    let one = |what: u8| (0..files).flat_map(move |which| [what, which, 2, 20, 255, 255, 255, 255]);
    (0..16).map(|what| one(what).collect()).collect()
}

#[cfg(test)]
mod tests;
