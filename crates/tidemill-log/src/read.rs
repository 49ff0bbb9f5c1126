//! Reading: the groups of a streamlet merged by offset, each chunk as it was stored.
//!
//! A cursor has one lane per segment that overlaps its offset, and each lane remembers where it
//! stands. Offsets have no gaps, so at every step exactly one lane has the next offset:
//!
//! ```text
//! lane a: [0..4] [9..9]            next is 5: lane b has it.
//! lane b:        [5..8] [10..12]   nobody has it: it is damaged in some lane, or missing.
//! ```
//!
//! Invariants: nothing at or above the high watermark is served; nothing is served whose
//! reference or checksum is wrong; data that are not there are an error, never skipped.

use crate::{
    error::ReadError, format::DATA_START, ids::StreamId, segment::Segment, streamlet::Streamlet,
    walk::Walker,
};
use bytes::Bytes;
use std::{
    io,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

mod lane;
mod served;

use lane::{FILE_BYTES_MIN, SEEK_BYTES};
pub(crate) use lane::{Head, How, Lane};
pub use served::{FileChunk, Served};
use served::{Form, Place};

/// A reader that sends reads at least so much ahead, in bytes.
const AHEAD_BYTES_MIN: usize = 64 << 10;

/// How much to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    /// Stop before the chunks are longer than this, in bytes.
    pub max_bytes: usize,
    /// Take the first chunk even if it is longer than `max_bytes`.
    pub at_least_one: bool,
    /// Only chunks whose last offset is below this. The high watermark limits in any case.
    pub below: i64,
}

impl Default for ReadLimit {
    fn default() -> Self {
        Self { max_bytes: 1 << 20, at_least_one: true, below: i64::MAX }
    }
}

/// What a read found.
#[derive(Clone, Debug)]
pub struct Chunks<C = Bytes> {
    /// Chunks in the order of their offsets, without gaps. The first may begin before the offset
    /// that was asked for.
    pub chunks: Vec<C>,
    /// Where to go on.
    pub next_offset: i64,
    /// The high watermark, before the read.
    pub high_watermark: i64,
    /// The first offset there is.
    pub start_offset: i64,
}

/// Where a reader of one streamlet stopped. Going on there looks nothing up.
#[derive(Default)]
pub struct ReadCursor {
    of: Option<(StreamId, u32)>,
    next: i64,
    lanes: Vec<Lane>,
    /// Segments up to this one have a lane, or are behind.
    seen: Option<(i64, u64)>,
}

/// Why a read stopped.
enum Stop {
    /// The segment's file was given away: the start has moved.
    Retired,
    Error(ReadError),
}

impl ReadCursor {
    /// Makes lanes for the segments that overlap `offset`.
    fn seek(&mut self, streamlet: &Streamlet, offset: i64) {
        self.of = Some((streamlet.stream.id, streamlet.index));
        self.next = offset;
        let segments = streamlet.segments();
        let before = segments.range(..(offset, u64::MAX));
        self.seen = before.clone().next_back().map(|(place, _)| *place);
        // An unsealed segment at its end may get the next offset.
        let overlaps = |it: &Arc<Segment>| {
            let state = it.state();
            state.end > offset || !state.sealed
        };
        let overlapping = before.map(|(_, segment)| segment).filter(|it| overlaps(it));
        self.lanes = overlapping.map(|it| Lane::new(Arc::clone(it))).collect();
    }

    /// Makes lanes for segments that begin at or before the next offset.
    fn add_lanes(&mut self, streamlet: &Streamlet) {
        let from = self.seen.map_or(Unbounded, Excluded);
        let segments = streamlet.segments();
        for (place, segment) in segments.range((from, Unbounded)) {
            if place.0 > self.next {
                break;
            }
            self.seen = Some(*place);
            self.lanes.push(Lane::new(Arc::clone(segment)));
        }
    }

    /// The lane that has the next offset.
    fn find(&mut self, streamlet: &Streamlet, bound: i64, how: How) -> Result<usize, Stop> {
        // Segments that came since matter only once the lanes there are do not have it.
        if let Some(found) = self.look(streamlet, how)? {
            return Ok(found);
        }
        self.add_lanes(streamlet);
        if let Some(found) = self.look(streamlet, how)? {
            return Ok(found);
        }
        if self.lanes.iter().any(|lane| lane.segment.is_retired()) {
            return Err(Stop::Retired);
        }
        Err(Stop::Error(self.nobody(streamlet, bound)))
    }

