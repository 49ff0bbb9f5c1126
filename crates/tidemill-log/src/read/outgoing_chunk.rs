//! Chunks to send: in memory, or as a position in a file.
//!
//! A long chunk is read when the connection has room for it, not before. So a slow client's backlog
//! is a list of positions, and takes no memory.
//!
//! Invariant: each read out of a file is checked before anybody gets the bytes. If they are
//! damaged, the segment becomes suspect: from then on its chunks are read and checked before they
//! are handed out, so that readers get the error.

use super::{FILE_BYTES_MIN, SegmentReader};
use crate::{
    error::ReadError,
    format::{ChunkRef, REF_BYTES},
    segment::Segment,
};
use bytes::Bytes;
use std::sync::Arc;
use tidemill_env::DiskRead;

/// A chunk to send.
#[derive(Clone, Debug)]
pub enum OutgoingChunk {
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
    stream: Arc<str>,
    /// Where its reference stands.
    position: u64,
    reference: ChunkRef,
}

impl std::fmt::Debug for FileChunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileChunk({} bytes at {})", self.bytes(), self.position)
    }
}

impl OutgoingChunk {
    /// The length of the chunk in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File(chunk) => chunk.bytes(),
        }
    }

    /// False for every chunk: a chunk has at least a head.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FileChunk {
    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.reference.bytes as usize
    }

    /// Its bytes, if the log has them in memory just now.
    #[must_use]
    pub fn in_memory(&self) -> Option<Bytes> {
        self.segment.recent(self.position).map(|(_, chunk)| chunk)
    }

    /// Reads the chunk out of its file, and checks it.
    ///
    /// # Errors
    /// The disk failed, the chunk is damaged, or retention has deleted it meanwhile.
    ///
    /// # Panics
    /// `into` is not as long as the chunk.
    pub fn read_into(&self, into: &mut [u8]) -> Result<(), ReadError> {
        assert_eq!(into.len(), self.bytes(), "as long as the chunk");
        let read = self.file.read_full_at(self.position + REF_BYTES as u64, into);
        let is_whole = |count| count == into.len() && self.reference.accepts(into);
        match read.map(is_whole) {
            Ok(true) => Ok(()),
            // The file may be another's already.
            Ok(false) | Err(_) if self.segment.is_retired() => Err(ReadError::Missing {
                stream: Arc::clone(&self.stream),
                streamlet: self.segment.key.streamlet,
                from: self.reference.base,
                next: self.reference.last + 1,
            }),
            Ok(false) => {
                self.segment.suspect();
                Err(ReadError::Corrupt {
                    stream: Arc::clone(&self.stream),
                    key: self.segment.key,
                    path: self.segment.path.clone(),
                    position: self.position,
                    offset: self.reference.base,
                    next: None,
                })
            }
            Err(error) => Err(super::lost(&self.segment, error)),
        }
    }

    /// Its bytes, out of memory or out of the file.
    ///
    /// # Errors
    /// As [`Self::read_into`].
    pub fn read(&self) -> Result<Bytes, ReadError> {
        if let Some(bytes) = self.in_memory() {
            return Ok(bytes);
        }
        let mut bytes = vec![0; self.bytes()];
        self.read_into(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// A chunk that a reader has come to, or that follows there.
pub(super) struct ChunkPlace<'a> {
    pub(super) reader: &'a SegmentReader,
    pub(super) stream: &'a Arc<str>,
    pub(super) position: u64,
    pub(super) reference: &'a ChunkRef,
}

/// A form in which a read gives chunks.
pub(super) trait ChunkForm: Sized {
    /// True if long chunks are given as positions in their files.
    const IS_TO_SEND: bool;

    /// A chunk, of which the bytes are here unless it can be given as a place.
    fn of(chunk: Option<&Bytes>, place: &ChunkPlace<'_>) -> Option<Self>;
}

impl ChunkForm for Bytes {
    const IS_TO_SEND: bool = false;

    fn of(chunk: Option<&Bytes>, _place: &ChunkPlace<'_>) -> Option<Self> {
        chunk.cloned()
    }
}

impl ChunkForm for OutgoingChunk {
    const IS_TO_SEND: bool = true;

    fn of(chunk: Option<&Bytes>, place: &ChunkPlace<'_>) -> Option<Self> {
        let (reader, reference) = (place.reader, place.reference);
        let is_place = reference.bytes as usize >= FILE_BYTES_MIN && !reader.segment.is_suspect();
        match reader.file.as_ref().filter(|_| is_place) {
            Some(file) => Some(Self::File(FileChunk {
                file: Arc::clone(file),
                segment: Arc::clone(&reader.segment),
                stream: Arc::clone(place.stream),
                position: place.position,
                reference: reference.clone(),
            })),
            None => chunk.cloned().map(Self::Memory),
        }
    }
}
