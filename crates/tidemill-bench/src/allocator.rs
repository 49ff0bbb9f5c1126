//! The allocator of the benchmarks: mimalloc, as in the product, with every allocation counted.
//!
//! Counting costs about a nanosecond: a thread adds to a counter of its own, without a locked
//! instruction. Threads past the last counter share it, with one. Nothing here allocates.

#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

#[cfg(test)]
mod tests;

/// Mimalloc that counts the allocations of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountingAllocator;

/// Threads that have a counter of their own.
const OWN_COUNTERS: usize = 255;

/// A counter on a cache line of its own (two, for the prefetcher).
#[repr(align(128))]
struct Counter(AtomicU64);

static COUNTERS: [Counter; OWN_COUNTERS + 1] =
    [const { Counter(AtomicU64::new(0)) }; OWN_COUNTERS + 1];
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// No counter was given to this thread yet.
const UNKNOWN: usize = usize::MAX;

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// Allocations of the whole process so far; reallocations count as one each. Zero for ever if
/// [`CountingAllocator`] is not the process's allocator.
#[must_use]
pub(crate) fn allocations() -> u64 {
    COUNTERS.iter().map(|counter| counter.0.load(Relaxed)).sum()
}

#[inline]
fn count() {
    // A thread that is ending has no thread-local memory any more.
    let mine = MINE.try_with(Cell::get).unwrap_or(OWN_COUNTERS);
    if mine < OWN_COUNTERS {
        // Only this thread writes this counter.
        let counter = &COUNTERS[mine].0;
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    } else {
        count_slowly(mine);
    }
}

#[cold]
fn count_slowly(mine: usize) {
    let mut mine = mine;
    if mine == UNKNOWN {
        mine = THREADS.fetch_add(1, Relaxed).min(OWN_COUNTERS);
        // A thread that is ending keeps none, and shares the last.
        let _ = MINE.try_with(|it| it.set(mine));
    }
    COUNTERS[mine].0.fetch_add(1, Relaxed);
}

// SAFETY: every call is passed on to mimalloc with the arguments it came with; counting touches
// no memory that is allocated or freed.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is that of the trait, which mimalloc asks for too.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from mimalloc, with this layout.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as for `alloc`.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the pointer came from mimalloc, with this layout.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }
}
