//! The position of a reader in one segment, and the chunk there.
//!
//! Invariant: a chunk is good only if its reference and its bytes were checked.

use crate::{
    format::{ChunkRef, DATA_START, REF_BYTES},
    segment::Segment,
    streamlet::Streamlet,
    walk::Walker,
};
use bytes::Bytes;
use std::{io, sync::Arc};
use tidemill_env::DiskRead;

/// Shorter chunks are given as bytes: many are read at once.
pub(super) const FILE_BYTES_MIN: usize = 32 << 10;

/// The length of one read while only references are read, on the way to an offset.
pub(super) const SEEK_BYTES: u64 = 4096;

/// The entry at a reader's position.
pub(crate) enum EntryState {
    /// A good chunk; or a good reference, of one that is given as a place in its file.
    Good(ChunkRef, Option<Bytes>),
    /// Something else; after it a good reference, if one was found.
    Bad(Option<(u64, ChunkRef)>),
}

pub(crate) struct SegmentReader {
    pub(crate) segment: Arc<Segment>,
    pub(crate) position: u64,
    pub(crate) head: Option<EntryState>,
    /// Chunks that came behind a bad head since it was looked at stand from here on.
    sought: u64,
    /// Reads chunks that are no longer in memory.
    pub(crate) walker: Option<Walker>,
    /// The file of chunks that are read when they are sent.
    pub(super) file: Option<Arc<dyn DiskRead>>,
}

/// The way a reader gets its chunks.
#[derive(Clone, Copy)]
pub(crate) struct ReadMode {
    /// No more than this is read ahead, in bytes.
    pub(super) ahead_max: u64,
    /// It sends chunks, and reads long ones only then.
    pub(super) sends: bool,
}

impl Default for ReadMode {
    fn default() -> Self {
        Self { ahead_max: u64::MAX, sends: false }
    }
}

