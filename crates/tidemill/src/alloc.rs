//! The memory allocator of the binary: mimalloc, set up to use freed memory again before it asks the
//! system for more.
//!
//! A program that uses the library and wants the same makes [`MiMalloc`] its `#[global_allocator]`
//! and calls [`set_up`] first.

#![expect(unsafe_code, reason = "the settings of the allocator are behind C functions")]

pub use mimalloc::MiMalloc;

use rustix::mm::{Advice, madvise};
use std::ops::Range;
use tidemill_env::World;

#[cfg(test)]
mod tests;

/// `mi_option_purge_delay` of mimalloc 3: milliseconds until freed memory goes back to the system.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// Its default.
const PURGE_DELAY_MS: i64 = 1_000;
/// Longer than the time between two checkpoints of most jobs. The system empties returned memory
/// before it gives it out again, and both cost more than the use of it.
const KEPT_MS: i64 = 60_000;
/// No thread gives memory back by the way.
const NEVER_MS: i64 = 1_000_000_000;

/// `mi_option_arena_reserve` of mimalloc 3: KiB that it asks of the system at once.
const ARENA: libmimalloc_sys::mi_option_t = 23;
/// Its default.
const ARENA_KIB: i64 = 1 << 20;
/// Each thread looks for room in another of them first, and one of a gigabyte has much in it that
/// nobody has touched yet, while freed memory lies in the next.
const SMALL_ARENA_KIB: i64 = 256 << 10;

/// So much of the first arena is in pages of 4 KiB. The allocator has a place of its own for each size
/// of blocks and each thread, and huge pages for those were a third of a small process.
const SMALL_PAGES_BYTES: usize = 256 << 20;

/// Sets the allocator up, when the process begins: freed memory is used again before any that the
/// system would have to give, and the first memory is in pages of 4 KiB.
///
/// The system empties memory before it gives it out. That costs more than its use, and
/// on a virtual machine the hypervisor may have to find it: 4 to 13 milliseconds for each 2 MiB. So it
/// is asked for little at once, unless `MIMALLOC_ARENA_RESERVE` says otherwise, and freed memory is kept
/// for up to a minute, unless `MIMALLOC_PURGE_DELAY` does: memory that one window, checkpoint or read gives
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

/// Asks for small pages for the first memory of the process ([`SMALL_PAGES_BYTES`]); its addresses.
/// None, and nothing is done, where the system does not list its mappings.
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

/// Gives freed memory back to the system.
fn give_back_freed() {
    // SAFETY: it may be called at any time, by any thread; what others free or take meanwhile is
    // none of what is given back.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
