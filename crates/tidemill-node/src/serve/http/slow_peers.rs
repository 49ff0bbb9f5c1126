//! A socket that gives up on a reader that takes nothing for long, that hears a sender out for a
//! moment before it is closed, and that counts bytes.
//!
//! A request may be refused before its body has come. If the socket were closed then, the bytes
//! that still come would be answered with a reset, and the client might never see why.

use super::metrics::HttpCounts;
use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// Time that a sender is heard out.
const HEARD_TIME: Duration = Duration::from_secs(2);
/// One that is quiet for so long is not in the middle of a body.
const QUIET_TIME: Duration = Duration::from_millis(250);
/// And how many bytes of it at most.
const HEARD_BYTES_MAX: usize = 64 << 20;
/// Bytes that are thrown away at a time.
const HEARD_STEP_BYTES: usize = 16 << 10;

/// A socket with patience.
pub(super) struct Patient<S> {
    socket: S,
    patience: Duration,
    counts: Arc<HttpCounts>,
    /// Since the reader last took something, if a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Since the socket was shut down.
    hearing: Option<Hearing>,
}

/// The rest of the input, which is thrown away.
struct Hearing {
    bytes: usize,
    end: Pin<Box<Sleep>>,
    quiet: Pin<Box<Sleep>>,
}

impl Default for Hearing {
    fn default() -> Self {
        let (end, quiet) = (Box::pin(sleep(HEARD_TIME)), Box::pin(sleep(QUIET_TIME)));
        Self { bytes: 0, end, quiet }
    }
}

impl<S> Patient<S> {
    pub(super) fn new(socket: S, patience: Duration, counts: Arc<HttpCounts>) -> Self {
        Self { socket, patience, counts, waiting: None, hearing: None }
    }

    /// The outcome of a write; or, if it waits for too long, an error.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = outcome {
            self.waiting = None;
            let bytes = outcome.as_ref().copied().unwrap_or(0);
            self.counts.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            return Poll::Ready(outcome);
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the answer is not taken")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let outcome = Pin::new(&mut self.socket).poll_read(context, into);
        let bytes = into.filled().len() - before;
        self.counts.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        outcome
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.written(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write_vectored(context, bytes);
        self.written(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.hearing.is_none() {
            ready!(Pin::new(&mut this.socket).poll_shutdown(context))?;
        }
        let hearing = this.hearing.get_or_insert_default();
        loop {
            let mut thrown = [0; HEARD_STEP_BYTES];
            let mut into = ReadBuf::new(&mut thrown);
            let read = Pin::new(&mut this.socket).poll_read(context, &mut into);
            let bytes = into.filled().len();
            if read.is_ready() && bytes == 0 {
                return Poll::Ready(Ok(()));
            }
            if read.is_pending() {
                if hearing.quiet.as_mut().poll(context).is_pending() {
                    ready!(hearing.end.as_mut().poll(context));
                }
                return Poll::Ready(Ok(()));
            }
            hearing.bytes += bytes;
            hearing.quiet.as_mut().reset(Instant::now() + QUIET_TIME);
            if hearing.bytes > HEARD_BYTES_MAX {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
