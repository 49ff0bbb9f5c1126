//! What a read for somebody who sends gives: chunks in memory, or where they stand in a file.
//!
//! A long chunk is read when there is room for it on its way, not before: what waits for a slow
//! client is a place in a file, and takes no memory.
//!
//! Invariant: what is read out of a file is checked, each time, before anybody has it. If it is not
//! what was written, the segment is under suspicion from then on: its chunks are read and checked
//! before they are given, so that readers are told.

use super::{FILE_BYTES_MIN, Lane};
use crate::{
    error::ReadError,
    format::{ChunkRef, REF_BYTES},
    segment::Segment,
};
use bytes::Bytes;
use std::sync::Arc;
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

impl Served {
    /// How long the chunk is, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File(chunk) => chunk.bytes(),
        }
    }

    /// Whether it has no bytes; no chunk is so.
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

    /// Reads it out of the file, and checks it.
    ///
    /// # Errors
    /// The disk's; it is not what was written; or the log has let go of it since.
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

/// A chunk that a lane has come to, or that follows there.
pub(super) struct Place<'a> {
    pub(super) lane: &'a Lane,
    pub(super) stream: &'a Arc<str>,
    pub(super) position: u64,
    pub(super) reference: &'a ChunkRef,
}

/// A form in which a read gives chunks.
pub(super) trait Form: Sized {
    /// Whether long chunks are given as places in their files.
    const IS_TO_SEND: bool;

    /// A chunk, of which the bytes are here unless it can be given as a place.
    fn of(chunk: Option<&Bytes>, place: &Place<'_>) -> Option<Self>;
}

impl Form for Bytes {
    const IS_TO_SEND: bool = false;

    fn of(chunk: Option<&Bytes>, _place: &Place<'_>) -> Option<Self> {
        chunk.cloned()
    }
}

impl Form for Served {
    const IS_TO_SEND: bool = true;

    fn of(chunk: Option<&Bytes>, place: &Place<'_>) -> Option<Self> {
        let (lane, reference) = (place.lane, place.reference);
        let is_place = reference.bytes as usize >= FILE_BYTES_MIN && !lane.segment.is_suspect();
        match lane.file.as_ref().filter(|_| is_place) {
            Some(file) => Some(Self::File(FileChunk {
                file: Arc::clone(file),
                segment: Arc::clone(&lane.segment),
                stream: Arc::clone(place.stream),
                position: place.position,
                reference: reference.clone(),
            })),
            None => chunk.cloned().map(Self::Memory),
        }
    }
}
