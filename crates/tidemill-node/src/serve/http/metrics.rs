//! `GET /metrics`: the figures of a node, in the text form of OpenMetrics, which Prometheus reads.
//!
//! Figures are taken when they are asked for: nothing here counts on the way of a record, but for
//! the counters of [`HttpCounts`].

use super::{append::blocking, problem::Problem, state::HttpState, states};
use crate::serve::open_files;
use axum::{
    extract::State as Shared,
    http::header,
    response::{IntoResponse, Response},
};
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text::encode},
    metrics::{MetricType, counter::Counter, gauge::Gauge, info::Info},
    registry::Registry,
};
use series::SERIES_MAX;
use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tidemill_log::SyncFigures;

mod cluster;
mod jobs;
mod series;
mod streams;
#[cfg(test)]
mod tests;

/// Counters of the HTTP side.
#[derive(Debug, Default)]
pub(super) struct HttpCounts {
    pub(super) connections: AtomicU64,
    pub(super) connections_refused: AtomicU64,
    /// Requests that wait for records.
    pub(super) waiting: AtomicU64,
    pub(super) requests: AtomicU64,
    /// Requests that were answered with 400 to 499.
    pub(super) refused: AtomicU64,
    /// Requests that were answered with 500 or more.
    pub(super) failed: AtomicU64,
    /// Requests by a name that is not the node's, or from pages of another origin.
    pub(super) foreign: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) body_bytes: AtomicU64,
    pub(super) answer_bytes: AtomicU64,
    pub(super) written_records: AtomicU64,
    pub(super) read_records: AtomicU64,
}

/// Something that is counted while it lasts.
pub(super) struct Lasting {
    counts: Arc<HttpCounts>,
    which: fn(&HttpCounts) -> &AtomicU64,
}

impl Lasting {
    pub(super) fn new(counts: &Arc<HttpCounts>, which: fn(&HttpCounts) -> &AtomicU64) -> Self {
        which(counts).fetch_add(1, Ordering::Relaxed);
        Self { counts: Arc::clone(counts), which }
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        (self.which)(&self.counts).fetch_sub(1, Ordering::Relaxed);
    }
}

/// A page that is longer is charged as other answers are. One of this length is given also when the
/// node has no memory left for answers.
const SMALL_BYTES: usize = 256 << 10;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(Shared(state): Shared<Arc<HttpState>>) -> Result<Response, Problem> {
    let turn = state.turn_to_show().await?;
    let of = Arc::clone(&state);
    let (text, turn) = blocking(move || (text(&of), turn)).await?;
    if text.len() > SMALL_BYTES {
        return states::sent(&state, OPEN_METRICS, (text.into_bytes(), turn)).await;
    }
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

/// A page of figures that is being made.
struct Page(Registry);

impl Page {
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        self.0.register(name, help, counter);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        self.0.register(name, help, gauge);
    }
}

/// Durations by class, as a histogram.
#[derive(Debug)]
struct Spread(SyncFigures);

