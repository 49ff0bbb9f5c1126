//! Memory that is about to be looked at is asked for ahead of time.
//!
//! A look at memory that is in no cache takes as long as some hundred instructions. Tables that are
//! larger than the caches are looked at in no order, so no processor foresees where; whoever knows
//! what comes next asks for it, and does something else meanwhile.

#![expect(unsafe_code, reason = "an instruction of the processor; it reads nothing")]

/// So many keys before one is looked up its slot is best asked for: to look these up takes about as long
/// as memory takes to answer.
pub const LOOKED_UP_AHEAD: usize = 32;

/// So many before its turn what is known of a key is best asked for, where its slot says.
pub const FOUND_AHEAD: usize = 16;

/// So many before its turn the bytes are best asked for that a key is compared with.
pub const COMPARED_AHEAD: usize = 8;

/// Asks for a value to be brought into the nearest cache, with what is on the same line of it. Nothing
/// waits for that, and it is no more than a hint: where there is no such value, or on a processor that
/// is not known here, nothing comes of it.
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
