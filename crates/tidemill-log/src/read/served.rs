//! What a read gives: chunks in memory, or where they stand in a file that can be sent unread.
//!
//! Invariant: a chunk in a file was checked, reference and checksum, when it was found or no longer
//! before that than [`crate::LogOptions::recheck`]; and the file is never used again, because the
//! system may have pages of it on their way long after whoever sent them is gone.

use super::{FILE_BYTES_MIN, Lane};
use crate::format::REF_BYTES;
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
    position: u64,
    bytes: usize,
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
    /// It was checked just now, or lately.
    pub(super) is_checked: bool,
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
        let is_long = place.bytes >= FILE_BYTES_MIN;
        let file = place.lane.file.as_ref().filter(|_| is_long && place.is_checked);
        let file = file.filter(|_| place.lane.segment.send());
        match file {
            Some(file) => Some(Self::File(FileChunk {
                file: Arc::clone(file),
                position: place.position + REF_BYTES as u64,
                bytes: place.bytes,
            })),
            None => chunk.cloned().map(Self::Memory),
        }
    }
}
