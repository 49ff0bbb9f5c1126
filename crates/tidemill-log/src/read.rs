//! Reading: the groups of a streamlet merged by offset, each chunk as it was stored.
//!
//! A cursor has one reader per segment that overlaps its offset, and each reader remembers where it
//! stands. Offsets have no gaps, so at every step exactly one reader has the next offset:
//!
//! ```text
//! reader a: [0..4] [9..9]            next is 5: reader b has it.
//! reader b:        [5..8] [10..12]   none has it: it is damaged in some reader, or missing.
//! ```
//!
//! Invariants: nothing at or above the high watermark is served; nothing is served whose
//! reference or checksum is wrong; data that are not there are an error, never skipped.

use crate::{
    error::ReadError,
    format::{ChunkRef, DATA_START},
    ids::StreamId,
    segment::Segment,
    streamlet::{SegmentPlace, Streamlet},
    walk::Walker,
};
use bytes::Bytes;
use std::{
    io,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};
use tidemill_types::StreamletIx;

mod outgoing_chunk;
mod segment_reader;

use outgoing_chunk::{ChunkForm, ChunkPlace};
pub use outgoing_chunk::{FileChunk, OutgoingChunk};
pub(crate) use segment_reader::{EntryState, ReadMode, SegmentReader};
use segment_reader::{FILE_BYTES_MIN, SEEK_BYTES};

/// The least read-ahead of a reader that sends, in bytes.
const AHEAD_BYTES_MIN: usize = 64 << 10;

/// The bounds of a read.
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

/// The result of a read.
#[derive(Clone, Debug)]
pub struct Chunks<C = Bytes> {
    /// Chunks in the order of their offsets, without gaps. The first may begin before the offset
    /// of the request.
    pub chunks: Vec<C>,
    /// The offset to go on at.
    pub next_offset: i64,
    /// The high watermark, before the read.
    pub high_watermark: i64,
    /// The first offset there is.
    pub start_offset: i64,
}

/// The offset of a chunk, and its largest timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkTime {
    /// The chunk's base offset, or the first offset of the search if the chunk begins before it.
    pub offset: i64,
    /// The largest timestamp of the chunk's records, in milliseconds since 1970.
    pub max_timestamp_ms: i64,
}

impl ChunkTime {
    pub(crate) fn of(reference: &ChunkRef, start: i64) -> Self {
        let max_timestamp_ms = reference.max_timestamp_ms;
        Self { offset: reference.base.max(start), max_timestamp_ms }
    }
}

/// The position of a reader of one streamlet. Going on there needs no search.
#[derive(Default)]
pub struct ReadCursor {
    of: Option<(StreamId, StreamletIx)>,
    next: i64,
    readers: Vec<SegmentReader>,
    /// Segments up to this one have a reader, or are read.
    seen: Option<SegmentPlace>,
}

/// The reason that a read stopped.
enum ReadStop {
    /// The segment's file was recycled: the start has moved.
    Retired,
    Error(ReadError),
}

impl ReadCursor {
    /// Makes readers for the segments that overlap `offset`.
    fn seek(&mut self, streamlet: &Streamlet, offset: i64) {
        self.of = Some((streamlet.stream.id, streamlet.index));
        self.next = offset;
        let segments = streamlet.segments();
        let before = segments.range(..SegmentPlace::behind(offset));
        self.seen = before.clone().next_back().map(|(place, _)| *place);
        // An unsealed segment at its end may get the next offset.
        let overlaps = |it: &Arc<Segment>| {
            let state = it.state();
            state.end > offset || !state.sealed
        };
        let overlapping = before.map(|(_, segment)| segment).filter(|it| overlaps(it));
        self.readers = overlapping.map(|it| SegmentReader::new(Arc::clone(it))).collect();
    }

    /// Makes readers for segments that begin at or before the next offset.
    fn add_readers(&mut self, streamlet: &Streamlet) {
        let from = self.seen.map_or(Unbounded, Excluded);
        let segments = streamlet.segments();
        for (place, segment) in segments.range((from, Unbounded)) {
            if place.first_offset > self.next {
                break;
            }
            self.seen = Some(*place);
            self.readers.push(SegmentReader::new(Arc::clone(segment)));
        }
    }

