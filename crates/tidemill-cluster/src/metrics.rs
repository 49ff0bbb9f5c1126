//! Counters of the cluster port, for the node to export.
//!
//! | metric | counter |
//! | --- | --- |
//! | `tidemill_cluster_connections` (gauge) | [`ClusterPortMetrics::connections`] |
//! | `tidemill_cluster_connections_accepted_total` | [`ClusterPortMetrics::accepted`] |
//! | `tidemill_cluster_connections_refused_total{reason}` | [`ClusterPortMetrics::refused`] |
//! | `tidemill_cluster_handshakes_failed_total` | [`ClusterPortMetrics::handshakes_failed`] |
//! | `tidemill_cluster_unproven_closed_total` | [`ClusterPortMetrics::unproven_closed`] |
//! | `tidemill_cluster_requests_total` | [`ClusterPortMetrics::requests`] |
//! | `tidemill_cluster_requests_refused_total{reason}` | [`ClusterPortMetrics::requests_refused`] |
//! | `tidemill_cluster_fenced_total` | [`ClusterPortMetrics::fenced`] |
//! | `tidemill_cluster_frames_total{direction}` | [`ClusterPortMetrics::frames_in`], `frames_out` |
//! | `tidemill_cluster_bytes_total{direction}` | [`ClusterPortMetrics::bytes_in`], `bytes_out` |
//! | `tidemill_cluster_damaged_frames_total` | [`ClusterPortMetrics::damaged_frames`] |
//! | `tidemill_cluster_silent_connections_total` | [`ClusterPortMetrics::silent`] |
//! | `tidemill_cluster_calls_total` | [`ClusterPortMetrics::calls`] |
//! | `tidemill_cluster_calls_failed_total` | [`ClusterPortMetrics::calls_failed`] |
//! | `tidemill_cluster_connects_total`, `…_connects_failed_total` | [`ClusterPortMetrics::connects`], `connects_failed` |

use tidemill_env::sync::atomic::{AtomicU64, Ordering};
use tidemill_wire::cluster::Refusal;

/// A number that many threads add to. It orders nothing.
#[derive(Debug, Default)]
pub struct MetricCell(AtomicU64);

impl MetricCell {
    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A number for each reason to refuse.
#[derive(Debug, Default)]
pub struct RefusalCounts([MetricCell; Refusal::CODES]);

impl RefusalCounts {
    pub(crate) fn count(&self, refusal: &Refusal) {
        if let Some(cell) = self.0.get(usize::from(refusal.code())) {
            cell.increment();
        }
    }

    /// The number of refusals for a reason.
    #[must_use]
    pub fn of(&self, refusal: &Refusal) -> u64 {
        self.0.get(usize::from(refusal.code())).map_or(0, MetricCell::get)
    }

    /// Each reason in a word, and its number.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let named = |(code, cell): (usize, &MetricCell)| (Refusal::name(code as u8), cell.get());
        self.0.iter().enumerate().skip(1).map(named)
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(MetricCell::get).sum()
    }
}

/// The counters of a node's cluster port and links.
#[derive(Debug, Default)]
pub struct ClusterPortMetrics {
    /// Connections that are open and have proven the key: those of the port and those of links.
    pub connections: MetricCell,
    /// Connections that the port let in.
    pub accepted: MetricCell,
    /// Connections that the port refused, by reason.
    pub refused: RefusalCounts,
    /// Handshakes that came to no verdict: other protocols, garbage, too slow, cut off.
    pub handshakes_failed: MetricCell,
    /// Connections that were closed without a handshake, as too many were unproven.
    pub unproven_closed: MetricCell,
    /// Requests that were handed to the handler.
    pub requests: MetricCell,
    /// Requests that were refused, by reason.
    pub requests_refused: RefusalCounts,
    /// Connections, requests and answers of incarnations that are over or not known.
    pub fenced: MetricCell,
    /// Frames that came and were genuine.
    pub frames_in: MetricCell,
    /// Frames that were sent.
    pub frames_out: MetricCell,
    /// Bytes of frames that came, with heads and tags.
    pub bytes_in: MetricCell,
    /// Bytes of frames that were sent, with heads and tags.
    pub bytes_out: MetricCell,
    /// Frames that did not open or had no meaning. Each ended its connection.
    pub damaged_frames: MetricCell,
    /// Connections that were closed because nothing came or nothing was taken for too long.
    pub silent: MetricCell,
    /// Calls to other nodes.
    pub calls: MetricCell,
    /// Calls that ended with an error.
    pub calls_failed: MetricCell,
    /// Answers that came after their call had ended.
    pub answers_late: MetricCell,
    /// Connects to other nodes.
    pub connects: MetricCell,
    /// Connects that came to no connection, or were refused.
    pub connects_failed: MetricCell,
}