impl SegmentReader {
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        Self { segment, position: DATA_START, head: None, sought: 0, walker: None, file: None }
    }

    fn walker(&mut self, streamlet: &Streamlet, ahead: u64) -> io::Result<&mut Walker> {
        if self.walker.is_none() {
            let file = match &self.file {
                Some(file) => Arc::clone(file),
                None => self.segment.reader(&*streamlet.shared.world.disk)?,
            };
            let walker = Walker::new(file, self.segment.key, ahead)?;
            self.walker = Some(walker.with_blocks(&streamlet.shared.blocks));
        }
        Ok(self.walker.as_mut().expect("it was just made"))
    }

    /// Goes to the chunk with this offset, or the first after it; stops at damage.
    pub(crate) fn seek(&mut self, streamlet: &Streamlet, offset: i64) -> io::Result<()> {
        if let Some(position) = self.segment.recent_place(offset) {
            self.position = position;
            return Ok(());
        }
        let (mut position, written) = (self.position, self.segment.state().written);
        let walker = self.walker(streamlet, SEEK_BYTES)?;
        while position < written {
            match walker.reference(position)? {
                Some(reference) if reference.last < offset => position += reference.entry_bytes(),
                _ => break,
            }
        }
        self.position = position;
        self.walker = None;
        Ok(())
    }

    /// Reads the entry at the position into `head`, if there is one.
    pub(crate) fn look(&mut self, streamlet: &Streamlet, how: ReadMode) -> io::Result<()> {
        if self.head.is_some() {
            return Ok(());
        }
        let (written, position) = (self.segment.state().written, self.position);
        if position >= written {
            return Ok(());
        }
        if let Some((reference, chunk)) = self.segment.recent(position) {
            self.walker = None;
            if how.sends && chunk.len() >= FILE_BYTES_MIN {
                self.open_to_send(streamlet);
            }
            self.head = Some(EntryState::Good(reference, Some(chunk)));
            return Ok(());
        }
        if how.sends && !self.segment.is_suspect() {
            self.open_to_send(streamlet);
            if let Some(reference) = self.long_chunk_reference()? {
                self.head = Some(EntryState::Good(reference, None));
                return Ok(());
            }
        }
        let ahead = streamlet.shared.options.read_ahead_bytes.0.min(how.ahead_max);
        self.sought = written;
        let walker = self.walker(streamlet, ahead)?;
        walker.ahead(ahead);
        walker.bound(written);
        let mut entry = walker.entry(position)?;
        if entry.is_none() {
            // What was read ahead may be from before it was written.
            walker.forget();
            entry = walker.entry(position)?;
        }
        self.head = Some(match entry {
            Some((reference, chunk)) => EntryState::Good(reference, Some(chunk)),
            None => EntryState::Bad(walker.find(position + 8, written)?),
        });
        Ok(())
    }

    /// The reference that stands here, if it is one of a long chunk.
    fn long_chunk_reference(&mut self) -> io::Result<Option<ChunkRef>> {
        let (position, key) = (self.position, &self.segment.key);
        let Some(file) = &self.file else { return Ok(None) };
        let reference = match &mut self.walker {
            Some(walker) if walker.holds(position) => walker.reference(position)?,
            _ => {
                let mut bytes = [0; REF_BYTES];
                file.read_full_at(position, &mut bytes)?;
                ChunkRef::decode(&bytes, key, position)
            }
        };
        Ok(reference.filter(|it| it.bytes as usize >= FILE_BYTES_MIN))
    }

    /// Opens the file for reads when chunks are sent. A failure shows when the chunks are read.
    fn open_to_send(&mut self, streamlet: &Streamlet) {
        if self.file.is_none() {
            self.file = self.segment.reader_to_send(&*streamlet.shared.world.disk).ok();
        }
    }

    /// Frees the memory of the entry, unless the segment has it cached. The position stays.
    pub(crate) fn release_block(&mut self) {
        if let Some(walker) = &mut self.walker {
            walker.forget();
            self.head = None;
        }
        self.forget_unread();
    }

    /// Keeps its place, and nothing open.
    pub(crate) fn close(&mut self) {
        self.walker = None;
        self.file = None;
        self.forget_unread();
    }

    /// Forgets an entry whose bytes were not read: the next caller may want them.
    fn forget_unread(&mut self) {
        if matches!(self.head, Some(EntryState::Good(_, None))) {
            self.head = None;
        }
    }

    /// Moves to the next place.
    pub(crate) fn go(&mut self, position: u64) {
        self.position = position;
        self.head = None;
    }

    /// Skips entries that end before `next`. False if the reader has come to the segment's end.
    pub(crate) fn skip(
        &mut self,
        streamlet: &Streamlet,
        next: i64,
        how: ReadMode,
    ) -> io::Result<bool> {
        loop {
            self.look(streamlet, how)?;
            match &self.head {
                Some(EntryState::Good(reference, _)) if reference.last < next => {
                    self.go(self.position + reference.entry_bytes());
                }
                Some(EntryState::Bad(Some((place, reference)))) if reference.base <= next => {
                    self.go(*place);
                }
                Some(EntryState::Bad(None)) => {
                    let (sealed, written, end) = {
                        let state = self.segment.state();
                        (state.sealed, state.written, state.end)
                    };
                    if end <= next {
                        // All that is damaged is behind, and so is the segment if it is full.
                        if sealed {
                            return Ok(false);
                        }
                        self.go(written);
                    } else if written > self.sought {
                        self.head = None;
                    } else {
                        return Ok(true);
                    }
                    // It knows the file as it was.
                    self.walker = None;
                }
                Some(_) => return Ok(true),
                None => return Ok(!self.has_ended()),
            }
        }
    }

    /// True if no chunk will ever follow here. Both facts are read under one lock: a chunk, and the
    /// seal after it, may have come since the last look.
    fn has_ended(&self) -> bool {
        let state = self.segment.state();
        state.sealed && self.position >= state.written
    }
}

#[cfg(test)]
mod tests;
