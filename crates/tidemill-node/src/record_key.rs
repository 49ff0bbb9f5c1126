//! The key of a record in a line of JSON: the value of one field.
//!
//! Invariant: a value that is not text is the key as it is written. Read as a number it could
//! become another, and records that differ would have one key.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};
use tidemill_connectors::check_json_object;

#[cfg(test)]
mod tests;

/// The key of a line: the value of the field that these names lead to, one within the other. None if
/// the line has no such field, or `null` there.
///
/// # Errors
/// The line is no JSON.
pub fn record_key<'t, 'n>(
    line: &'t [u8],
    names: impl IntoIterator<Item = &'n str>,
) -> Result<Option<Cow<'t, [u8]>>, serde_json::Error> {
    let mut at = std::str::from_utf8(line).map_err(|_| Error::custom("not UTF-8"))?;
    for name in names {
        match field(at, name)? {
            Some(value) => at = value,
            None => return Ok(None),
        }
    }
    match at.as_bytes() {
        b"null" => Ok(None),
        [b'"', ..] => Ok(Some(serde_json::from_str::<String>(at)?.into_bytes().into())),
        written => Ok(Some(written.into())),
    }
}

/// The key of a line that a job can read: one object of JSON, by the rules of sources. Without names
/// the line is only checked.
///
/// # Errors
/// The line is no such object: the expectation, its place and, of other records, the way to write them.
pub fn checked_key<'t, 'n>(
    line: &'t [u8],
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<Option<Cow<'t, [u8]>>, String> {
    check_json_object(line).map_err(|why| match line.trim_ascii().first() {
        Some(b'{') => why,
        _ => format!(
            "{why}; records that are no objects are written as text: with `format=text` over HTTP, \
             with `--format lines` of `tidemill stream produce`"
        ),
    })?;
    match names.clone().next() {
        None => Ok(None),
        Some(_) => record_key(line, names).map_err(|error| not_json(&error)),
    }
}

/// Why a text is no JSON, where the library reads it.
pub(crate) fn not_json(error: &serde_json::Error) -> String {
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    format!("not JSON: {why} at column {}", error.column())
}

/// The value of a field, as it is written; of several with one name the last. None if the text is no
/// object, or has no such field.
fn field<'t>(text: &'t str, name: &str) -> Result<Option<&'t str>, serde_json::Error> {
    if !text.trim_ascii_start().starts_with('{') {
        serde_json::from_str::<IgnoredAny>(text)?;
        return Ok(None);
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = reader.deserialize_map(Field(name))?;
    reader.end()?;
    Ok(value.map(RawValue::get))
}

/// Finds a field among those of an object.
struct Field<'n>(&'n str);

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Self::Value, M::Error> {
        let mut found = None;
        while let Some(is_it) = fields.next_key_seed(Is(self.0))? {
            if is_it {
                found = Some(fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// True if a text is this one.
struct Is<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        Ok(text == self.0)
    }
}
