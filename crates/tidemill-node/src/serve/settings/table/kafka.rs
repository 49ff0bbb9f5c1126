//! Settings of the Kafka side.

use super::{SWITCH, Setting};
use crate::serve::settings::value::{self, DAY_MS, SIZE_MAX, SPAN_MS_MAX};

/// Bounds of connections and requests.
pub(super) const LIMITS: &[Setting] = &[
    row!(
        "connections",
        "N",
        "max.connections",
        "Connections at once; one more is closed at once.",
        |s| s.broker.limits.connections.to_string(),
        |s, text| s.broker.limits.connections = value::number(text, 1..=1_000_000)?
    ),
    row!(
        "request-bytes",
        "SIZE",
        "socket.request.max.bytes",
        "Bytes of a request.",
        |s| s.broker.limits.request_bytes.to_string(),
        |s, text| s.broker.limits.request_bytes = value::size(text, 1 << 10, (1 << 31) - 1)?
    ),
    row!(
        "requests-bytes",
        "SIZE",
        "queued.max.request.bytes",
        "Bytes of all requests that are being received or answered.",
        |s| s.broker.limits.requests_bytes.to_string(),
        |s, text| s.broker.limits.requests_bytes = value::size(text, 1 << 20, SIZE_MAX)?
    ),
    row!(
        "in-flight",
        "N",
        "",
        "Requests of a connection that wait for their answer.",
        |s| s.broker.limits.in_flight.to_string(),
        |s, text| s.broker.limits.in_flight = value::number(text, 1..=10_000)?
    ),
    row!(
        "fetch-bytes",
        "SIZE",
        "fetch.max.bytes",
        "Bytes of one answer to a fetch.",
        |s| s.broker.limits.fetch_bytes.to_string(),
        |s, text| s.broker.limits.fetch_bytes = value::size(text, 1 << 10, 1 << 30)?
    ),
    row!(
        "fetch-sessions",
        "N",
        "max.incremental.fetch.session.cache.slots",
        "Fetch sessions.",
        |s| s.broker.limits.fetch_sessions.to_string(),
        |s, text| s.broker.limits.fetch_sessions = value::number(text, 0..=1_000_000)?
    ),
    row!(
        "transfer-time",
        "TIME",
        "",
        "A request must be whole this long after its first byte, and an answer taken.",
        |s| value::ms_text(s.broker.limits.transfer_ms),
        |s, text| s.broker.limits.transfer_ms = value::span_ms(text, 10, DAY_MS)?
    ),
    row!(
        "idle-time",
        "TIME",
        "connections.max.idle.ms",
        "A connection without requests is closed after this long.",
        |s| value::ms_text(s.broker.limits.idle_ms),
        |s, text| s.broker.limits.idle_ms = value::span_ms(text, 10, 365 * DAY_MS)?
    ),
    row!(
        "check-records",
        SWITCH,
        "",
        "The records in each batch are looked at before it is stored, not its head and checksum alone.",
        |s| s.broker.check_records.to_string(),
        |s, text| s.broker.check_records = value::truth(text)?
    ),
    row!(
        "inflated-bytes",
        "SIZE",
        "",
        "Bytes that a compressed batch may have when it is inflated.",
        |s| s.broker.limits.inflated_bytes.to_string(),
        |s, text| s.broker.limits.inflated_bytes = value::size(text, 1 << 10, 1 << 30)?
    ),
    row!(
        "answers-bytes",
        "SIZE",
        "",
        "Bytes of records in answers to fetches, and of other long answers, that are not sent yet.",
        |s| s.broker.limits.answers_bytes.to_string(),
        |s, text| s.broker.limits.answers_bytes = value::size(text, 1 << 20, SIZE_MAX)?
    ),
];

