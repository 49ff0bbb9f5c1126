//! A file to append to. Long data that is not read soon goes past the system's cache (`O_DIRECT`).
//!
//! ```text
//! bytes   │ to the next block │ blocks ………………………………………………………………………………………… │ rest         │
//! written │ through the cache │ past it, from where they are, or a buffer at a time │ through it   │
//! ```
//!
//! A disk takes blocks from memory where those begin as they do in the file: at a multiple of
//! [`BLOCK_BYTES`]. Others are copied first.
//!
//! Invariant: no block is written both ways, so neither way has to wait for the other.

use super::direct_io::{self, BUFFER_BYTES, DIRECT_BYTES_MIN};
use crate::{AlignedBuffer, BLOCK_BYTES, DiskFile};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
};

pub(super) struct RealFile {
    file: File,
    path: PathBuf,
    direct: DirectPath,
}

/// The way past the cache.
enum DirectPath {
    /// Nothing went there yet.
    Unknown,
    /// The file system has none.
    No,
    /// With a buffer, once one is needed.
    Open(File, Option<AlignedBuffer>),
}

impl RealFile {
    pub(super) fn new(file: File, path: PathBuf) -> Self {
        Self { file, path, direct: DirectPath::Unknown }
    }

    /// Writes whole blocks at a place past the cache: how much of them. Less than all: the rest is
    /// for the other way.
    fn append_blocks(&mut self, mut at: u64, blocks: &[u8]) -> io::Result<usize> {
        if let DirectPath::Unknown = self.direct {
            let file = direct_io::open(OpenOptions::new().write(true), &self.path);
            self.direct = file.map_or(DirectPath::No, |file| DirectPath::Open(file, None));
        }
        let DirectPath::Open(file, buffer) = &mut self.direct else { return Ok(0) };
        let is_in_place = blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES);
        let most = if is_in_place { blocks.len().max(1) } else { BUFFER_BYTES };
        let mut written = 0;
        for part in blocks.chunks(most) {
            let done = if is_in_place {
                file.write_all_at(part, at)
            } else {
                let block = &mut buffer.get_or_insert_with(direct_io::buffer)[..part.len()];
                block.copy_from_slice(part);
                file.write_all_at(block, at)
            };
            match done {
                Ok(()) => {}
                Err(error) if direct_io::is_refused(&error) => {
                    // A part of this one may be there, and what is appended next begins with it.
                    self.file.set_len(at)?;
                    self.direct = DirectPath::No;
                    return Ok(written);
                }
                Err(error) => return Err(error),
            }
            at += part.len() as u64;
            written += part.len();
        }
        Ok(written)
    }
}

impl DiskFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn append_direct(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < DIRECT_BYTES_MIN {
            return self.append(bytes);
        }
        let end = self.length()?;
        let first = (end.next_multiple_of(BLOCK_BYTES as u64) - end) as usize;
        let (first, rest) = bytes.split_at(first);
        self.append(first)?;
        let blocks = &rest[..rest.len() - rest.len() % BLOCK_BYTES];
        let written = self.append_blocks(end + first.len() as u64, blocks)?;
        self.append(&rest[written..])
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
