//! Retention: deletion by age, by size and by request. A streamlet's start moves forward, durably;
//! then the files of the sealed segments below it are recycled.
//!
//! Invariants: only sealed segments below the watermark go; the new start is on the disk before a
//! file goes; a clock that jumps forward alone deletes nothing, and neither does one that is wrong
//! when the log is opened and is set right soon after; chunks that came while the clock was ahead
//! go at their time once it is right.

use crate::{
    error::LogError,
    log_core::at,
    segment::{Segment, SyncState},
    stream::Stream,
    streamlet::Streamlet,
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
use tidemill_env::sync::atomic::Ordering;
use tidemill_types::StreamletIx;

mod append_time;

use append_time::AppendTimes;
pub(crate) use append_time::{is_ahead, set_before_times};

/// Rounds of maintenance without an append after which an open file is closed.
const IDLE_ROUNDS: u32 = 2;

/// Files of a streamlet that are cut to their length in a round, at the most.
const TRIMS_MAX: usize = 16;

/// So long the two clocks must agree before the time of day says how old data of earlier lives are.
const AGREE_US: u64 = 600_000_000;

/// Clocks that differ by less between two rounds agree.
const SLACK_US: u64 = 1_000_000;

/// The time of day, as far as it can be trusted: since the log was opened it does not run ahead of
/// the monotonic clock by more than an eighth. Its value at that moment is not trusted: a machine
/// may start with any time, and be set right some minutes later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrustedClock {
    us: i64,
    wall_us: i64,
    monotonic_us: u64,
    /// Since then the clocks agree.
    agree_since_us: u64,
}

/// The time to act upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrustedTime {
    pub(crate) us: i64,
    /// The clock's time, in seconds since 1970.
    pub(crate) clock_s: u32,
    /// It is that of earlier lives too.
    pub(crate) is_sure: bool,
}

impl TrustedClock {
    /// The log is opened when the clocks say this.
    pub(crate) fn new(wall_us: i64, monotonic_us: u64) -> Self {
        Self { us: wall_us, wall_us, monotonic_us, agree_since_us: monotonic_us }
    }

    /// The time to act upon, when the clocks say this.
    pub(crate) fn now(&mut self, wall_us: i64, monotonic_us: u64) -> TrustedTime {
        let passed_us = monotonic_us.saturating_sub(self.monotonic_us);
        let most = i64::try_from(passed_us + passed_us / 8).unwrap_or(i64::MAX);
        let moved_us = wall_us.saturating_sub(self.wall_us);
        let apart_us = moved_us.saturating_sub_unsigned(passed_us).unsigned_abs();
        if apart_us > passed_us / 8 + SLACK_US {
            self.agree_since_us = monotonic_us;
        }
        self.us = wall_us.min(self.us.saturating_add(most));
        (self.wall_us, self.monotonic_us) = (wall_us, monotonic_us);
        let clock_s = u32::try_from((wall_us / 1_000_000).max(0)).unwrap_or(u32::MAX);
        let is_sure = monotonic_us - self.agree_since_us >= AGREE_US;
        TrustedTime { us: self.us, clock_s, is_sure }
    }
}

/// A segment as retention sees it.
#[derive(Clone, Copy, Debug)]
struct SegmentAge {
    end: i64,
    bytes: u64,
    /// When the last chunk came; none if that cannot be compared with the time there is.
    appended_s: Option<u32>,
    /// Sealed, durable and below the watermark.
    may_go: bool,
}

/// The start after the removal of segments that are too old or too many, in the order of their
/// ends. Segments below `read_below`, which all consumers have read, go in any case.
fn new_start(
    segments: &[SegmentAge],
    cutoff_s: Option<i64>,
    bytes_max: Option<u64>,
    read_below: i64,
) -> Option<i64> {
    let mut bytes: u64 = segments.iter().map(|it| it.bytes).sum();
    let mut start = None;
    for segment in segments {
        let old = cutoff_s.zip(segment.appended_s).is_some_and(|(it, at)| i64::from(at) < it);
        let much = bytes_max.is_some_and(|it| bytes - segment.bytes >= it);
        let read = segment.end <= read_below;
        if !segment.may_go || !(old || much || read) {
            break;
        }
        bytes -= segment.bytes;
        start = Some(segment.end);
    }
    start
}

