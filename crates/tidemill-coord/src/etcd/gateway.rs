//! Requests to the gateway: addresses in turn, timeouts, and errors by what a caller does about them.

use super::{
    EtcdOptions,
    message::{GatewayError, Header},
};
use crate::{
    error::CoordinatorError,
    key::{LeaseId, Revision},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{self, BufReader},
    sync::Arc,
    time::Duration,
};
use tidemill_env::{World, lock::Mutex};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Longest answer, in bytes. The whole table is far smaller.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest silence of a watch before it connects anew. etcd says nothing while nothing changes.
const WATCH_SILENCE: Duration = Duration::from_secs(20);

/// Codes of gRPC that the gateway passes on.
mod code {
    pub(super) const INVALID_ARGUMENT: i64 = 3;
    pub(super) const DEADLINE_EXCEEDED: i64 = 4;
    pub(super) const NOT_FOUND: i64 = 5;
    pub(super) const UNAVAILABLE: i64 = 14;
}

/// The line to an etcd cluster.
pub(super) struct EtcdGateway {
    pub(super) world: World,
    options: EtcdOptions,
    agent: ureq::Agent,
    watch_agent: ureq::Agent,
    /// The address that answered last, by its place in the options.
    current: Mutex<usize>,
    observed: Mutex<Observed>,
}

/// The newest facts about the etcd cluster.
#[derive(Default)]
struct Observed {
    cluster_id: u64,
    revision: u64,
}

/// A request that failed, and whether etcd may have seen it.
enum Failure {
    /// The request never left, so another address may be tried.
    NotSent(String),
    /// etcd may have acted on it.
    Unknown(String),
    /// etcd refused it.
    Refused(GatewayError),
}

impl EtcdGateway {
    pub(super) fn new(world: &World, options: EtcdOptions) -> Result<Self, CoordinatorError> {
        let tls = tls(&options)?;
        let config = |per_read: Option<Duration>, whole: Option<Duration>| {
            ureq::Agent::config_builder()
                .http_status_as_error(false)
                .timeout_connect(Some(options.timeout))
                .timeout_per_read(per_read)
                .timeout_global(whole)
                .tls_config(tls.clone())
                .build()
        };
        let agent = ureq::Agent::new_with_config(config(None, Some(options.timeout)));
        let watch_agent = ureq::Agent::new_with_config(config(Some(WATCH_SILENCE), None));
        Ok(Self {
            world: world.clone(),
            options,
            agent,
            watch_agent,
            current: Mutex::new(0),
            observed: Mutex::default(),
        })
    }

    /// Checks the head of an answer against all before it.
    ///
    /// # Errors
    /// [`CoordinatorError::Replaced`] if it is another cluster or an older state of it.
    pub(super) fn observe(&self, header: &Header) -> Result<Revision, CoordinatorError> {
        let mut observed = self.observed.lock();
        let is_other = observed.cluster_id != 0 && observed.cluster_id != header.cluster_id;
        if is_other {
            let (known, found) = (Revision(observed.revision), Revision(header.revision));
            return Err(CoordinatorError::Replaced { known, found });
        }
        observed.cluster_id = header.cluster_id;
        // Answers of parallel requests may overtake each other, so an older revision alone says nothing.
        observed.revision = observed.revision.max(header.revision);
        Ok(Revision(header.revision))
    }

