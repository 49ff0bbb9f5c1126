//! The largest timestamp of a streamlet: found by chunk, without looking at records.

use crate::{
    error::ReadError,
    format::DATA_START,
    read::{ChunkTime, lost},
    segment::Segment,
    streamlet::Streamlet,
    walk::Walker,
};
use std::{io, sync::Arc};

/// The length of one read while only references are read.
const SEEK_BYTES: u64 = 4096;

impl Streamlet {
    /// The largest timestamp of the visible chunks that end below `below`, with the first chunk
    /// that has it. None if there are no chunks. The offset is at least the streamlet's start.
    ///
    /// # Errors
    /// A chunk's reference cannot be read.
    pub fn max_timestamp(&self, below: i64) -> Result<Option<ChunkTime>, ReadError> {
        self.max_timestamp_within(i64::MIN, below)
    }

    /// As [`Self::max_timestamp`], among chunks that end at `from` or after it. The offset is at
    /// least `from`.
    ///
    /// # Errors
    /// A chunk's reference cannot be read.
    pub fn max_timestamp_within(
        &self,
        from: i64,
        below: i64,
    ) -> Result<Option<ChunkTime>, ReadError> {
        let (start, below) = {
            let offsets = self.offsets();
            (offsets.start().max(from), offsets.watermark().min(below))
        };
        let mut segments: Vec<(i64, i64, Arc<Segment>)> = Vec::new();
        for segment in self.segments().values() {
            let state = segment.state();
            if state.end > start && state.first < below {
                segments.push((state.max_timestamp_ms, state.first, Arc::clone(segment)));
            }
        }
        segments.sort_by_key(|(latest, first, _)| (std::cmp::Reverse(*latest), *first));
        let key = |it: &ChunkTime| (it.max_timestamp_ms, -it.offset);
        let mut best: Option<ChunkTime> = None;
        for (latest, _, segment) in segments {
            if best.is_some_and(|it| it.max_timestamp_ms > latest) {
                break;
            }
            let found = match self.latest_in(&segment, start, below) {
                Err(_) if segment.is_retired() => continue,
                other => other.map_err(|error| lost(&segment, error))?,
            };
            let Some(found) = found else { continue };
            if best.is_none_or(|it| key(&found) > key(&it)) {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// As [`Self::max_timestamp`], in one segment.
    fn latest_in(
        &self,
        segment: &Arc<Segment>,
        start: i64,
        below: i64,
    ) -> io::Result<Option<ChunkTime>> {
        let written = segment.state().written;
        let file = segment.reader(&*self.shared.world.disk)?;
        let mut walker = Walker::new(file, segment.key, SEEK_BYTES)?;
        let (mut position, mut best) = (DATA_START, None::<ChunkTime>);
        while position < written {
            // Damage is skipped here: reads there report it.
            let found = match walker.reference(position)? {
                Some(reference) => Some((position, reference)),
                None => walker.find(position + 8, written)?,
            };
            let Some((place, reference)) = found else { break };
            if reference.last >= below {
                break;
            }
            let later = |it: &ChunkTime| reference.max_timestamp_ms > it.max_timestamp_ms;
            if reference.last >= start && best.as_ref().is_none_or(later) {
                best = Some(ChunkTime::of(&reference, start));
            }
            position = place + reference.entry_bytes();
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests;
