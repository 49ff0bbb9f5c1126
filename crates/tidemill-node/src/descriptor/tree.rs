//! A YAML or JSON text as a tree in which every name and value knows its place.
//!
//! Numbers keep the text they were written as, so that a field of text may hold `1` or `1.50`.
//! Invariants: the depth, the number of items and the use of aliases are bounded before memory is.

use super::syntax::syntax_problem;
use crate::diagnostic::{Problem, TextPlace, VALUE_SHOWN_MAX, excerpt};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess},
};
use serde_saphyr::{DuplicateKeyPolicy, Location, Spanned};
use std::fmt;

/// Deepest nesting of a job.
pub(super) const DEPTH_MAX: usize = 32;
/// Most values in a job.
pub(super) const ITEMS_MAX: usize = 100_000;
/// Most uses of aliases in a job.
pub(super) const ALIASES_MAX: usize = 1_000;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Where it stands; none if it was set from outside the text.
    pub(crate) place: Option<TextPlace>,
    pub(crate) value: ItemValue,
    /// A scalar as it is written in the text, with quotes.
    pub(crate) raw: String,
}

/// The content of an item.
#[derive(Clone, Debug)]
pub(crate) enum ItemValue {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Item>),
    Table(Vec<(Name, Item)>),
}

/// The name of an entry of a table.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) place: Option<TextPlace>,
}

impl Item {
    /// Reads a text.
    pub(crate) fn parse(text: &str) -> Result<Self, Box<(Option<TextPlace>, Problem)>> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_depth: DEPTH_MAX,
                max_nodes: ITEMS_MAX,
                max_aliases: ALIASES_MAX,
                max_documents: 1,
            },
            strict_booleans: true,
            duplicate_keys: DuplicateKeyPolicy::Error,
            with_snippet: false,
        };
        let raw: Spanned<Raw> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| {
                let place = error.location().and_then(place);
                Box::new((place, syntax_problem(&error)))
            })?;
        Ok(item_of(raw, text))
    }

    /// The entry of a table with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&(Name, Self)> {
        match &self.value {
            ItemValue::Table(entries) => entries.iter().find(|(it, _)| it.text == name),
            _ => None,
        }
    }

    /// The entry of a list with this number.
    pub(crate) fn entry(&self, number: &str) -> Option<&Self> {
        match &self.value {
            ItemValue::List(entries) => entries.get(number.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// The item in words, for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            ItemValue::Null => "nothing".to_owned(),
            ItemValue::Bool(_)
            | ItemValue::Unsigned(_)
            | ItemValue::Signed(_)
            | ItemValue::Float(_) => {
                format!("`{}`", self.raw)
            }
            ItemValue::Text(text) => format!("`{}`", excerpt(text, VALUE_SHOWN_MAX)),
            ItemValue::List(_) => "a list".to_owned(),
            ItemValue::Table(_) => "a table".to_owned(),
        }
    }

    /// Where `within`, a place in the text that a scalar holds, stands in the file: exact for
    /// plain, simply quoted and literal (`|`) scalars, else the start of the scalar.
    pub(crate) fn place_within(&self, within: TextPlace) -> Option<TextPlace> {
        let start = self.place?;
        let ItemValue::Text(text) = &self.value else { return Some(start) };
        let quotes = match self.raw.strip_prefix(['"', '\'']) {
            Some(quoted) if quoted.starts_with(text.as_str()) && !text.contains('\n') => 1,
            None if same_lines(&self.raw, text) => 0,
            _ => return Some(start),
        };
        let line = start.line + within.line.saturating_sub(1);
        Some(TextPlace { line, column: start.column + quotes + within.column.saturating_sub(1) })
    }
}

/// True if two texts have the same lines but for indentation and the end.
fn same_lines(a: &str, b: &str) -> bool {
    let lines = |text| str::lines(text).map(str::trim_start);
    lines(a.trim_end()).eq(lines(b.trim_end()))
}

fn place(location: Location) -> Option<TextPlace> {
    let line = u32::try_from(location.line()).ok()?;
    let column = u32::try_from(location.column()).ok()?;
    (line > 0).then_some(TextPlace { line, column: column.max(1) })
}

/// The text at a place; empty if that is not known.
fn written_at(location: Location, text: &str) -> &str {
    let span = location.span();
    let bytes = span.byte_offset().zip(span.byte_len());
    let range = bytes.and_then(|(start, length)| {
        let start = usize::try_from(start).ok()?;
        text.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    });
    range.unwrap_or_default().trim()
}

fn item_of(raw: Spanned<Raw>, text: &str) -> Item {
    // At an alias stands its name; a number or a truth value looks as it does where it has that.
    let written = match raw.value {
        Raw::Bool(_) | Raw::Unsigned(_) | Raw::Signed(_) | Raw::Float(_) => {
            written_at(raw.defined, text)
        }
        _ => written_at(raw.referenced, text),
    };
    let value = match raw.value {
        Raw::Null => ItemValue::Null,
        Raw::Bool(value) => ItemValue::Bool(value),
        Raw::Unsigned(value) => ItemValue::Unsigned(value),
        Raw::Signed(value) => ItemValue::Signed(value),
        Raw::Float(value) => ItemValue::Float(value),
        Raw::Text(value) => ItemValue::Text(value),
        Raw::List(entries) => {
            ItemValue::List(entries.into_iter().map(|entry| item_of(entry, text)).collect())
        }
        Raw::Table(entries) => ItemValue::Table(
            entries
                .into_iter()
                .map(|(name, value)| {
                    let place = place(name.referenced);
                    (Name { text: name.value, place }, item_of(value, text))
                })
                .collect(),
        ),
    };
    let raw_text = match &value {
        ItemValue::List(_) | ItemValue::Table(_) => String::new(),
        ItemValue::Bool(value) if written.is_empty() => value.to_string(),
        ItemValue::Unsigned(value) if written.is_empty() => value.to_string(),
        ItemValue::Signed(value) if written.is_empty() => value.to_string(),
        ItemValue::Float(value) if written.is_empty() => value.to_string(),
        _ => written.to_owned(),
    };
    Item { place: place(raw.referenced), value, raw: raw_text }
}

/// A value as the YAML reader gives it, with locations.
enum Raw {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Table(Vec<(Spanned<String>, Spanned<Raw>)>),
}

struct RawVisitor;

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(RawVisitor)
    }
}

impl<'de> de::Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Raw, D::Error> {
        Raw::deserialize(d)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Unsigned(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Raw, E> {
        Ok(u64::try_from(value).map_or(Raw::Signed(value), Raw::Unsigned))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = seq.next_element()? {
            entries.push(entry);
        }
        Ok(Raw::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Table(entries))
    }
}