    /// Brings all lanes to the next offset and drops those that have ended: the lane that has it.
    fn look(&mut self, streamlet: &Streamlet, how: How) -> Result<Option<usize>, Stop> {
        let mut index = 0;
        while let Some(lane) = self.lanes.get_mut(index) {
            match lane.skip(streamlet, self.next, how) {
                Ok(true) => index += 1,
                Ok(false) => drop(self.lanes.swap_remove(index)),
                Err(_) if lane.segment.is_retired() => return Err(Stop::Retired),
                Err(error) => return Err(Stop::Error(lost(&lane.segment, error))),
            }
        }
        let next = self.next;
        let has = |lane: &Lane| matches!(&lane.head, Some(Head::Good(it, _)) if it.base <= next);
        Ok(self.lanes.iter().position(has))
    }

    /// Nobody has the next offset, though it is below the watermark: what is to be said.
    fn nobody(&self, streamlet: &Streamlet, bound: i64) -> ReadError {
        let bases = self.lanes.iter().filter_map(|lane| match &lane.head {
            Some(Head::Good(reference, _) | Head::Bad(Some((_, reference)))) => {
                Some(reference.base)
            }
            _ => None,
        });
        let from = self.seen.map_or(Unbounded, Excluded);
        let later = streamlet.segments().range((from, Unbounded)).next().map(|(place, _)| place.0);
        let next = bases.chain(later).min();
        let bad = self.lanes.iter().find(|lane| matches!(lane.head, Some(Head::Bad(_))));
        match bad {
            Some(lane) => ReadError::Corrupt {
                stream: Arc::clone(&streamlet.stream.name),
                key: lane.segment.key,
                path: lane.segment.path.clone(),
                position: lane.position,
                offset: self.next,
                next,
            },
            None => ReadError::Missing {
                stream: Arc::clone(&streamlet.stream.name),
                streamlet: streamlet.index,
                from: self.next,
                next: next.unwrap_or(bound),
            },
        }
    }
}

pub(crate) fn lost(segment: &Segment, error: io::Error) -> ReadError {
    ReadError::Disk { path: segment.path.clone(), error: Arc::new(error) }
}

impl Streamlet {
    /// Reads chunks from `offset` on. If `cursor` stopped there, it goes on; else it looks the
    /// offset up. A new cursor is as good as any.
    ///
    /// At or above the high watermark there is nothing to read, and no error up to the end.
    ///
    /// # Errors
    /// The offset is out of range, or what stands there is damaged, missing or unreadable. If
    /// some chunks before that are good, they are returned first.
    pub fn read(
        &self,
        cursor: &mut ReadCursor,
        offset: i64,
        limit: ReadLimit,
    ) -> Result<Chunks, ReadError> {
        self.read_as(cursor, offset, limit)
    }

