//! Reads settings from an [`Item`]: a serde deserializer whose errors know path and place.
//!
//! Text fields take numbers as they were written; an empty value is an empty table or none.

use super::tree::{Item, ItemValue, Name};
use crate::diagnostic::{Path, Problem, VALUE_SHOWN_MAX, excerpt, one_of};
use serde::{
    Deserializer,
    de::{
        self, DeserializeSeed, EnumAccess, Error as _, Expected, IntoDeserializer, MapAccess,
        SeqAccess, Unexpected, VariantAccess, Visitor,
    },
    forward_to_deserialize_any,
};
use std::fmt;

/// Reads a value of type `T`.
pub(crate) fn read<T: de::DeserializeOwned>(item: &Item) -> Result<T, Problem> {
    T::deserialize(item).map_err(|ItemError(mut problem)| {
        problem.path.reverse();
        *problem
    })
}

/// A problem whose path is still being collected, innermost name first.
#[derive(Debug)]
pub(crate) struct ItemError(Box<Problem>);

impl ItemError {
    fn inside(mut self, name: &str) -> Self {
        self.0.path.push(name.to_owned());
        self
    }

    /// A number is named as it was written: read, it may be another one.
    fn of(mut self, raw: &str) -> Self {
        let at_the_number =
            self.0.path.is_empty() && self.0.message.starts_with("found the number");
        if at_the_number {
            self.0.message = format!("found the number `{}`", excerpt(raw, VALUE_SHOWN_MAX));
        }
        self
    }

    fn at_name(mut self) -> Self {
        self.0.at_name = true;
        self
    }
}

impl fmt::Display for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ItemError {}

/// Longest message of a type, in characters.
const MESSAGE_SHOWN_MAX: usize = 400;

fn unknown(kind: &str, name: &str, names: &[&'static str]) -> ItemError {
    let message = format!("unknown {kind} `{}`", excerpt(name, VALUE_SHOWN_MAX));
    let problem = Problem::new(Path::new(), message).one_of(name, names.iter().copied());
    ItemError(Box::new(problem))
}

fn found(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => format!("found `{value}`"),
        Unexpected::Unsigned(value) => format!("found the number `{value}`"),
        Unexpected::Signed(value) => format!("found the number `{value}`"),
        Unexpected::Float(value) => format!("found the number `{value}`"),
        Unexpected::Str(value) => format!("found `{}`", excerpt(value, VALUE_SHOWN_MAX)),
        Unexpected::Unit | Unexpected::Option => "found nothing".to_owned(),
        Unexpected::Seq => "found a list".to_owned(),
        Unexpected::Map => "found a table".to_owned(),
        other => format!("found {other}"),
    }
}

/// The expectation of serde's derived code, in the words of a job file.
fn wanted(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "a string" => "text".to_owned(),
        "a map" => "a table of names and values".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => format!("a whole number from 0 to {}", u64::MAX),
        "f64" => "a number".to_owned(),
        "a character" => "a character; a digit in quotes".to_owned(),
        text if text.starts_with("struct ") => "a table of fields".to_owned(),
        text => text.to_owned(),
    }
}

impl de::Error for ItemError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        // Types name what they refuse as it was written.
        let message = message.to_string();
        Self(Box::new(Problem::new(Path::new(), excerpt(&message, MESSAGE_SHOWN_MAX))))
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(Box::new(Problem::new(Path::new(), found(unexpected)).expected(wanted(expected))))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        unknown("field", field, expected).inside(field).at_name()
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        unknown("value", variant, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format!("the field `{field}` is missing")).at_name()
    }
}

