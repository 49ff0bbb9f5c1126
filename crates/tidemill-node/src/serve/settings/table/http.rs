//! Settings of the HTTP side.

use super::Setting;
use crate::serve::settings::value::{self, DAY_MS, SIZE_MAX};

/// Bounds of the HTTP side.
pub(super) const LIMITS: &[Setting] = &[
    row!(
        "http-connections",
        "N",
        "",
        "Connections at once; one more is closed at once.",
        |s| s.http.connections.to_string(),
        |s, text| s.http.connections = value::number(text, 1..=1_000_000)?
    ),
    row!(
        "http-body-bytes",
        "SIZE",
        "",
        "Bytes of a request's body, inflated; at most a quarter of `http-bodies-bytes`.",
        |s| s.http.body_bytes.to_string(),
        |s, text| s.http.body_bytes = value::size(text, 1 << 10, 1 << 30)?
    ),
    row!(
        "http-bodies-bytes",
        "SIZE",
        "",
        "Bytes of all bodies that are being received or answered.",
        |s| s.http.bodies_bytes.to_string(),
        |s, text| s.http.bodies_bytes = value::size(text, 1 << 20, SIZE_MAX)?
    ),
    row!(
        "http-transfer-time",
        "TIME",
        "",
        "A body must be whole this long after its head, and a second more for each 64 KiB of it; an answer waits so long for its reader to take more of it.",
        |s| s.http.transfer_time.to_string(),
        |s, text| s.http.transfer_time = value::span(text, 10, DAY_MS)?
    ),
    row!(
        "http-idle-time",
        "TIME",
        "",
        "A connection is closed this long after its last answer, if no other head is whole by then.",
        |s| s.http.idle_time.to_string(),
        |s, text| s.http.idle_time = value::span(text, 10, DAY_MS)?
    ),
];