    /// The index of the reader that has the next offset.
    fn find(
        &mut self,
        streamlet: &Streamlet,
        bound: i64,
        how: ReadMode,
    ) -> Result<usize, ReadStop> {
        // Segments that came since matter only once the readers there are do not have it.
        if let Some(found) = self.look(streamlet, how)? {
            return Ok(found);
        }
        self.add_readers(streamlet);
        if let Some(found) = self.look(streamlet, how)? {
            return Ok(found);
        }
        if self.readers.iter().any(|reader| reader.segment.is_retired()) {
            return Err(ReadStop::Retired);
        }
        Err(ReadStop::Error(self.gap_error(streamlet, bound)))
    }

    /// Moves all readers to the next offset and drops those that have ended. Returns the one that
    /// has it.
    fn look(&mut self, streamlet: &Streamlet, how: ReadMode) -> Result<Option<usize>, ReadStop> {
        let mut index = 0;
        while let Some(reader) = self.readers.get_mut(index) {
            match reader.skip(streamlet, self.next, how) {
                Ok(true) => index += 1,
                Ok(false) => drop(self.readers.swap_remove(index)),
                Err(_) if reader.segment.is_retired() => return Err(ReadStop::Retired),
                Err(error) => return Err(ReadStop::Error(lost(&reader.segment, error))),
            }
        }
        let next = self.next;
        let has = |reader: &SegmentReader| matches!(&reader.head, Some(EntryState::Good(it, _)) if it.base <= next);
        Ok(self.readers.iter().position(has))
    }

