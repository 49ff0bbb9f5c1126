//! Direct I/O (`O_DIRECT`) for long data that is used once: the system's cache would take longer to
//! find memory and to copy than the disk takes for its work.
//!
//! Invariant: both ways give the same bytes; where a file system or a disk has no direct I/O, the
//! cache is used.

use crate::{AlignedBuffer, BLOCK_BYTES};
use rustix::{fs::OFlags, io::Errno};
use std::{
    cell::RefCell,
    fs::{File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::Path,
    sync::OnceLock,
};

/// So much goes this way at once.
pub(super) const BUFFER_BYTES: usize = 1 << 20;
/// Less than this goes the other way: it is soon done, and may be read soon.
pub(super) const DIRECT_BYTES_MIN: usize = BUFFER_BYTES / 2;

/// A buffer of [`BUFFER_BYTES`].
pub(super) fn buffer() -> AlignedBuffer {
    let mut buffer = AlignedBuffer::default();
    buffer.grow(BUFFER_BYTES);
    buffer
}

thread_local! {
    static READ: RefCell<AlignedBuffer> = RefCell::new(buffer());
}

/// Opens a file once more, to be read or written this way.
pub(super) fn open(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    how.custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path)
}

/// True if the file system refuses direct I/O: it takes the flag and then fails each call, or it
/// wants larger blocks.
pub(super) fn is_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

/// A file that may be read this way.
#[derive(Default)]
pub(super) struct DirectReader(OnceLock<Option<File>>);

impl DirectReader {
    /// Reads from a place of `file` on: how much of `into` is filled. Less than all: the rest is
    /// for the other way.
    pub(super) fn read(&self, file: &File, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if into.len() < DIRECT_BYTES_MIN {
            return Ok(0);
        }
        let again = || {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            open(OpenOptions::new().read(true), Path::new(&path)).ok()
        };
        let Some(file) = self.0.get_or_init(again) else { return Ok(0) };
        READ.with_borrow_mut(|buffer| {
            let mut filled = 0;
            while filled < into.len() {
                let position = offset + filled as u64;
                let skipped = (position % BLOCK_BYTES as u64) as usize;
                let left = skipped + into.len() - filled;
                let wanted = left.next_multiple_of(BLOCK_BYTES).min(BUFFER_BYTES);
                let block = &mut buffer[..wanted];
                let count = match file.read_at(block, position - skipped as u64) {
                    Ok(count) => count,
                    Err(error) if is_refused(&error) => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                let found = block.get(skipped..count.min(left)).unwrap_or_default();
                into[filled..filled + found.len()].copy_from_slice(found);
                filled += found.len();
                if count < wanted {
                    break;
                }
            }
            Ok(filled)
        })
    }
}
