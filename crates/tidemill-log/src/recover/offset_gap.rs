//! Gaps of offsets between the segments of a streamlet, and the cut of the chunks behind one.

use super::{ScannedChunk, ScannedSegment, SegmentFile};
use crate::{
    error::LogError,
    format::DATA_START,
    log_core::{LogCore, at},
    report::Finding,
    walk::Walker,
};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The first offset from `floor` on that no segment has, though one has a later offset. None if
/// there is none, or if there is damage that explains it.
pub(super) fn find(
    shared: &LogCore,
    segments: &[ScannedSegment],
    floor: i64,
) -> Result<Option<i64>, LogError> {
    let mut above: Vec<&ScannedSegment> = segments.iter().filter(|it| it.now.end > floor).collect();
    above.sort_by_key(|it| it.now.first);
    let whole = |it: &&&ScannedSegment| it.now.offsets == it.now.end - it.now.first;
    let in_turn = above.windows(2).all(|it| it[0].now.end == it[1].now.first)
        && above.iter().filter(whole).count() == above.len();
    let begins = above.first().is_none_or(|it| it.now.first <= floor);
    if (in_turn && begins) || segments.iter().any(|it| it.damaged) {
        return Ok(None);
    }
    let mut places = Vec::new();
    for segment in above {
        places.extend(chunks(shared, segment, floor).map_err(at(&segment.file.path))?);
    }
    places.sort_by_key(|it| it.base);
    Ok(first_gap(&places, floor))
}

/// The first offset from `from` on that is in no chunk, though a later one is.
fn first_gap(places: &[ScannedChunk], from: i64) -> Option<i64> {
    let mut next = from;
    for place in places {
        if place.base > next {
            return Some(next);
        }
        next = next.max(place.last + 1);
    }
    None
}

/// The chunks of a segment that have offsets from `from` on.
fn chunks(shared: &LogCore, segment: &ScannedSegment, from: i64) -> io::Result<Vec<ScannedChunk>> {
    let mut places: Vec<ScannedChunk> = Vec::new();
    if segment.file.mark.end > from {
        let reader = shared.world.disk.open_read(&segment.file.path)?;
        let mut walker = Walker::new(reader, segment.file.key, 4096)?;
        let mut position = DATA_START;
        while position < segment.file.mark.position {
            let Some(reference) = walker.reference(position)? else {
                // Behind damage there may be more.
                let found = walker.find(position + 8, segment.file.mark.position)?;
                let Some((place, _)) = found else { break };
                position = place;
                continue;
            };
            places.push(ScannedChunk::of(&reference, position));
            position += reference.entry_bytes();
        }
    }
    places.extend(&segment.tail);
    places.retain(|it| it.last >= from);
    Ok(places)
}

/// Cuts a segment's chunks from offset `end` on, after copying them aside. Says so if there are
/// any.
pub(super) fn cut(
    shared: &LogCore,
    aside: &Path,
    segment: &mut ScannedSegment,
    (end, floor): (i64, i64),
    finding: impl FnOnce(PathBuf, u64, PathBuf) -> Finding,
) -> Result<Option<Finding>, LogError> {
    if segment.now.end <= end {
        return Ok(None);
    }
    let path = segment.file.path.clone();
    let places = chunks(shared, segment, i64::MIN).map_err(at(&path))?;
    let index = places.iter().position(|it| it.last >= end);
    let Some(index) = index else { return Ok(None) };
    let position = places[index].position;
    let copy = copy_aside(shared, aside, segment, position)?;
    let now = &mut segment.now;
    now.position = position;
    now.first = now.first.min(end);
    now.end = index.checked_sub(1).map_or(now.first, |it| places[it].last + 1);
    now.offsets = places[..index].iter().map(|it| it.last + 1 - it.base).sum();
    now.floor = floor;
    // From here on they are those below the mark.
    segment.tail.clear();
    seal(shared, segment).map_err(at(&path))?;
    Ok(Some(finding(path, position, copy)))
}

/// Copies a segment's bytes from `position` on. Returns the path of the copy.
fn copy_aside(
    shared: &LogCore,
    aside: &Path,
    segment: &ScannedSegment,
    position: u64,
) -> Result<PathBuf, LogError> {
    let path = &segment.file.path;
    let disk = &*shared.world.disk;
    let bytes = disk.read(path).map_err(at(path))?;
    let end = (segment.now.position as usize).min(bytes.len());
    let name = path.file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
    let copy = aside.join(format!("{}-{name}-{position}", segment.file.key.stream));
    disk.create_dir_all(aside).map_err(at(aside))?;
    let mut file = disk.create(&copy).map_err(at(&copy))?;
    file.append(&bytes[(position as usize).min(end)..end]).map_err(at(&copy))?;
    file.sync().map_err(at(&copy))?;
    disk.sync_dir(aside).map_err(at(aside))?;
    let above = aside.parent().unwrap_or(Path::new(""));
    disk.sync_dir(above).map_err(at(above))?;
    Ok(copy)
}

/// Seals a segment where it ends now, durably: whatever stands behind is nothing from then on, and
/// comes back in no later life. The mark has the floor too, which references that are cut off may
/// be the only ones to know. A file that is as short as its mark says was sealed durably; of a
/// longer one, whose recovery was cut short, that is not known, and it is sealed again.
pub(super) fn seal(shared: &LogCore, segment: &mut ScannedSegment) -> io::Result<()> {
    let ScannedSegment { file: SegmentFile { path, key, mark, .. }, now, .. } = segment;
    let file = shared.world.disk.open_random_access(path)?;
    // It may still have to tell of a sync that failed in an earlier life. What that was about, if it
    // stays, is written again.
    let _of_an_earlier_life = file.sync();
    if now.position > mark.position {
        file.rewrite(0, DATA_START)?;
        file.rewrite(mark.position, now.position)?;
        file.sync()?;
    }
    shared.world.disk.sync_dir(path.parent().unwrap_or(Path::new("")))?;
    now.sequence = mark.sequence + 1;
    (now.sealed, now.cut) = (true, true);
    let (place, bytes) = now.encode(key);
    file.write_at(place, &bytes)?;
    file.sync()?;
    *mark = now.clone();
    file.set_length(now.position)
}

#[cfg(test)]
mod tests;
