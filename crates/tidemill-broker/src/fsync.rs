//! Durability as a setting: `always`, an interval such as `10ms`, or `os`.

use tidemill_log::Fsync;
use tidemill_types::Span;

/// Longest time between syncs, in microseconds: an hour.
const SPAN_US_MAX: i64 = 3_600_000_000;

/// As text.
#[must_use]
pub fn text(fsync: Fsync) -> String {
    match fsync {
        Fsync::Always => "always".to_owned(),
        Fsync::Every(span) => span.to_string(),
        Fsync::Os => "os".to_owned(),
    }
}

/// Reads a setting.
///
/// # Errors
/// The possible values.
pub fn parse(text: &str) -> Result<Fsync, String> {
    match text.trim() {
        "always" => Ok(Fsync::Always),
        "os" => Ok(Fsync::Os),
        other => match other.parse::<Span>() {
            Ok(span) if (1..=SPAN_US_MAX).contains(&span.0) => Ok(Fsync::Every(span)),
            _ => {
                let text: String = other.chars().take(100).collect();
                Err(format!("`{text}` is not always, os, or an interval such as 10ms, up to 1h"))
            }
        },
    }
}
