//! The threads of a link: one connects and writes, one reads answers.

use super::{
    PeersState,
    connect::{LinkConnection, connect},
    link_state::{LinkWork, PeerLink, QueuedCall},
};
use crate::{
    CallError,
    cipher::FrameDamage,
    deadline::Deadline,
    handshake::ProvenConnection,
    limits::micros,
    outbox::OpenFrame,
    transport::{SealedReader, SealedWriter, TransportError},
};
use std::sync::Arc;
use tidemill_env::sync::atomic::{AtomicBool, Ordering};
use tidemill_types::Incarnation;
use tidemill_wire::cluster::{ClusterFrame, ClusterFrameHead, Refusal};

/// Runs a link until it is closed.
pub(super) fn run_link(shared: &Arc<PeersState>, link: &Arc<PeerLink>) {
    while link.wait_for_call(shared) {
        match connect(shared, link) {
            Ok(connection) => use_connection(shared, link, connection),
            Err(error) => link.fail_connect(shared, &error),
        }
    }
    link.end();
}

fn use_connection(shared: &Arc<PeersState>, link: &Arc<PeerLink>, connection: LinkConnection) {
    let LinkConnection { proven, reader, writer, closer } = connection;
    let options = &shared.options;
    let limits = options.limits;
    let metrics = Arc::clone(&options.metrics);
    let write_us = micros(limits.write_max);
    let mut writer = SealedWriter::new(writer, proven.sealer(), write_us, Arc::clone(&metrics));
    let silence_us = micros(limits.silence_max);
    let reader = SealedReader::new(
        reader,
        proven.opener(),
        limits.body_bytes_max,
        silence_us,
        Arc::clone(&metrics),
    );
    tracing::info!("connected to {}, build {}", proven.peer, proven.peer.version);
    metrics.connections.increment();
    let was_good = Arc::new(AtomicBool::new(false));
    let answers = {
        let (state, link, closer) = (Arc::clone(shared), Arc::clone(link), Arc::clone(&closer));
        let was_good = Arc::clone(&was_good);
        let body = move || {
            let deadline = state.watch.add(Arc::clone(&closer));
            let end = read_answers(&state, &link, &proven, reader, &deadline, &was_good);
            link.note_end(end);
            closer();
        };
        shared.world.spawn.try_spawn("cluster answers", Box::new(body))
    };
    let reason = match answers {
        Ok(thread) => {
            let deadline = shared.watch.add(Arc::clone(&closer));
            let reason = write_calls(shared, link, &mut writer, &deadline);
            closer();
            thread.join();
            reason
        }
        Err(error) => format!("no thread to read answers: {error}"),
    };
    closer();
    metrics.connections.decrement();
    link.end_connection(shared, &reason, was_good.load(Ordering::SeqCst));
}

/// Writes calls and heartbeats until the connection ends. Returns the reason.
fn write_calls(
    shared: &PeersState,
    link: &PeerLink,
    writer: &mut SealedWriter,
    deadline: &Deadline,
) -> String {
    let options = &shared.options;
    let clock = &shared.world.clock;
    let bare = |frame| (ClusterFrameHead::bare(frame, options.identity.incarnation()), Vec::new());
    let mut last_call_us = clock.monotonic_micros();
    loop {
        let now = clock.monotonic_micros();
        let frames = match link.take_work() {
            LinkWork::Send(calls) => {
                last_call_us = now;
                calls.into_iter().map(|call| frame_of(call, clock.monotonic_micros())).collect()
            }
            LinkWork::Heartbeat => {
                let is_idle = now.saturating_sub(last_call_us) > micros(options.limits.idle_max);
                if is_idle && link.is_idle() {
                    drop(writer.write(vec![bare(ClusterFrame::Goodbye)], deadline));
                    return "it was idle".to_owned();
                }
                vec![bare(ClusterFrame::Heartbeat)]
            }
            LinkWork::End(reason) => return reason,
            LinkWork::Stop => {
                drop(writer.write(vec![bare(ClusterFrame::Goodbye)], deadline));
                return "this node is stopping".to_owned();
            }
        };
        if let Err(error) = writer.write(frames, deadline) {
            return if deadline.has_passed() {
                format!("no byte was taken for {:?}", options.limits.write_max)
            } else {
                error.to_string()
            };
        }
    }
}

fn frame_of(call: QueuedCall, now_us: u64) -> OpenFrame {
    let left_us = call.deadline_us.saturating_sub(now_us);
    let head = ClusterFrameHead {
        frame: ClusterFrame::Request,
        kind: call.kind,
        correlation: call.correlation,
        incarnation: call.incarnation,
        timeout_ms: u32::try_from(left_us.div_ceil(1_000)).unwrap_or(u32::MAX),
        body_bytes: call.body.len() as u32,
    };
    (head, call.body)
}

/// Reads answers until the connection ends. Returns the reason.
fn read_answers(
    shared: &PeersState,
    link: &PeerLink,
    proven: &ProvenConnection,
    mut reader: SealedReader,
    deadline: &Deadline,
    was_good: &AtomicBool,
) -> String {
    loop {
        let (head, body) = match reader.read(deadline) {
            Ok(frame) => frame,
            Err(TransportError::Io(_)) if deadline.has_passed() => {
                shared.options.metrics.silent.increment();
                return format!("nothing came for {:?}", shared.options.limits.silence_max);
            }
            Err(error) => {
                if !matches!(error, TransportError::Io(_)) {
                    tracing::warn!("the connection to {} is closed: {error}", proven.peer);
                }
                return error.to_string();
            }
        };
        if !was_good.swap(true, Ordering::SeqCst) {
            link.note_frame();
        }
        let outcome = match head.frame {
            ClusterFrame::Heartbeat => continue,
            ClusterFrame::Goodbye => return "the other node has closed it".to_owned(),
            ClusterFrame::Answer => admit(shared, link, head.incarnation).map(|()| body),
            ClusterFrame::Refusal => match Refusal::decode(&body) {
                Ok(refusal) => Err(refused(link, refusal)),
                Err(error) => {
                    shared.options.metrics.damaged_frames.increment();
                    return FrameDamage::from(error).to_string();
                }
            },
            ClusterFrame::Request => {
                shared.options.metrics.damaged_frames.increment();
                return FrameDamage::Direction.to_string();
            }
        };
        if !link.finish(head.correlation, outcome) {
            shared.options.metrics.answers_late.increment();
        }
    }
}

/// Believes an answer of this incarnation, or not.
fn admit(shared: &PeersState, link: &PeerLink, incarnation: Incarnation) -> Result<(), CallError> {
    let options = &shared.options;
    let admitted = options.newest.admit(&*options.fence, link.node, incarnation);
    admitted.map_err(|refusal| {
        if refusal.is_fence() {
            options.metrics.fenced.increment();
        }
        let (node, address) = (link.node, link.address.clone());
        CallError::Disbelieved { node, address, refusal, was_sent: true }
    })
}

fn refused(link: &PeerLink, refusal: Refusal) -> CallError {
    CallError::Refused { node: link.node, address: link.address.clone(), refusal }
}
