//! Fields of a job file that have a short form and a long form.

use super::{CompressionSpec, CycleSpec};
use crate::units::{ByteSize, Span};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, value::MapAccessDeserializer},
};
use std::fmt;

/// `from: a` or `from: [a, b]`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) enum FromForm {
    One(String),
    Union(Vec<String>),
}

struct FromVisitor;

impl<'de> de::Visitor<'de> for FromVisitor {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a source or stage, or a list of names")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(vec![name.to_owned()])
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = seq.next_element()? {
            names.push(name);
        }
        Ok(names)
    }
}

/// Reads `a` or `[a, b]`.
pub(super) fn from_names<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    d.deserialize_any(FromVisitor)
}

/// The long form of `cycle`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CycleTable {
    time: Option<Span>,
    bytes: Option<ByteSize>,
    records: Option<u64>,
}

/// `cycle: 10ms` or `cycle: {time: 10ms, bytes: 4MiB, records: 100000}`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) enum CycleForm {
    Time(Span),
    Table(CycleTable),
}

struct CycleVisitor;

impl<'de> de::Visitor<'de> for CycleVisitor {
    type Value = CycleSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as `10ms`, or a table of `time`, `bytes` and `records`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<CycleSpec, E> {
        let time = text.parse().map_err(E::custom)?;
        Ok(CycleSpec { time, ..CycleSpec::default() })
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<CycleSpec, A::Error> {
        let table = CycleTable::deserialize(MapAccessDeserializer::new(map))?;
        let default = CycleSpec::default();
        Ok(CycleSpec {
            time: table.time.unwrap_or(default.time),
            bytes: table.bytes.unwrap_or(default.bytes),
            records: table.records.unwrap_or(default.records),
        })
    }
}

impl<'de> Deserialize<'de> for CycleSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(CycleVisitor)
    }
}

/// The long form of `compression`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompressionTable {
    selective: f64,
}

/// The short form of `compression`.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) enum CompressionWord {
    Off,
    Always,
    Selective,
}

/// `compression: off`, `always`, `selective` (0.5) or `{selective: 0.3}`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) enum CompressionForm {
    Word(CompressionWord),
    Table(CompressionTable),
}

struct CompressionVisitor;

impl<'de> de::Visitor<'de> for CompressionVisitor {
    type Value = CompressionSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`off`, `always`, `selective`, or `{selective: 0.5}`")
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<CompressionSpec, E> {
        // YAML 1.1 readers take a bare `off` for false.
        Ok(if on { CompressionSpec::Always } else { CompressionSpec::Off })
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<CompressionSpec, E> {
        match word {
            "off" => Ok(CompressionSpec::Off),
            "always" => Ok(CompressionSpec::Always),
            "selective" => Ok(CompressionSpec::Selective { coefficient: 0.5 }),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<CompressionSpec, A::Error> {
        let table = CompressionTable::deserialize(MapAccessDeserializer::new(map))?;
        if !(0.0..=1.0).contains(&table.selective) {
            return Err(de::Error::custom("`selective` is a ratio from 0 to 1"));
        }
        Ok(CompressionSpec::Selective { coefficient: table.selective })
    }
}

impl<'de> Deserialize<'de> for CompressionSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(CompressionVisitor)
    }
}

impl Serialize for CompressionSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Off => serializer.serialize_str("off"),
            Self::Always => serializer.serialize_str("always"),
            Self::Selective { coefficient } => {
                CompressionTable { selective: coefficient }.serialize(serializer)
            }
        }
    }
}
