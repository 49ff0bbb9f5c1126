//! Opening a streamlet's segments after a stop, clean or not.
//!
//! A sealed segment is trusted; reads check it. An open one is scanned from its mark on:
//!
//! ```text
//! head │ … mark │ good │ good │ bad │ …
//!                              ▲ a later reference says "durable below me": damage, kept, told
//!                              └ no later one says so: a torn tail, cut here
//! ```
//!
//! Then all chunks behind a gap of offsets are cut: they were never acknowledged, and a prefix of
//! the appended chunks is left. A gap below the floor, which references carry, is damage instead:
//! nothing is cut.
//!
//! Invariants: nothing acknowledged is cut; good chunks are copied aside before they are cut; a
//! segment is sealed where it is cut, durably, before anything else happens to it, so the next
//! recovery completes one that was cut short; every recovered segment is sealed: a new life appends
//! to new files only.

use crate::{
    epoch_journal::Truncation,
    epochs::EpochStart,
    error::LogError,
    format::{ChunkRef, DATA_START, SegmentHead, SegmentMark},
    ids::{SegmentKey, SegmentName},
    log_core::{LogCore, at},
    report::Finding,
    segment::Segment,
    streamlet::StreamCore,
    walk::Walker,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_types::{GroupIx, LeaderEpoch, Offset};

mod offset_gap;
mod pending_syncs;

pub(crate) use pending_syncs::{PendingSyncs, UnsyncedSegments};

/// The length of one read of a scan.
const SCAN_BYTES: u64 = 256 << 10;
/// The number of bytes behind zeros that a scan searches for proof of damage.
const BEHIND_ZEROS: u64 = 64 << 10;

/// The files of a streamlet after a stop, and what its metadata say.
pub(crate) struct StreamletRemains {
    pub(crate) files: Vec<SegmentFile>,
    pub(crate) next_group: GroupIx,
    pub(crate) start: i64,
}

/// The rest of a streamlet after a stop.
pub(crate) struct RecoveredStreamlet {
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Segments that are not durable to their end yet.
    pub(crate) unsynced: Vec<Arc<Segment>>,
    pub(crate) next_group: GroupIx,
    pub(crate) start: i64,
    pub(crate) next: i64,
    /// The epochs of the chunks that were read, in the order of their offsets.
    pub(crate) tail_epochs: Vec<EpochStart>,
}

/// A segment file whose head is good.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) path: PathBuf,
    pub(crate) key: SegmentKey,
    pub(crate) created_us: i64,
    /// Bytes behind the last chunk may be of an earlier use of the file.
    was_used: bool,
    pub(crate) mark: SegmentMark,
}

/// A chunk's place in a segment.
#[derive(Clone, Copy, Debug)]
struct ScannedChunk {
    base: i64,
    last: i64,
    position: u64,
    epoch: LeaderEpoch,
}

impl ScannedChunk {
    fn of(reference: &ChunkRef, position: u64) -> Self {
        let ChunkRef { base, last, leader_epoch: epoch, .. } = *reference;
        Self { base, last, position, epoch }
    }
}

/// A segment, scanned.
struct ScannedSegment {
    file: SegmentFile,
    /// The mark as it must be now.
    now: SegmentMark,
    /// The chunks above the mark.
    tail: Vec<ScannedChunk>,
    floor: i64,
    damaged: bool,
    /// Something stands behind the last good chunk.
    torn: bool,
}

/// Looks at a file in a stream's folder. An error of the disk is one; anything else that is wrong
/// with the file is a reason to set it aside.
pub(crate) fn inspect(
    shared: &LogCore,
    core: &StreamCore,
    path: &Path,
    name: SegmentName,
) -> Result<Result<SegmentFile, String>, LogError> {
    let file = shared.world.disk.open_read(path).map_err(at(path))?;
    let mut block = vec![0; DATA_START as usize];
    // What a file too short for its head lacks stays zero.
    let _filled = file.read_full_at(0, &mut block).map_err(at(path))?;
    let Some(head) = SegmentHead::decode(&block) else {
        return Ok(Err("its head cannot be read".into()));
    };
    let key = head.key;
    if key.stream != core.id || key.name() != name {
        return Ok(Err(format!("its head says it is {key} of stream {}", key.stream)));
    }
    let mark = SegmentMark::decode(&block, &key).unwrap_or_else(SegmentMark::none);
    let SegmentHead { created_us, was_used, .. } = head;
    Ok(Ok(SegmentFile { path: path.to_owned(), key, created_us, was_used, mark }))
}

