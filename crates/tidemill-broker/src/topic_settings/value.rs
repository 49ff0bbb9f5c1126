//! Values of settings, parsed from text. The errors name the possible values.

/// The type of a value, by the protocol's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingType {
    /// `true` or `false`.
    Boolean = 1,
    /// Text.
    String = 2,
    /// A number of 32 bits.
    Int = 3,
    /// A number of 64 bits.
    Long = 5,
    /// A fraction.
    Double = 6,
    /// Texts with commas between them.
    List = 7,
}

/// Longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 1_000;
/// Most consumer groups that a topic's retention goes by.
const GROUPS_MAX: usize = 16;

/// A number, both bounds included.
pub(crate) fn bounded(text: &str, low: i64, high: i64) -> Result<i64, String> {
    let number = text.trim().parse().ok().filter(|it| (low..=high).contains(it));
    number.ok_or_else(|| {
        let text: String = text.chars().take(100).collect();
        match (low, high) {
            (-1, i64::MAX) => format!("`{text}` is not -1 for no limit, or a number from 0 on"),
            (i64::MIN, i64::MAX) => format!("`{text}` is not a number"),
            (_, i64::MAX) => format!("`{text}` is not a number from {low} on"),
            _ => format!("`{text}` is not a number from {low} to {high}"),
        }
    })
}

/// A number of bytes.
pub(crate) fn size(text: &str, low: u64, high: u64) -> Result<u64, String> {
    let signed = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    bounded(text, signed(low), signed(high)).map(i64::cast_unsigned)
}

/// A small number.
pub(crate) fn count(text: &str, low: u32, high: u32) -> Result<u32, String> {
    let number = bounded(text, i64::from(low), i64::from(high))?;
    Ok(u32::try_from(number).unwrap_or(high))
}

/// One of a few texts.
pub(crate) fn one_of(text: &str, possible: &[&str]) -> Result<(), String> {
    if possible.contains(&text) {
        return Ok(());
    }
    let text: String = text.chars().take(100).collect();
    Err(format!("`{text}` is not one of {}", possible.join(", ")))
}

/// A fraction from 0 to 1.
pub(crate) fn ratio(text: &str) -> Result<(), String> {
    let is_ratio = text.parse::<f64>().is_ok_and(|it| (0.0..=1.0).contains(&it));
    if is_ratio { Ok(()) } else { Err("it is not a number from 0 to 1".into()) }
}

/// Any text that is not long.
pub(crate) fn short(text: &str) -> Result<(), String> {
    if text.len() <= TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(format!("it is longer than {TEXT_BYTES_MAX} bytes"))
}

/// The texts of a list.
pub(crate) fn parts(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|it| !it.is_empty()).collect()
}

/// A clean-up policy: deletion, compaction, both, or neither.
pub(crate) fn cleanup(text: &str) -> Result<(), String> {
    parts(text).into_iter().try_for_each(|it| one_of(it, &["compact", "delete"]))
}

/// A level of gzip, or -1: its own default.
pub(crate) fn gzip_level(text: &str) -> Result<(), String> {
    let is_level = bounded(text, -1, 9).is_ok_and(|it| it != 0);
    if is_level { Ok(()) } else { Err("it is not -1, or a number from 1 to 9".into()) }
}

/// Replicas as `PARTITION:BROKER`, or `*` for all.
pub(crate) fn replicas(text: &str) -> Result<(), String> {
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    let is_replica =
        |it: &&str| it.split_once(':').is_some_and(|(a, b)| is_number(a) && is_number(b));
    let found = parts(text);
    if found == ["*"] || found.iter().all(is_replica) {
        return short(text);
    }
    Err("it is not `*`, or PARTITION:BROKER with commas between them".into())
}

/// Names of consumer groups; not many.
pub(crate) fn groups(text: &str) -> Result<(), String> {
    if parts(text).len() > GROUPS_MAX {
        return Err(format!("at most {GROUPS_MAX} groups are possible"));
    }
    short(text)
}
