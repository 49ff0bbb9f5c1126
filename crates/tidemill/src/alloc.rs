//! The memory allocator of the binary: mimalloc, with every allocation counted, and set up to take
//! little that is new from the system.
//!
//! Counting costs about a nanosecond: a thread adds to a counter of its own, without a locked
//! instruction. Threads past the last counter share it, with one. Nothing here allocates.

#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait, and its settings are behind C functions"
)]

use mimalloc::MiMalloc;
use rustix::mm::{Advice, madvise};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use tidemill_env::World;

#[cfg(test)]
mod tests;

/// Mimalloc that counts. Use it with `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

/// How many threads have a counter of their own.
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
/// [`Counting`] is not the process's allocator.
#[must_use]
pub fn allocations() -> u64 {
    COUNTERS.iter().map(|counter| counter.0.load(Relaxed)).sum()
}

/// `mi_option_purge_delay` of mimalloc 3: after so many milliseconds freed memory is the system's.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// What it is if nobody says anything.
const PURGE_DELAY_MS: i64 = 1_000;
/// Longer than the time between two checkpoints of most jobs: what the system is given back it has
/// emptied when it is needed again, and to give and to take cost more than what is done with it.
const KEPT_MS: i64 = 60_000;
/// No thread gives memory back by the way.
const NEVER_MS: i64 = 1_000_000_000;

/// `mi_option_arena_reserve` of mimalloc 3: of the system it asks for so many KiB at once.
const ARENA: libmimalloc_sys::mi_option_t = 23;
/// What it is if nobody says anything.
const ARENA_KIB: i64 = 1 << 20;
/// Each thread looks for room in another of them first, and one of a gigabyte has much in it that
/// nobody has touched yet, while freed memory lies in the next.
const SMALL_ARENA_KIB: i64 = 256 << 10;

/// So much of the first arena is in pages of 4 KiB. The allocator has a place of its own for each size
/// of blocks and each thread, and huge pages for those were a third of a small process.
const SMALL_PAGES_BYTES: usize = 256 << 20;

/// Sets the allocator up, when the process begins: freed memory is used again before any that the
/// system would have to give, and what comes first is in pages of 4 KiB.
///
/// Memory of the system's is emptied first, which costs more than the rest of what is done with it, and
/// on a virtual machine the hypervisor may have to find it: 4 to 13 milliseconds for each 2 MiB. So it
/// is asked for little at once, unless `MIMALLOC_ARENA_RESERVE` says otherwise, and freed memory is kept
/// for up to a minute, unless `MIMALLOC_PURGE_DELAY` does: what one window, checkpoint or read gives
/// back the next one takes.
///
/// A thread of its own gives it back. The allocator would have the first thread do it that frees
/// something when the time is up: to give back a gigabyte took four thousand calls of the system,
/// and a worker stood still for 0.4 seconds.
pub fn set_up() {
    set(ARENA, ARENA_KIB, SMALL_ARENA_KIB);
    let _unknown = begin_with_small_pages();
    if setting(PURGE_DELAY) != PURGE_DELAY_MS {
        return;
    }
    let clock = World::real().clock;
    let gives_back = move || loop {
        clock.sleep_micros(KEPT_MS as u64 * 1_000);
        give_back_freed();
    };
    let started = std::thread::Builder::new().name("memory".to_owned()).spawn(gives_back);
    // Without a thread to spare the others do it.
    set(PURGE_DELAY, PURGE_DELAY_MS, if started.is_ok() { NEVER_MS } else { KEPT_MS });
}

/// Gives a setting of the allocator another value than the one it has if nobody says anything. Another
/// release may count its settings in another way: then this one has another value, and is left alone.
fn set(which: libmimalloc_sys::mi_option_t, unsaid: i64, value: i64) {
    if setting(which) == unsaid {
        // SAFETY: it only touches the table of settings, which is always there.
        unsafe { libmimalloc_sys::mi_option_set(which, value) }
    }
}

fn setting(which: libmimalloc_sys::mi_option_t) -> i64 {
    // SAFETY: as there.
    unsafe { libmimalloc_sys::mi_option_get(which) }
}

/// Takes no huge pages for what the process has first ([`SMALL_PAGES_BYTES`]); the addresses of that.
/// None, and nothing is done, where the system does not say what it has mapped.
fn begin_with_small_pages() -> Option<Range<usize>> {
    let first = Box::new(0_u8);
    let address = (&raw const *first).addr();
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let arena = maps.lines().filter_map(mapped).find(|it| it.contains(&address))?;
    let pages = arena.start..arena.end.min(arena.start + SMALL_PAGES_BYTES);
    let start = std::ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: these pages are mapped, and stay as they are. A system without huge pages refuses, and has
    // none to take.
    let _refused = unsafe { madvise(start, pages.len(), Advice::LinuxNoHugepage) };
    Some(pages)
}

/// The addresses that a line of `/proc/self/maps` is about.
fn mapped(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

/// Gives what is freed now back to the system.
fn give_back_freed() {
    // SAFETY: it may be called at any time, by any thread; what others free or take meanwhile is
    // none of what is given back.
    unsafe { libmimalloc_sys::mi_collect(true) }
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
unsafe impl GlobalAlloc for Counting {
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
