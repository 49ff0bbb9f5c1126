//! A reader's place in one segment, and what stands there.
//!
//! Invariant: a head is checked, reference and chunk, or it is said to be bad.

use crate::{
    format::{ChunkRef, DATA_START},
    segment::Segment,
    streamlet::Streamlet,
    walk::Walker,
};
use bytes::Bytes;
use std::{io, sync::Arc};

/// Reads of references alone, on the way to an offset, take so many bytes at once.
pub(super) const SEEK_BYTES: u64 = 4096;

/// What stands at a lane's place.
pub(crate) enum Head {
    /// A good chunk.
    Good(ChunkRef, Bytes),
    /// Something else; after it a good reference, if one was found.
    Bad(Option<(u64, ChunkRef)>),
}

pub(crate) struct Lane {
    pub(crate) segment: Arc<Segment>,
    pub(crate) position: u64,
    pub(crate) head: Option<Head>,
    /// For what is no longer in memory.
    pub(crate) walker: Option<Walker>,
    /// No more than this is read ahead, in bytes.
    pub(crate) ahead_max: u64,
}

impl Lane {
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        Self { segment, position: DATA_START, head: None, walker: None, ahead_max: u64::MAX }
    }

    fn walker(&mut self, streamlet: &Streamlet, ahead: u64) -> io::Result<&mut Walker> {
        if self.walker.is_none() {
            let file = self.segment.reader(&*streamlet.shared.world.disk)?;
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
    pub(crate) fn look(&mut self, streamlet: &Streamlet) -> io::Result<()> {
        if self.head.is_some() {
            return Ok(());
        }
        let (written, position) = (self.segment.state().written, self.position);
        if position >= written {
            return Ok(());
        }
        if let Some((reference, chunk)) = self.segment.recent(position) {
            self.walker = None;
            self.head = Some(Head::Good(reference, chunk));
            return Ok(());
        }
        let ahead = streamlet.shared.options.read_ahead_bytes.0.min(self.ahead_max);
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
            Some((reference, chunk)) => Head::Good(reference, chunk),
            None => Head::Bad(walker.find(position + 8, written)?),
        });
        Ok(())
    }

    /// Keeps its place and none of the memory of what stands there, unless that is the segment's.
    pub(crate) fn let_go(&mut self) {
        if let Some(walker) = &mut self.walker {
            walker.forget();
            self.head = None;
        }
    }

    /// Moves to the next place.
    pub(crate) fn go(&mut self, position: u64) {
        self.position = position;
        self.head = None;
    }

    /// Drops what ends before `next`. False if the lane has come to its end.
    pub(crate) fn skip(&mut self, streamlet: &Streamlet, next: i64) -> io::Result<bool> {
        loop {
            self.look(streamlet)?;
            match &self.head {
                Some(Head::Good(reference, _)) if reference.last < next => {
                    self.go(self.position + reference.entry_bytes());
                }
                Some(Head::Bad(Some((place, reference)))) if reference.base <= next => {
                    self.go(*place);
                }
                Some(Head::Bad(None)) => return Ok(self.segment.range().1 > next),
                Some(_) => return Ok(true),
                None => return Ok(!self.segment.state().sealed),
            }
        }
    }
}
