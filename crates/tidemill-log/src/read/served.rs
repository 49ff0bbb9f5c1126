//! What a read gives: chunks in memory, or where they stand in a file that can be sent unread.
//!
//! Invariant: a chunk in a file was checked, reference and checksum, when it was found or no longer
//! before that than [`crate::LogOptions::recheck`], and since then nobody else has written to the
//! file, and the system has kept those bytes in its memory; who sends it later than at once asks
//! again. And the file is never used again, because the system may have pages of it on their way
//! long after whoever sent them is gone.

use super::{FILE_BYTES_MIN, Lane};
use crate::{
    format::{ChunkRef, REF_BYTES},
    segment::Segment,
};
use bytes::Bytes;
use std::{io, os::fd::BorrowedFd, sync::Arc};
use tidemill_env::DiskRead;

/// A chunk to be sent to somebody.
#[derive(Clone, Debug)]
pub enum Served {
    /// Its bytes.
    Memory(Bytes),
    /// Where they stand.
    File(FileChunk),
}

/// A chunk in a file.
#[derive(Clone)]
pub struct FileChunk {
    file: Arc<dyn DiskRead>,
    segment: Arc<Segment>,
    position: u64,
    bytes: usize,
    /// When the file had last been changed when this was found good: µs since 1970.
    changed_us: i64,
}

impl std::fmt::Debug for FileChunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileChunk({} bytes at {})", self.bytes, self.position)
    }
}

impl Served {
    /// How long the chunk is, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File(chunk) => chunk.bytes,
        }
    }

    /// Whether it has no bytes; no chunk is so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FileChunk {
    /// The file, and where in it the chunk begins, in bytes. None: read it.
    #[must_use]
    pub fn place(&self) -> Option<(BorrowedFd<'_>, u64)> {
        self.file.as_fd().map(|file| (file, self.position))
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the file still gives the bytes that were found good: only this process has written
    /// to it since, and the system has kept them in memory. Then it may be sent unread; if not, see
    /// [`Self::read_checked`].
    #[must_use]
    pub fn is_as_found(&self) -> bool {
        let is_ours = |changed_us| {
            changed_us == self.changed_us || self.segment.state().checked.is_as_left(changed_us)
        };
        self.file.changed_micros().is_some_and(is_ours)
            && self.file.is_cached(self.position, self.bytes as u64)
    }

    /// Reads it and checks it.
    ///
    /// # Errors
    /// The disk's; and [`io::ErrorKind::InvalidData`], which names the place, if it is not what was
    /// written.
    pub fn read_checked(&self) -> io::Result<Bytes> {
        let (key, at) = (&self.segment.key, self.position - REF_BYTES as u64);
        let mut reference = [0; REF_BYTES];
        self.file.read_full_at(at, &mut reference)?;
        let chunk = self.read()?;
        match ChunkRef::decode(&reference, key, at).filter(|it| it.accepts(&chunk)) {
            Some(_) => Ok(chunk),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{key}: damaged at byte {at} of {}", self.segment.path.display()),
            )),
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// The disk's.
    pub fn read(&self) -> io::Result<Bytes> {
        self.read_first(self.bytes)
    }

    /// Reads so many bytes of it from its beginning, or all if it is shorter.
    ///
    /// # Errors
    /// The disk's.
    pub fn read_first(&self, bytes: usize) -> io::Result<Bytes> {
        let mut bytes = vec![0; bytes.min(self.bytes)];
        if self.file.read_full_at(self.position, &mut bytes)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes.into())
    }
}

/// A chunk that a lane has come to, or that follows there.
pub(super) struct Place<'a> {
    pub(super) lane: &'a Lane,
    pub(super) position: u64,
    pub(super) bytes: usize,
    /// It can be sent out of the file, which had last been changed then: µs since 1970.
    pub(super) in_file_us: Option<i64>,
}

/// A form in which a read gives chunks.
pub(super) trait Form: Sized {
    /// Whether what was read ahead is of no use once it was checked.
    const IS_SENT_FROM_FILES: bool;

    /// A chunk, of which the bytes are here if it was read. None: it is no longer there.
    fn of(chunk: Option<&Bytes>, place: &Place<'_>) -> Option<Self>;
}

impl Form for Bytes {
    const IS_SENT_FROM_FILES: bool = false;

    fn of(chunk: Option<&Bytes>, _place: &Place<'_>) -> Option<Self> {
        chunk.cloned()
    }
}

impl Form for Served {
    const IS_SENT_FROM_FILES: bool = true;

    fn of(chunk: Option<&Bytes>, place: &Place<'_>) -> Option<Self> {
        let lane = place.lane;
        let is_long = place.bytes >= FILE_BYTES_MIN;
        let found = lane.file.as_ref().zip(place.in_file_us);
        match found.filter(|_| is_long && lane.segment.send()) {
            Some((file, changed_us)) => Some(Self::File(FileChunk {
                file: Arc::clone(file),
                segment: Arc::clone(&lane.segment),
                position: place.position + REF_BYTES as u64,
                bytes: place.bytes,
                changed_us,
            })),
            None => chunk.cloned().map(Self::Memory),
        }
    }
}
