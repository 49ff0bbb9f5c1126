//! One connection of the port: the handshake, then requests until it ends.

use super::{InFlight, PortState};
use crate::{
    PeerReply, PeerRequest,
    cipher::FrameDamage,
    deadline::Deadline,
    handshake::{HandshakeError, PortHandshake, PortRefusal, ProvenConnection},
    limits::micros,
    outbox::{Outbox, OutboxContent},
    transport::{
        SealedReader, SealedWriter, TransportError, WireReader, WireWriter, buffered, read_record,
    },
};
use std::{
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tidemill_env::Connection;
use tidemill_types::{Incarnation, NodeId};
use tidemill_wire::cluster::{ClusterFrame, ClusterFrameHead, NONCE_BYTES, Refusal};

/// A handshake that came to no connection.
struct FailedHandshake {
    reason: TransportFailure,
    /// The node that the other side said it was.
    claim: Option<(NodeId, Incarnation)>,
}

enum TransportFailure {
    Transport(TransportError),
    Handshake(HandshakeError),
}

/// Serves a connection until it ends.
pub(super) fn serve(state: &Arc<PortState>, number: u64, connection: Connection) {
    let Connection { reader, mut writer, closer, is_within_machine: _, peer: address } = connection;
    let limits = state.options.limits;
    let outbox = Arc::new(Outbox::new(limits.queue_max, limits.queue_bytes_max));
    let deadline = state.watch.add(Arc::clone(&closer));
    deadline.arm(micros(limits.handshake));
    let mut reader = buffered(reader);
    let shaken = shake_hands(state, number, &outbox, &mut reader, &mut writer);
    deadline.disarm();
    match shaken {
        Ok(mut proven) => {
            proven.peer.address = address;
            state.options.metrics.accepted.increment();
            state.options.metrics.connections.increment();
            tracing::info!("{} is connected, build {}", proven.peer, proven.peer.version);
            let ended = serve_requests(state, &proven, &outbox, reader, writer, &closer, &deadline);
            log_end(state, &proven, &ended, deadline.has_passed());
            state.options.metrics.connections.decrement();
        }
        Err(failed) => log_failure(state, &address, &failed, deadline.has_passed()),
    }
    closer();
    state.registry.remove(number);
}

fn shake_hands(
    state: &PortState,
    number: u64,
    outbox: &Arc<Outbox>,
    reader: &mut WireReader,
    writer: &mut WireWriter,
) -> Result<ProvenConnection, FailedHandshake> {
    let failed = |claim| {
        move |error: TransportError| FailedHandshake {
            reason: TransportFailure::Transport(error),
            claim,
        }
    };
    let options = &state.options;
    let mut nonce = [0; NONCE_BYTES];
    state.world.entropy.fill(&mut nonce).map_err(|it| failed(None)(it.into()))?;
    let record = read_record(reader).map_err(failed(None))?;
    let shaking = PortHandshake::on_hello(options.identity.get(), nonce, &record);
    let (shaking, hello) = shaking.map_err(|it| refuse(it, None, writer))?;
    let claim = Some(shaking.claim());
    writer.write_all(&hello).map_err(|it| failed(claim)(it.into()))?;
    let record = read_record(reader).map_err(failed(claim))?;
    let judge = |node, incarnation| {
        options.newest.admit(&*options.fence, node, incarnation)?;
        state.registry.prove(number, node, Arc::clone(outbox))
    };
    let judged = shaking.on_proof(&options.key, &record, judge);
    let (proven, verdict) = judged.map_err(|it| refuse(it, claim, writer))?;
    writer.write_all(&verdict).map_err(|it| failed(claim)(it.into()))?;
    Ok(proven)
}

/// Tells the other side of a refusal.
fn refuse(
    refusal: PortRefusal,
    claim: Option<(NodeId, Incarnation)>,
    writer: &mut WireWriter,
) -> FailedHandshake {
    if let Some(record) = refusal.record {
        // The connection ends with or without it.
        drop(writer.write_all(&record));
    }
    FailedHandshake { reason: TransportFailure::Handshake(refusal.error), claim }
}

fn log_failure(state: &PortState, address: &str, failed: &FailedHandshake, was_slow: bool) {
    let metrics = &state.options.metrics;
    let reason = match &failed.reason {
        TransportFailure::Handshake(HandshakeError::Refuses(refusal)) => {
            metrics.refused.count(refusal);
            if refusal.is_fence() {
                metrics.fenced.increment();
            }
            refusal.to_string()
        }
        TransportFailure::Handshake(error) => {
            metrics.handshakes_failed.increment();
            error.to_string()
        }
        TransportFailure::Transport(error) => {
            metrics.handshakes_failed.increment();
            if was_slow {
                metrics.silent.increment();
                format!("no handshake in {:?}", state.options.limits.handshake)
            } else {
                error.to_string()
            }
        }
    };
    let now = state.world.clock.monotonic_micros();
    let Some(suppressed) = state.log.admit(now, &reason) else { return };
    let claim = failed.claim.map_or_else(String::new, |(node, incarnation)| {
        format!(", which says it is node {node} in incarnation {incarnation}")
    });
    tracing::warn!(
        suppressed,
        "the cluster port refused a connection from {address}{claim}: {reason}"
    );
}

fn log_end(
    state: &PortState,
    proven: &ProvenConnection,
    ended: &Result<(), TransportError>,
    was_silent: bool,
) {
    let peer = &proven.peer;
    match ended {
        Ok(()) => tracing::info!("{peer} has closed its connection"),
        Err(TransportError::Io(error)) => {
            if was_silent {
                state.options.metrics.silent.increment();
                tracing::warn!("the connection of {peer} is closed: it was silent for too long");
            } else {
                tracing::info!("the connection of {peer} ended: {error}");
            }
        }
        Err(error) => tracing::warn!("the connection of {peer} is closed: {error}"),
    }
}

fn serve_requests(
    state: &Arc<PortState>,
    proven: &ProvenConnection,
    outbox: &Arc<Outbox>,
    reader: WireReader,
    writer: WireWriter,
    closer: &crate::deadline::Closer,
    deadline: &Deadline,
) -> Result<(), TransportError> {
    let options = &state.options;
    let limits = options.limits;
    let in_flight = Arc::new(InFlight::new(limits.in_flight_max, limits.in_flight_bytes_max));
    let metrics = Arc::clone(&options.metrics);
    let writer =
        SealedWriter::new(writer, proven.sealer(), micros(limits.write_max), Arc::clone(&metrics));
    let writing = {
        let (writing, outbox, in_flight) =
            (Arc::clone(state), Arc::clone(outbox), Arc::clone(&in_flight));
        let closer = Arc::clone(closer);
        let body = move || {
            let deadline = writing.watch.add(Arc::clone(&closer));
            write_answers(&writing, &outbox, writer, &deadline);
            outbox.close();
            in_flight.close();
            closer();
        };
        state.world.spawn.try_spawn("cluster write", Box::new(body))?
    };
    let silence_us = micros(limits.silence_max);
    let mut reader =
        SealedReader::new(reader, proven.opener(), limits.body_bytes_max, silence_us, metrics);
    let ended = loop {
        match reader.read(deadline) {
            Ok((head, body)) => match head.frame {
                ClusterFrame::Heartbeat => {}
                ClusterFrame::Goodbye => break Ok(()),
                ClusterFrame::Request => {
                    if !take_request(state, proven, outbox, &in_flight, head, body) {
                        break Ok(());
                    }
                }
                ClusterFrame::Answer | ClusterFrame::Refusal => {
                    options.metrics.damaged_frames.increment();
                    break Err(FrameDamage::Direction.into());
                }
            },
            Err(error) => break Err(error),
        }
    };
    outbox.close();
    in_flight.close();
    if ended.is_err() {
        closer();
    }
    writing.join();
    if state.is_stopping() { Ok(()) } else { ended }
}

/// Checks a request and hands it over. False if the connection has ended meanwhile.
fn take_request(
    state: &PortState,
    proven: &ProvenConnection,
    outbox: &Arc<Outbox>,
    in_flight: &Arc<InFlight>,
    head: ClusterFrameHead,
    body: Vec<u8>,
) -> bool {
    let options = &state.options;
    let clock = &state.world.clock;
    let expires_us =
        clock.monotonic_micros().saturating_add(u64::from(head.timeout_ms).saturating_mul(1_000));
    let bytes = body.len();
    if !in_flight.enter(bytes) {
        return false;
    }
    let own = options.identity.incarnation();
    let answer = ClusterFrameHead {
        kind: head.kind,
        correlation: head.correlation,
        ..ClusterFrameHead::bare(ClusterFrame::Answer, own)
    };
    let reply = PeerReply::new(
        Arc::clone(outbox),
        Arc::clone(in_flight),
        answer,
        bytes,
        options.limits.body_bytes_max,
    );
    let node = proven.peer.node;
    let refusal = if state.is_stopping() {
        Some(Refusal::Stopping)
    } else if clock.monotonic_micros() >= expires_us {
        Some(Refusal::Expired)
    } else {
        options.newest.admit(&*options.fence, node, head.incarnation).err()
    };
    if let Some(refusal) = refusal {
        options.metrics.requests_refused.count(&refusal);
        if refusal.is_fence() {
            options.metrics.fenced.increment();
            let reason = format!("fenced node {node}");
            if let Some(suppressed) = state.log.admit(clock.monotonic_micros(), &reason) {
                tracing::warn!(
                    suppressed,
                    "a request of {} in incarnation {} is refused: {refusal}",
                    proven.peer,
                    head.incarnation
                );
            }
        }
        reply.refuse(&refusal);
        return true;
    }
    options.metrics.requests.increment();
    let mut peer = proven.peer.clone();
    peer.incarnation = head.incarnation;
    let request = PeerRequest { peer, kind: head.kind, body, expires_us };
    // A reply that is dropped by a panic tells the caller that the request failed.
    let handled = catch_unwind(AssertUnwindSafe(|| state.handler.handle(request, reply)));
    if handled.is_err() {
        tracing::error!("the handler of requests of kind {} panicked; please report it", head.kind);
    }
    true
}

/// Writes answers, and heartbeats in between, until the outbox is closed and empty.
fn write_answers(
    state: &PortState,
    outbox: &Outbox,
    mut writer: SealedWriter,
    deadline: &Deadline,
) {
    let options = &state.options;
    let bare = |frame| (ClusterFrameHead::bare(frame, options.identity.incarnation()), Vec::new());
    loop {
        let content = outbox.take(options.limits.heartbeat);
        let is_last = content == OutboxContent::Closed;
        let frames = match content {
            OutboxContent::Frames(frames) => frames,
            OutboxContent::Silence => vec![bare(ClusterFrame::Heartbeat)],
            OutboxContent::Closed => vec![bare(ClusterFrame::Goodbye)],
        };
        let written: io::Result<()> = writer.write(frames, deadline);
        if is_last || written.is_err() {
            return;
        }
    }
}
