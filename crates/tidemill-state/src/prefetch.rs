//! Prefetching memory that will be read soon.
//!
//! A cache miss takes as long as some hundred instructions. Tables larger than the caches are read
//! in no order, so the processor cannot predict the next address. Code that knows the next keys
//! prefetches their memory and works on others meanwhile.

#![expect(unsafe_code, reason = "an instruction of the processor; it reads nothing")]

/// The distance in keys at which a slot is best prefetched: looking up this many keys takes about
/// as long as a memory access.
pub const SLOTS_AHEAD: usize = 32;

/// The distance in keys at which the entry of a key is best prefetched, once its slot is in a
/// cache.
pub const ENTRIES_AHEAD: usize = 16;

/// The distance in keys at which the bytes of a long key are best prefetched.
pub const KEYS_AHEAD: usize = 8;

/// Prefetches the cache line of a value. This is a hint: nothing waits for it, and an index out of
/// bounds or an unknown processor makes it do nothing.
#[inline(always)]
pub fn prefetch<T>(values: &[T], index: usize) {
    // Without a look at the length: whether a value is there yet may be hard to foretell.
    let place = values.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction reads nothing and never faults; every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction reads nothing and never faults.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{}]",
            in(reg) place,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}
