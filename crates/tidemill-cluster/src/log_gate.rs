//! A limit on log lines that others can cause: one in a while for each reason.

use std::collections::BTreeMap;
use tidemill_env::lock::Mutex;

/// The time between two lines of one reason, in microseconds.
const BETWEEN_US: u64 = 10_000_000;
/// Most reasons that are remembered. At more, all are forgotten and may be logged again.
const REASONS_MAX: usize = 256;

/// Lets a log line through, or counts it for the next one of its reason.
#[derive(Debug, Default)]
pub(crate) struct LogGate(Mutex<BTreeMap<String, LoggedReason>>);

#[derive(Debug)]
struct LoggedReason {
    at_us: u64,
    suppressed: u64,
}

impl LogGate {
    /// The number of lines of this reason that were left out since the last one; none if this line
    /// is to be left out too.
    pub(crate) fn admit(&self, now_us: u64, reason: &str) -> Option<u64> {
        let mut reasons = self.0.lock();
        if let Some(last) = reasons.get_mut(reason) {
            if now_us < last.at_us.saturating_add(BETWEEN_US) {
                last.suppressed += 1;
                return None;
            }
            last.at_us = now_us;
            return Some(std::mem::take(&mut last.suppressed));
        }
        if reasons.len() >= REASONS_MAX {
            reasons.clear();
        }
        reasons.insert(reason.to_owned(), LoggedReason { at_us: now_us, suppressed: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    //! Lines that come too often.

    use super::*;

    #[test]
    fn counts_the_lines_that_are_left_out() {
        let gate = LogGate::default();
        assert_eq!(gate.admit(0, "a"), Some(0));
        assert_eq!(gate.admit(1, "a"), None);
        assert_eq!(gate.admit(2, "a"), None);
        assert_eq!(gate.admit(2, "b"), Some(0));
        assert_eq!(gate.admit(BETWEEN_US, "a"), Some(2));
        assert_eq!(gate.admit(2 * BETWEEN_US, "a"), Some(0));
    }
}