impl Streamlet {
    /// Its segments, in the order of their ends, at this time.
    fn aged(&self, now: TrustedTime) -> Vec<SegmentAge> {
        let is_sure = now.is_sure;
        let watermark = self.offsets().watermark();
        let see = |segment: &Arc<Segment>| {
            let has_age = is_sure || self.shared.is_of_this_incarnation(&segment.key);
            let mut state = segment.state();
            // What is appended to still may have come later.
            if is_sure && state.sealed && is_ahead(state.appended_s, now.clock_s) {
                state.seen_s.get_or_insert(now.clock_s);
            }
            let (appended_s, before_s, seen_s) = (state.appended_s, state.before_s, state.seen_s);
            let aged = SegmentAge {
                end: state.end,
                bytes: state.written,
                appended_s: has_age.then_some(appended_s),
                may_go: state.sealed && state.unsynced.is_none() && state.end <= watermark,
            };
            (aged, AppendTimes { appended_s, before_s, seen_s })
        };
        let mut seen: Vec<(SegmentAge, AppendTimes)> = self.segments().values().map(see).collect();
        seen.sort_by_key(|(it, _)| it.end);
        let (mut aged, said): (Vec<SegmentAge>, Vec<AppendTimes>) = seen.into_iter().unzip();
        for (aged, record_append_time) in
            aged.iter_mut().zip(append_time::corrected_times(&said, now.clock_s))
        {
            aged.appended_s = aged.appended_s.map(|_| record_append_time);
        }
        aged
    }

    /// Seals open segments whose first chunk came before `cutoff_s`, as open segments are never
    /// deleted, and those with a chunk from the future. Closes idle files.
    fn close_idle_segments(self: &Arc<Self>, cutoff_s: Option<i64>, now: TrustedTime) {
        let active_groups = self.active_groups.read().clone();
        for active in active_groups {
            let mut active = active.lock();
            let Some(segment) = active.open.clone() else { continue };
            let (old, idle) = {
                let state = segment.state();
                let appended_s = state.appended_s;
                let empty = state.first == state.end;
                let ahead = now.is_sure && is_ahead(appended_s, now.clock_s);
                let first_s = state.first_s.min(appended_s);
                let old = cutoff_s.is_some_and(|it| ahead || i64::from(first_s) < it);
                (!empty && old, state.commit == SyncState::Idle)
            };
            active.idle_rounds = active.idle_rounds.saturating_add(1);
            if old {
                active.open = None;
                self.seal(&segment);
            } else if idle && active.idle_rounds > IDLE_ROUNDS {
                segment.state().file = None;
            }
        }
    }
}

impl Streamlet {
    /// Gives space back that an earlier life reserved and did not use. If it cannot be, the next
    /// round tries again: nothing depends on it.
    fn trim(&self) {
        let spare = |it: &&Arc<Segment>| it.state().spare;
        let segments: Vec<_> =
            self.segments().values().filter(spare).take(TRIMS_MAX).cloned().collect();
        for segment in segments {
            let _later = segment.trim(&*self.shared.world.disk);
        }
    }
}

