//! Settings of a topic under Kafka's names: their values, and their places in the log's own
//! settings.
//!
//! ```text
//! names and texts, as clients set them ── spec() ──▶ StreamSpec: its own fields, and the texts
//!            ▲                                           │
//!            └──────────────── overrides() ──────────────┘
//! ```
//!
//! [`TOPIC_SETTINGS`] is the one table: requests, `docs/broker.md` and the tests go by it.
//!
//! Invariant: a text that is kept was accepted by its setting's check.

use std::collections::BTreeMap;
use tidemill_log::{Fsync, LogOptions, StreamSpec};
use tidemill_types::Span;

mod table;
mod value;

pub(crate) use table::TOPIC_SETTINGS;
pub(crate) use value::SettingType;

const READERS: &str = "tidemill.retention.groups";
const CLEANUP: &str = "cleanup.policy";
const MIN_LAG: &str = "min.compaction.lag.ms";
const MAX_LAG: &str = "max.compaction.lag.ms";

/// Settings that somebody chose, by name.
pub(crate) type Texts = BTreeMap<String, String>;

/// The defaults of topics.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    /// Of topics that do not say otherwise.
    pub(crate) spec: StreamSpec,
    /// Of streams that do not say otherwise.
    pub(crate) fsync: Fsync,
}

/// A setting that a topic cannot have, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {why}")]
pub(crate) struct BadSetting {
    pub(crate) name: String,
    pub(crate) why: String,
}

/// A setting of a topic.
pub(crate) struct TopicSetting {
    pub(crate) name: &'static str,
    pub(crate) kind: SettingType,
    /// The broker's setting that it is called by there.
    pub(crate) of_broker: Option<&'static str>,
    pub(crate) doc: &'static str,
    pub(crate) place: SettingPlace,
}

/// The place of a setting, and its check.
pub(crate) enum SettingPlace {
    /// In a field of the stream's own settings.
    Field {
        get: fn(&StreamSpec, &Defaults) -> String,
        set: fn(&mut StreamSpec, &str) -> Result<(), String>,
    },
    /// Among the texts, where the broker looks at it.
    Used { default: &'static str, check: fn(&str) -> Result<(), String> },
    /// Only this value is possible, for this reason.
    Only { value: &'static str, why: &'static str },
    /// Among the texts, for tools that set it; nothing here goes by it.
    Kept { default: &'static str, check: fn(&str) -> Result<(), String> },
}

use SettingPlace::{Field, Kept, Only, Used};

/// The setting of a name.
pub(crate) fn find(name: &str) -> Option<&'static TopicSetting> {
    TOPIC_SETTINGS.iter().find(|it| it.name == name)
}

impl Defaults {
    pub(crate) fn of(options: &LogOptions) -> Self {
        Self { spec: options.defaults.clone(), fsync: options.fsync }
    }

    /// Where nothing is said at all.
    pub(crate) fn built_in() -> Self {
        Self { spec: StreamSpec::default(), fsync: Fsync::default() }
    }

    /// A setting's value where no topic says otherwise.
    pub(crate) fn value(&self, setting: &TopicSetting) -> String {
        match setting.place {
            Used { default, .. } | Kept { default, .. } => default.to_owned(),
            Field { .. } | Only { .. } => self.value_in(setting, &self.spec),
        }
    }

    /// A setting's value in a topic.
    pub(crate) fn value_in(&self, setting: &TopicSetting, spec: &StreamSpec) -> String {
        match setting.place {
            Field { get, .. } => get(spec, self),
            Only { value, .. } => value.to_owned(),
            Used { default, .. } | Kept { default, .. } => {
                spec.settings.get(setting.name).map_or_else(|| default.to_owned(), String::clone)
            }
        }
    }

