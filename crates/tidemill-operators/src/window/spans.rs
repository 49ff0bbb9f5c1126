//! Windows over time by their bounds, and the panes that they are made of.

use std::collections::BTreeSet;
use tidemill_types::{Micros, Span, job::WindowSpec, limits::WINDOWS_OF_RECORD_MAX};

/// Windows of one size, in microseconds.
///
/// Event times and sizes are bounded ([`Micros::is_event_time`], [`Span::LONGEST`]), so that every
/// bound of a window fits a number.
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
            WindowSpec::Sliding(it) if it.size.0 / it.every.0 > WINDOWS_OF_RECORD_MAX => {
                return Err("a record would belong to more than a million windows");
            }
            WindowSpec::Sliding(it) => (it.size.0, it.every.0),
            WindowSpec::Global(_) | WindowSpec::Session(_) | WindowSpec::Count(_) => {
                return Ok(None);
            }
        };
        if size > Span::LONGEST.0 {
            return Err("the size must not be longer than ten thousand years");
        }
        Ok(Some(Self { size, every, pane: greatest_common_divisor(size, every) }))
    }

    /// The same windows, of panes as long as fit into all of `panes` too.
    pub(super) fn of_panes(self, panes: impl Iterator<Item = i64>) -> Self {
        Self { pane: panes.fold(self.pane, greatest_common_divisor), ..self }
    }

    /// The end of the pane of an event time.
    #[inline]
    pub(super) fn pane_end(&self, time: i64) -> i64 {
        time.div_euclid(self.pane) * self.pane + self.pane
    }

    /// The end of the last window that a pane belongs to.
    pub(super) fn last_window_end(&self, pane_end: i64) -> i64 {
        let start = (pane_end - self.pane).div_euclid(self.every) * self.every;
        start + self.size
    }

    /// The ends of the windows of a pane that close between two watermarks.
    pub(super) fn closing(
        &self,
        pane_end: i64,
        (before, now): (Micros, Micros),
        ends: &mut BTreeSet<i64>,
    ) {
        if now.0 < pane_end {
            return;
        }
        let mut end = self.last_window_end(pane_end);
        if end > now.0 {
            // There may be a million windows that stay open: they are not looked at one by one.
            end -= ((end - now.0 - 1) / self.every + 1) * self.every;
        }
        while end >= pane_end && end > before.0 {
            ends.insert(end);
            end -= self.every;
        }
    }

    /// Returns true if any window can close between two watermarks.
    pub(super) fn any_closes(&self, (before, now): (Micros, Micros)) -> bool {
        let nth = |at: Micros| at.0.saturating_sub(self.size).div_euclid(self.every);
        before < now && (before == Micros::MIN || now == Micros::MAX || nth(before) < nth(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidemill_types::job::SlidingWindow;

    fn sliding(size: i64, every: i64) -> WindowSpec {
        WindowSpec::Sliding(SlidingWindow { size: Span(size), every: Span(every) })
    }

    #[test]
    fn windows_that_no_record_could_be_put_into_are_refused() {
        let refusal = |window| Spans::of(&window).unwrap_err();
        assert!(refusal(WindowSpec::Tumbling(Span(i64::MAX))).contains("ten thousand years"));
        assert!(refusal(sliding(i64::MAX, i64::MAX)).contains("ten thousand years"));
        assert!(refusal(sliding(Span::LONGEST.0, 1)).contains("more than a million windows"));
        assert!(Spans::of(&sliding(1_000_000, 1)).is_ok());
    }

    /// A million windows of a pane, closed one after the other: all of them are looked at a million
    /// times if those that stay open are, which would take for ever.
    #[test]
    fn only_ends_that_are_due_are_looked_at() {
        let windows = 1_000_000;
        let spans = Spans::of(&sliding(windows, 1)).unwrap().unwrap();
        let mut ends = BTreeSet::new();
        for now in 1..=windows {
            spans.closing(1, (Micros(now - 1), Micros(now)), &mut ends);
            assert_eq!(ends.pop_first(), Some(now));
            assert!(ends.is_empty());
        }
    }

    proptest! {
        #[test]
        fn ends_that_are_due_are_those_of_all_windows_of_a_pane(
            (pane, from, to) in (-30_i64..30, -60_i64..90, -60_i64..90),
            (size, every) in (1_i64..40).prop_flat_map(|size| (Just(size), 1..=size)),
            (is_first, is_last) in any::<(bool, bool)>(),
        ) {
            let spans = Spans::of(&sliding(size, every)).unwrap().unwrap();
            let pane_end = spans.pane_end(pane);
            let before = if is_first { Micros::MIN } else { Micros(from) };
            let now = if is_last { Micros::MAX } else { Micros(to) };
            let of_pane = (-100..100).map(|nth| nth * every + size);
            let of_pane = of_pane.filter(|end| *end >= pane_end && end - size <= pane_end - spans.pane);
            let due: BTreeSet<i64> =
                of_pane.filter(|end| before.0 < *end && *end <= now.0).collect();
            let mut ends = BTreeSet::new();
            spans.closing(pane_end, (before, now), &mut ends);
            prop_assert_eq!(ends, due);
        }

        #[test]
        fn a_time_is_in_its_pane_and_that_in_its_windows(
            time in prop_oneof![
                Micros::EVENT_MIN.0..=Micros::EVENT_MAX.0,
                Just(Micros::EVENT_MIN.0),
                Just(Micros::EVENT_MAX.0),
            ],
            size in prop_oneof![1..=Span::LONGEST.0, Just(Span::LONGEST.0)],
            parts in 1..1_000_i64,
        ) {
            let every = (size / parts).max(1);
            let spans = Spans::of(&sliding(size, every)).unwrap().unwrap();
            let end = spans.pane_end(time);
            prop_assert!(end - spans.pane <= time && time < end);
            let last = spans.last_window_end(end);
            prop_assert!(end <= last && last - spans.size <= end - spans.pane);
            let mut ends = BTreeSet::new();
            spans.closing(end, (Micros::MIN, Micros::MAX), &mut ends);
            prop_assert!(ends.iter().all(|it| it - spans.size <= time && time < *it));
            prop_assert!((ends.len() as i64 - size / every).abs() <= 1);
        }
    }
}
