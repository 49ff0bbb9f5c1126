//! When chunks came, for a clock that may have been wrong when it was asked.
//!
//! ```text
//! clock       right │ ahead │ right │ behind │ right
//! a chunk says    5 │   900 │     7 │      2 │    10
//! it counts as    5 │ 6 … 7 │     7 │      7 │    10
//! ```
//!
//! A time in the future comes from a clock that was ahead: the chunk came no later than when that
//! was first seen, and no later than the chunks after it. A time before that of an earlier chunk
//! comes from a clock that was behind: it counts as the earlier chunk's time.
//!
//! Invariant: nothing counts as having come before something that it came after, unless that is in
//! the future.

use crate::{ids::incarnation_of, segment::Segment};
use std::sync::Arc;

/// By less a moment is not in the future.
const AHEAD_S: u32 = 60;

/// True if a moment is in the future of a clock.
pub(crate) fn is_ahead(moment_s: u32, clock_s: u32) -> bool {
    moment_s > clock_s.saturating_add(AHEAD_S)
}

/// The times that a segment has of its last chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppendTimes {
    pub(super) appended_s: u32,
    /// The latest moment that anything said that was there before the segment.
    pub(super) before_s: u32,
    /// When it was first seen that it says something in the future, by a clock that was sure.
    pub(super) seen_s: Option<u32>,
}

/// When the last chunks of segments came, which are in the order in which these came.
pub(super) fn corrected_times(said: &[AppendTimes], clock_s: u32) -> Vec<u32> {
    let mut record_append_time: Vec<u32> = said.iter().map(|it| it.appended_s).collect();
    let mut after_s = u32::MAX;
    for (record_append_time, said) in record_append_time.iter_mut().zip(said).rev() {
        if let Some(seen_s) = said.seen_s {
            *record_append_time = (*record_append_time).min(seen_s).min(after_s);
        }
        after_s = after_s.min(*record_append_time);
    }
    let mut before_s = 0;
    for (record_append_time, said) in record_append_time.iter_mut().zip(said) {
        for earlier_s in [before_s, said.before_s] {
            if !is_ahead(earlier_s, clock_s) {
                *record_append_time = (*record_append_time).max(earlier_s);
            }
        }
        before_s = *record_append_time;
    }
    record_append_time
}

/// Sets `before_s` of the segments of earlier lives, from the times at which they were made.
pub(crate) fn set_before_times(mut segments: Vec<Arc<Segment>>) {
    segments.sort_by_key(|it| it.key.epoch);
    // The latest moments: of a life that ended, and at which a segment was made.
    let (mut ended_s, mut made_s) = (0, 0);
    let same = |a: &Arc<Segment>, b: &Arc<Segment>| {
        incarnation_of(a.key.epoch) == incarnation_of(b.key.epoch)
    };
    for life in segments.chunk_by(same) {
        let mut appended_s = 0;
        for segment in life {
            let mut state = segment.state();
            made_s = state.before_s.max(made_s);
            state.before_s = made_s.max(ended_s);
            appended_s = state.appended_s.max(appended_s);
        }
        ended_s = appended_s.max(ended_s);
    }
}

#[cfg(test)]
mod tests;