impl<'de> Deserializer<'de> for &'de Item {
    type Error = ItemError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ItemError> {
        match &self.value {
            ItemValue::Null => visitor.visit_unit(),
            ItemValue::Bool(value) => visitor.visit_bool(*value),
            ItemValue::Unsigned(value) => visitor.visit_u64(*value),
            ItemValue::Signed(value) => visitor.visit_i64(*value),
            ItemValue::Float(value) => {
                visitor.visit_f64(*value).map_err(|error: ItemError| error.of(&self.raw))
            }
            ItemValue::Text(value) => visitor.visit_borrowed_str(value),
            ItemValue::List(entries) => visitor.visit_seq(Entries { entries, next: 0 }),
            ItemValue::Table(entries) => visitor.visit_map(Fields { entries, next: 0 }),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ItemError> {
        match &self.value {
            ItemValue::Bool(_)
            | ItemValue::Unsigned(_)
            | ItemValue::Signed(_)
            | ItemValue::Float(_) => visitor.visit_borrowed_str(&self.raw),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ItemError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ItemError> {
        match &self.value {
            ItemValue::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ItemError> {
        match &self.value {
            ItemValue::Null => visitor.visit_map(Fields { entries: &[], next: 0 }),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ItemError> {
        match &self.value {
            ItemValue::List(_) => Err(ItemError::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ItemError> {
        let names = format!("one of {}", one_of(variants).trim_start_matches("one of "));
        match &self.value {
            ItemValue::Text(name) => visitor.visit_enum(Choice { name, at: None, value: None }),
            ItemValue::Table(entries) if entries.len() == 1 => {
                let (Name { text, .. }, value) = &entries[0];
                visitor.visit_enum(Choice { name: text, at: Some(text), value: Some(value) })
            }
            ItemValue::Table(entries) => {
                let names: Vec<&str> = entries.iter().map(|(name, _)| name.text.as_str()).collect();
                let (count, names) = (names.len(), names.join(", "));
                let message =
                    format!("found {count} choices: {}", excerpt(&names, VALUE_SHOWN_MAX));
                let problem = Problem::new(Path::new(), message);
                Err(ItemError(Box::new(problem.expected(format!("exactly {}", one_of(variants))))))
            }
            _ => {
                let message = format!("found {}", self.describe());
                Err(ItemError(Box::new(Problem::new(Path::new(), message).expected(names))))
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ItemError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit
        unit_struct seq tuple tuple_struct identifier ignored_any
    }
}

struct Entries<'de> {
    entries: &'de [Item],
    next: usize,
}

impl<'de> SeqAccess<'de> for Entries<'de> {
    type Error = ItemError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ItemError> {
        let Some(entry) = self.entries.get(self.next) else { return Ok(None) };
        self.next += 1;
        let number = self.next - 1;
        seed.deserialize(entry).map(Some).map_err(|error| error.inside(&number.to_string()))
    }
}

struct Fields<'de> {
    entries: &'de [(Name, Item)],
    next: usize,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = ItemError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ItemError> {
        let Some((name, _)) = self.entries.get(self.next) else { return Ok(None) };
        self.next += 1;
        seed.deserialize(name.text.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ItemError> {
        let (name, value) = &self.entries[self.next - 1];
        seed.deserialize(value).map_err(|error| error.inside(&name.text))
    }
}

/// One choice of an enum: a word, or a table of one entry.
struct Choice<'de> {
    name: &'de str,
    /// The name of the entry, if there is one: part of the path.
    at: Option<&'de str>,
    value: Option<&'de Item>,
}

impl<'de> Choice<'de> {
    fn place(&self, error: ItemError) -> ItemError {
        match self.at {
            Some(name) => error.inside(name),
            None => error,
        }
    }

    fn needs_value(&self, value: &str) -> ItemError {
        let problem = Problem::new(Path::new(), format!("`{}` needs {value}", self.name));
        ItemError(Box::new(problem.expected(format!("`{{{}: ...}}`", self.name))))
    }
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = ItemError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), ItemError> {
        let variant =
            seed.deserialize(self.name.into_deserializer()).map_err(|error: ItemError| {
                let error = if self.at.is_some() { error.at_name() } else { error };
                self.place(error)
            })?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = ItemError;

    fn unit_variant(self) -> Result<(), ItemError> {
        match self.value {
            None => Ok(()),
            Some(value) if matches!(value.value, ItemValue::Null) => Ok(()),
            Some(_) => {
                Err(self.place(ItemError::custom(format!("`{}` takes no value", self.name))))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ItemError> {
        match self.value {
            Some(value) => seed.deserialize(value).map_err(|error| self.place(error)),
            None => Err(self.needs_value("a value")),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ItemError> {
        match self.value {
            Some(value) => value.deserialize_any(visitor).map_err(|error| self.place(error)),
            None => Err(self.needs_value("a list")),
        }
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ItemError> {
        match self.value {
            Some(value) => value.deserialize_any(visitor).map_err(|error| self.place(error)),
            None => Err(self.needs_value("a table")),
        }
    }
}
