//! One connection: requests are read and begun in order, answers leave in that order.
//!
//! ```text
//! frames ─▶ begin ─▶ waiting: answers that are not there yet, oldest first ─▶ socket
//! ```
//!
//! One task does both sides. A produce request is begun (its chunks are appended) as soon as it is
//! read, and its answer waits for durability; the next request is read meanwhile, so that several
//! share one sync. All other requests are answered before the next is begun, as Kafka does it; while
//! one of them waits (for records, or for members of a group), answers to produce requests before it
//! leave as they come. Answers that are there together leave together, before anything is waited for.
//! While a client does not take its answers nothing more is read from it.

use crate::{
    Broker,
    answer::{Begun, ResponseFrame},
    api::{self, Unanswered},
    frame::{FrameError, Frames, MemoryCharge, patience},
    handler::fetch::ConnectionFetches,
    outbox::Outbox,
    requests::{Effect, RequestKind},
    server::asked,
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use tidemill_wire::kafka::{MessageError, RequestHead};
use tokio::{net::TcpStream, sync::watch, time::timeout};

/// The sender of a request.
#[derive(Debug)]
pub(crate) struct Caller {
    /// Where from.
    pub(crate) peer: SocketAddr,
    /// A number of the connection, never used twice in a process.
    pub(crate) id: u64,
}

type PendingAnswer =
    Pin<Box<dyn Future<Output = Result<Option<ResponseFrame>, MessageError>> + Send>>;

/// Why a connection ends, if not by the client's own will.
#[derive(Debug, thiserror::Error)]
enum ConnectionEnd {
    #[error("the client closed")]
    Closed,
    #[error("the node stops")]
    Stopped,
    #[error("a request that wants no answer was refused")]
    Refused,
    #[error("no request for long")]
    Idle,
    #[error("an answer was not taken after {0} ms")]
    Slow(u128),
    #[error("an answer of {0} bytes: others have all that answers may have")]
    Full(usize),
    #[error("{0}")]
    Frame(FrameError),
    #[error("request {key} version {version} of `{client}` {why}")]
    Request { key: i16, version: i16, client: String, why: Unanswered },
    #[error("the head of a request cannot be read: {0}")]
    Head(MessageError),
    #[error("an answer cannot be written: {0}")]
    Answer(MessageError),
    #[error("{0}")]
    Socket(#[from] std::io::Error),
}

impl From<FrameError> for ConnectionEnd {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Closed => Self::Closed,
            FrameError::Idle(_) => Self::Idle,
            // A client that is killed resets its connections: that is no word of its.
            FrameError::Socket(error) => Self::Socket(error),
            other => Self::Frame(other),
        }
    }
}

/// Answers that are no longer than this need no room.
const SHORT_BYTES: usize = 64 << 10;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Serves a connection until it ends.
pub(crate) async fn serve(
    broker: Arc<Broker>,
    socket: TcpStream,
    peer: SocketAddr,
    stopped: watch::Receiver<bool>,
    _open: OpenConnection,
) {
    let caller = Caller { peer, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) };
    let (reading, writing) = socket.into_split();
    let limits = &broker.settings.limits;
    let frames = Frames::new(reading, &broker.budget, limits);
    let mut connection = ServedConnection {
        broker: Arc::clone(&broker),
        caller,
        frames,
        out: Outbox::new(writing),
        waiting: VecDeque::new(),
        fetching: ConnectionFetches::default(),
    };
    let end = connection.run(stopped).await;
    match end {
        ConnectionEnd::Closed | ConnectionEnd::Stopped | ConnectionEnd::Idle => {
            tracing::debug!(%peer, "connection ended: {end}");
        }
        ConnectionEnd::Socket(_) => tracing::debug!(%peer, "connection lost: {end}"),
        _ => {
            broker.counts.connections_hostile.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%peer, "connection closed: {end}");
        }
    }
}

/// A connection that is counted as open, however it ends.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<Broker>);