    /// A stream's settings with these texts, and defaults for all else.
    pub(crate) fn spec(&self, streamlets: u32, texts: Texts) -> Result<StreamSpec, BadSetting> {
        let mut spec = StreamSpec { streamlets, ..self.spec.clone() };
        for (name, text) in &texts {
            let bad = |why| BadSetting { name: name.clone(), why };
            let Some(setting) = find(name) else {
                return Err(bad("no topic has a setting of this name".into()));
            };
            match setting.place {
                Field { set, .. } => set(&mut spec, text).map_err(bad)?,
                Used { check, .. } | Kept { check, .. } => check(text).map_err(bad)?,
                Only { value, .. } if text == value => {}
                Only { value, why } => {
                    let why = format!("`{text}` is not possible, `{value}` is: {why}");
                    return Err(bad(why));
                }
            }
        }
        if !texts.contains_key("tidemill.fsync") {
            spec.fsync = self.flushed(spec.fsync, &texts);
        }
        check_lags(&texts)?;
        // Nothing goes where deletion is not among the policies.
        spec.compacted = texts.get(CLEANUP).is_some_and(|it| !value::parts(it).contains(&"delete"));
        spec.settings = texts;
        Ok(spec)
    }

    /// The fsync of a topic with these `flush.messages` and `flush.ms`. It is never weaker than
    /// without them.
    fn flushed(&self, fsync: Option<Fsync>, texts: &Texts) -> Option<Fsync> {
        if texts.get("flush.messages").is_some_and(|it| it == "1") {
            return Some(Fsync::Always);
        }
        let ms: i64 = texts.get("flush.ms")?.trim().parse().ok()?;
        let span = Span(ms.saturating_mul(1_000).max(1));
        match fsync.unwrap_or(self.fsync) {
            _ if ms == 0 => Some(Fsync::Always),
            Fsync::Always => fsync,
            Fsync::Every(shorter) if shorter <= span => fsync,
            Fsync::Every(_) | Fsync::Os if ms < i64::MAX => Some(Fsync::Every(span)),
            Fsync::Every(_) | Fsync::Os => fsync,
        }
    }

    /// The settings of a stream that had others, when these texts take the place of its
    /// [`Self::overrides`]. Texts of other names stay.
    pub(crate) fn change(&self, old: &StreamSpec, texts: Texts) -> Result<StreamSpec, BadSetting> {
        let mut spec = self.spec(old.streamlets, texts)?;
        let others = old.settings.iter().filter(|(name, _)| find(name).is_none());
        spec.settings.extend(others.map(|(name, text)| (name.clone(), text.clone())));
        Ok(spec)
    }

    /// The settings of a topic itself: those that clients set, and those its stream was made with.
    pub(crate) fn overrides(&self, spec: &StreamSpec) -> Texts {
        let mut texts = spec.settings.clone();
        texts.retain(|name, _| find(name).is_some());
        let said = self.spec(spec.streamlets, texts.clone()).unwrap_or_else(|_| self.spec.clone());
        for setting in TOPIC_SETTINGS {
            if let Field { get, .. } = setting.place
                && get(&said, self) != get(spec, self)
            {
                texts.insert(setting.name.to_owned(), get(spec, self));
            }
        }
        texts
    }
}

/// As Kafka has it, though no compaction goes by it.
fn check_lags(texts: &Texts) -> Result<(), BadSetting> {
    let lag = |name| texts.get(name).and_then(|it: &String| it.trim().parse::<i64>().ok());
    match (lag(MIN_LAG), lag(MAX_LAG)) {
        (Some(min), Some(max)) if min > max => {
            let why = format!("{min} is above `{MAX_LAG}`, {max}");
            Err(BadSetting { name: MIN_LAG.to_owned(), why })
        }
        _ => Ok(()),
    }
}

/// True if the records of a topic with these settings have the time of their append.
pub(crate) fn has_append_time(spec: &StreamSpec) -> bool {
    spec.settings.get("message.timestamp.type").is_some_and(|it| it == "LogAppendTime")
}

/// True if the records of a topic with these settings must have keys: the newest of each key is
/// kept.
#[must_use]
pub fn has_keys(spec: &StreamSpec) -> bool {
    spec.settings.get(CLEANUP).is_some_and(|it| value::parts(it).contains(&"compact"))
}

/// The consumer groups whose progress lets a topic's records go.
pub(crate) fn readers(spec: &StreamSpec) -> Vec<String> {
    let text = spec.settings.get(READERS).map_or("", String::as_str);
    value::parts(text).into_iter().map(str::to_owned).collect()
}