    /// A request that may be repeated.
    pub(super) fn read<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        request: &Q,
    ) -> Result<A, CoordinatorError> {
        self.request(path, request, None, true)
    }

    /// A request that is sent once. `lease` is the lease it names.
    pub(super) fn change<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        request: &Q,
        lease: Option<LeaseId>,
    ) -> Result<A, CoordinatorError> {
        self.request(path, request, lease, false)
    }

    fn request<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        request: &Q,
        lease: Option<LeaseId>,
        may_repeat: bool,
    ) -> Result<A, CoordinatorError> {
        let body = serde_json::to_vec(request).expect("every request has an encoding");
        let mut reasons = Vec::new();
        for _ in 0..self.options.addresses.len() {
            let (place, address) = self.address();
            match self.post(address, path, &body) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Refused(error)) if error.code == code::UNAVAILABLE && may_repeat => {
                    reasons.push(format!("{address}: {}", error.message));
                }
                Err(Failure::Refused(error)) => return Err(refused(&error, lease)),
                Err(Failure::NotSent(why)) => reasons.push(format!("{address}: {why}")),
                Err(Failure::Unknown(why)) if may_repeat => {
                    reasons.push(format!("{address}: {why}"))
                }
                Err(Failure::Unknown(why)) => {
                    self.advance(place);
                    return Err(CoordinatorError::Unavailable(format!("{address}: {why}")));
                }
            }
            self.advance(place);
        }
        Err(CoordinatorError::Unavailable(reasons.join("; ")))
    }

    fn address(&self) -> (usize, &str) {
        let place = *self.current.lock();
        (place, &self.options.addresses[place])
    }

    /// Leaves an address that failed, unless another thread has already.
    fn advance(&self, from: usize) {
        let mut current = self.current.lock();
        if *current == from {
            *current = (from + 1) % self.options.addresses.len();
        }
    }

    fn post<A: DeserializeOwned>(
        &self,
        address: &str,
        path: &str,
        body: &[u8],
    ) -> Result<A, Failure> {
        let url = format!("{address}/v3/{path}");
        let sent = self.agent.post(url).header("content-type", "application/json").send(body);
        let mut answer = sent.map_err(|error| failure(&error))?;
        let is_success = answer.status().is_success();
        let read = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let bytes = read.map_err(|error| Failure::Unknown(error.to_string()))?;
        if !is_success {
            let status = answer.status();
            let error = serde_json::from_slice(&bytes);
            return Err(error.map_or_else(
                |_| Failure::Unknown(format!("status {status} without an error of etcd")),
                Failure::Refused,
            ));
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            Failure::Unknown(format!("an answer that etcd's gateway does not give: {error}"))
        })
    }

    /// Opens a stream of lines.
    pub(super) fn stream<Q: Serialize>(
        &self,
        path: &str,
        request: &Q,
    ) -> Result<BufReader<Box<dyn io::Read + Send>>, CoordinatorError> {
        let (place, address) = self.address();
        let body = serde_json::to_vec(request).expect("every request has an encoding");
        let url = format!("{address}/v3/{path}");
        let sent =
            self.watch_agent.post(url).header("content-type", "application/json").send(&body[..]);
        match sent {
            Ok(answer) if answer.status().is_success() => {
                Ok(BufReader::new(Box::new(answer.into_body().into_reader())))
            }
            Ok(answer) => {
                self.advance(place);
                let why = format!("{address}: status {}", answer.status());
                Err(CoordinatorError::Unavailable(why))
            }
            Err(error) => {
                self.advance(place);
                Err(CoordinatorError::Unavailable(format!("{address}: {error}")))
            }
        }
    }
}

/// Tells a request that never left from one whose outcome is unknown.
fn failure(error: &ureq::Error) -> Failure {
    let why = error.to_string();
    let never_left = match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Tls(_) => true,
        ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => true,
        ureq::Error::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        _ => false,
    };
    if never_left { Failure::NotSent(why) } else { Failure::Unknown(why) }
}

fn refused(error: &GatewayError, lease: Option<LeaseId>) -> CoordinatorError {
    let text = if error.message.is_empty() { &error.error } else { &error.message };
    let text = format!("etcd: {text}");
    match (error.code, lease) {
        (code::NOT_FOUND, Some(lease)) => CoordinatorError::LeaseExpired(lease),
        (code::INVALID_ARGUMENT, _) => CoordinatorError::Invalid(text),
        (code::UNAVAILABLE | code::DEADLINE_EXCEEDED, _) => CoordinatorError::Unavailable(text),
        _ => CoordinatorError::Failed(text),
    }
}

fn tls(options: &EtcdOptions) -> Result<TlsConfig, CoordinatorError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    let is_needed = options.addresses.iter().any(|it| it.starts_with("https://"));
    let authorities = match &options.authorities {
        Some(pem) => pem_authorities(pem)?,
        None if is_needed => system_authorities(),
        None => Vec::new(),
    };
    Ok(builder.root_certs(RootCerts::from(authorities)).build())
}

/// The authorities of a PEM text.
fn pem_authorities(pem: &[u8]) -> Result<Vec<Certificate<'static>>, CoordinatorError> {
    let invalid = |why: String| CoordinatorError::Invalid(format!("authorities of etcd: {why}"));
    let mut authorities = Vec::new();
    for item in parse_pem(pem) {
        match item.map_err(|error| invalid(error.to_string()))? {
            PemItem::Certificate(certificate) => authorities.push(certificate),
            _ => return Err(invalid("a PEM item that is no certificate".into())),
        }
    }
    if authorities.is_empty() {
        return Err(invalid("no certificate in the file".into()));
    }
    Ok(authorities)
}

/// The authorities that the system trusts. Unreadable ones are left out, as by every client.
fn system_authorities() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs();
    found.certs.iter().map(|it| Certificate::from_der(it).to_owned()).collect()
}
