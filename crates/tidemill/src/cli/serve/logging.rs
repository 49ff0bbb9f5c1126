//! The log of a node: lines on standard error, each kind at a bounded rate.
//!
//! Clients try again at once, and each try of each of them may be told: a full disk would be full of
//! lines before it is noticed. The kind of a line is its place in the code.

use super::super::log_filter::LogFilter;
use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    ptr,
    sync::{Mutex, PoisonError},
};
use tidemill_env::World;
use tidemill_node::serve::{LogFormat, LogLevel, ServeSettings};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    Layer,
    filter::LevelFilter,
    layer::{Context, SubscriberExt},
    util::SubscriberInitExt,
};

/// Lines of a kind are counted over so long.
const SPAN_US: u64 = 10_000_000;
/// Warnings and errors of a kind in that time.
const TROUBLE_LINES: u64 = 20;
/// Other lines of a kind in that time.
const OTHER_LINES: u64 = 1_000;

/// Log lines go to standard error, at the level of the settings, or of the variable for its parts.
pub(in crate::cli) fn log_as(world: &World, settings: &ServeSettings, filter: &LogFilter) {
    let level = match settings.log_level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::registry().with(filter.or(level)).with(Bounded::new(world));
    // A line that cannot be written is lost; whoever wrote it goes on.
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).log_internal_errors(false);
    match settings.log_format {
        LogFormat::Text => log.with(lines.with_ansi(io::stderr().is_terminal())).init(),
        LogFormat::Json => log.with(lines.json()).init(),
    }
}

/// Leaves lines out, and says how many.
struct Bounded {
    world: World,
    /// By the place in the code.
    kinds: Mutex<BTreeMap<usize, LineKind>>,
}

#[derive(Default)]
struct LineKind {
    since_us: u64,
    lines: u64,
}

impl LineKind {
    /// True if one more line is shown; and the number of lines dropped before, if a new period begins.
    fn takes(&mut self, now_us: u64, most: u64) -> (bool, u64) {
        let mut left_out = 0;
        if self.lines == 0 || now_us.saturating_sub(self.since_us) >= SPAN_US {
            left_out = self.lines.saturating_sub(most);
            *self = Self { since_us: now_us, lines: 0 };
        }
        self.lines += 1;
        (self.lines <= most, left_out)
    }
}

impl Bounded {
    fn new(world: &World) -> Self {
        Self { world: world.clone(), kinds: Mutex::default() }
    }
}

impl<S: Subscriber> Layer<S> for Bounded {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let kind = event.metadata();
        let most = if *kind.level() <= Level::WARN { TROUBLE_LINES } else { OTHER_LINES };
        let now_us = self.world.clock.monotonic_micros();
        let (is_shown, left_out) = {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.entry(ptr::from_ref(kind).addr()).or_default().takes(now_us, most)
        };
        if left_out > 0 {
            let of = kind.target();
            tracing::warn!(lines = left_out, of, "lines like the next one were left out");
        }
        is_shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_of_a_kind_the_first_are_shown_and_the_others_counted() {
        let mut kind = LineKind::default();
        let shown = (0..100).filter(|at| kind.takes(5 + at, 20) == (true, 0)).count();
        assert_eq!(shown, 20);
        assert_eq!(kind.takes(5 + SPAN_US, 20), (true, 80), "how many is said with the next");
        assert_eq!(kind.takes(6 + SPAN_US, 20), (true, 0));
        assert_eq!(kind.takes(5 + 3 * SPAN_US, 20), (true, 0), "none was left out");
    }
}
