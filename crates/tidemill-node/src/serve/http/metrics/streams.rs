//! Figures of each stream, and of the groups that read them.

use super::{
    Page,
    series::{Figure, Labels, SERIES_MAX, gauge},
};
use std::sync::Arc;
use tidemill_broker::{GroupLag, GroupLags};
use tidemill_log::Stream;

#[cfg(test)]
mod tests;

/// A group whose name is longer has no figures: names may have 32 KiB.
const GROUP_BYTES_MAX: usize = 256;

const STREAM: &[Figure<u64>] =
    &[gauge("log_stream_bytes", "Bytes of the stream's segments", |it| *it as f64)];

const STREAMLET: &[Figure<i64>] =
    &[gauge("log_stream_end_offset", "The offset after the last that counts", |it| *it as f64)];

const GROUP: &[Figure<GroupLag>] = &[gauge(
    "kafka_group_lag_offsets",
    "Offsets from those that the group has committed to the end of the stream",
    |it| it.offsets as f64,
)];

/// The figures of streams, in the order of their names, as far as they fit.
pub(super) fn streams(page: &mut Page, streams: &[Arc<Stream>]) {
    let (mut of_streams, mut of_streamlets) = (Vec::new(), Vec::new());
    let mut left_out = 0;
    for stream in streams {
        let streamlets = stream.streamlets();
        if of_streams.len() + of_streamlets.len() + 1 + streamlets.len() > SERIES_MAX {
            left_out += 1;
            continue;
        }
        let labels: Labels = vec![("stream", stream.name().to_owned())];
        for it in &streamlets {
            let mut labels = labels.clone();
            labels.push(("streamlet", it.index().to_string()));
            of_streamlets.push((labels, it.high_watermark()));
        }
        of_streams.push((labels, streamlets.iter().map(|it| it.bytes()).sum::<u64>()));
    }
    page.series(STREAM, &of_streams);
    page.series(STREAMLET, &of_streamlets);
    let help = "Streams without figures of their own on this page, as it has so many";
    page.gauge("log_stream_left_out", help, f64::from(left_out));
}

/// The lag of groups.
pub(super) fn groups(page: &mut Page, found: GroupLags) {
    let GroupLags { lags, mut left_out, groups } = found;
    page.gauge("kafka_groups", "Consumer groups", groups as f64);
    let before = lags.len();
    let short = lags.into_iter().filter(|it| it.group.len() <= GROUP_BYTES_MAX);
    let labelled = |it: GroupLag| {
        let labels: Labels = vec![("group", it.group.clone()), ("stream", it.stream.clone())];
        (labels, it)
    };
    let shown: Vec<_> = short.map(labelled).collect();
    left_out += before - shown.len();
    page.series(GROUP, &shown);
    let help = "Groups' streams without a figure on this page, as it has so many";
    page.gauge("kafka_group_lag_left_out", help, left_out as f64);
}
