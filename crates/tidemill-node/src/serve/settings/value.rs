//! Values of settings as texts: reading them, with the possible values in the error, and writing them.

use super::{LogFormat, LogLevel};
use std::{fmt::Display, net::SocketAddr, ops::RangeInclusive, path::PathBuf, str::FromStr};
use tidemill_log::Journal;
use tidemill_types::{ByteSize, Span, address as host_port};

/// The longest time that a setting may be, in milliseconds: a hundred years.
pub(in crate::serve) const SPAN_MS_MAX: i64 = 36_500 * DAY_MS;
/// A day, in milliseconds.
pub(in crate::serve) const DAY_MS: i64 = 86_400_000;
/// The most bytes that a setting may be: an exbibyte.
pub(in crate::serve) const SIZE_MAX: u64 = 1 << 60;

/// An unreadable value, cut to a length that fits a line.
fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

fn bad(text: &str, possible: impl Display) -> String {
    format!("`{}` is not {possible}", shown(text))
}

/// An address and a port.
pub(in crate::serve) fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = local.as_deref().unwrap_or(text).parse();
    address.map_err(|_| bad(text, "an address with a port, such as 127.0.0.1:9092 or [::1]:9092"))
}

/// A host and a port that clients are told; none is `auto`.
pub(in crate::serve) fn advertised(text: &str) -> Result<Option<(String, u16)>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let possible = "`auto`, or a host and a port such as broker.example.org:9092";
    let (host, port) = text.rsplit_once(':').ok_or_else(|| bad(text, possible))?;
    let port: u16 = port.parse().map_err(|_| bad(text, possible))?;
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || host.len() > 253 || !host.chars().all(fits) || port == 0 {
        return Err(bad(text, possible));
    }
    Ok(Some((host.to_owned(), port)))
}

/// As [`advertised`] reads it.
pub(in crate::serve) fn advertised_text(advertised: Option<&(String, u16)>) -> String {
    match advertised {
        None => "auto".to_owned(),
        Some((host, port)) => host_port::join(host, *port),
    }
}

/// A whole number within bounds.
pub(in crate::serve) fn number<T>(text: &str, bounds: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = text.parse().ok().filter(|it| bounds.contains(it));
    number.ok_or_else(|| {
        bad(text, format!("a whole number from {} to {}", bounds.start(), bounds.end()))
    })
}

/// A number of bytes within bounds.
pub(in crate::serve) fn size(text: &str, low: u64, high: u64) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Err(error) => Err(error.to_string()),
        Ok(size) if (low..=high).contains(&size.0) => Ok(size),
        Ok(_) => Err(bad(text, format!("from {} to {}", ByteSize(low), ByteSize(high)))),
    }
}

/// A length of time within bounds, of whole milliseconds.
pub(in crate::serve) fn span(text: &str, low_ms: i64, high_ms: i64) -> Result<Span, String> {
    let (low, high) = (Span(low_ms * 1_000), Span(high_ms * 1_000));
    match text.parse::<Span>() {
        Err(error) => Err(error.to_string()),
        Ok(span) if (low..=high).contains(&span) && span.0 % 1_000 == 0 => Ok(span),
        Ok(_) => Err(bad(text, format!("whole milliseconds from {low} to {high}"))),
    }
}

/// For how long records are kept.
///
/// # Errors
/// The text is no length of time, or one that no stream can have.
pub fn retention_time(text: &str) -> Result<Span, String> {
    span(text, 1, SPAN_MS_MAX)
}

/// The same as [`span`], as a number of milliseconds.
pub(in crate::serve) fn span_ms(text: &str, low_ms: i64, high_ms: i64) -> Result<u64, String> {
    span(text, low_ms, high_ms).map(|it| (it.0 / 1_000).unsigned_abs())
}

/// The same, as Kafka has it: up to 24 days.
pub(in crate::serve) fn span_ms_i32(text: &str) -> Result<i32, String> {
    let ms = span_ms(text, 1, 24 * DAY_MS)?;
    i32::try_from(ms).map_err(|error| error.to_string())
}

/// As [`span_ms`] reads it.
pub(in crate::serve) fn ms_text(ms: u64) -> String {
    Span(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000)).to_string()
}