impl Stream {
    /// One round of retention: how many segments went.
    pub(crate) fn maintain(&self, now: TrustedTime) -> Result<usize, LogError> {
        let spec = self.spec();
        let keeps = spec.compacted;
        let time = spec.retention.time.filter(|_| !keeps);
        let cutoff_s = time.map(|it| now.us.saturating_sub(it.0) / 1_000_000);
        let bytes_max = spec.retention.bytes.filter(|_| !keeps).map(|it| it.0);
        let mut starts = BTreeMap::new();
        for streamlet in self.streamlets() {
            streamlet.close_idle_segments(cutoff_s, now);
            streamlet.trim();
            // A copy begins where its leader's log does.
            if !streamlet.role().leads() {
                continue;
            }
            let read_below = if keeps { 0 } else { streamlet.progress_floor() };
            let start = new_start(&streamlet.aged(now), cutoff_s, bytes_max, read_below);
            if let Some(start) = start {
                starts.insert(streamlet.index, start);
            }
        }
        let gone = self.move_starts(starts)?;
        // What a crash between a new start and the end of its segments left.
        let stale: Vec<_> = self.streamlets().iter().flat_map(|it| it.drop_below_start()).collect();
        Ok(gone + self.recycle_segments(&stale)?)
    }

    /// Removes the records below `before`: the new start, which is that offset.
    ///
    /// # Errors
    /// The offset is above the high watermark, the stream was deleted, or the disk failed.
    pub fn delete_records(&self, streamlet: &Streamlet, before: i64) -> Result<i64, LogError> {
        let (start, end) = (streamlet.start_offset(), streamlet.high_watermark());
        if before > end || before < 0 {
            return Err(LogError::Offset { offset: before, start, end });
        }
        self.move_starts(BTreeMap::from([(streamlet.index, before)]))?;
        Ok(streamlet.start_offset())
    }

    /// Moves starts forward, and gives away the files below: how many.
    fn move_starts(&self, to: BTreeMap<StreamletIx, i64>) -> Result<usize, LogError> {
        if to.is_empty() {
            return Ok(0);
        }
        {
            let mut starts = self.core.starts.lock();
            if self.core.deleted.load(Ordering::SeqCst) {
                return Err(LogError::Closed);
            }
            let mut moved = starts.clone();
            for (index, start) in &to {
                let entry = moved.entry(*index).or_insert(0);
                *entry = (*entry).max(*start);
            }
            if *starts != moved {
                let meta = self.core.meta(&moved, false);
                let (disk, folder) = (&*self.shared.world.disk, &self.core.folder);
                self.shared.reserve.write(disk, folder, &meta)?;
                *starts = moved;
            }
        }
        let mut gone = Vec::new();
        for (index, start) in to {
            let Some(streamlet) = self.streamlet(index.0) else { continue };
            streamlet.offsets().move_start(start);
            gone.extend(streamlet.drop_below_start());
        }
        self.shared.moves.fetch_add(1, Ordering::SeqCst);
        self.recycle_segments(&gone)
    }

    /// Gives the files of segments away that no reader finds any more.
    pub(crate) fn recycle_segments(&self, segments: &[Arc<Segment>]) -> Result<usize, LogError> {
        if segments.is_empty() {
            return Ok(0);
        }
        let files = retired(segments);
        self.shared.recycle(&self.core.folder, &files).map_err(at(&self.core.folder))?;
        Ok(files.len())
    }
}

/// Retires segments that no reader can find any more. Returns their files.
pub(crate) fn retired(segments: &[Arc<Segment>]) -> Vec<PathBuf> {
    segments.iter().for_each(|segment| segment.retire());
    segments.iter().map(|it| it.path.clone()).collect()
}

impl Streamlet {
    /// Takes segments out that are sealed, durable and wholly below the start.
    pub(crate) fn drop_below_start(&self) -> Vec<Arc<Segment>> {
        let start = self.offsets().start();
        let below = |segment: &Arc<Segment>| {
            let state = segment.state();
            state.sealed && state.unsynced.is_none() && state.end <= start
        };
        let segments: Vec<_> = self
            .segments()
            .iter()
            .filter(|(_, segment)| below(segment))
            .map(|(place, segment)| (*place, Arc::clone(segment)))
            .collect();
        let places: Vec<_> = segments.iter().map(|(place, _)| *place).collect();
        self.remove_segments(&places);
        segments.into_iter().map(|(_, segment)| segment).collect()
    }
}

#[cfg(test)]
mod tests;
