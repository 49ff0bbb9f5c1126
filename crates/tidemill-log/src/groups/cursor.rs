//! A consumer's hold on one group, and its place in it.

use crate::{
    error::ReadError,
    read::{EntryState, ReadLimit, ReadMode, SegmentReader, lost},
    segment::Segment,
    streamlet::Streamlet,
};
use bytes::Bytes;
use std::sync::Arc;
use tidemill_types::{GroupIx, SegmentIx};

/// The result of a read of a group.
#[derive(Clone, Debug)]
pub struct GroupChunks {
    /// Chunks in the order in which the group has them: offsets grow, with gaps where other groups
    /// have chunks. The first may begin before the offset from which the group was taken up.
    pub chunks: Vec<Bytes>,
    /// Nothing follows, ever: acknowledge the group and take another.
    pub ended: bool,
}

/// The last segment that a consumer has read to its end, and the offset after it.
#[derive(Clone, Copy)]
struct SegmentEnd {
    index: SegmentIx,
    end: i64,
}

/// A group that a consumer has taken. Dropping it lets the group go; another consumer gets it then,
/// from where it was last acknowledged.
pub struct GroupCursor {
    streamlet: Arc<Streamlet>,
    application: Arc<str>,
    group: GroupIx,
    /// The segment that is read.
    reader: Option<SegmentReader>,
    /// The last segment that was read to its end, and the offset after it.
    behind: Option<SegmentEnd>,
    /// Chunks that end below this are behind.
    next: i64,
    ended: bool,
}

impl std::fmt::Debug for GroupCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GroupCursor({:?} group {} from {})", self.streamlet, self.group, self.next)
    }
}

impl Drop for GroupCursor {
    fn drop(&mut self) {
        self.applications(|it| it.give_back(&self.application, self.group));
    }
}

impl GroupCursor {
    pub(super) fn new(
        streamlet: &Arc<Streamlet>,
        application: &Arc<str>,
        group: GroupIx,
        next: i64,
    ) -> Self {
        Self {
            streamlet: Arc::clone(streamlet),
            application: Arc::clone(application),
            group,
            reader: None,
            behind: None,
            next,
            ended: false,
        }
    }

    fn applications<T>(&self, act: impl FnOnce(&mut super::Applications) -> T) -> T {
        act(&mut self.streamlet.applications.lock())
    }

    /// The group's number in its streamlet.
    #[must_use]
    pub fn group(&self) -> GroupIx {
        self.group
    }

    /// The streamlet.
    #[must_use]
    pub fn streamlet(&self) -> &Arc<Streamlet> {
        &self.streamlet
    }

    /// Says that all chunks read so far are done with: they do not come again. Returns whether the
    /// group is read to its end; drop the cursor then.
    pub fn acknowledge(&mut self) -> bool {
        let (group, next, ended) = (self.group, self.next, self.ended);
        self.applications(|it| it.acknowledge(&self.application, group, next, ended));
        ended
    }

    /// Goes on at the first chunk of the group that ends at `offset` or after it, past damaged or
    /// missing chunks. Never goes back.
    pub fn skip_to(&mut self, offset: i64) {
        self.next = self.next.max(offset);
    }

    /// Reads the next visible chunks of the group, within `limit`. If there are none and the group
    /// has not ended, wait with [`Streamlet::on_data`] at the high watermark.
    ///
    /// # Errors
    /// The next chunk is damaged, missing, unreadable, or deleted by retention
    /// ([`ReadError::OutOfRange`], once; the next read goes on at the start). Good chunks before it
    /// are returned first. [`Self::skip_to`] goes past it.
    pub fn read(&mut self, limit: ReadLimit) -> Result<GroupChunks, ReadError> {
        let mut found = GroupChunks { chunks: Vec::new(), ended: false };
        match self.read_into(&mut found.chunks, limit) {
            Ok(()) => found.ended = self.ended,
            Err(error) if found.chunks.is_empty() => return Err(error),
            Err(_) => {}
        }
        Ok(found)
    }