/// `none`, or a value.
pub(in crate::serve) fn or_none<T>(
    text: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text == "none" {
        return Ok(None);
    }
    read(text).map(Some).map_err(|error| format!("{error} (or `none`)"))
}

/// As [`or_none`] reads it.
pub(in crate::serve) fn none_text<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |it| it.to_string())
}

/// Yes or no.
pub(in crate::serve) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(text, "`true` or `false`")),
    }
}

/// A path of a folder.
pub(in crate::serve) fn folder(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err(bad(text, "a folder"));
    }
    Ok(PathBuf::from(text))
}

/// A path of a file.
pub(in crate::serve) fn file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err(bad(text, "a file"));
    }
    Ok(PathBuf::from(text))
}

/// As [`or_none`] reads it.
pub(in crate::serve) fn path_text(path: Option<&PathBuf>) -> String {
    path.map_or_else(|| "none".to_owned(), |it| it.display().to_string())
}

/// Addresses with commas between: `HOST:PORT`, each once.
pub(in crate::serve) fn addresses(text: &str) -> Result<Vec<String>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let possible = "`none`, or addresses such as 10.0.0.1:7088,10.0.0.2:7088,10.0.0.3:7088";
    let mut all: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let Ok(Some((host, port))) = advertised(part) else { return Err(bad(text, possible)) };
        let address = host_port::join(&host, port);
        if all.contains(&address) {
            return Err(format!("`{}` has {address} twice", shown(text)));
        }
        all.push(address);
    }
    Ok(all)
}

/// As [`addresses`] reads it.
pub(in crate::serve) fn addresses_text(all: &[String]) -> String {
    if all.is_empty() { "none".to_owned() } else { all.join(",") }
}

/// The name of a rack.
pub(in crate::serve) fn rack(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
        return Err(bad(text, "1 to 64 of a-z A-Z 0-9 . _ -"));
    }
    Ok(text.to_owned())
}

/// The id of a cluster; none is `auto`.
pub(in crate::serve) fn cluster_id(text: &str) -> Result<Option<String>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
        return Err(bad(text, "`auto`, or 1 to 64 of a-z A-Z 0-9 . _ -"));
    }
    Ok(Some(text.to_owned()))
}

/// Host names with commas between.
pub(in crate::serve) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let one = |name: &str| {
        let name = name.trim();
        if name == "*" || (!name.is_empty() && name.len() <= 253 && name.chars().all(fits)) {
            Ok(name.to_ascii_lowercase())
        } else {
            Err(bad(text, "`none`, or host names with commas between, or `*`"))
        }
    };
    if text == "none" { Ok(Vec::new()) } else { text.split(',').map(one).collect() }
}

/// As [`hosts`] reads it.
pub(in crate::serve) fn hosts_text(hosts: &[String]) -> String {
    if hosts.is_empty() { "none".to_owned() } else { hosts.join(",") }
}

const LEVELS: [(&str, LogLevel); 6] = [
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

const JOURNALS: [(&str, Journal); 2] = [("write", Journal::Write), ("map", Journal::Map)];

const FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        bad(text, crate::diagnostic::one_of(&names))
    })
}

fn name_of<T: PartialEq>(value: T, choices: &[(&'static str, T)]) -> String {
    let found = choices.iter().find(|(_, it)| *it == value);
    found.map_or("", |(name, _)| name).to_owned()
}

pub(in crate::serve) fn level(text: &str) -> Result<LogLevel, String> {
    choice(text, &LEVELS)
}

pub(in crate::serve) fn level_text(level: LogLevel) -> String {
    name_of(level, &LEVELS)
}

pub(in crate::serve) fn format(text: &str) -> Result<LogFormat, String> {
    choice(text, &FORMATS)
}

pub(in crate::serve) fn format_text(format: LogFormat) -> String {
    name_of(format, &FORMATS)
}

pub(in crate::serve) fn journal(text: &str) -> Result<Journal, String> {
    choice(text, &JOURNALS)
}

pub(in crate::serve) fn journal_text(journal: Journal) -> String {
    name_of(journal, &JOURNALS)
}
