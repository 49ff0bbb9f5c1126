//! Records and bytes a second, while a command runs and at its end.

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::io::IsTerminal;

/// The form in which rates are shown.
enum Display {
    /// A line that is redrawn on standard error.
    Bar(ProgressBar),
    /// A line a second on standard error.
    Lines,
    /// An object a second on standard error.
    Json,
    /// Nothing.
    Quiet,
}

/// The counters of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordCounts {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

/// See the module.
pub(super) struct Rates {
    display: Display,
    start_us: u64,
    last_us: u64,
    last: RecordCounts,
}

impl Rates {
    /// `may_draw` is false where standard output is a terminal that records are written to.
    pub(super) fn new(now_us: u64, json: bool, quiet: bool, may_draw: bool) -> Self {
        let display = if json {
            Display::Json
        } else if quiet || !may_draw {
            Display::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{spinner} {msg}");
            bar.set_style(style.expect("a template of this file"));
            Display::Bar(bar)
        } else {
            Display::Lines
        };
        Self { display, start_us: now_us, last_us: now_us, last: RecordCounts::default() }
    }

    /// True if it is time to show the rates.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        let period_us = match self.display {
            Display::Bar(_) => 100_000,
            Display::Lines | Display::Json => 1_000_000,
            Display::Quiet => return false,
        };
        now_us.saturating_sub(self.last_us) >= period_us
    }

    /// Shows the counters and the rates.
    pub(super) fn show(&mut self, now_us: u64, counts: RecordCounts) {
        let records = per_second(counts.records - self.last.records, now_us - self.last_us);
        let bytes = per_second(counts.bytes - self.last.bytes, now_us - self.last_us);
        let seconds = (now_us - self.start_us) as f64 / 1e6;
        let text = || {
            format!(
                "{seconds:.0} s: {} records ({}/s, {}/s)",
                HumanCount(counts.records),
                HumanCount(records),
                HumanBytes(bytes),
            )
        };
        match &self.display {
            Display::Bar(bar) => {
                bar.set_message(text());
                bar.tick();
            }
            Display::Lines => say!("{}", text()),
            Display::Json => {
                let progress = json!({
                    "type": "progress",
                    "seconds": seconds,
                    "records": counts.records,
                    "bytes": counts.bytes,
                    "records_per_s": records,
                    "bytes_per_s": bytes,
                });
                say!("{progress}");
            }
            Display::Quiet => {}
        }
        (self.last_us, self.last) = (now_us, counts);
    }

    /// Shows the summary: the command, the stream, the rates.
    pub(super) fn finish(
        &self,
        now_us: u64,
        counts: RecordCounts,
        done: &str,
        end: &str,
        quiet: bool,
    ) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
        let micros = now_us.saturating_sub(self.start_us);
        let seconds = micros as f64 / 1e6;
        let records = per_second(counts.records, micros);
        let megabytes = counts.bytes as f64 / micros.max(1) as f64;
        if matches!(self.display, Display::Json) {
            let summary = json!({
                "type": "summary",
                "end": end,
                "seconds": seconds,
                "records": counts.records,
                "bytes": counts.bytes,
                "records_per_s": records,
                "bytes_per_s": per_second(counts.bytes, micros),
                "mb_per_s": megabytes,
            });
            say!("{summary}");
        } else if !quiet {
            say!(
                "{done} {} records, {}, in {seconds:.2} s: {} records/s, {megabytes:.1} MB/s",
                HumanCount(counts.records),
                HumanBytes(counts.bytes),
                HumanCount(records),
            );
        }
    }
}

fn per_second(count: u64, micros: u64) -> u64 {
    let rate = u128::from(count) * 1_000_000 / u128::from(micros.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}
