//! Settings of streams and of where they are kept.

use super::{SWITCH, Setting};
use crate::serve::settings::value::{self, DAY_MS, SIZE_MAX};
use tidemill_broker::fsync;

/// Of streams that do not say otherwise.
pub(super) const STREAMS: &[Setting] = &[
    row!(
        "fsync",
        "WHEN",
        "log.flush.interval.messages",
        "When an append is acknowledged: `always` when it is on the disk, `os` when the operating system has it, `10ms` the same but synced that often.",
        |s| fsync::text(s.log.fsync),
        |s, text| s.log.fsync = fsync::parse(text)?
    ),
    row!(
        "auto-create",
        SWITCH,
        "auto.create.topics.enable",
        "Kafka clients that ask for a stream that is not there make it; `tidemill stream` does not.",
        |s| s.broker.auto_create.to_string(),
        |s, text| s.broker.auto_create = value::truth(text)?
    ),
    row!(
        "streamlets",
        "N",
        "num.partitions",
        "Streamlets (partitions).",
        |s| s.broker.partitions.to_string(),
        |s, text| s.broker.partitions = value::number(text, 1..=100_000)?
    ),
    row!(
        "active-groups",
        "N",
        "",
        "Groups of a streamlet that are appended to at once.",
        |s| s.log.defaults.active_groups.to_string(),
        |s, text| s.log.defaults.active_groups = value::number(text, 1..=64)?
    ),
    row!(
        "segment-bytes",
        "SIZE",
        "log.segment.bytes",
        "Length of a segment file.",
        |s| s.log.defaults.segment_bytes.to_string(),
        |s, text| s.log.defaults.segment_bytes = value::size(text, 64 << 10, 1 << 30)?
    ),
    row!(
        "max-chunk-bytes",
        "SIZE",
        "message.max.bytes",
        "The largest chunk (record batch) that is taken.",
        |s| s.log.defaults.max_chunk_bytes.to_string(),
        |s, text| s.log.defaults.max_chunk_bytes = value::size(text, 1 << 10, 1 << 30)?
    ),
    row!(
        "retention-time",
        "TIME",
        "log.retention.ms",
        "Records are removed this long after they were appended; `none`: never.",
        |s| value::none_text(s.log.defaults.retention.time),
        |s, text| s.log.defaults.retention.time = value::or_none(text, value::retention_time)?
    ),
    row!(
        "retention-bytes",
        "SIZE",
        "log.retention.bytes",
        "So much of each streamlet is kept, and older segments are removed; `none`: no limit.",
        |s| value::none_text(s.log.defaults.retention.bytes),
        |s, text| s.log.defaults.retention.bytes =
            value::or_none(text, |it| value::size(it, 0, SIZE_MAX))?
    ),
];

/// Of the log.
pub(super) const STORAGE: &[Setting] = &[
    row!(
        "memory",
        "SIZE",
        "",
        "Appended bytes that are kept in memory for readers.",
        |s| s.log.memory_bytes.to_string(),
        |s, text| s.log.memory_bytes = value::size(text, 0, SIZE_MAX)?
    ),
    row!(
        "read-ahead",
        "SIZE",
        "",
        "How much a reader of older data reads from the disk at once.",
        |s| s.log.read_ahead_bytes.to_string(),
        |s, text| s.log.read_ahead_bytes = value::size(text, 4 << 10, 64 << 20)?
    ),
    row!(
        "recycled",
        "SIZE",
        "",
        "Emptied segment files that are kept to be used again.",
        |s| s.log.recycled_bytes.to_string(),
        |s, text| s.log.recycled_bytes = value::size(text, 0, SIZE_MAX)?
    ),
    row!(
        "group-segments",
        "N",
        "",
        "Segments in a group.",
        |s| s.log.group_segments.to_string(),
        |s, text| s.log.group_segments = value::number(text, 1..=1_024)?
    ),
    row!(
        "sync-threads",
        "N",
        "",
        "Threads that sync files.",
        |s| s.log.sync_threads.to_string(),
        |s, text| s.log.sync_threads = value::number(text, 1..=64)?
    ),
    row!(
        "sync-together",
        "N",
        "",
        "From so many files on that wait for a sync, they are synced by one call for the whole file system, if that is faster; 0: never.",
        |s| s.log.sync_together_min.to_string(),
        |s, text| s.log.sync_together_min = value::number(text, 0..=1_000_000)?
    ),
    row!(
        "retention-every",
        "TIME",
        "log.retention.check.interval.ms",
        "How often there is a look for records to remove.",
        |s| s.retention_every.to_string(),
        |s, text| s.retention_every = value::span(text, 100, DAY_MS)?
    ),
    row!(
        "streamlets-max",
        "N",
        "",
        "Streamlets over all streams; more are refused.",
        |s| s.log.streamlets_max.to_string(),
        |s, text| s.log.streamlets_max = value::number(text, 1..=10_000_000)?
    ),
    row!(
        "journal",
        "HOW",
        "",
        "How segments are written: `write`, a call for each chunk, or `map`, a copy into a memory map; with `map` a disk that fails may end the process, and file systems that copy on write are not for it.",
        |s| value::journal_text(s.log.journal),
        |s, text| s.log.journal = value::journal(text)?
    ),
];