/// Consumer groups, producers, transactions.
pub(super) const GROUPS: &[Setting] = &[
    row!(
        "group-initial-delay",
        "TIME",
        "group.initial.rebalance.delay.ms",
        "How long the first members of a group wait for others.",
        |s| value::ms_text(s.broker.groups.initial_delay_ms),
        |s, text| s.broker.groups.initial_delay_ms = value::span_ms(text, 0, DAY_MS)?
    ),
    row!(
        "group-session-min",
        "TIME",
        "group.min.session.timeout.ms",
        "The shortest session that members may ask for.",
        |s| value::ms_text(s.broker.groups.session_ms_min),
        |s, text| s.broker.groups.session_ms_min = value::span_ms(text, 1, DAY_MS)?
    ),
    row!(
        "group-session-max",
        "TIME",
        "group.max.session.timeout.ms",
        "The longest session that members may ask for.",
        |s| value::ms_text(s.broker.groups.session_ms_max),
        |s, text| s.broker.groups.session_ms_max = value::span_ms(text, 1, DAY_MS)?
    ),
    row!(
        "group-members",
        "N",
        "group.max.size",
        "Members of a group.",
        |s| s.broker.groups.members.to_string(),
        |s, text| s.broker.groups.members = value::number(text, 1..=1_000_000)?
    ),
    row!(
        "group-bytes",
        "SIZE",
        "",
        "Bytes of a group: what its members say and are told.",
        |s| s.broker.groups.group_bytes.to_string(),
        |s, text| s.broker.groups.group_bytes = value::size(text, 1 << 10, 1 << 30)?
    ),
    row!(
        "groups",
        "N",
        "",
        "Consumer groups of the node, at most.",
        |s| s.broker.groups.groups.to_string(),
        |s, text| s.broker.groups.groups = value::number(text, 1..=10_000_000)?
    ),
    row!(
        "offsets",
        "N",
        "",
        "Committed offsets of all groups together.",
        |s| s.broker.groups.offsets.to_string(),
        |s, text| s.broker.groups.offsets = value::number(text, 1..=1_000_000_000)?
    ),
    row!(
        "offset-metadata-bytes",
        "N",
        "offset.metadata.max.bytes",
        "Bytes that a client may write to an offset.",
        |s| s.broker.groups.metadata_bytes.to_string(),
        |s, text| s.broker.groups.metadata_bytes = value::number(text, 0..=1_048_576)?
    ),
    row!(
        "offsets-retention",
        "TIME",
        "offsets.retention.minutes",
        "How long offsets of a group without members are kept, of the time that the node runs.",
        |s| value::ms_text(s.broker.groups.offsets_retention_ms),
        |s, text| s.broker.groups.offsets_retention_ms = value::span_ms(text, 1_000, SPAN_MS_MAX)?
    ),
    row!(
        "producers",
        "N",
        "",
        "Producers that a streamlet remembers, to know what they sent twice.",
        |s| s.broker.limits.producers.producers.to_string(),
        |s, text| s.broker.limits.producers.producers = value::number(text, 1..=1_000_000)?
    ),
    row!(
        "producer-idle-time",
        "TIME",
        "producer.id.expiration.ms",
        "A producer is forgotten this long after its last records.",
        |s| value::ms_text(s.broker.limits.producers.producer_idle_ms),
        |s, text| s.broker.limits.producers.producer_idle_ms =
            value::span_ms(text, 1_000, SPAN_MS_MAX)?
    ),
    row!(
        "transactional-ids",
        "N",
        "",
        "Transactional ids.",
        |s| s.broker.limits.transactions.ids.to_string(),
        |s, text| s.broker.limits.transactions.ids = value::number(text, 1..=10_000_000)?
    ),
    row!(
        "transaction-time-max",
        "TIME",
        "transaction.max.timeout.ms",
        "The longest time that a transaction may be open.",
        |s| value::ms_text(u64::try_from(s.broker.limits.transactions.timeout_ms_max).unwrap_or(0)),
        |s, text| s.broker.limits.transactions.timeout_ms_max = value::span_ms_i32(text)?
    ),
    row!(
        "transactional-id-idle-time",
        "TIME",
        "transactional.id.expiration.ms",
        "A transactional id is forgotten this long after its last request.",
        |s| value::ms_text(s.broker.limits.transactions.idle_ms),
        |s, text| s.broker.limits.transactions.idle_ms = value::span_ms(text, 1_000, SPAN_MS_MAX)?
    ),
];
