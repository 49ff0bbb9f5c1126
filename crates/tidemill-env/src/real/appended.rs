//! A file that is appended to. What is long, and nobody is about to read, goes past the system's
//! cache: to find memory there and to copy into it costs more than the disk's own work does.
//!
//! ```text
//! bytes   │ to the next block │ blocks ……………………………………… │ what is left │
//! written │ through the cache │ past it, a buffer at a time │ through it   │
//! ```
//!
//! Invariant: no block is written both ways, so neither way has to wait for the other.

use crate::DiskFile;
use rustix::{fs::OFlags, io::Errno};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::PathBuf,
};

/// Places in the file, in memory, and lengths: what every disk takes.
const BLOCK_BYTES: usize = 4096;
/// So much is written past the cache at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Less than this goes through the cache: it is soon done, and may be read soon.
const PAST_BYTES_MIN: usize = 2 * BUFFER_BYTES;

pub(super) struct RealFile {
    file: File,
    path: PathBuf,
    past: Past,
}

/// The way past the cache.
enum Past {
    /// Nothing went there yet.
    Unknown,
    /// The file system has none.
    No,
    Open(File, Buffer),
}

/// Memory that begins where a disk wants it to.
struct Buffer(Vec<u8>);

impl Buffer {
    fn new() -> Self {
        Self(vec![0; BUFFER_BYTES + BLOCK_BYTES])
    }

    fn filled(&mut self, bytes: &[u8]) -> &[u8] {
        let start = self.0.as_ptr().align_offset(BLOCK_BYTES);
        let filled = &mut self.0[start..start + bytes.len()];
        filled.copy_from_slice(bytes);
        filled
    }
}

impl RealFile {
    pub(super) fn new(file: File, path: PathBuf) -> Self {
        Self { file, path, past: Past::Unknown }
    }

    /// Writes whole blocks at a place past the cache: how much of them. Less than all: the rest is
    /// for the other way.
    fn append_blocks(&mut self, mut at: u64, blocks: &[u8]) -> io::Result<usize> {
        if let Past::Unknown = self.past {
            let mut how = OpenOptions::new();
            let flags = OFlags::DIRECT.bits().cast_signed();
            let file = how.write(true).custom_flags(flags).open(&self.path);
            self.past = file.map_or(Past::No, |file| Past::Open(file, Buffer::new()));
        }
        let Past::Open(file, buffer) = &mut self.past else { return Ok(0) };
        let mut written = 0;
        for part in blocks.chunks(BUFFER_BYTES) {
            match file.write_all_at(buffer.filled(part), at) {
                Ok(()) => {}
                // The file system takes the flag, and nothing with it; or it wants larger blocks.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    self.past = Past::No;
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

    fn append_past_cache(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < PAST_BYTES_MIN {
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