/// Opens one streamlet. It may be served once the [`UnsyncedSegments`] are synced and marked.
/// Truncations that a crash cut short are carried out.
pub(crate) fn streamlet(
    shared: &LogCore,
    aside: &Path,
    remains: StreamletRemains,
    truncations: &[Truncation],
    always: bool,
    findings: &mut Vec<Finding>,
) -> Result<(RecoveredStreamlet, UnsyncedSegments), LogError> {
    let StreamletRemains { files, next_group, start } = remains;
    let mut scanned = Vec::with_capacity(files.len());
    for file in files {
        let path = file.path.clone();
        scanned.push(scan(shared, file, findings).map_err(at(&path))?);
    }
    for segment in &mut scanned {
        truncate(shared, aside, segment, truncations, findings)?;
    }
    let tail_epochs = tail_epochs(&scanned);
    let floor = scanned.iter().map(|it| it.floor).fold(start, i64::max);
    if let Some(gap) = offset_gap::find(shared, &scanned, floor)? {
        for segment in &mut scanned {
            let cut = |path, position, copy| Finding::BehindGap { path, position, copy };
            let found = offset_gap::cut(shared, aside, segment, (gap, floor), cut)?;
            findings.extend(found);
        }
    }
    // Never below the floor: if the newest segment is lost as a whole, offsets that others say are
    // durable are not given out again.
    let next = scanned.iter().map(|it| it.now.end).fold(floor, i64::max);
    let mut recovered = RecoveredStreamlet {
        segments: vec![],
        unsynced: vec![],
        next_group,
        start,
        next,
        tail_epochs,
    };
    let mut left = UnsyncedSegments::default();
    for segment in scanned {
        let path = segment.file.path.clone();
        settle(shared, segment, always, &mut recovered, &mut left).map_err(at(&path))?;
    }
    // Once all of it is durable, marks may say so.
    left.floor = if recovered.unsynced.is_empty() { next } else { floor };
    Ok((recovered, left))
}

/// Cuts off what a truncation took from a segment. What was durable before it says nothing about
/// offsets that are given out again.
fn truncate(
    shared: &LogCore,
    aside: &Path,
    segment: &mut ScannedSegment,
    truncations: &[Truncation],
    findings: &mut Vec<Finding>,
) -> Result<(), LogError> {
    let of_it = truncations.iter().filter(|it| segment.file.key.epoch < it.before);
    let Some(Offset(end)) = of_it.map(|it| it.end).min() else { return Ok(()) };
    segment.floor = segment.floor.min(end);
    segment.now.floor = segment.now.floor.min(end);
    let cut = |path, position, copy| Finding::Truncated { path, position, copy };
    findings.extend(offset_gap::cut(shared, aside, segment, (end, segment.floor), cut)?);
    Ok(())
}

/// The epochs of the chunks that were read.
fn tail_epochs(scanned: &[ScannedSegment]) -> Vec<EpochStart> {
    let chunks = scanned.iter().flat_map(|it| &it.tail);
    let mut epochs: Vec<EpochStart> =
        chunks.map(|it| EpochStart { epoch: it.epoch, start: Offset(it.base) }).collect();
    epochs.sort_by_key(|it| it.start);
    epochs.dedup_by_key(|it| it.epoch);
    epochs
}

fn scan(
    shared: &LogCore,
    file: SegmentFile,
    findings: &mut Vec<Finding>,
) -> io::Result<ScannedSegment> {
    let now = file.mark.clone();
    let floor = now.floor;
    let tail = Vec::new();
    let mut it = ScannedSegment { file, now, tail, floor, damaged: false, torn: false };
    let path = it.file.path.clone();
    let reader = shared.world.disk.open_read(&path)?;
    let mut walker = Walker::new(reader, it.file.key, SCAN_BYTES)?;
    // Without a mark nothing ever was durable in it.
    if it.now.sequence > 0 && it.now.position > walker.length() {
        findings.push(Finding::Damaged { path: path.clone(), position: walker.length() });
        it.damaged = true;
        it.now.sealed = true;
    }
    if it.now.cut && it.now.position < walker.length() {
        offset_gap::seal(shared, &mut it)?;
    }
    if it.now.sealed {
        return Ok(it);
    }
    loop {
        let position = it.now.position;
        if let Some((reference, _)) = walker.entry(position)? {
            it.pass(&reference, position);
            continue;
        }
        // Damage if some later chunk came after this place was durable.
        let Some(behind) = probe_tail(&mut walker, position)? else { break };
        let Some(place) = behind.proof else {
            // What an earlier life of the file left there is as it should be.
            if behind.nonzero && (behind.ours || !it.file.was_used) {
                findings.push(Finding::Torn { path, position });
            }
            it.torn = behind.nonzero;
            break;
        };
        findings.push(Finding::Damaged { path: path.clone(), position });
        it.damaged = true;
        it.now.position = place;
    }
    Ok(it)
}