    /// The error of a read at an offset below the watermark that no segment has.
    fn gap_error(&self, streamlet: &Streamlet, bound: i64) -> ReadError {
        let bases = self.readers.iter().filter_map(|reader| match &reader.head {
            Some(EntryState::Good(reference, _) | EntryState::Bad(Some((_, reference)))) => {
                Some(reference.base)
            }
            _ => None,
        });
        let from = self.seen.map_or(Unbounded, Excluded);
        let later = streamlet
            .segments()
            .range((from, Unbounded))
            .next()
            .map(|(place, _)| place.first_offset);
        let next = bases.chain(later).min();
        let bad =
            self.readers.iter().find(|reader| matches!(reader.head, Some(EntryState::Bad(_))));
        match bad {
            Some(reader) => ReadError::Corrupt {
                stream: Arc::clone(&streamlet.stream.name),
                key: reader.segment.key,
                path: reader.segment.path.clone(),
                position: reader.position,
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
    /// From the high watermark up to the end offset there is nothing to read, and no error.
    ///
    /// # Errors
    /// The offset is out of range, or its chunk is damaged, missing or unreadable. Good chunks
    /// before a bad one are returned first.
    pub fn read(
        &self,
        cursor: &mut ReadCursor,
        offset: i64,
        limit: ReadLimit,
    ) -> Result<Chunks, ReadError> {
        self.read_as(cursor, offset, limit)
    }

    /// As [`Self::read`], for a caller that sends the chunks on. Long chunks come as positions in
    /// their file; they are read and checked when they are sent.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_to_send(
        &self,
        cursor: &mut ReadCursor,
        offset: i64,
        limit: ReadLimit,
    ) -> Result<Chunks<OutgoingChunk>, ReadError> {
        self.read_as(cursor, offset, limit)
    }

    fn read_as<C: ChunkForm>(
        &self,
        cursor: &mut ReadCursor,
        offset: i64,
        limit: ReadLimit,
    ) -> Result<Chunks<C>, ReadError> {
        loop {
            let (start, watermark, end) = {
                let offsets = self.offsets();
                (offsets.start(), offsets.watermark(), offsets.next())
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
                Err(ReadStop::Error(error)) => {
                    *cursor = ReadCursor::default();
                    if found.chunks.is_empty() {
                        return Err(error);
                    }
                    return Ok(found);
                }
                Err(ReadStop::Retired) => *cursor = ReadCursor::default(),
            }
        }
    }

    fn read_into<C: ChunkForm>(
        &self,
        cursor: &mut ReadCursor,
        found: &mut Chunks<C>,
        limit: ReadLimit,
    ) -> Result<(), ReadStop> {
        let bound = found.high_watermark.min(limit.below);
        if found.next_offset >= bound {
            return Ok(());
        }
        if cursor.of != Some((self.stream.id, self.index)) || cursor.next != found.next_offset {
            cursor.seek(self, found.next_offset);
            for reader in &mut cursor.readers {
                reader.seek(self, found.next_offset).map_err(|error| {
                    if reader.segment.is_retired() {
                        ReadStop::Retired
                    } else {
                        ReadStop::Error(lost(&reader.segment, error))
                    }
                })?;
            }
        }
        let mut bytes = 0;
        let mut how = ReadMode { sends: C::IS_TO_SEND, ..ReadMode::default() };
        while cursor.next < bound {
            if C::IS_TO_SEND {
                let left = limit.max_bytes.saturating_sub(bytes).max(AHEAD_BYTES_MIN);
                how.ahead_max = left as u64;
            }
            let index = cursor.find(self, bound, how)?;
            let reader = &cursor.readers[index];
            let Some(EntryState::Good(reference, chunk)) = &reader.head else { break };
            let length = reference.bytes as usize;
            let room = bytes + length <= limit.max_bytes
                || (limit.at_least_one && found.chunks.is_empty());
            if reference.last >= bound || !room {
                break;
            }
            let stream = &self.stream.name;
            let place = ChunkPlace { reader, stream, position: reader.position, reference };
            found.chunks.push(C::of(chunk.as_ref(), &place).ok_or(ReadStop::Retired)?);
            bytes += length;
            cursor.next = reference.last + 1;
            let position = reader.position + reference.entry_bytes();
            let reader = &mut cursor.readers[index];
            reader.go(position);
            // While its chunks follow each other, no other reader has the next offset.
            let most = limit.max_bytes.saturating_sub(bytes);
            let run = reader.segment.recent_run(reader.position, cursor.next, bound, most);
            if let Some(run) = run {
                bytes += run.bytes;
                cursor.next = run.next;
                for (position, reference, chunk) in &run.chunks {
                    let place = ChunkPlace { reader, stream, position: *position, reference };
                    found.chunks.push(C::of(Some(chunk), &place).ok_or(ReadStop::Retired)?);
                }
                reader.go(run.position);
            }
            found.next_offset = cursor.next;
        }
        // A reader that waits should not hold a walker's block.
        if cursor.next >= bound {
            cursor.readers.iter_mut().for_each(SegmentReader::close);
        } else if C::IS_TO_SEND {
            // Many slow readers would hold many blocks that they hardly use.
            cursor.readers.iter_mut().for_each(SegmentReader::release_block);
        }
        Ok(())
    }

    /// The first visible chunk, by offset, with a timestamp of at least `timestamp_ms`; none if
    /// there is none. The log does not know which of the chunk's records has the timestamp.
    ///
    /// # Errors
    /// A chunk's reference is damaged or unreadable.
    pub fn offset_for_time(&self, timestamp_ms: i64) -> Result<Option<ChunkTime>, ReadError> {
        self.offset_for_time_from(timestamp_ms, i64::MIN)
    }

    /// As [`Self::offset_for_time`], among chunks that end at `from` or after it. The offset is at
    /// least `from`.
    ///
    /// # Errors
    /// A chunk's reference is damaged or unreadable.
    pub fn offset_for_time_from(
        &self,
        timestamp_ms: i64,
        from: i64,
    ) -> Result<Option<ChunkTime>, ReadError> {
        let (start, watermark) = {
            let offsets = self.offsets();
            (offsets.start().max(from), offsets.watermark())
        };
        let segments: Vec<Arc<Segment>> = self.segments().values().cloned().collect();
        let mut best: Option<ChunkTime> = None;
        for segment in segments {
            let (first, end, latest) = {
                let state = segment.state();
                (state.first, state.end, state.max_timestamp_ms)
            };
            if best.is_some_and(|it| first > it.offset) || first >= watermark {
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
            let hit = hit.filter(|it| it.offset < watermark);
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
    ) -> io::Result<Option<ChunkTime>> {
        let written = segment.state().written;
        let file = segment.reader(&*self.shared.world.disk)?;
        let mut walker = Walker::new(file, segment.key, SEEK_BYTES)?;
        let mut position = DATA_START;
        while position < written {
            // Damage is skipped here: reads there report it.
            let found = match walker.reference(position)? {
                Some(reference) => Some((position, reference)),
                None => walker.find(position + 8, written)?,
            };
            let Some((place, reference)) = found else { break };
            if reference.max_timestamp_ms >= timestamp_ms && reference.last >= start {
                return Ok(Some(ChunkTime::of(&reference, start)));
            }
            position = place + reference.entry_bytes();
        }
        Ok(None)
    }
}
