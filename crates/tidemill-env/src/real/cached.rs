//! Which parts of a file the system has in its memory: `cachestat`, in Linux since 6.5. No crate that
//! we use wraps it.
#![expect(unsafe_code, reason = "a call of the system that is not in the standard library")]

use rustix::param::page_size;
use std::{fs::File, os::fd::AsRawFd};

/// The call's number, which is the same on all machines but Alpha.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of Linux.
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat` of Linux: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    in_writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether the system has all of these bytes in memory. False if it does not say, and for none.
pub(super) fn are_cached(file: &File, offset: u64, bytes: u64) -> bool {
    let Some(end) = offset.checked_add(bytes).filter(|_| bytes > 0) else { return false };
    let range = Range { offset, bytes };
    let mut pages = Pages::default();
    let (no_flags, fd): (libc::c_uint, libc::c_int) = (0, file.as_raw_fd());
    // SAFETY: the file is open while it is borrowed; the system reads the one struct and fills the
    // other, which have its layout and live longer than the call.
    let answer =
        unsafe { libc::syscall(SYS_CACHESTAT, fd, &raw const range, &raw mut pages, no_flags) };
    let page_bytes = page_size() as u64;
    let wanted = (end - 1) / page_bytes - offset / page_bytes + 1;
    answer == 0 && pages.cached >= wanted
}