impl EncodeMetric for Spread {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = self.0.classes.iter().map(|(us, count)| (*us as f64 / 1e6, *count));
        let classes: Vec<(f64, u64)> = bounds.chain([(f64::INFINITY, self.0.longer)]).collect();
        let sum = self.0.total_us as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(sum, self.0.count(), &classes, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

fn text(state: &HttpState) -> String {
    let mut page = Page(Registry::with_prefix("tidemill"));
    let labels = vec![("version", env!("CARGO_PKG_VERSION"))];
    page.0.register("build", "What was built", Info::new(labels));
    kafka(state, &mut page);
    http(&state.counts, &mut page);
    log(state, &mut page);
    streams::streams(&mut page, &state.log.list());
    jobs::jobs(&mut page, &state.jobs.list(), state.world.clock.wall_micros());
    if let Some(it) = &state.cluster {
        cluster::cluster(&mut page, it);
    }
    process(state, &mut page);
    let mut text = String::new();
    match encode(&mut text, &page.0) {
        Ok(()) => text,
        // Writing to a string cannot fail; and a page without its end is refused by its reader.
        Err(_) => String::new(),
    }
}

fn kafka(state: &HttpState, page: &mut Page) {
    let it = state.broker.figures();
    page.gauge("kafka_connections", "Kafka connections that are open", it.connections as f64);
    page.counter(
        "kafka_connections_refused",
        "Kafka connections that were closed because there were too many",
        it.connections_refused,
    );
    page.counter(
        "kafka_connections_hostile",
        "Kafka connections that were closed for what they sent or did not take",
        it.connections_hostile,
    );
    page.counter("kafka_requests", "Requests of Kafka clients", it.requests);
    page.counter("kafka_produced_bytes", "Bytes of chunks from Kafka producers", it.produced_bytes);
    page.counter("kafka_produced_records", "Records from Kafka producers", it.produced_records);
    page.counter("kafka_fetched_bytes", "Bytes of chunks to Kafka consumers", it.fetched_bytes);
    page.counter("kafka_fetched_records", "Records to Kafka consumers", it.fetched_records);
    streams::groups(page, state.broker.group_lags(SERIES_MAX));
}

fn http(counts: &HttpCounts, page: &mut Page) {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let open = of(&counts.connections) as f64;
    page.gauge("http_connections", "HTTP connections that are open", open);
    let waiting = of(&counts.waiting) as f64;
    page.gauge("http_readers_waiting", "HTTP requests that wait for records", waiting);
    for (name, help, count) in [
        (
            "http_connections_refused",
            "HTTP connections that were closed because there were too many",
            &counts.connections_refused,
        ),
        ("http_requests", "HTTP requests", &counts.requests),
        ("http_requests_refused", "HTTP requests answered with 400 to 499", &counts.refused),
        ("http_requests_failed", "HTTP requests answered with 500 or more", &counts.failed),
        (
            "http_requests_foreign",
            "HTTP requests by a name or from an origin that is not the node's",
            &counts.foreign,
        ),
        ("http_received_bytes", "Bytes from HTTP clients", &counts.received_bytes),
        ("http_sent_bytes", "Bytes to HTTP clients", &counts.sent_bytes),
        ("http_body_bytes", "Bytes of HTTP bodies, as they came", &counts.body_bytes),
        ("http_answer_bytes", "Bytes of records to HTTP clients", &counts.answer_bytes),
        ("http_written_records", "Records written over HTTP", &counts.written_records),
        ("http_read_records", "Records read over HTTP", &counts.read_records),
    ] {
        page.counter(name, help, of(count));
    }
}

fn log(state: &HttpState, page: &mut Page) {
    let streams = state.log.list();
    let (mut streamlets, mut failed, mut bytes, mut segments) = (0_u64, 0_u64, 0, 0);
    let (mut acknowledged, mut waiting) = (0_i64, 0_i64);
    for streamlet in streams.iter().flat_map(|it| it.streamlets()) {
        streamlets += 1;
        failed += u64::from(streamlet.failure().is_some());
        bytes += streamlet.bytes();
        segments += streamlet.segment_count();
        let watermark = streamlet.high_watermark();
        acknowledged += watermark;
        waiting += streamlet.end_offset() - watermark;
    }
    page.gauge("log_streams", "Streams", streams.len() as f64);
    page.gauge("log_streamlets", "Streamlets", streamlets as f64);
    page.gauge("log_streamlets_failed", "Streamlets that take no appends", failed as f64);
    page.gauge("log_segments", "Segments with data", segments as f64);
    page.gauge("log_bytes", "Bytes of segments on the disk", bytes as f64);
    page.gauge("log_offsets", "Offsets that were given and count", acknowledged as f64);
    page.gauge(
        "log_offsets_waiting",
        "Offsets that were given and do not count yet",
        waiting as f64,
    );
    let (memory, pool) = state.log.kept_bytes();
    page.gauge("log_memory_bytes", "Appended bytes kept in memory for readers", memory as f64);
    page.gauge("log_recycled_bytes", "Emptied segment files kept to be used again", pool as f64);
    page.gauge(
        "log_findings",
        "What opening the log found wrong",
        state.log.findings().len() as f64,
    );
    let syncs = Spread(state.log.sync_figures());
    page.0.register("log_sync_seconds", "How long syncs of files took", syncs);
    if let Ok(space) = state.world.disk.space(state.log.folder()) {
        page.gauge("disk_bytes", "Size of the data's file system", space.total_bytes as f64);
        page.gauge("disk_free_bytes", "Bytes that are free on it", space.free_bytes as f64);
    }
}

fn process(state: &HttpState, page: &mut Page) {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu = Counter::<f64, AtomicU64>::default();
    cpu.inc_by(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9);
    page.0.register("process_cpu_seconds", "CPU time of all threads", cpu);
    let disk = &*state.world.disk;
    let status = disk.read(Path::new("/proc/self/status"));
    if let Some(resident) = status.ok().and_then(|text| resident_bytes(&text)) {
        page.gauge("process_resident_memory_bytes", "Memory of the process", resident as f64);
    }
    if let Ok(files) = disk.list(Path::new("/proc/self/fd")) {
        page.gauge("process_open_fds", "Open files and sockets", files.len() as f64);
    }
    if let Some(limit) = open_files::limit() {
        page.gauge("process_max_fds", "Files and sockets that may be open", limit as f64);
    }
}

/// The resident memory in `/proc/self/status`.
fn resident_bytes(text: &[u8]) -> Option<u64> {
    let line = text.split(|it| *it == b'\n').find_map(|it| it.strip_prefix(b"VmRSS:"))?;
    let kilobytes: u64 =
        std::str::from_utf8(line).ok()?.trim().strip_suffix(" kB")?.parse().ok()?;
    kilobytes.checked_mul(1024)
}