    /// As [`Self::read`], for somebody who sends the chunks on: long ones are not given as bytes but
    /// as places in their file, to be read and checked when they are sent.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_to_send(
        &self,
        cursor: &mut ReadCursor,
        offset: i64,
        limit: ReadLimit,
    ) -> Result<Chunks<Served>, ReadError> {
        self.read_as(cursor, offset, limit)
    }

    fn read_as<C: Form>(
        &self,
        cursor: &mut ReadCursor,
        offset: i64,
        limit: ReadLimit,
    ) -> Result<Chunks<C>, ReadError> {
        loop {
            let (start, watermark, end) = {
                let progress = self.progress();
                (progress.start(), progress.watermark(), progress.next())
            };
            if offset < start || offset > end {
                return Err(ReadError::OutOfRange { offset, start, end: watermark });
            }
            let mut found = Chunks {
                chunks: Vec::new(),
                next_offset: offset,
                high_watermark: watermark,
                start_offset: start,
            };
            match self.read_into(cursor, &mut found, limit) {
                Ok(()) => return Ok(found),
                Err(Stop::Error(error)) => {
                    *cursor = ReadCursor::default();
                    if found.chunks.is_empty() {
                        return Err(error);
                    }
                    return Ok(found);
                }
                Err(Stop::Retired) => *cursor = ReadCursor::default(),
            }
        }
    }

    fn read_into<C: Form>(
        &self,
        cursor: &mut ReadCursor,
        found: &mut Chunks<C>,
        limit: ReadLimit,
    ) -> Result<(), Stop> {
        let bound = found.high_watermark.min(limit.below);
        if found.next_offset >= bound {
            return Ok(());
        }
        if cursor.of != Some((self.stream.id, self.index)) || cursor.next != found.next_offset {
            cursor.seek(self, found.next_offset);
            for lane in &mut cursor.lanes {
                lane.seek(self, found.next_offset).map_err(|error| {
                    if lane.segment.is_retired() {
                        Stop::Retired
                    } else {
                        Stop::Error(lost(&lane.segment, error))
                    }
                })?;
            }
        }
        let mut bytes = 0;
        let mut how = How { sends: C::IS_TO_SEND, ..How::default() };
        while cursor.next < bound {
            if C::IS_TO_SEND {
                let left = limit.max_bytes.saturating_sub(bytes).max(AHEAD_BYTES_MIN);
                how.ahead_max = left as u64;
            }
            let index = cursor.find(self, bound, how)?;
            let lane = &cursor.lanes[index];
            let Some(Head::Good(reference, chunk)) = &lane.head else { break };
            let length = reference.bytes as usize;
            let room = bytes + length <= limit.max_bytes
                || (limit.at_least_one && found.chunks.is_empty());
            if reference.last >= bound || !room {
                break;
            }
            let stream = &self.stream.name;
            let place = Place { lane, stream, position: lane.position, reference };
            found.chunks.push(C::of(chunk.as_ref(), &place).ok_or(Stop::Retired)?);
            bytes += length;
            cursor.next = reference.last + 1;
            let position = lane.position + reference.entry_bytes();
            let lane = &mut cursor.lanes[index];
            lane.go(position);
            // While its chunks follow each other, no other lane needs to be looked at.
            let most = limit.max_bytes.saturating_sub(bytes);
            let run = lane.segment.recent_run(lane.position, cursor.next, bound, most);
            if let Some(run) = run {
                bytes += run.bytes;
                cursor.next = run.next;
                for (position, reference, chunk) in &run.chunks {
                    let place = Place { lane, stream, position: *position, reference };
                    found.chunks.push(C::of(Some(chunk), &place).ok_or(Stop::Retired)?);
                }
                lane.go(run.position);
            }
            found.next_offset = cursor.next;
        }
        // A walker's block is memory that a waiting reader would hold.
        if cursor.next >= bound {
            cursor.lanes.iter_mut().for_each(Lane::close);
        } else if C::IS_TO_SEND {
            // Many readers that are not done would hold much that they hardly use.
            cursor.lanes.iter_mut().for_each(Lane::let_go);
        }
        Ok(())
    }

    /// The base offset and the largest timestamp of the first visible chunk, by offset, with a
    /// timestamp of at least `timestamp_ms`; none if there is none. Which record in the chunk it
    /// is, the log does not know.
    ///
    /// # Errors
    /// What stands there is damaged or unreadable.
    pub fn offset_for_time(&self, timestamp_ms: i64) -> Result<Option<(i64, i64)>, ReadError> {
        self.offset_for_time_from(timestamp_ms, i64::MIN)
    }

    /// As [`Self::offset_for_time`], among chunks that end at `from` or after it: of one that
    /// begins before that, `from` is given for its base offset.
    ///
    /// # Errors
    /// What stands there is damaged or unreadable.
    pub fn offset_for_time_from(
        &self,
        timestamp_ms: i64,
        from: i64,
    ) -> Result<Option<(i64, i64)>, ReadError> {
        let (start, watermark) = {
            let progress = self.progress();
            (progress.start().max(from), progress.watermark())
        };
        let segments: Vec<Arc<Segment>> = self.segments().values().cloned().collect();
        let mut best: Option<(i64, i64)> = None;
        for segment in segments {
            let (first, end, latest) = {
                let state = segment.state();
                (state.first, state.end, state.max_timestamp_ms)
            };
            if best.is_some_and(|(base, _)| first > base) || first >= watermark {
                break;
            }
            if end <= start || latest < timestamp_ms {
                continue;
            }
            let hit = self.time_in(&segment, timestamp_ms, start);
            let hit = match hit {
                Err(_) if segment.is_retired() => continue,
                other => other.map_err(|error| lost(&segment, error))?,
            };
            let hit = hit.filter(|(base, _)| *base < watermark);
            best = [best, hit].into_iter().flatten().min();
        }
        Ok(best)
    }

    /// The first chunk of a segment with such a timestamp, from offset `start` on.
    fn time_in(
        &self,
        segment: &Arc<Segment>,
        timestamp_ms: i64,
        start: i64,
    ) -> io::Result<Option<(i64, i64)>> {
        let written = segment.state().written;
        let file = segment.reader(&*self.shared.world.disk)?;
        let mut walker = Walker::new(file, segment.key, SEEK_BYTES)?;
        let mut position = DATA_START;
        while position < written {
            // Damage is stepped over here: whoever reads there is told.
            let found = match walker.reference(position)? {
                Some(reference) => Some((position, reference)),
                None => walker.find(position + 8, written)?,
            };
            let Some((place, reference)) = found else { break };
            if reference.max_timestamp_ms >= timestamp_ms && reference.last >= start {
                return Ok(Some((reference.base.max(start), reference.max_timestamp_ms)));
            }
            position = place + reference.entry_bytes();
        }
        Ok(None)
    }
}
