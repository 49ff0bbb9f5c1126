//! The largest timestamp of a streamlet: found by chunk, without looking at records.

use crate::{
    error::ReadError, format::DATA_START, read::lost, segment::Segment, streamlet::Streamlet,
    walk::Walker,
};
use std::{io, sync::Arc};

/// Reads of references alone take so many bytes at once.
const SEEK_BYTES: u64 = 4096;

impl Streamlet {
    /// The first visible chunk, by offset, with the largest timestamp of those that end below
    /// `below`: its base offset (or the streamlet's start, if that is in the middle of it) and
    /// that timestamp. None if there are no chunks.
    ///
    /// # Errors
    /// What stands there is unreadable.
    pub fn latest_time(&self, below: i64) -> Result<Option<(i64, i64)>, ReadError> {
        self.latest_time_within(i64::MIN, below)
    }

    /// As [`Self::latest_time`], among chunks that end at `from` or after it: of one that begins
    /// before that, `from` is given for its base offset.
    ///
    /// # Errors
    /// What stands there is unreadable.
    pub fn latest_time_within(
        &self,
        from: i64,
        below: i64,
    ) -> Result<Option<(i64, i64)>, ReadError> {
        let (start, below) = {
            let progress = self.progress();
            (progress.start().max(from), progress.watermark().min(below))
        };
        let mut segments: Vec<(i64, i64, Arc<Segment>)> = Vec::new();
        for segment in self.segments().values() {
            let state = segment.state();
            if state.end > start && state.first < below {
                segments.push((state.max_timestamp_ms, state.first, Arc::clone(segment)));
            }
        }
        segments.sort_by_key(|(latest, first, _)| (std::cmp::Reverse(*latest), *first));
        let mut best: Option<(i64, i64)> = None;
        for (latest, _, segment) in segments {
            if best.is_some_and(|(_, time)| time > latest) {
                break;
            }
            let found = match self.latest_in(&segment, start, below) {
                Err(_) if segment.is_retired() => continue,
                other => other.map_err(|error| lost(&segment, error))?,
            };
            let Some(found) = found else { continue };
            if best.is_none_or(|it| (found.1, -found.0) > (it.1, -it.0)) {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// As [`Self::latest_time`], in one segment.
    fn latest_in(
        &self,
        segment: &Arc<Segment>,
        start: i64,
        below: i64,
    ) -> io::Result<Option<(i64, i64)>> {
        let written = segment.state().written;
        let file = segment.reader(&*self.shared.world.disk)?;
        let mut walker = Walker::new(file, segment.key, SEEK_BYTES)?;
        let (mut position, mut best) = (DATA_START, None);
        while position < written {
            // Damage is stepped over here: whoever reads there is told.
            let found = match walker.reference(position)? {
                Some(reference) => Some((position, reference)),
                None => walker.find(position + 8, written)?,
            };
            let Some((place, reference)) = found else { break };
            if reference.last >= below {
                break;
            }
            let later = |(_, time): &(i64, i64)| reference.max_timestamp_ms > *time;
            if reference.last >= start && best.as_ref().is_none_or(later) {
                best = Some((reference.base.max(start), reference.max_timestamp_ms));
            }
            position = place + reference.entry_bytes();
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests;
