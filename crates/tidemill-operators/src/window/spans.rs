//! Windows over time by their bounds, and the panes that they are made of.

use std::collections::BTreeSet;
use tidemill_types::{Micros, job::WindowSpec};

/// Windows of one size, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spans {
    pub(super) size: i64,
    /// From the start of one to that of the next.
    pub(super) every: i64,
    /// A divisor of both.
    pub(super) pane: i64,
}

pub(super) fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl Spans {
    /// Tumbling or sliding windows; none if it is another kind of window.
    ///
    /// # Errors
    /// There are no such windows.
    pub(super) fn of(window: &WindowSpec) -> Result<Option<Self>, &'static str> {
        let (size, every) = match window {
            WindowSpec::Tumbling(size) if size.0 <= 0 => return Err("the size must not be 0"),
            WindowSpec::Tumbling(size) => (size.0, size.0),
            WindowSpec::Sliding(it) if it.size.0 <= 0 || it.every.0 <= 0 => {
                return Err("`size` and `every` must not be 0");
            }
            WindowSpec::Sliding(it) if it.every > it.size => {
                return Err(
                    "`every` must not be longer than `size`: records between would be lost",
                );
            }
            WindowSpec::Sliding(it) => (it.size.0, it.every.0),
            WindowSpec::Global(_) | WindowSpec::Session(_) | WindowSpec::Count(_) => {
                return Ok(None);
            }
        };
        Ok(Some(Self { size, every, pane: greatest_common_divisor(size, every) }))
    }

    /// The same windows, of panes as long as fit into all of `panes` too.
    pub(super) fn of_panes(self, panes: impl Iterator<Item = i64>) -> Self {
        Self { pane: panes.fold(self.pane, greatest_common_divisor), ..self }
    }

    /// The end of the pane of a time; the end of time if it is beyond.
    #[inline]
    pub(super) fn pane_end(&self, time: i64) -> i64 {
        (time.div_euclid(self.pane) * self.pane).saturating_add(self.pane)
    }

    /// The end of the last window that a pane belongs to.
    pub(super) fn last_window_end(&self, pane_end: i64) -> i64 {
        let start = (pane_end - self.pane).div_euclid(self.every) * self.every;
        start.saturating_add(self.size)
    }

    /// The ends of the windows of a pane that close between two watermarks.
    pub(super) fn closing(
        &self,
        pane_end: i64,
        (before, now): (Micros, Micros),
        ends: &mut BTreeSet<i64>,
    ) {
        let mut end = self.last_window_end(pane_end);
        while end >= pane_end && end > before.0 {
            if end <= now.0 {
                ends.insert(end);
            }
            end -= self.every;
        }
    }

    /// Whether any window at all can close between two watermarks.
    pub(super) fn any_closes(&self, (before, now): (Micros, Micros)) -> bool {
        let nth = |at: Micros| at.0.saturating_sub(self.size).div_euclid(self.every);
        before < now && (before == Micros::MIN || now == Micros::MAX || nth(before) < nth(now))
    }
}
