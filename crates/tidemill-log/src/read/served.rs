//! What a read gives: chunks in memory, or where they stand in a file that can be sent unread.
//!
//! Invariant: a chunk in a file was checked when it was found, reference and checksum, and the file
//! is not used again while somebody has the chunk.

use super::Lane;
use crate::{format::REF_BYTES, segment::Lease};
use bytes::Bytes;
use std::{io, os::fd::BorrowedFd, sync::Arc};
use tidemill_env::DiskRead;

/// Shorter chunks are given as bytes: a call for each would cost more than a copy.
const FILE_BYTES_MIN: usize = 16 << 10;

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
    _lease: Lease,
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
        let mut bytes = vec![0; self.bytes];
        if self.file.read_full_at(self.position, &mut bytes)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes.into())
    }
}

/// A form in which a read gives chunks.
pub(super) trait Form: Sized {
    /// Whether what was read ahead is of no use once it was checked.
    const IS_SENT_FROM_FILES: bool;

    /// The chunk that stands at a lane's place.
    fn of(chunk: &Bytes, lane: &Lane) -> Self;
    /// A chunk that is in memory.
    fn in_memory(chunk: Bytes) -> Self;
}

impl Form for Bytes {
    const IS_SENT_FROM_FILES: bool = false;

    fn of(chunk: &Bytes, _lane: &Lane) -> Self {
        chunk.clone()
    }

    fn in_memory(chunk: Bytes) -> Self {
        chunk
    }
}

impl Form for Served {
    const IS_SENT_FROM_FILES: bool = true;

    fn of(chunk: &Bytes, lane: &Lane) -> Self {
        // Without a walker it was kept in memory.
        let file = lane.walker.as_ref().filter(|_| chunk.len() >= FILE_BYTES_MIN);
        let file = file.map(|it| it.file()).filter(|it| it.as_fd().is_some());
        match file.and_then(|file| Some((file, Lease::take(&lane.segment)?))) {
            Some((file, lease)) => Self::File(FileChunk {
                file: Arc::clone(file),
                position: lane.position + REF_BYTES as u64,
                bytes: chunk.len(),
                _lease: lease,
            }),
            None => Self::Memory(chunk.clone()),
        }
    }

    fn in_memory(chunk: Bytes) -> Self {
        Self::Memory(chunk)
    }
}