/// The bytes at a position that has no good chunk.
struct TailProbe {
    /// Where the first chunk stands after it, if one of those came when this place was durable.
    proof: Option<u64>,
    /// There is anything but zeros.
    nonzero: bool,
    /// A reference of this segment is there, or after it.
    ours: bool,
}

/// Looks behind the last good chunk. None at the end of the file.
fn probe_tail(walker: &mut Walker, position: u64) -> io::Result<Option<TailProbe>> {
    let probe = walker.bytes(position, 4096)?;
    if probe.is_empty() {
        return Ok(None);
    }
    let nonzero = probe.iter().any(|byte| *byte != 0);
    let until = if nonzero { walker.length() } else { position + BEHIND_ZEROS };
    let mut from = position + 8;
    let mut first = None;
    while let Some((place, reference)) = walker.find(from, until)? {
        let first = *first.get_or_insert(place);
        if reference.durable > position {
            return Ok(Some(TailProbe { proof: Some(first), nonzero, ours: true }));
        }
        from = place + 8;
    }
    let ours = first.is_some() || walker.reference(position)?.is_some();
    Ok(Some(TailProbe { proof: None, nonzero, ours }))
}

impl ScannedSegment {
    /// A good chunk stands at `position`.
    fn pass(&mut self, reference: &ChunkRef, position: u64) {
        let now = &mut self.now;
        if now.first == now.end {
            now.first = reference.base;
        }
        now.position = position + reference.entry_bytes();
        now.end = reference.last + 1;
        now.offsets += reference.last + 1 - reference.base;
        now.max_timestamp_ms = now.max_timestamp_ms.max(reference.max_timestamp_ms);
        now.appended_s = now.appended_s.max(reference.appended_s);
        self.floor = self.floor.max(reference.floor);
        self.tail.push(ScannedChunk::of(reference, position));
    }
}

/// Makes a segment part of the streamlet, sealed. With `always` it must be synced before it is
/// served; else the sync threads see to that.
fn settle(
    shared: &LogCore,
    segment: ScannedSegment,
    always: bool,
    recovered: &mut RecoveredStreamlet,
    left: &mut UnsyncedSegments,
) -> io::Result<()> {
    let ScannedSegment { file, now, damaged, torn, .. } = segment;
    if now.position == DATA_START && !damaged {
        // No chunk of this life ever became durable in it.
        let folder = file.path.parent().unwrap_or(Path::new(""));
        return shared.recycle(folder, std::slice::from_ref(&file.path));
    }
    let settled = Arc::new(Segment::recovered(file.key, file.path.clone(), &now));
    let created_s = u32::try_from(file.created_us / 1_000_000).unwrap_or(0);
    settled.state().before_s = created_s;
    recovered.segments.push(Arc::clone(&settled));
    if now == file.mark && now.sealed {
        return Ok(());
    }
    settled.seal();
    let placed = settled.file(shared)?;
    // Space that was merely reserved can wait: to give it back takes longer than all the rest.
    let spare = !damaged && !torn;
    if !damaged && !spare {
        placed.set_length(now.position)?;
    }
    let grown = now.position > file.mark.position;
    let later = grown && !always;
    {
        let mut state = settled.state();
        state.durable = file.mark.position.min(now.position);
        state.seal_marked = false;
        // Its first sync may never have come.
        state.name_durable = !grown;
        state.doubtful = grown;
        state.spare = spare;
        if later {
            state.unsynced = Some(now.first);
            state.durable_end = file.mark.end;
            state.durable_offsets = file.mark.offsets;
            // Opened again when its turn comes.
            state.file = None;
        }
    }
    if later {
        recovered.unsynced.push(settled);
        return Ok(());
    }
    if grown {
        left.pending.push(Arc::clone(&settled));
    }
    left.touched.push(settled);
    Ok(())
}
