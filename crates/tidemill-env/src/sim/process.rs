//! Processes of a simulation: threads that are paused and killed together.

/// A process by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessNumber(pub(super) usize);

impl ProcessNumber {
    /// Threads that belong to no node: clients, checkers and the test itself. It is never killed.
    pub(super) const OUTSIDE: Self = Self(0);
}

/// A process, as the scheduler sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessEntry {
    /// Its threads do not go on, as after SIGSTOP. Their timers do.
    pub(super) is_paused: bool,
    /// Its threads end at their next point.
    pub(super) is_killed: bool,
    /// The rate of its machine's clock above the true one, in millionths.
    pub(super) rate_ppm: i32,
}

impl ProcessEntry {
    /// The true duration of a span of the process's clock.
    pub(super) fn true_span_us(&self, span_us: u64) -> u64 {
        let rate = u128::from(1_000_000_u32.saturating_add_signed(self.rate_ppm).max(1));
        u64::try_from(u128::from(span_us) * 1_000_000 / rate).unwrap_or(u64::MAX)
    }
}

/// The payload of the panic by which a thread of a killed process ends.
struct SimKill;

/// Ends the calling thread. Its values are dropped; no message is printed.
pub(super) fn unwind() -> ! {
    std::panic::resume_unwind(Box::new(SimKill))
}