    fn read_into(&mut self, found: &mut Vec<Bytes>, limit: ReadLimit) -> Result<(), ReadError> {
        let (start, watermark) = {
            let offsets = self.streamlet.offsets();
            (offsets.start(), offsets.watermark())
        };
        let mut bytes = 0;
        while !self.ended {
            let Some(reader) = &mut self.reader else {
                if !self.next_segment(start)? {
                    break;
                }
                continue;
            };
            // Looked at first: of a sealed segment, what is there is all that will be.
            let sealed = reader.segment.state().sealed;
            if let Err(error) =
                reader.skip(&self.streamlet, self.next.max(start), ReadMode::default())
            {
                return Err(self.unreadable(start, watermark, error));
            }
            match &reader.head {
                Some(EntryState::Good(reference, chunk)) => {
                    // Read in any case: this reader is not for those who send.
                    let Some(chunk) = chunk else { break };
                    let room = bytes + chunk.len() <= limit.max_bytes
                        || (limit.at_least_one && found.is_empty());
                    if reference.last >= watermark.min(limit.below) || !room {
                        break;
                    }
                    bytes += chunk.len();
                    found.push(chunk.clone());
                    self.next = reference.last + 1;
                    reader.go(reader.position + reference.entry_bytes());
                }
                Some(EntryState::Bad(later)) => {
                    let end = reader.segment.range().1;
                    let next = later.as_ref().map_or(end, |(_, reference)| reference.base);
                    if next > self.next.max(start) {
                        return Err(self.corrupt(next));
                    }
                    self.leave();
                }
                None if sealed => self.leave(),
                None => break,
            }
        }
        Ok(())
    }

    /// The segment is read to its end.
    fn leave(&mut self) {
        if let Some(reader) = self.reader.take() {
            let segment = &reader.segment;
            self.behind = Some(SegmentEnd { index: segment.key.index, end: segment.range().1 });
        }
    }

    /// Goes to the next segment of the group; false if there is none. Sets `ended`.
    fn next_segment(&mut self, start: i64) -> Result<bool, ReadError> {
        // Asked first: a complete group has all its segments already.
        let complete = self.streamlet.is_complete(self.group);
        let from = self.behind.map_or(SegmentIx(0), |it| SegmentIx(it.index.0 + 1));
        let of_group = |it: &&Arc<Segment>| it.key.group == self.group && it.key.index >= from;
        let segment = {
            let segments = self.streamlet.segments();
            segments.values().filter(of_group).min_by_key(|it| it.key.index).cloned()
        };
        let Some(segment) = segment else {
            self.ended = complete;
            return Ok(false);
        };
        let (first, _) = segment.range();
        let expected = self.behind.map_or(0, |it| it.end);
        // Segments that retention took from the front of the group are not missed.
        if segment.key.index != from && self.next.max(start) <= expected {
            return Err(ReadError::Missing {
                stream: Arc::clone(&self.streamlet.stream.name),
                streamlet: self.streamlet.index,
                from: expected,
                next: first,
            });
        }
        self.reader = Some(SegmentReader::new(segment));
        Ok(true)
    }

    fn corrupt(&self, next: i64) -> ReadError {
        let reader = self.reader.as_ref().expect("it is being read");
        ReadError::Corrupt {
            stream: Arc::clone(&self.streamlet.stream.name),
            key: reader.segment.key,
            path: reader.segment.path.clone(),
            position: reader.position,
            offset: self.next,
            next: Some(next),
        }
    }

    fn unreadable(&mut self, start: i64, end: i64, error: std::io::Error) -> ReadError {
        let reader = self.reader.take().expect("it is being read");
        if !reader.segment.is_retired() {
            return lost(&reader.segment, error);
        }
        let start = self.streamlet.start_offset().max(start);
        let offset = std::mem::replace(&mut self.next, start);
        ReadError::OutOfRange { offset, start, end }
    }
}
