//! Progress of a running job: bars on a terminal, plain lines without one, JSON for scripts.

use super::{DONE, print_all, tell};
use indicatif::{
    HumanBytes, HumanCount, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle,
};
use serde_json::{Value, json};
use std::io::IsTerminal;
use tidemill_flow::{Progress, SourceProgress};

/// The form in which progress is shown.
pub(super) enum Display {
    /// A bar a source, redrawn in place on standard error.
    Bars(MultiProgress, Vec<ProgressBar>),
    /// A line a second on standard error.
    Lines,
    /// An object a second.
    Json {
        /// On standard error, because a sink writes to standard output.
        to_stderr: bool,
        /// True if an object could not be written: the output for a script is incomplete then.
        is_lost: bool,
    },
    /// Nothing.
    Quiet,
}

/// A moment of a job, for rates.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    pub(super) micros: u64,
    pub(super) progress: Progress,
}

impl Display {
    /// Bars if standard error is a terminal, else lines.
    pub(super) fn for_person() -> Self {
        if std::io::stderr().is_terminal() {
            let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            Self::Bars(bars, Vec::new())
        } else {
            Self::Lines
        }
    }

    /// Time from one object to the next, in microseconds.
    pub(super) fn period_us(&self) -> u64 {
        match self {
            Self::Bars(..) => 100_000,
            Self::Lines | Self::Json { .. } | Self::Quiet => 1_000_000,
        }
    }

    /// Shows a moment; `before` is the one shown last, `start` the clock at the start of the job.
    pub(super) fn show(&mut self, now: &Moment, before: &Moment, start: u64) {
        match self {
            Self::Bars(all, bars) => show_bars(all, bars, now, before),
            Self::Lines => say!("{}", line(now, before, start)),
            Self::Json { to_stderr, is_lost } if !*is_lost => {
                *is_lost = print_json(&object(now, before, start), *to_stderr) != DONE;
            }
            Self::Json { .. } => {}
            Self::Quiet => {}
        }
    }

    /// Takes the bars away.
    pub(super) fn clear(&self) {
        if let Self::Bars(all, _) = self {
            // A terminal that has gone away cannot be cleared.
            let _ = all.clear();
        }
    }
}

/// Writes one object on a line. A reader that has gone away stops nothing; output lost on standard
/// output for another reason is said, and is a failure.
pub(super) fn print_json(object: &Value, to_stderr: bool) -> u8 {
    let line = format!("{object}\n");
    if to_stderr {
        tell(&line);
        return DONE;
    }
    print_all(&line)
}

fn show_bars(all: &MultiProgress, bars: &mut Vec<ProgressBar>, now: &Moment, before: &Moment) {
    for (index, source) in now.progress.sources.iter().enumerate() {
        if bars.len() <= index {
            bars.push(all.add(new_bar(source)));
        }
        let bar = &bars[index];
        bar.set_position(source.position);
        let records = rate(now, before, |it| it.sources.get(index).map_or(0, |it| it.records));
        let bytes = rate(now, before, |it| it.sources.get(index).map_or(0, |it| it.bytes));
        let letters = match now.progress.dead_letters {
            0 => String::new(),
            count => format!(", {} dead letters", HumanCount(count)),
        };
        let rates = format!("{}/s {}/s", HumanCount(records), HumanBytes(bytes));
        let text = if source.ended { "ended".to_owned() } else { rates };
        let stalled = stalled(&now.progress);
        bar.set_message(format!("{text}, lag {} cycles{letters}{stalled}", source.lag_cycles));
    }
}

fn new_bar(source: &SourceProgress) -> ProgressBar {
    let bar = match source.total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    let template = match source.total {
        Some(_) => "{prefix:>12} [{bar:30}] {percent:>3} % {msg}",
        None => "{prefix:>12} {spinner} {msg}",
    };
    let style = ProgressStyle::with_template(template).expect("a template of this file");
    bar.set_style(style.progress_chars("=> "));
    bar.set_prefix(source.name.clone());
    bar
}

/// Growth of a count, per second.
fn rate(now: &Moment, before: &Moment, count: impl Fn(&Progress) -> u64) -> u64 {
    let grown = count(&now.progress).saturating_sub(count(&before.progress));
    let micros = now.micros.saturating_sub(before.micros).max(1);
    u64::try_from(u128::from(grown) * 1_000_000 / u128::from(micros)).unwrap_or(u64::MAX)
}

/// Records read by all sources.
pub(super) fn records(progress: &Progress) -> u64 {
    progress.sources.iter().map(|source| source.records).sum()
}

/// Bytes read by all sources.
pub(super) fn bytes(progress: &Progress) -> u64 {
    progress.sources.iter().map(|source| source.bytes).sum()
}

/// Rows committed by all sinks.
pub(super) fn rows(progress: &Progress) -> u64 {
    progress.sinks.iter().map(|sink| sink.rows).sum()
}

fn lag(progress: &Progress) -> u64 {
    progress.sources.iter().map(|source| source.lag_cycles).max().unwrap_or(0)
}

fn share(source: &SourceProgress) -> Option<f64> {
    let total = source.total.filter(|total| *total > 0)?;
    Some((source.position as f64 / total as f64).min(1.0))
}

/// Why the job does not go on now, if it waits.
fn stalled(progress: &Progress) -> String {
    let stalled = progress.stalled.as_ref();
    stalled.map_or_else(String::new, |it| format!("; `{}` waits: {}", it.part, it.why))
}

fn line(now: &Moment, before: &Moment, start: u64) -> String {
    let progress = &now.progress;
    let sources: Vec<String> = progress
        .sources
        .iter()
        .map(|source| match (source.ended, share(source)) {
            (true, _) => format!("{} ended", source.name),
            (false, Some(share)) => format!("{} {:.0} %", source.name, share * 100.0),
            (false, None) => source.name.clone(),
        })
        .collect();
    format!(
        "{:.0} s: {}; {} records ({}/s, {}/s), {} rows out, lag {} cycles, {} dead letters{}",
        now.micros.saturating_sub(start) as f64 / 1e6,
        sources.join(", "),
        HumanCount(records(progress)),
        HumanCount(rate(now, before, records)),
        HumanBytes(rate(now, before, bytes)),
        HumanCount(rows(progress)),
        lag(progress),
        HumanCount(progress.dead_letters),
        stalled(progress),
    )
}

fn object(now: &Moment, before: &Moment, start: u64) -> Value {
    json!({
        "type": "progress",
        "seconds": now.micros.saturating_sub(start) as f64 / 1e6,
        "records": records(&now.progress),
        "records_per_s": rate(now, before, records),
        "bytes_per_s": rate(now, before, bytes),
        "lag_cycles": lag(&now.progress),
        "job": now.progress,
    })
}
