//! Settings of a topic under Kafka's names: what they may be, and where the log has them.
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

use crate::{fsync, settings::BrokerSettings};
use std::collections::BTreeMap;
use tidemill_log::{Fsync, Retention, StreamSpec};
use tidemill_types::{ByteSize, Span};

mod value;

pub(crate) use value::Kind;
use value::{bounded, one_of};

const READERS: &str = "tidemill.retention.groups";
const CLEANUP: &str = "cleanup.policy";
/// "No limit", as Kafka says it for many settings.
const UNLIMITED: &str = "9223372036854775807";

/// Settings that somebody chose, by name.
pub(crate) type Texts = BTreeMap<String, String>;

/// What a topic's settings are measured against.
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
    pub(crate) kind: Kind,
    /// The broker's setting that it is called by there.
    pub(crate) of_broker: Option<&'static str>,
    pub(crate) doc: &'static str,
    pub(crate) place: Place,
}

/// Where a setting lives, and what may stand there. Checks say what is possible.
pub(crate) enum Place {
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

use Place::{Field, Kept, Only, Used};

fn number(text: &str) -> Result<(), String> {
    bounded(text, 0, i64::MAX).map(drop)
}

fn unlimited_or_number(text: &str) -> Result<i64, String> {
    bounded(text, -1, i64::MAX)
}

/// All settings of topics.
pub(crate) const TOPIC_SETTINGS: &[TopicSetting] = &[
    TopicSetting {
        name: CLEANUP,
        kind: Kind::List,
        of_broker: Some("log.cleanup.policy"),
        doc: "What happens to old records. `delete`: retention. `compact`: nothing goes, and \
              records without a key are refused; compaction itself comes in a later version. \
              `compact,delete`: retention, with keys in all records.",
        place: Used { default: "delete", check: value::cleanup },
    },
    TopicSetting {
        name: "compression.type",
        kind: Kind::String,
        of_broker: Some("compression.type"),
        doc: "Batches are stored as producers compressed them.",
        place: Only { value: "producer", why: "batches are never compressed anew" },
    },
    TopicSetting {
        name: "delete.retention.ms",
        kind: Kind::Long,
        of_broker: None,
        doc: "Kept for compaction, which comes in a later version.",
        place: Kept { default: "86400000", check: number },
    },
    TopicSetting {
        name: "file.delete.delay.ms",
        kind: Kind::Long,
        of_broker: None,
        doc: "Kept and not used: files of deleted records are used again at once.",
        place: Kept { default: "60000", check: number },
    },
    TopicSetting {
        name: "flush.messages",
        kind: Kind::Long,
        of_broker: None,
        doc: "1: a batch is on the disk before it is acknowledged. It can make `tidemill.fsync` \
              stronger, never weaker, and does not count when that is set.",
        place: Used { default: UNLIMITED, check: |text| one_of(text, &["1", UNLIMITED]) },
    },
    TopicSetting {
        name: "flush.ms",
        kind: Kind::Long,
        of_broker: None,
        doc: "Records are on the disk at most this long after they were acknowledged. It can make \
              `tidemill.fsync` stronger, never weaker, and does not count when that is set.",
        place: Used { default: UNLIMITED, check: number },
    },
    TopicSetting {
        name: "follower.replication.throttled.replicas",
        kind: Kind::List,
        of_broker: None,
        doc: "Kept and not used: there is one replica.",
        place: Kept { default: "", check: value::short },
    },
    TopicSetting {
        name: "index.interval.bytes",
        kind: Kind::Int,
        of_broker: None,
        doc: "Kept and not used: there is no index by record.",
        place: Kept { default: "4096", check: number },
    },
    TopicSetting {
        name: "leader.replication.throttled.replicas",
        kind: Kind::List,
        of_broker: None,
        doc: "Kept and not used: there is one replica.",
        place: Kept { default: "", check: value::short },
    },
    TopicSetting {
        name: "max.compaction.lag.ms",
        kind: Kind::Long,
        of_broker: None,
        doc: "Kept for compaction, which comes in a later version.",
        place: Kept { default: UNLIMITED, check: number },
    },
    TopicSetting {
        name: "max.message.bytes",
        kind: Kind::Int,
        of_broker: Some("message.max.bytes"),
        doc: "Bytes of the largest batch that is taken, as it is sent: 1024 to 1073741824.",
        place: Field {
            get: |spec, _| spec.max_chunk_bytes.0.to_string(),
            set: |spec, text| {
                spec.max_chunk_bytes = ByteSize(value::size(text, 1 << 10, 1 << 30)?);
                Ok(())
            },
        },
    },
    TopicSetting {
        name: "message.timestamp.after.max.ms",
        kind: Kind::Long,
        of_broker: None,
        doc: "Timestamps are not compared with the broker's clock.",
        place: Only { value: UNLIMITED, why: "any timestamp is taken" },
    },
    TopicSetting {
        name: "message.timestamp.before.max.ms",
        kind: Kind::Long,
        of_broker: None,
        doc: "Timestamps are not compared with the broker's clock.",
        place: Only { value: UNLIMITED, why: "any timestamp is taken" },
    },
    TopicSetting {
        name: "message.timestamp.type",
        kind: Kind::String,
        of_broker: Some("log.message.timestamp.type"),
        doc: "`CreateTime`: records keep their producer's timestamps. `LogAppendTime`: they have \
              the broker's, of the moment of their append.",
        place: Used {
            default: "CreateTime",
            check: |text| one_of(text, &["CreateTime", "LogAppendTime"]),
        },
    },
    TopicSetting {
        name: "min.cleanable.dirty.ratio",
        kind: Kind::Double,
        of_broker: None,
        doc: "Kept for compaction, which comes in a later version.",
        place: Kept { default: "0.5", check: value::ratio },
    },
    TopicSetting {
        name: "min.compaction.lag.ms",
        kind: Kind::Long,
        of_broker: None,
        doc: "Kept for compaction, which comes in a later version.",
        place: Kept { default: "0", check: number },
    },
    TopicSetting {
        name: "min.insync.replicas",
        kind: Kind::Int,
        of_broker: Some("min.insync.replicas"),
        doc: "There is one replica, and it is in sync.",
        place: Only { value: "1", why: "this node is the only replica" },
    },
    TopicSetting {
        name: "preallocate",
        kind: Kind::Boolean,
        of_broker: None,
        doc: "Kept and not used: space for files is always reserved before it is written to.",
        place: Kept { default: "true", check: |text| one_of(text, &["true", "false"]) },
    },
    TopicSetting {
        name: "remote.storage.enable",
        kind: Kind::Boolean,
        of_broker: None,
        doc: "There is no remote storage yet.",
        place: Only { value: "false", why: "remote storage comes in a later version" },
    },
    TopicSetting {
        name: "retention.bytes",
        kind: Kind::Long,
        of_broker: Some("log.retention.bytes"),
        doc: "Bytes of each partition that are always kept; older segments go. -1: no limit.",
        place: Field {
            get: |spec, _| spec.retention.bytes.map_or("-1".into(), |it| it.0.to_string()),
            set: |spec, text| {
                let bytes = u64::try_from(unlimited_or_number(text)?).ok().map(ByteSize);
                spec.retention = Retention { bytes, ..spec.retention };
                Ok(())
            },
        },
    },
    TopicSetting {
        name: "retention.ms",
        kind: Kind::Long,
        of_broker: Some("log.retention.ms"),
        doc: "How long records are kept after their append by the broker's clock, whatever \
              timestamps they have. -1: for ever.",
        place: Field {
            get: |spec, _| spec.retention.time.map_or("-1".into(), |it| (it.0 / 1_000).to_string()),
            set: |spec, text| {
                let ms = unlimited_or_number(text)?;
                let time = (ms >= 0).then(|| Span(ms.saturating_mul(1_000)));
                spec.retention = Retention { time, ..spec.retention };
                Ok(())
            },
        },
    },
    TopicSetting {
        name: "segment.bytes",
        kind: Kind::Int,
        of_broker: Some("log.segment.bytes"),
        doc: "Bytes of a segment's file: 65536 to 1073741824. Retention goes by whole segments.",
        place: Field {
            get: |spec, _| spec.segment_bytes.0.to_string(),
            set: |spec, text| {
                spec.segment_bytes = ByteSize(value::size(text, 64 << 10, 1 << 30)?);
                Ok(())
            },
        },
    },
    TopicSetting {
        name: "segment.index.bytes",
        kind: Kind::Int,
        of_broker: None,
        doc: "Kept and not used: there is no index by record.",
        place: Kept { default: "10485760", check: number },
    },
    TopicSetting {
        name: "segment.jitter.ms",
        kind: Kind::Long,
        of_broker: None,
        doc: "Kept and not used: segments end by size, and when retention needs it.",
        place: Kept { default: "0", check: number },
    },
    TopicSetting {
        name: "segment.ms",
        kind: Kind::Long,
        of_broker: None,
        doc: "Kept and not used: segments end by size, and when retention needs it.",
        place: Kept { default: "604800000", check: number },
    },
    TopicSetting {
        name: "tidemill.active.groups",
        kind: Kind::Int,
        of_broker: Some("tidemill.active.groups"),
        doc: "Groups of segments of each partition that are appended to at once, by different \
              producers: 1 to 64.",
        place: Field {
            get: |spec, _| spec.active_groups.to_string(),
            set: |spec, text| {
                spec.active_groups = value::count(text, 1, 64)?;
                Ok(())
            },
        },
    },
    TopicSetting {
        name: "tidemill.fsync",
        kind: Kind::String,
        of_broker: Some("tidemill.fsync"),
        doc: "When a batch is acknowledged to producers that ask for all replicas, and visible: \
              `always`, when it is on the disk; an interval such as `10ms`, when it is written, \
              with a sync that often; `os`, when it is written.",
        place: Field {
            get: |spec, defaults| fsync::text(spec.fsync.unwrap_or(defaults.fsync)),
            set: |spec, text| {
                spec.fsync = Some(fsync::parse(text)?);
                Ok(())
            },
        },
    },
    TopicSetting {
        name: READERS,
        kind: Kind::List,
        of_broker: None,
        doc: "Consumer groups, with commas between them. Segments below the offsets that all of \
              them committed go, whatever their age; retention by time and bytes goes on beside it.",
        place: Used { default: "", check: value::groups },
    },
    TopicSetting {
        name: "unclean.leader.election.enable",
        kind: Kind::Boolean,
        of_broker: Some("unclean.leader.election.enable"),
        doc: "A replica that lacks acknowledged records never leads.",
        place: Only { value: "false", why: "acknowledged records are not given up" },
    },
];

/// The setting of a name.
pub(crate) fn find(name: &str) -> Option<&'static TopicSetting> {
    TOPIC_SETTINGS.iter().find(|it| it.name == name)
}

impl Defaults {
    pub(crate) fn of(settings: &BrokerSettings, fsync: Fsync) -> Self {
        Self { spec: settings.topic_defaults.clone(), fsync }
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
        spec.compacted = texts.get(CLEANUP).is_some_and(|it| value::parts(it) == ["compact"]);
        spec.settings = texts;
        Ok(spec)
    }

    /// What `flush.messages` and `flush.ms` make of a topic's fsync: nothing weaker.
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

    /// What a topic says by itself: what clients set, and what its stream was made with.
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

/// Whether the records of a topic with these settings have the time of their append.
pub(crate) fn has_append_time(spec: &StreamSpec) -> bool {
    spec.settings.get("message.timestamp.type").is_some_and(|it| it == "LogAppendTime")
}

/// Whether the records of a topic with these settings must have keys.
pub(crate) fn has_keys(spec: &StreamSpec) -> bool {
    spec.settings.get(CLEANUP).is_some_and(|it| value::parts(it).contains(&"compact"))
}

/// The consumer groups whose progress lets a topic's records go.
pub(crate) fn readers(spec: &StreamSpec) -> Vec<String> {
    let text = spec.settings.get(READERS).map_or("", String::as_str);
    value::parts(text).into_iter().map(str::to_owned).collect()
}
