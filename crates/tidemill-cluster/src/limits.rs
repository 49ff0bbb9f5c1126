//! Limits of the cluster port and of the links to other nodes.

use std::time::Duration;
use tidemill_wire::cluster::BODY_BYTES_MAX;

/// The limits. All nodes of a cluster should have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterLimits {
    /// Largest body of a request or an answer, in bytes.
    pub body_bytes_max: u32,
    /// Most connections that have not proven the key yet; the oldest of them is closed for a new
    /// one.
    pub unproven_max: usize,
    /// Most connections that have proven it.
    pub connections_max: usize,
    /// Most connections of one node; its oldest is closed for a new one.
    pub connections_of_node_max: usize,
    /// Most nodes that this one keeps links to.
    pub links_max: usize,
    /// Most requests of one connection that are being handled; more are not read.
    pub in_flight_max: usize,
    /// Most bytes of such requests. One is always let in.
    pub in_flight_bytes_max: usize,
    /// Most calls or answers that wait to be written to one connection; a sender of more waits.
    pub queue_max: usize,
    /// Most bytes of them. One is always let in.
    pub queue_bytes_max: usize,
    /// The time to connect to one address.
    pub connect: Duration,
    /// The time of a whole handshake.
    pub handshake: Duration,
    /// A side that has nothing to say sends a heartbeat this often.
    pub heartbeat: Duration,
    /// A connection on which nothing came for this long is closed.
    pub silence_max: Duration,
    /// A connection that takes no byte for this long is closed.
    pub write_max: Duration,
    /// A link without calls for this long is closed, until the next call.
    pub idle_max: Duration,
    /// The wait after a first failed connect. Each further one waits twice as long.
    pub back_off_min: Duration,
    /// The longest wait between two connects.
    pub back_off_max: Duration,
}

impl Default for ClusterLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: BODY_BYTES_MAX / 2,
            unproven_max: 64,
            connections_max: 256,
            connections_of_node_max: 2,
            links_max: 256,
            in_flight_max: 256,
            in_flight_bytes_max: 64 << 20,
            queue_max: 512,
            queue_bytes_max: 64 << 20,
            connect: Duration::from_secs(2),
            handshake: Duration::from_secs(5),
            heartbeat: Duration::from_secs(1),
            silence_max: Duration::from_secs(4),
            write_max: Duration::from_secs(15),
            idle_max: Duration::from_secs(300),
            back_off_min: Duration::from_millis(50),
            back_off_max: Duration::from_secs(2),
        }
    }
}

/// A span in microseconds, as clocks count.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
