//! The state that the threads of a connection share: its phase, its queue, its pending requests.

use super::versions::Versions;
use crate::{buffers::Buffers, error::CallError, options::ClientOptions};
use bytes::Bytes;
use std::{collections::VecDeque, io::Write, sync::Arc};
use tidemill_env::{
    World,
    lock::{Condvar, Mutex, MutexGuard},
};
use tidemill_wire::kafka::{self, ApiKey, KafkaString, MessageError};

/// Requests of a connection that may be under way at once.
const PENDING_MAX: usize = 4096;
/// While the unanswered requests have fewer bytes than this, they fit into the socket's buffer.
/// Then the caller writes by itself without blocking on the other side, which saves a change of
/// threads.
const DIRECT_BYTES_MAX: usize = 16 << 10;

/// Gets an answer: its content behind the head.
pub(crate) type AnswerCallback = Box<dyn FnOnce(Result<Bytes, CallError>) + Send>;

/// Called when a connection becomes ready and when it ends.
pub(crate) type ChangeCallback = Arc<dyn Fn() + Send + Sync>;

/// A request as a whole frame, in pieces that need not be copied together.
pub(crate) type Pieces = Vec<Bytes>;

/// A request that waits to be written.
pub(super) struct OutgoingRequest {
    pub(super) pieces: Pieces,
    /// The callback once it is written, if it has no answer.
    written: Option<AnswerCallback>,
}

/// The options of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOptions {
    /// The version to write it in.
    pub(crate) version: i16,
    /// When the answer is no longer waited for, on the monotonic clock.
    pub(crate) deadline_us: u64,
    /// Bytes that the answer may have beyond [`ClientOptions::answer_bytes_max`].
    pub(crate) more_bytes: usize,
    /// False if there is no answer: then `then` is called with nothing once the request is written.
    pub(crate) answer: bool,
}

impl RequestOptions {
    /// A request whose answer has no more bytes than most.
    pub(crate) fn answered(version: i16, deadline_us: u64) -> Self {
        Self { version, deadline_us, more_bytes: 0, answer: true }
    }
}

/// See the module.
pub(super) struct ConnectionCore {
    pub(super) address: String,
    client_id: KafkaString,
    pub(super) world: World,
    pub(super) options: ClientOptions,
    pub(super) changed: ChangeCallback,
    pub(super) buffers: Arc<Buffers>,
    state: Mutex<ConnectionState>,
    /// Rings when there is something for the writer thread.
    bell: Condvar,
    /// Locked only by the thread that has set [`ConnectionState::writer`].
    pub(super) writer: Mutex<Option<Box<dyn Write + Send>>>,
}

