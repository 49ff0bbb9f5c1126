//! Making a connection to another node: the socket, then the handshake.

use super::{PeersState, link_state::PeerLink};
use crate::{
    CallError,
    handshake::{CallerHandshake, HandshakeError, ProvenConnection},
    limits::micros,
    transport::{TransportError, WireReader, WireWriter, buffered, read_record},
};
use std::{
    io::{self, Write},
    sync::Arc,
};
use tidemill_env::Connection;
use tidemill_wire::cluster::NONCE_BYTES;

/// A connection that has passed the handshake.
pub(super) struct LinkConnection {
    pub(super) proven: ProvenConnection,
    pub(super) reader: WireReader,
    pub(super) writer: WireWriter,
    pub(super) closer: crate::deadline::Closer,
}

/// Why there is none.
enum ConnectFailure {
    Io(io::Error),
    Slow,
    Handshake(HandshakeError),
    Stopped,
}

impl From<TransportError> for ConnectFailure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Io(error) => Self::Io(error),
            TransportError::Record(error) => Self::Handshake(error.into()),
            TransportError::Frame(error) => Self::Io(io::Error::other(error.to_string())),
        }
    }
}

impl From<io::Error> for ConnectFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<HandshakeError> for ConnectFailure {
    fn from(error: HandshakeError) -> Self {
        Self::Handshake(error)
    }
}

/// Connects and shakes hands.
///
/// # Errors
/// The outcome of all calls that wait for this connection.
pub(super) fn connect(
    shared: &PeersState,
    link: &Arc<PeerLink>,
) -> Result<LinkConnection, CallError> {
    let metrics = &shared.options.metrics;
    metrics.connects.increment();
    let made = open(shared, link);
    made.map_err(|failure| {
        metrics.connects_failed.increment();
        let error = explain(link, failure);
        log_failure(shared, link, &error);
        error
    })
}

fn open(shared: &PeersState, link: &PeerLink) -> Result<LinkConnection, ConnectFailure> {
    let options = &shared.options;
    let connection = shared.world.net.connect(&link.address, options.limits.connect)?;
    let Connection { reader, writer, closer, .. } = connection;
    if !link.begin_connection(Arc::clone(&closer)) {
        closer();
        return Err(ConnectFailure::Stopped);
    }
    let deadline = shared.watch.add(Arc::clone(&closer));
    deadline.arm(micros(options.limits.handshake));
    let (mut reader, mut writer) = (buffered(reader), writer);
    match shake_hands(shared, link, &mut reader, &mut writer) {
        Ok(mut proven) => {
            proven.peer.address.clone_from(&link.address);
            Ok(LinkConnection { proven, reader, writer, closer })
        }
        Err(failure) => {
            closer();
            Err(if deadline.has_passed() { ConnectFailure::Slow } else { failure })
        }
    }
}

fn shake_hands(
    shared: &PeersState,
    link: &PeerLink,
    reader: &mut WireReader,
    writer: &mut WireWriter,
) -> Result<ProvenConnection, ConnectFailure> {
    let options = &shared.options;
    let mut nonce = [0; NONCE_BYTES];
    shared.world.entropy.fill(&mut nonce)?;
    let (mut shaking, hello) = CallerHandshake::begin(options.identity.get(), link.node, nonce);
    writer.write_all(&hello)?;
    let proof = shaking.on_hello(&options.key, &read_record(reader)?)?;
    writer.write_all(&proof)?;
    let proven = shaking.on_verdict(&options.key, &read_record(reader)?)?;
    let peer = &proven.peer;
    let admitted = options.newest.admit(&*options.fence, peer.node, peer.incarnation);
    admitted.map_err(|refusal| {
        if refusal.is_fence() {
            options.metrics.fenced.increment();
        }
        HandshakeError::Refuses(refusal)
    })?;
    Ok(proven)
}

fn explain(link: &PeerLink, failure: ConnectFailure) -> CallError {
    let (node, address) = (link.node, link.address.clone());
    let unreachable =
        |reason: String| CallError::Unreachable { node, address: address.clone(), reason };
    match failure {
        ConnectFailure::Stopped => CallError::Stopped,
        ConnectFailure::Slow => unreachable("the handshake took too long".to_owned()),
        ConnectFailure::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => unreachable(
            "it closed the connection in the handshake; is it a cluster port?".to_owned(),
        ),
        ConnectFailure::Io(error) => unreachable(error.to_string()),
        ConnectFailure::Handshake(HandshakeError::Refused(refusal)) => {
            CallError::Refused { node, address, refusal }
        }
        ConnectFailure::Handshake(HandshakeError::Refuses(refusal)) => {
            CallError::Disbelieved { node, address, refusal, was_sent: false }
        }
        ConnectFailure::Handshake(error) => unreachable(error.to_string()),
    }
}

fn log_failure(shared: &PeersState, link: &PeerLink, error: &CallError) {
    if *error == CallError::Stopped {
        return;
    }
    let now = shared.world.clock.monotonic_micros();
    let text = error.to_string();
    if let Some(suppressed) = shared.log.admit(now, &text) {
        tracing::warn!(suppressed, "no connection to node {}: {text}", link.node);
    }
}
