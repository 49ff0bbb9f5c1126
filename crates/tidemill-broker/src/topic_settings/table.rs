//! The table of all settings that topics have, by name.
//!
//! Settings of Kafka that mean nothing here are accepted if ignoring them harms nobody: tools copy
//! them from one cluster to another, and stop at a refusal. A setting whose promise would be broken
//! takes no value but ours.

use super::{
    CLEANUP, MAX_LAG, MIN_LAG, READERS, SettingPlace, TopicSetting,
    value::{self, SettingType, bounded, one_of},
};
use crate::fsync;
use SettingPlace::{Field, Kept, Only, Used};
use tidemill_log::Retention;
use tidemill_types::{ByteSize, Span};

/// "No limit", as Kafka says it for many settings.
const UNLIMITED: &str = "9223372036854775807";
/// The largest number of 32 bits.
const INT_MAX: i64 = i32::MAX as i64;

fn number(text: &str) -> Result<(), String> {
    bounded(text, 0, i64::MAX).map(drop)
}

/// Checks a codec: those of Kafka, `uncompressed` and `producer`.
fn codec(text: &str) -> Result<(), String> {
    one_of(text, &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
}

fn boolean(text: &str) -> Result<(), String> {
    one_of(text, &["true", "false"])
}

/// -2: as it is without "local".
fn local(text: &str) -> Result<(), String> {
    bounded(text, -2, i64::MAX).map(drop)
}

fn unlimited_or_number(text: &str) -> Result<i64, String> {
    bounded(text, -1, i64::MAX)
}

/// All settings of topics.
pub(crate) const TOPIC_SETTINGS: &[TopicSetting] = &[
    TopicSetting {
        name: CLEANUP,
        kind: SettingType::List,
        of_broker: Some("log.cleanup.policy"),
        doc: "What happens to old records. `delete`: retention. `compact`: nothing goes, and \
              records without a key are refused; compaction itself comes in a later version. \
              `compact,delete`: retention, with keys in all records. Empty: nothing goes.",
        place: Used { default: "delete", check: value::cleanup },
    },
    TopicSetting {
        name: "compression.gzip.level",
        kind: SettingType::Int,
        of_broker: None,
        doc: "Kept and not used: batches are never compressed anew.",
        place: Kept { default: "-1", check: value::gzip_level },
    },
    TopicSetting {
        name: "compression.lz4.level",
        kind: SettingType::Int,
        of_broker: None,
        doc: "Kept and not used: batches are never compressed anew.",
        place: Kept { default: "9", check: |text| bounded(text, 1, 17).map(drop) },
    },
    TopicSetting {
        name: "compression.type",
        kind: SettingType::String,
        of_broker: Some("compression.type"),
        doc: "Kept and not used: batches are stored and sent as producers compressed them, whatever it says.",
        place: Kept { default: "producer", check: codec },
    },
    TopicSetting {
        name: "compression.zstd.level",
        kind: SettingType::Int,
        of_broker: None,
        doc: "Kept and not used: batches are never compressed anew.",
        place: Kept { default: "3", check: |text| bounded(text, -131_072, 22).map(drop) },
    },
    TopicSetting {
        name: "delete.retention.ms",
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept for compaction, which comes in a later version.",
        place: Kept { default: "86400000", check: number },
    },
    TopicSetting {
        name: "file.delete.delay.ms",
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept and not used: files of deleted records are used again at once.",
        place: Kept { default: "60000", check: number },
    },
    TopicSetting {
        name: "flush.messages",
        kind: SettingType::Long,
        of_broker: None,
        doc: "1: a batch is on the disk before it is acknowledged. It can make `tidemill.fsync` \
              stronger, never weaker, and does not count when that is set.",
        place: Used { default: UNLIMITED, check: |text| one_of(text, &["1", UNLIMITED]) },
    },
    TopicSetting {
        name: "flush.ms",
        kind: SettingType::Long,
        of_broker: None,
        doc: "Records are on the disk at most this long after they were acknowledged. It can make \
              `tidemill.fsync` stronger, never weaker, and does not count when that is set.",
        place: Used { default: UNLIMITED, check: number },
    },
    TopicSetting {
        name: "follower.replication.throttled.replicas",
        kind: SettingType::List,
        of_broker: None,
        doc: "Kept and not used: there is one replica.",
        place: Kept { default: "", check: value::replicas },
    },
    TopicSetting {
        name: "index.interval.bytes",
        kind: SettingType::Int,
        of_broker: None,
        doc: "Kept and not used: there is no index by record.",
        place: Kept { default: "4096", check: |text| bounded(text, 0, INT_MAX).map(drop) },
    },
    TopicSetting {
        name: "leader.replication.throttled.replicas",
        kind: SettingType::List,
        of_broker: None,
        doc: "Kept and not used: there is one replica.",
        place: Kept { default: "", check: value::replicas },
    },
    TopicSetting {
        name: "local.retention.bytes",
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept and not used: there is no remote storage yet.",
        place: Kept { default: "-2", check: local },
    },
    TopicSetting {
        name: "local.retention.ms",
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept and not used: there is no remote storage yet.",
        place: Kept { default: "-2", check: local },
    },
    TopicSetting {
        name: MAX_LAG,
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept for compaction, which comes in a later version. Not below `min.compaction.lag.ms`.",
        place: Kept { default: UNLIMITED, check: |text| bounded(text, 1, i64::MAX).map(drop) },
    },
    TopicSetting {
        name: "max.message.bytes",
        kind: SettingType::Int,
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
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept and not used: any timestamp is taken. Retention goes by the time of the append.",
        place: Kept { default: UNLIMITED, check: number },
    },
    TopicSetting {
        name: "message.timestamp.before.max.ms",
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept and not used: any timestamp is taken. Retention goes by the time of the append.",
        place: Kept { default: UNLIMITED, check: number },
    },
    TopicSetting {
        name: "message.timestamp.type",
        kind: SettingType::String,
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
        kind: SettingType::Double,
        of_broker: None,
        doc: "Kept for compaction, which comes in a later version.",
        place: Kept { default: "0.5", check: value::ratio },
    },
    TopicSetting {
        name: MIN_LAG,
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept for compaction, which comes in a later version.",
        place: Kept { default: "0", check: number },
    },
    TopicSetting {
        name: "min.insync.replicas",
        kind: SettingType::Int,
        of_broker: Some("min.insync.replicas"),
        doc: "There is one replica, and it is in sync.",
        place: Only { value: "1", why: "this node is the only replica" },
    },
    TopicSetting {
        name: "preallocate",
        kind: SettingType::Boolean,
        of_broker: None,
        doc: "Kept and not used: space for files is always reserved before it is written to.",
        place: Kept { default: "true", check: boolean },
    },
    TopicSetting {
        name: "remote.log.copy.disable",
        kind: SettingType::Boolean,
        of_broker: None,
        doc: "Kept and not used: there is no remote storage yet.",
        place: Kept { default: "false", check: boolean },
    },
    TopicSetting {
        name: "remote.log.delete.on.disable",
        kind: SettingType::Boolean,
        of_broker: None,
        doc: "Kept and not used: there is no remote storage yet.",
        place: Kept { default: "false", check: boolean },
    },
    TopicSetting {
        name: "remote.storage.enable",
        kind: SettingType::Boolean,
        of_broker: None,
        doc: "There is no remote storage yet.",
        place: Only { value: "false", why: "remote storage comes in a later version" },
    },
    TopicSetting {
        name: "retention.bytes",
        kind: SettingType::Long,
        of_broker: Some("log.retention.bytes"),
        doc: "Bytes of each partition that are always kept; older segments go. Below 0: no limit.",
        place: Field {
            get: |spec, _| spec.retention.bytes.map_or("-1".into(), |it| it.0.to_string()),
            set: |spec, text| {
                // Kafka takes any negative number for no limit.
                let bytes = u64::try_from(bounded(text, i64::MIN, i64::MAX)?).ok().map(ByteSize);
                spec.retention = Retention { bytes, ..spec.retention };
                Ok(())
            },
        },
    },
    TopicSetting {
        name: "retention.ms",
        kind: SettingType::Long,
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
        kind: SettingType::Int,
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
        kind: SettingType::Int,
        of_broker: None,
        doc: "Kept and not used: there is no index by record.",
        place: Kept { default: "10485760", check: |text| bounded(text, 4, INT_MAX).map(drop) },
    },
    TopicSetting {
        name: "segment.jitter.ms",
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept and not used: segments end by size, and when retention needs it.",
        place: Kept { default: "0", check: number },
    },
    TopicSetting {
        name: "segment.ms",
        kind: SettingType::Long,
        of_broker: None,
        doc: "Kept and not used: segments end by size, and when retention needs it.",
        place: Kept { default: "604800000", check: |text| bounded(text, 1, i64::MAX).map(drop) },
    },
    TopicSetting {
        name: "tidemill.active.groups",
        kind: SettingType::Int,
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
        kind: SettingType::String,
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
        kind: SettingType::List,
        of_broker: None,
        doc: "Consumer groups, with commas between them. Segments below the offsets that all of \
              them committed go, whatever their age; retention by time and bytes goes on beside it.",
        place: Used { default: "", check: value::groups },
    },
    TopicSetting {
        name: "unclean.leader.election.enable",
        kind: SettingType::Boolean,
        of_broker: Some("unclean.leader.election.enable"),
        doc: "Kept and not used: there is one replica, so none that lacks acknowledged records ever leads.",
        place: Kept { default: "false", check: boolean },
    },
];