pub(super) struct ConnectionState {
    pub(super) phase: ConnectionPhase,
    queue: VecDeque<OutgoingRequest>,
    /// Somebody writes to the socket.
    writer: bool,
    pending: VecDeque<PendingRequest>,
    pending_bytes: usize,
    next_correlation_id: i32,
    /// True once a request beside that for the versions was answered.
    served: bool,
    pub(super) closer: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// The phase of a connection.
pub(super) enum ConnectionPhase {
    Connecting,
    Ready(Arc<Versions>),
    Ended(CallError),
}

/// A request whose answer has not come.
pub(super) struct PendingRequest {
    correlation_id: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    bytes: usize,
    sent_us: u64,
    deadline_us: u64,
    pub(super) answer_bytes_max: usize,
    pub(super) then: AnswerCallback,
}

impl ConnectionCore {
    pub(super) fn new(
        world: &World,
        address: &str,
        options: &ClientOptions,
        buffers: &Arc<Buffers>,
        changed: ChangeCallback,
    ) -> Self {
        Self {
            address: address.to_owned(),
            client_id: kafka::text(&options.client_id),
            world: world.clone(),
            options: options.clone(),
            changed,
            buffers: Arc::clone(buffers),
            state: Mutex::new(ConnectionState {
                phase: ConnectionPhase::Connecting,
                queue: VecDeque::new(),
                writer: false,
                pending: VecDeque::new(),
                pending_bytes: 0,
                next_correlation_id: 0,
                served: false,
                closer: None,
            }),
            bell: Condvar::new(),
            writer: Mutex::new(None),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock()
    }

    /// See [`super::Connection::send_pieces`].
    pub(super) fn send(
        &self,
        api: ApiKey,
        asking: &RequestOptions,
        write: impl FnOnce(i16, i32, &KafkaString) -> Result<Pieces, MessageError>,
        then: AnswerCallback,
    ) {
        let mut state = self.lock();
        let id = state.next_correlation_id;
        let pieces = match state.refusal() {
            Some(error) => Err(error),
            None => write(asking.version, id, &self.client_id)
                .map_err(|error| CallError::BadRequest(error.to_string())),
        };
        let pieces = match pieces {
            Ok(pieces) => pieces,
            Err(error) => {
                drop(state);
                return then(Err(error));
            }
        };
        state.next_correlation_id = id.checked_add(1).unwrap_or(0);
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        let direct = asking.answer
            && state.queue.is_empty()
            && !state.writer
            && matches!(state.phase, ConnectionPhase::Ready(_))
            && state.pending_bytes.saturating_add(bytes) <= DIRECT_BYTES_MAX;
        let mut then = Some(then);
        if asking.answer {
            state.pending_bytes += bytes;
            state.pending.push_back(PendingRequest {
                correlation_id: id,
                api,
                version: asking.version,
                bytes,
                sent_us: self.world.clock.monotonic_micros(),
                deadline_us: asking.deadline_us,
                answer_bytes_max: self.options.answer_bytes_max.saturating_add(asking.more_bytes),
                then: then.take().expect("nobody has taken it"),
            });
        }
        let outgoing = OutgoingRequest { pieces, written: then };
        if direct {
            state.writer = true;
            drop(state);
            self.write(&mut vec![outgoing]);
        } else {
            state.queue.push_back(outgoing);
            drop(state);
            self.bell.notify_one();
        }
    }

    /// Writes requests, and takes them out; the caller has set [`ConnectionState::writer`].
    pub(super) fn write(&self, requests: &mut Vec<OutgoingRequest>) {
        let mut writer = self.writer.lock();
        let outcome = match writer.as_mut() {
            Some(writer) => super::writer::write_all(writer.as_mut(), requests),
            None => Ok(()),
        };
        drop(writer);
        let outcome = outcome.map_err(|error| self.lost(error));
        match &outcome {
            Ok(()) => {
                let mut state = self.lock();
                state.writer = false;
                let more = !state.queue.is_empty();
                drop(state);
                if more {
                    self.bell.notify_one();
                }
            }
            Err(error) => self.end(error.clone()),
        }
        for then in requests.drain(..).filter_map(|it| it.written) {
            then(outcome.clone().map(|()| Bytes::new()));
        }
    }

    /// Everything that waits to be written; waits itself if that is nothing. False: the connection
    /// has ended. [`ConnectionState::writer`] is set.
    pub(super) fn take_queue(&self, taken: &mut Vec<OutgoingRequest>) -> bool {
        let mut state = self.lock();
        loop {
            if matches!(state.phase, ConnectionPhase::Ended(_)) {
                return false;
            }
            if !state.queue.is_empty() && !state.writer {
                state.writer = true;
                taken.extend(state.queue.drain(..));
                return true;
            }
            state = self.bell.wait(state);
        }
    }

    /// The most bytes of the answer with this correlation id; none: no request waits for it.
    pub(super) fn answer_bytes_max(&self, correlation_id: i32) -> Option<usize> {
        let state = self.lock();
        let pending = state.pending.iter().find(|it| it.correlation_id == correlation_id);
        pending.map(|it| it.answer_bytes_max)
    }

    /// The request that this correlation id answers.
    pub(super) fn take_pending(&self, correlation_id: i32) -> Option<PendingRequest> {
        let mut state = self.lock();
        let index = state.pending.iter().position(|it| it.correlation_id == correlation_id)?;
        let pending = state.pending.remove(index)?;
        state.pending_bytes -= pending.bytes;
        state.served |= pending.api != ApiKey::ApiVersions;
        Some(pending)
    }

    /// See [`super::Connection::expire`].
    pub(super) fn expire(&self, now_us: u64) -> Option<u64> {
        let state = self.lock();
        let first = state.pending.iter().min_by_key(|it| it.deadline_us)?;
        if first.deadline_us > now_us {
            return Some(first.deadline_us);
        }
        let error = CallError::TimedOut {
            address: self.address.clone(),
            api: first.api,
            after_ms: now_us.saturating_sub(first.sent_us) / 1000,
        };
        drop(state);
        self.end(error);
        None
    }

    pub(super) fn lost(&self, reason: impl ToString) -> CallError {
        CallError::Lost { address: self.address.clone(), reason: reason.to_string() }
    }

    /// The meaning of the other side's closing. A server that wants TLS closes at the first bytes,
    /// one that wants SASL at the first request behind that for the versions.
    pub(super) fn closed(&self) -> CallError {
        let state = self.lock();
        match state.phase {
            ConnectionPhase::Connecting => {
                CallError::ClosedAtOnce { address: self.address.clone() }
            }
            _ if !state.served && !state.pending.is_empty() => self.lost(
                "the other side closed it at the first request; does it ask for SASL? That is not \
                 spoken here yet",
            ),
            _ => self.lost("the other side closed it"),
        }
    }

    pub(super) fn bad_answer(&self, reason: impl ToString) -> CallError {
        CallError::BadAnswer { address: self.address.clone(), reason: reason.to_string() }
    }

    /// Ends the connection, once: the socket is closed and every request that waits gets the error.
    pub(super) fn end(&self, error: CallError) {
        let mut state = self.lock();
        if matches!(state.phase, ConnectionPhase::Ended(_)) {
            return;
        }
        tracing::debug!(address = %self.address, %error, "a connection has ended");
        state.phase = ConnectionPhase::Ended(error.clone());
        let pending = std::mem::take(&mut state.pending);
        let queue = std::mem::take(&mut state.queue);
        let closer = state.closer.take();
        drop(state);
        self.bell.notify_all();
        if let Some(close) = closer {
            close();
        }
        let written = queue.into_iter().filter_map(|it| it.written);
        for then in pending.into_iter().map(|it| it.then).chain(written) {
            then(Err(error.clone()));
        }
        (self.changed)();
    }
}

impl ConnectionState {
    /// Why nothing can be sent.
    fn refusal(&self) -> Option<CallError> {
        match &self.phase {
            ConnectionPhase::Ended(error) => Some(error.clone()),
            _ if self.pending.len() >= PENDING_MAX => {
                Some(CallError::BadRequest(format!("{PENDING_MAX} requests are under way")))
            }
            _ => None,
        }
    }
}
