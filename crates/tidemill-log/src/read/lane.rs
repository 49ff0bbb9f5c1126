//! A reader's place in one segment, and what stands there.
//!
//! Invariant: a head is checked, reference and chunk, or it is said to be bad.

use crate::{
    checked::{Checked, Lately},
    format::{ChunkRef, DATA_START, REF_BYTES},
    segment::Segment,
    streamlet::Streamlet,
    walk::Walker,
};
use bytes::Bytes;
use std::{io, sync::Arc};
use tidemill_env::DiskRead;

/// Shorter chunks are given as bytes: a call for each would cost more than a copy.
pub(super) const FILE_BYTES_MIN: usize = 32 << 10;

/// Reads of references alone, on the way to an offset, take so many bytes at once.
pub(super) const SEEK_BYTES: u64 = 4096;

/// What stands at a lane's place.
pub(crate) enum Head {
    /// A good chunk. It was not read again if it was found good lately, and is sent from its file.
    Good(ChunkRef, Option<Bytes>),
    /// Something else; after it a good reference, if one was found.
    Bad(Option<(u64, ChunkRef)>),
}

pub(crate) struct Lane {
    pub(crate) segment: Arc<Segment>,
    pub(crate) position: u64,
    pub(crate) head: Option<Head>,
    /// For what is no longer in memory.
    pub(crate) walker: Option<Walker>,
    /// For those who send out of it.
    pub(super) file: Option<Arc<dyn DiskRead>>,
    /// The head can be sent out of the file, which had last been changed then: µs since 1970.
    pub(super) in_file_us: Option<i64>,
}

/// What a reader wants.
#[derive(Clone, Copy)]
pub(crate) struct How {
    /// No more than this is read ahead, in bytes.
    pub(super) ahead_max: u64,
    /// It sends long chunks out of their files, and those that were found good lately unread.
    pub(super) lately: Option<Lately>,
}

impl Default for How {
    fn default() -> Self {
        Self { ahead_max: u64::MAX, lately: None }
    }
}

impl Lane {
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        Self {
            segment,
            position: DATA_START,
            head: None,
            walker: None,
            file: None,
            in_file_us: None,
        }
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
        let cold_from = walker.take_cold();
        self.position = position;
        self.walker = None;
        self.segment.came_from_disk(cold_from);
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
            if how.lately.is_some() && chunk.len() >= FILE_BYTES_MIN {
                self.open_to_send(streamlet);
                let end = position + reference.entry_bytes();
                self.in_file_us = self.in_file(position, end, reference.appended_s, how);
            }
            self.head = Some(Head::Good(reference, Some(chunk)));
            return Ok(());
        }
        if let Some(lately) = how.lately {
            self.open_to_send(streamlet);
            if let Some((reference, changed_us)) = self.found_good(lately)? {
                self.in_file_us = Some(changed_us);
                self.head = Some(Head::Good(reference, None));
                return Ok(());
            }
        }
        let ahead = streamlet.shared.options.read_ahead_bytes.0.min(how.ahead_max);
        let walker = self.walker(streamlet, ahead)?;
        walker.ahead(ahead);
        walker.bound(written);
        let mut entry = walker.entry(position)?;
        if entry.is_none() {
            // What was read ahead may be from before it was written.
            walker.forget();
            entry = walker.entry(position)?;
        }
        let bad = match entry {
            Some(_) => None,
            None => walker.find(position + 8, written)?,
        };
        let (cold_from, changed_us) = (walker.take_cold(), walker.changed_us());
        self.segment.came_from_disk(cold_from);
        self.head = Some(match entry {
            Some((reference, chunk)) => {
                if let (Some(lately), Some(changed_us)) = (how.lately, changed_us) {
                    let end = position + reference.entry_bytes();
                    self.segment.state().checked.note(position, end, lately, changed_us);
                    self.in_file_us = Some(changed_us);
                }
                Head::Good(reference, Some(chunk))
            }
            None => Head::Bad(bad),
        });
        Ok(())
    }

    /// The reference that stands here, of a long chunk that can be sent without another look.
    /// With it, when the file had last been changed.
    fn found_good(&self, lately: Lately) -> io::Result<Option<(ChunkRef, i64)>> {
        let (position, key) = (self.position, &self.segment.key);
        let Some(file) = &self.file else { return Ok(None) };
        if !self.segment.state().checked.may_cover(position, lately) {
            return Ok(None);
        }
        // Asked first: to read the reference would bring in what follows as well.
        if !file.is_cached(position, REF_BYTES as u64) {
            return Ok(None);
        }
        let mut bytes = [0; REF_BYTES];
        file.read_full_at(position, &mut bytes)?;
        let Some(reference) = ChunkRef::decode(&bytes, key, position) else { return Ok(None) };
        let Some(changed_us) = file.changed_micros() else { return Ok(None) };
        let is_good = reference.bytes as usize >= FILE_BYTES_MIN
            && self.segment.state().checked.covers(position, &reference, lately, changed_us)
            && file.is_cached(position, reference.entry_bytes());
        Ok(is_good.then_some((reference, changed_us)))
    }

    /// Whether these bytes, of which the first was appended then and which are in memory, can as
    /// well be sent out of the file: if so, when that had last been changed.
    pub(super) fn in_file(&self, from: u64, to: u64, appended_s: u32, how: How) -> Option<i64> {
        let (lately, file) = (how.lately?, self.file.as_ref()?);
        let changed_us = file.changed_micros()?;
        let covers = |it: &Checked| it.covers_written(from, appended_s, lately, changed_us);
        let is_good = covers(&self.segment.state().checked) && file.is_cached(from, to - from);
        is_good.then_some(changed_us)
    }

    /// Opens the file if chunks can be sent out of it. If not, they are read and told of there.
    fn open_to_send(&mut self, streamlet: &Streamlet) {
        if self.file.is_none() {
            let file = self.segment.reader_to_send(&*streamlet.shared.world.disk).ok();
            self.file = file.filter(|it| it.as_fd().is_some());
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

    /// What was found good lately may not be so when the reader comes again.
    fn forget_unread(&mut self) {
        if matches!(self.head, Some(Head::Good(_, None))) || self.in_file_us.is_some() {
            self.head = None;
            self.in_file_us = None;
        }
    }

    /// Moves to the next place.
    pub(crate) fn go(&mut self, position: u64) {
        self.position = position;
        self.head = None;
        self.in_file_us = None;
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
                Some(Head::Bad(None)) => return Ok(self.segment.range().1 > next),
                Some(_) => return Ok(true),
                None => return Ok(!self.segment.state().sealed),
            }
        }
    }
}