impl OpenConnection {
    /// Counts from here on. Connections are counted as they are taken: their tasks begin in no order.
    pub(crate) fn new(broker: &Arc<Broker>) -> Self {
        broker.counts.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(broker))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.counts.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

struct ServedConnection {
    broker: Arc<Broker>,
    caller: Caller,
    frames: Frames,
    out: Outbox,
    /// Answers that are not there yet, with the charges of their requests.
    waiting: VecDeque<(PendingAnswer, MemoryCharge)>,
    fetching: ConnectionFetches,
}

impl ServedConnection {
    async fn run(&mut self, mut stopped: watch::Receiver<bool>) -> ConnectionEnd {
        loop {
            match self.step(&mut stopped).await {
                Ok(()) => {}
                Err(ConnectionEnd::Stopped) => {
                    let rest = async {
                        while let Ok(true) = self.answer_next().await {}
                        let _gone = flush(&mut self.out, &self.broker).await;
                    };
                    let _late = timeout(Duration::from_secs(2), rest).await;
                    return ConnectionEnd::Stopped;
                }
                Err(end @ (ConnectionEnd::Slow(_) | ConnectionEnd::Socket(_))) => return end,
                Err(end) => {
                    // What was answered before is not lost by what came after it.
                    let _late =
                        timeout(Duration::from_secs(2), flush(&mut self.out, &self.broker)).await;
                    return end;
                }
            }
        }
    }

    /// Reads a request and begins it, or takes the answer that is due.
    async fn step(&mut self, stopped: &mut watch::Receiver<bool>) -> Result<(), ConnectionEnd> {
        take_ready(&mut self.waiting, &mut self.out)?;
        let waiting = self.waiting.len();
        let room = waiting == 0 || waiting < self.broker.settings.limits.in_flight;
        if !self.out.is_empty() && (self.out.is_full() || !room || !self.frames.is_here()?) {
            flush(&mut self.out, &self.broker).await?;
        }
        let next = self.frames.next();
        let (mut body, charge) = tokio::select! {
            biased;
            answer = oldest(&mut self.waiting) => return put(&mut self.out, answer),
            frame = next, if room => frame?,
            () = asked(stopped) => return Err(ConnectionEnd::Stopped),
        };
        let head = RequestHead::read(&mut body).map_err(ConnectionEnd::Head)?;
        self.broker.counts.requests.fetch_add(1, Ordering::Relaxed);
        let charge = Mutex::new(charge);
        let reads = RequestKind::of(head.key).is_some_and(|it| it.effect == Effect::Reads);
        let again = reads.then(|| body.clone());
        let begun = self.begin(&head, body, &charge, stopped).await?;
        let charge = charge.into_inner().unwrap_or_else(PoisonError::into_inner);
        match begun {
            Begun::Silent => Ok(()),
            Begun::HangUp => Err(ConnectionEnd::Refused),
            Begun::Now(answer) => {
                while self.answer_next().await? {}
                let answer = self.charged(answer, (&head, again, charge), stopped).await?;
                self.out.put(answer);
                Ok(())
            }
            Begun::Later(answer) => {
                self.waiting.push_back((answer, charge));
                Ok(())
            }
        }
    }

