//! A memory map of a file: a write is a copy, and no system call.
//!
//! Invariant: nothing is written outside the mapping, and its owner never makes the file shorter
//! while it lives.
//!
//! If the system cannot bring in a page at a write, the process ends (`SIGBUS`): the disk failed,
//! or there is no room behind a file that was not reserved. [`Mapping::prepare`] brings pages in
//! beforehand, and returns such a failure as an error.
#![expect(unsafe_code, reason = "maps files; the rest of this crate sees none of it")]

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, MsyncFlags, ProtFlags},
};
use std::{ffi::c_void, fs::File, io, ptr, ptr::NonNull};

/// The unit in which the system brings in and writes back, at least.
pub(super) const PAGE_BYTES: u64 = 4096;

/// A file from its start on, in memory.
pub(super) struct Mapping {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: the memory belongs to no thread; it is there until the mapping is dropped.
unsafe impl Send for Mapping {}
// SAFETY: writes go through raw pointers and make no references. Those of several threads to one
// place are for the owner to keep apart, as with positioned writes to one place of a file.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nobody else has a pointer into it.
        let _unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.length) };
    }
}

impl Mapping {
    /// Maps the first `length` bytes of a file that is at least that long; `length` is not 0.
    pub(super) fn new(file: &File, length: u64) -> io::Result<Self> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at a place that the system chooses touches no memory in use.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), length, access, flags, file, 0) }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    pub(super) fn length(&self) -> u64 {
        self.length as u64
    }

    /// Copies bytes to a place; false if they do not fit, and nothing is written.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.length()) {
            return false;
        }
        let start = self.start.cast::<u8>().as_ptr();
        // SAFETY: the end was checked above, so this is inside the mapping.
        let to = unsafe { start.add(offset as usize) };
        // SAFETY: `to` has room for so many bytes, and `bytes` is memory of the program, which a
        // mapping that only this module points to cannot overlap.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    /// Brings the pages of this range in, ready to be written to: so an error is one here.
    pub(super) fn prepare(&self, from: u64, to: u64) -> io::Result<()> {
        let from = from - from % PAGE_BYTES;
        let to = to.min(self.length());
        if from >= to {
            return Ok(());
        }
        // SAFETY: `from` is below the mapping's end.
        let start = unsafe { self.start.cast::<u8>().as_ptr().add(from as usize) };
        let advice = Advice::LinuxPopulateWrite;
        // SAFETY: the range is inside the mapping, and the advice leaves its content as it is.
        match unsafe { rustix::mm::madvise(start.cast(), (to - from) as usize, advice) } {
            // An older system: pages come in when they are written to.
            Err(Errno::INVAL) => Ok(()),
            Err(Errno::FAULT) => Err(io::Error::other("the disk failed under a memory map")),
            other => Ok(other?),
        }
    }

    /// Makes all of it survive a power cut.
    pub(super) fn sync(&self) -> io::Result<()> {
        // SAFETY: this is what was mapped.
        unsafe { rustix::mm::msync(self.start.as_ptr(), self.length, MsyncFlags::SYNC) }?;
        Ok(())
    }
}
