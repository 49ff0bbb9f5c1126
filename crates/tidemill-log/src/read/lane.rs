//! A reader's place in one segment, and what stands there.
//!
//! Invariant: a head is checked, reference and chunk, or it is said to be bad.

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

/// Reads of references alone, on the way to an offset, take so many bytes at once.
pub(super) const SEEK_BYTES: u64 = 4096;

/// What stands at a lane's place.
pub(crate) enum Head {
    /// A good chunk; or a good reference, of one that is given as a place in its file.
    Good(ChunkRef, Option<Bytes>),
    /// Something else; after it a good reference, if one was found.
    Bad(Option<(u64, ChunkRef)>),
}

pub(crate) struct Lane {
    pub(crate) segment: Arc<Segment>,
    pub(crate) position: u64,
    pub(crate) head: Option<Head>,
    /// Chunks that came behind a bad head since it was looked at stand from here on.
    sought: u64,
    /// For what is no longer in memory.
    pub(crate) walker: Option<Walker>,
    /// For those who send, and read later.
    pub(super) file: Option<Arc<dyn DiskRead>>,
}

/// What a reader wants.
#[derive(Clone, Copy)]
pub(crate) struct How {
    /// No more than this is read ahead, in bytes.
    pub(super) ahead_max: u64,
    /// It sends chunks, and reads long ones only then.
    pub(super) sends: bool,
}

impl Default for How {
    fn default() -> Self {
        Self { ahead_max: u64::MAX, sends: false }
    }
}

impl Lane {
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

    /// Looks at what stands here, if there is anything.
    pub(crate) fn look(&mut self, streamlet: &Streamlet, how: How) -> io::Result<()> {
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
            self.head = Some(Head::Good(reference, Some(chunk)));
            return Ok(());
        }
        if how.sends && !self.segment.is_suspect() {
            self.open_to_send(streamlet);
            if let Some(reference) = self.long_one()? {
                self.head = Some(Head::Good(reference, None));
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
            Some((reference, chunk)) => Head::Good(reference, Some(chunk)),
            None => Head::Bad(walker.find(position + 8, written)?),
        });
        Ok(())
    }

    /// The reference that stands here, if it is one of a long chunk.
    fn long_one(&mut self) -> io::Result<Option<ChunkRef>> {
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

    /// Opens the file, to be read when chunks are sent. If it cannot be, that is told where they
    /// are read.
    fn open_to_send(&mut self, streamlet: &Streamlet) {
        if self.file.is_none() {
            self.file = self.segment.reader_to_send(&*streamlet.shared.world.disk).ok();
        }
    }

    /// Keeps its place and none of the memory of what stands there, unless that is the segment's.
    pub(crate) fn let_go(&mut self) {
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

    /// Whoever comes next may want the bytes.
    fn forget_unread(&mut self) {
        if matches!(self.head, Some(Head::Good(_, None))) {
            self.head = None;
        }
    }

    /// Moves to the next place.
    pub(crate) fn go(&mut self, position: u64) {
        self.position = position;
        self.head = None;
    }

    /// Drops what ends before `next`. False if the lane has come to its end.
    pub(crate) fn skip(&mut self, streamlet: &Streamlet, next: i64, how: How) -> io::Result<bool> {
        loop {
            self.look(streamlet, how)?;
            match &self.head {
                Some(Head::Good(reference, _)) if reference.last < next => {
                    self.go(self.position + reference.entry_bytes());
                }
                Some(Head::Bad(Some((place, reference)))) if reference.base <= next => {
                    self.go(*place);
                }
                Some(Head::Bad(None)) => {
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

    /// Whether nothing will ever stand here. Seen at one moment: a chunk may have come, and the seal
    /// after it, since somebody looked here and found nothing.
    fn has_ended(&self) -> bool {
        let state = self.segment.state();
        state.sealed && self.position >= state.written
    }
}

#[cfg(test)]
mod tests;