    /// Begins a request. While it waits, answers to those before it leave.
    async fn begin(
        &mut self,
        head: &RequestHead,
        body: Bytes,
        charge: &Mutex<MemoryCharge>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<Begun, ConnectionEnd> {
        let (broker, fetching) = (&self.broker, &mut self.fetching);
        let begin = api::begin(broker, &self.caller, fetching, head, charge, body);
        let mut begin = pin!(begin);
        let begun = match poll_once(&mut begin).await {
            Poll::Ready(begun) => begun,
            Poll::Pending => loop {
                take_ready(&mut self.waiting, &mut self.out)?;
                flush(&mut self.out, &self.broker).await?;
                tokio::select! {
                    biased;
                    begun = &mut begin => break begun,
                    answer = oldest(&mut self.waiting) => put(&mut self.out, answer)?,
                    () = self.frames.gone() => return Err(ConnectionEnd::Closed),
                    () = asked(stopped) => return Err(ConnectionEnd::Stopped),
                }
            },
        };
        begun.map_err(|why| ConnectionEnd::Request {
            key: head.key,
            version: head.version,
            client: head
                .client_id
                .as_ref()
                .map_or_else(String::new, |it| it.as_str().escape_debug().take(100).collect()),
            why,
        })
    }

    /// Charges an answer until it is sent. A short answer, or one within its request's charge,
    /// keeps the rest of that charge. A longer one takes room from the budget of answers; while it
    /// waits for room it is dropped, and made again afterwards.
    async fn charged(
        &mut self,
        mut answer: ResponseFrame,
        (head, again, mut charge): (&RequestHead, Option<Bytes>, MemoryCharge),
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<ResponseFrame, ConnectionEnd> {
        let bytes = answer.len();
        if answer.charge.is_some() {
            return Ok(answer);
        }
        if bytes <= SHORT_BYTES || bytes <= charge.bytes() {
            charge.shrink(bytes);
            answer.charge = Some(charge);
            return Ok(answer);
        }
        let mut room = MemoryCharge::new(&self.broker.answers);
        let Some(body) = again else {
            // To do it again would be to do it twice.
            room.force(bytes);
            answer.charge = Some(room);
            return Ok(answer);
        };
        let charge = Mutex::new(charge);
        while !room.set_in_turn(answer.len()) {
            let bytes = std::mem::take(&mut answer).len();
            // What it waits for may be its own.
            room.shrink(0);
            flush(&mut self.out, &self.broker).await?;
            let patience = patience(self.broker.settings.limits.transfer_ms, bytes);
            tokio::select! {
                biased;
                late = timeout(patience, room.wait(bytes)) => late.map_err(|_| ConnectionEnd::Full(bytes))?,
                () = self.frames.gone() => return Err(ConnectionEnd::Closed),
                () = asked(stopped) => return Err(ConnectionEnd::Stopped),
            }
            let Begun::Now(made) = self.begin(head, body.clone(), &charge, stopped).await? else {
                return Err(ConnectionEnd::Refused);
            };
            answer = made;
        }
        room.shrink(answer.len());
        answer.charge = Some(room);
        Ok(answer)
    }

    /// Waits for the oldest answer and takes it. False: none is waited for.
    async fn answer_next(&mut self) -> Result<bool, ConnectionEnd> {
        let Some((mut answer, _charge)) = self.waiting.pop_front() else { return Ok(false) };
        let answer = match poll_once(&mut answer).await {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                flush(&mut self.out, &self.broker).await?;
                answer.await
            }
        };
        put(&mut self.out, answer)?;
        Ok(true)
    }
}

/// Takes the oldest answers, as far as they are there.
fn take_ready(
    waiting: &mut VecDeque<(PendingAnswer, MemoryCharge)>,
    out: &mut Outbox,
) -> Result<(), ConnectionEnd> {
    while !out.is_full()
        && let Some((answer, _)) = waiting.front_mut()
    {
        let mut nobody = Context::from_waker(Waker::noop());
        let Poll::Ready(answer) = answer.as_mut().poll(&mut nobody) else { break };
        waiting.pop_front();
        put(out, answer)?;
    }
    Ok(())
}

/// The oldest answer, when it is there; never, if none is waited for. Can be dropped and called
/// again.
async fn oldest(
    waiting: &mut VecDeque<(PendingAnswer, MemoryCharge)>,
) -> Result<Option<ResponseFrame>, MessageError> {
    let Some((answer, _)) = waiting.front_mut() else { return std::future::pending().await };
    let answer = answer.await;
    waiting.pop_front();
    answer
}

fn put(
    out: &mut Outbox,
    answer: Result<Option<ResponseFrame>, MessageError>,
) -> Result<(), ConnectionEnd> {
    if let Some(answer) = answer.map_err(ConnectionEnd::Answer)? {
        out.put(answer);
    }
    Ok(())
}

/// Polls a future once. Pending futures wake the task later.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
}

/// Sends the answers that are ready.
async fn flush(out: &mut Outbox, broker: &Broker) -> Result<(), ConnectionEnd> {
    if out.is_empty() {
        return Ok(());
    }
    let patience = patience(broker.settings.limits.transfer_ms, out.bytes());
    match timeout(patience, out.flush()).await {
        Ok(sent) => Ok(sent?),
        Err(_) => Err(ConnectionEnd::Slow(patience.as_millis())),
    }
}
