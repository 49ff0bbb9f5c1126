//! Sizes, durations and moments, with the one way to write each.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

#[cfg(test)]
mod tests;

/// A moment, in microseconds since 1970-01-01T00:00:00Z.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Micros(pub i64);

impl Micros {
    /// Before every moment: the watermark of a source that has seen nothing.
    pub const MIN: Self = Self(i64::MIN);
    /// After every moment: the watermark of a source that has ended.
    pub const MAX: Self = Self(i64::MAX);
    /// The first moment that a record can have: the year 0000 begins (RFC 3339).
    pub const EVENT_MIN: Self = Self(-62_167_219_200_000_000);
    /// The last moment that a record can have: the year 9999 ends (RFC 3339).
    pub const EVENT_MAX: Self = Self(253_402_300_799_999_999);

    /// True if a record can have this moment as its event time. Such a moment and a few times
    /// [`Span::LONGEST`] can be added up.
    #[inline]
    #[must_use]
    pub fn is_event_time(self) -> bool {
        (Self::EVENT_MIN..=Self::EVENT_MAX).contains(&self)
    }

    /// The moment as the timestamp of a record, in milliseconds, rounded down. -1 means no timestamp
    /// there, so that the last millisecond before 1970 is rounded down to -2.
    #[must_use]
    pub const fn record_timestamp_ms(self) -> i64 {
        match self.0.div_euclid(1_000) {
            -1 => -2,
            timestamp_ms => timestamp_ms,
        }
    }

    /// This moment moved back by `span`; [`Self::MIN`] and [`Self::MAX`] stay where they are.
    #[must_use]
    pub fn minus(self, span: Span) -> Self {
        if self == Self::MAX || self == Self::MIN {
            self
        } else {
            Self(self.0.saturating_sub(span.0))
        }
    }
}

/// A length of time, in microseconds. Written `10ms`, `1h`, `1h30m`, `500us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub i64);

impl Span {
    /// The longest that can be written: ten thousand years.
    pub const LONGEST: Self = Self(3_652_425 * 86_400_000_000);

    /// The span as a [`Duration`]; a negative span is none.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }
}

/// Why a size or a span could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a span.
    #[error("`{0}` is not a duration: write a number and a unit, such as `10ms`, `5s`, `1h`, `1d`")]
    Span(String),
    /// The span is longer than [`Span::LONGEST`].
    #[error("`{0}` is too long: at most ten thousand years, `{max}`", max = Span::LONGEST)]
    Long(String),
    /// The text is not a size.
    #[error("`{0}` is not a size: write a number and a unit, such as `64KiB`, `4MiB`, `1GB`")]
    Size(String),
    /// The size is more than can be counted.
    #[error("`{0}` is too large: at most {max} bytes", max = u64::MAX)]
    Large(String),
}

const SPAN_UNITS: [(&str, i64); 8] = [
    ("us", 1),
    ("µs", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
    ("w", 604_800_000_000),
];

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError::Span(text.to_owned());
        let long = || UnitError::Long(text.to_owned());
        let mut rest = text.trim();
        let mut total: i64 = 0;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            if digits == 0 {
                return Err(bad());
            }
            let number: i64 = rest[..digits].parse().map_err(|_| long())?;
            rest = &rest[digits..];
            let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let unit = rest[..letters].trim();
            let (_, micros) = SPAN_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
            total = number
                .checked_mul(*micros)
                .and_then(|part| total.checked_add(part))
                .filter(|total| *total <= Self::LONGEST.0)
                .ok_or_else(long)?;
            rest = &rest[letters..];
        }
        Ok(Self(total))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SPAN_UNITS
            .iter()
            .rev()
            .find(|(name, micros)| *name != "µs" && self.0 != 0 && self.0 % micros == 0);
        match unit {
            Some((name, micros)) => write!(f, "{}{name}", self.0 / micros),
            None => write!(f, "{}us", self.0),
        }
    }
}

/// A number of bytes. Written `64KiB`, `4MiB`, `1GB`, or a plain number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

const SIZE_UNITS: [(&str, u64); 8] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError::Size(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let large = || UnitError::Large(text.to_owned());
        if digits == 0 {
            return Err(bad());
        }
        let number: u64 = trimmed[..digits].parse().map_err(|_| large())?;
        let unit = trimmed[digits..].trim();
        let scale = match unit {
            "" => 1,
            unit => SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?.1,
        };
        number.checked_mul(scale).map(Self).ok_or_else(large)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit =
            SIZE_UNITS[..4].iter().rev().find(|(_, b)| self.0 != 0 && self.0.is_multiple_of(*b));
        match unit {
            Some((name, bytes)) => write!(f, "{}{name}", self.0 / bytes),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// Reads a value from a string by its [`FromStr`], or from a plain number by `number`.
struct TextOrNumber<T>(&'static str, fn(u64) -> Option<T>);

impl<T: FromStr<Err = UnitError>> de::Visitor<'_> for TextOrNumber<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.1(number).ok_or_else(|| E::invalid_type(de::Unexpected::Unsigned(number), &self))
    }
}

const SPAN_EXPECTED: &str = "a duration such as `10ms`, `5s`, `1h`, `1d`";
const SIZE_EXPECTED: &str = "a size such as `64KiB`, `4MiB`, `1GB`, or a number of bytes";

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber(SPAN_EXPECTED, |_| None))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber(SIZE_EXPECTED, |bytes| Some(Self(bytes))))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": SPAN_EXPECTED,
            "pattern": "^ *([0-9]+ *(us|µs|ms|s|m|h|d|w) *)+$"
        })
    }
}

impl schemars::JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": SIZE_EXPECTED,
            "oneOf": [
                { "type": "string", "pattern": "^ *[0-9]+ *(B|KiB|MiB|GiB|kB|KB|MB|GB)? *$" },
                { "type": "integer", "minimum": 0 }
            ]
        })
    }
}
