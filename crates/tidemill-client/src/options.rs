//! The way to a cluster: settings that admin, producer and consumer share.

use std::time::Duration;

/// Where the cluster is, and how long to wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Addresses of some nodes, such as `127.0.0.1:9092`; the others are learnt from them.
    pub bootstrap: Vec<String>,
    /// The name of this client in the nodes' logs and metrics. Default `tidemill`.
    pub client_id: String,
    /// Longest time to connect and to agree on versions. Default 10 s.
    pub connect_timeout: Duration,
    /// Longest time a node may take to answer, its own waiting aside. Default 30 s.
    pub request_timeout: Duration,
    /// Wait after the first failed attempt to connect or to send; it doubles with each further one.
    /// Default 50 ms.
    pub backoff: Duration,
    /// Longest such wait. Default 2 s.
    pub backoff_max: Duration,
    /// Largest answer that is read, in bytes; that to a fetch may have as many as was asked for
    /// beyond. Default 32 MiB.
    pub answer_bytes_max: usize,
    /// Encryption and authentication.
    pub security: Security,
}

/// The protection of a connection. TLS and SASL will be further variants; [`Security::Plain`] is
/// the only one now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// None: bytes are sent as they are, without authentication.
    #[default]
    Plain,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            bootstrap: vec!["127.0.0.1:9092".to_owned()],
            client_id: "tidemill".to_owned(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            backoff: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            answer_bytes_max: 32 << 20,
            security: Security::Plain,
        }
    }
}

impl ClientOptions {
    /// The defaults, with other addresses: one or several with commas between them.
    #[must_use]
    pub fn at(bootstrap: &str) -> Self {
        let addresses = bootstrap.split(',').map(str::trim).filter(|it| !it.is_empty());
        Self { bootstrap: addresses.map(str::to_owned).collect(), ..Self::default() }
    }
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
