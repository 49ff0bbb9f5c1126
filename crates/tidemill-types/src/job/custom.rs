//! Fields of a job file that have a short form and a long form.

use super::{
    CompressionSpec, CycleSpec, Every, Format, Isolation, MetaSpec, Named, StartSpec,
    StreamSinkSpec, UntilSpec,
};
use crate::units::{ByteSize, Micros, Span};
use schemars::{JsonSchema, Schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, value::MapAccessDeserializer},
};
use serde_json::{Value, json};
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
        f.write_str("the name of a source or stage, or a list of names; a number in quotes")
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

/// The long form of `every`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EveryTable {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
}

/// The short form of `every` without a time.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) enum EveryWord {
    Auto,
}

/// `every: 10s`, `every: auto` or `every: {time: 10s, records: 1000}`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) enum EveryForm {
    Word(EveryWord),
    Time(Span),
    Table(EveryTable),
}

struct EveryVisitor;

impl<'de> de::Visitor<'de> for EveryVisitor {
    type Value = Every;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as `10s`, `auto`, or a table of `time` and `records`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Every, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Every, A::Error> {
        let EveryTable { time, records } =
            EveryTable::deserialize(MapAccessDeserializer::new(map))?;
        if time.is_none() && records.is_none() {
            return Err(de::Error::custom(
                "it has neither `time` nor `records`: write `10s`, `auto`, or a table with one of them",
            ));
        }
        Ok(Every::Bounds { time, records })
    }
}

impl<'de> Deserialize<'de> for Every {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(EveryVisitor)
    }
}

impl Serialize for Every {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Auto => s.serialize_str("auto"),
            Self::Bounds { time: Some(time), records: None } => time.serialize(s),
            Self::Bounds { time, records } => EveryTable { time, records }.serialize(s),
        }
    }
}

/// The long form of `compression`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompressionTable {
    #[schemars(range(min = 0.0, max = 1.0))]
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

/// `earliest`, `latest`, an RFC 3339 time, milliseconds since 1970, or a consumer group.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) enum StartForm {
    Text(String),
    Millis(i64),
    Group(GroupTable),
}

/// Where a consumer group stands.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupTable {
    /// The group's id.
    group: String,
}

struct StartVisitor;

impl<'de> de::Visitor<'de> for StartVisitor {
    type Value = StartSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "`earliest`, `latest`, a time such as 2026-01-31T12:00:00Z, milliseconds, or \
             `{group: NAME}`",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<StartSpec, E> {
        match text {
            "earliest" => Ok(StartSpec::Earliest),
            "latest" => Ok(StartSpec::Latest),
            _ => {
                let time: jiff::Timestamp =
                    text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))?;
                Ok(StartSpec::Time(Micros(time.as_microsecond())))
            }
        }
    }

    fn visit_i64<E: de::Error>(self, millis: i64) -> Result<StartSpec, E> {
        let micros = millis.checked_mul(1000).map(Micros).map(StartSpec::Time);
        micros.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(millis), &self))
    }

    fn visit_u64<E: de::Error>(self, millis: u64) -> Result<StartSpec, E> {
        match i64::try_from(millis) {
            Ok(millis) => self.visit_i64(millis),
            Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(millis), &self)),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<StartSpec, A::Error> {
        let table = GroupTable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(StartSpec::Group(table.group))
    }
}

impl<'de> Deserialize<'de> for StartSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(StartVisitor)
    }
}

impl Serialize for StartSpec {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Earliest => s.serialize_str("earliest"),
            Self::Latest => s.serialize_str("latest"),
            Self::Group(group) => GroupTable { group: group.clone() }.serialize(s),
            Self::Time(time) => match jiff::Timestamp::from_microsecond(time.0) {
                Ok(time) => s.collect_str(&time),
                Err(_) => s.serialize_i64(time.0 / 1000),
            },
        }
    }
}

/// The long form of a `stream` source.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) struct StreamSourceTable {
    name: String,
    format: Option<Format>,
    schema: Option<Named<String>>,
    sample: Option<usize>,
    start: Option<StartSpec>,
    until: Option<UntilSpec>,
    isolation: Option<Isolation>,
    meta: Option<MetaSpec>,
}

/// `stream: NAME` or `stream: {name: NAME, format: json}`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) enum StreamSourceForm {
    Name(String),
    Table(Box<StreamSourceTable>),
}

/// Adds to the schema of a sink the parts of a stream or a topic that may stand beside it.
pub(super) fn with_parts_beside(sink: &mut Schema) {
    let Some(properties) = sink.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, schema) in [
        (
            "format",
            json!({ "$ref": "#/$defs/Format", "description": "Format of the values: `json` (the default) or `text`." }),
        ),
        (
            "key",
            json!({ "type": "array", "items": { "type": "string" }, "description": "Columns whose values are a record's key." }),
        ),
        (
            "streamlets",
            json!({ "type": "integer", "minimum": 1, "description": "Streamlets, if a stream is made (default 1)." }),
        ),
        (
            "create",
            json!({ "type": "boolean", "description": "A topic is made when the job starts, if it is not there." }),
        ),
        (
            "partitions",
            json!({ "type": "integer", "minimum": 1, "description": "Partitions, if a topic is made (default: the cluster's own)." }),
        ),
        (
            "transaction_timeout",
            json!({ "$ref": "#/$defs/Duration", "description": "Longest time of a transaction of a topic (default 60s)." }),
        ),
    ] {
        properties.entry(name).or_insert(schema);
    }
}

/// The long form of a `stream` sink.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamSinkTable {
    name: String,
    #[serde(default = "json")]
    format: Format,
    #[serde(default)]
    key: Vec<String>,
    #[serde(default = "one")]
    streamlets: u32,
}

fn json() -> Format {
    Format::Json
}

fn one() -> u32 {
    1
}

/// `stream: NAME` or `stream: {name: NAME, format: json, key: [column], streamlets: 4}`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its JSON Schema is used")]
pub(super) enum StreamSinkForm {
    Name(String),
    Table(StreamSinkTable),
}

struct StreamSinkVisitor;

impl<'de> de::Visitor<'de> for StreamSinkVisitor {
    type Value = StreamSinkSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a stream, or a table of `name`, `format`, `key` and `streamlets`")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<StreamSinkSpec, E> {
        let (name, format, streamlets) = (name.to_owned(), json(), one());
        Ok(StreamSinkSpec { name, format, key: Vec::new(), streamlets })
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<StreamSinkSpec, A::Error> {
        let table = StreamSinkTable::deserialize(MapAccessDeserializer::new(map))?;
        let StreamSinkTable { name, format, key, streamlets } = table;
        Ok(StreamSinkSpec { name, format, key, streamlets })
    }
}

impl<'de> Deserialize<'de> for StreamSinkSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(StreamSinkVisitor)
    }
}
