//! Moments as text: ISO 8601 in, RFC 3339 out.
//!
//! Text without a zone is UTC; a date alone is its first moment. `jiff` reads the forms that
//! the quick reader does not know (week dates, leap seconds, zone names).
//!
//! The name of a zone (`[Europe/Berlin]`) may stand behind an offset, which says the moment. Alone it
//! is refused: the tables of zones change with governments and differ between machines, and the same input
//! must give the same rows.

const DAY_US: i64 = 86_400_000_000;

/// Microseconds since the epoch of an ISO 8601 text; digits past microseconds are dropped.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    quick(text).or_else(|| slow(std::str::from_utf8(text).ok()?.trim()))
}

fn slow(text: &str) -> Option<i64> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Some(moment.as_microsecond());
    }
    if names_zone(text) {
        return None;
    }
    let civil = text.parse::<jiff::civil::DateTime>().ok()?;
    Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_microsecond())
}

/// Returns true if a zone is named behind a time (RFC 9557): the first text in brackets that is not
/// `key=value`.
fn names_zone(text: &str) -> bool {
    let first = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    first.is_some_and(|(name, _)| !name.contains('='))
}

fn digits(text: &[u8], at: usize, count: usize) -> Option<i64> {
    text.get(at..at + count)?.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
    })
}

fn quick(text: &[u8]) -> Option<i64> {
    let date_us = quick_date(text)?.checked_mul(DAY_US)?;
    if text.len() == 10 {
        return Some(date_us);
    }
    if !matches!(text[10], b'T' | b't' | b' ') || *text.get(13)? != b':' {
        return None;
    }
    let (hour, minute) = (digits(text, 11, 2)?, digits(text, 14, 2)?);
    let mut at = 16;
    let mut micros = 0;
    if text.get(at) == Some(&b':') {
        let second = digits(text, 17, 2).filter(|second| *second < 60)?;
        micros = second * 1_000_000;
        at = 19;
        if matches!(text.get(at), Some(b'.' | b',')) {
            let fraction = text[at + 1..].iter().take_while(|it| it.is_ascii_digit()).count();
            let kept = fraction.min(6);
            let scale = 10_i64.pow(6 - u32::try_from(kept).ok()?);
            micros += digits(text, at + 1, kept).filter(|_| kept > 0)? * scale;
            at += 1 + fraction;
        }
    }
    if hour > 23 || minute > 59 {
        return None;
    }
    let local_us = date_us + (hour * 60 + minute) * 60_000_000 + micros;
    Some(local_us - quick_zone(&text[at..])? * 60_000_000)
}

/// Minutes east of UTC.
fn quick_zone(text: &[u8]) -> Option<i64> {
    let sign = match text {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let minutes = match text.len() {
        3 => 0,
        5 => digits(text, 3, 2)?,
        6 if text[3] == b':' => digits(text, 4, 2)?,
        _ => return None,
    };
    let hours = digits(text, 1, 2)?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Days since the epoch of a date `2024-02-29`, the first ten bytes of the text.
fn quick_date(text: &[u8]) -> Option<i64> {
    if text.len() < 10 || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(text, 0, 4)?, digits(text, 5, 2)?, digits(text, 8, 2)?);
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    // A year that starts in March has its leap day last: then days before a month are a line.
    let shifted = if month > 2 { year } else { year - 1 };
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Days since the epoch of a date; a time of day after it is dropped.
pub(crate) fn parse_date(text: &[u8]) -> Option<i32> {
    let days = match quick_date(text) {
        Some(days) if text.len() == 10 => days,
        _ => parse(text)?.div_euclid(DAY_US),
    };
    i32::try_from(days).ok()
}

/// Year, month and day of a day since the epoch.
fn civil(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month as u8, day as u8)
}

fn two(number: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + number / 10, b'0' + number % 10]);
}

/// Appends a date as `2024-02-29`.
pub(crate) fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    if (0..=9_999).contains(&year) {
        two((year / 100) as u8, out);
        two((year % 100) as u8, out);
    } else {
        out.extend_from_slice(format!("{year:+07}").as_bytes());
    }
    out.push(b'-');
    two(month, out);
    out.push(b'-');
    two(day, out);
}

/// Appends a moment as RFC 3339 in UTC, such as `2024-02-29T12:00:00Z`; a fraction of a second is
/// written if it is not zero, in groups of three digits. `per_second` is the unit: 1, 10³, 10⁶, 10⁹.
pub(crate) fn write(value: i64, per_second: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    write_date(days, out);
    out.push(b'T');
    two((second / 3_600) as u8, out);
    out.push(b':');
    two((second / 60 % 60) as u8, out);
    out.push(b':');
    two((second % 60) as u8, out);
    if fraction != 0 {
        let mut nanos = fraction * (1_000_000_000 / per_second);
        let mut width = 9;
        while nanos % 1_000 == 0 {
            (nanos, width) = (nanos / 1_000, width - 3);
        }
        out.push(b'.');
        out.extend_from_slice(format!("{nanos:0width$}").as_bytes());
    }
    out.push(b'Z');
}

#[cfg(test)]
mod tests;
